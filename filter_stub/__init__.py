"""The functions for Open WebUI: files to paste, and nothing that they could import."""
