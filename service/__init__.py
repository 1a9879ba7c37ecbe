"""Precis: persistent, asynchronous conversation compression for Open WebUI."""

__version__ = "0.1.0"
