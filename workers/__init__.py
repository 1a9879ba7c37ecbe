"""arq workers: woken, they look up in the database what is due, and do it.

The work itself is `service.usecases.compress`.
"""
