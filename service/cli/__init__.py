"""The command `precis`. Each command opens what it needs, calls one function, and prints."""

from service.cli.main import app

__all__ = ["app"]
