"""A random password in a file of its own, readable by us alone."""

import os
import secrets
from pathlib import Path


def make_password(path: Path) -> str:
    """Return the password in this file, which is made when it is missing.

    URL-safe characters only: it goes into URLs, SQL literals and configuration files as it is.
    """
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32))
    return path.read_text()


def write_private(path: Path, text: str) -> None:
    """Write a file that this user alone can read; nobody ever sees half of it."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
