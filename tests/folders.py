"""Folders for servers: as root, they run as an unprivileged user, who cannot get into pytest's own folders."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def reachable_folder(prefix: str) -> Path:
    """A new folder that others can get to."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o711)
    return folder


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """One that is removed at the end."""
    folder = reachable_folder("precis-tests-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
