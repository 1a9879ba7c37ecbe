"""The outside: summarisers over HTTP, and Open WebUI."""
