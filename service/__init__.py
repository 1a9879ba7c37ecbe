"""Precis: persistent, asynchronous conversation compression for Open WebUI."""

__version__ = "0.1.0"

LEAST_FILTER = "0.2.0"
"""The oldest filter that this service takes; an older one is answered with 426."""
