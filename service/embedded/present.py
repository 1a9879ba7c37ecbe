"""A data folder as commands see it, which load little: whether it has a database, and its URLs."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service.errors import EmbeddedServerError

if TYPE_CHECKING:
    import asyncio

CLUSTER: Final = "database"
"""PostgreSQL's own folder. Before 1.0.0 it was `postgres`, which is left beside it."""


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the two servers are, with passwords.

    `died` is set for embedded ones: it gets the error to raise when one ends by itself.
    """

    database: str = field(repr=False)
    redis: str = field(repr=False)
    died: "asyncio.Future[EmbeddedServerError] | None" = field(default=None, repr=False)


def exists(folder: Path) -> bool:
    """Return whether a data folder holds a database; looks, and makes nothing."""
    return (folder / CLUSTER / "PG_VERSION").is_file()


def is_running(pid: int) -> bool:
    """Whether any process of any user has this number."""
    try:
        os.kill(pid, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True
