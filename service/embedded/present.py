"""Whether a data folder holds a database. Apart, because a command may ask before it loads much."""

from pathlib import Path


def exists(folder: Path) -> bool:
    """Return whether a data folder holds a database; looks, and makes nothing."""
    return (folder / "postgres" / "PG_VERSION").is_file()
