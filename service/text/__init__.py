"""What a text consists of, in any script: blocks, sentences, terms, exact values, dates. Pure."""
