"""Takes a text of any script apart: blocks, sentences, terms, exact values, dates. Pure."""
