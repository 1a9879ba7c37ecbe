"""Precis: persistent, asynchronous conversation compression for Open WebUI."""

__version__ = "1.0.0"
"""One number for the service, the filter and the events function: they are released together."""

LEAST_FILTER = "1.0.0"
"""The oldest filter that this service accepts; an older one is answered with 426."""
