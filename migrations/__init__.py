"""Alembic migrations; `service.storage.database` runs them."""
