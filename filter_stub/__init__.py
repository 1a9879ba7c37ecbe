"""The Open WebUI filter: one file to paste, and nothing that it could import."""
