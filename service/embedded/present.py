"""Whether a data folder holds a database. Apart, because a command may ask before it loads much."""

from pathlib import Path
from typing import Final

CLUSTER: Final = "database"
"""PostgreSQL's own folder. Before 1.0.0 it was `postgres`, which is left beside it."""


def exists(folder: Path) -> bool:
    """Return whether a data folder holds a database; looks, and makes nothing."""
    return (folder / CLUSTER / "PG_VERSION").is_file()
