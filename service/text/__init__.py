"""What stands in a text, in whatever script: blocks, sentences, terms, exact values, dates. Pure."""
