"""The data folder: one service at a time, and no server of an earlier one still running in it.

    lock                                    held by the service that uses the folder; has its pid
    database/  valkey/                      the servers' files, 0700
    postgres.password  valkey.password      0600, ours
    postgres.log  valkey.log                since the last start; *.log.old the start before

Existing folders keep their permissions; nothing above the data folder is touched.
"""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import psutil

from service.embedded.urls import CLUSTER
from service.errors import EmbeddedServerError

SERVER_NAMES = frozenset({"postgres", "initdb", "valkey-server"})
GRACE = 2.0  # seconds: after a kill -9 of Precis, its servers have their signal at once
STOPPING = 60.0  # seconds: a PostgreSQL that says it is stopping writes its last checkpoint
POLL = 0.02
WAL_SEGMENT = 16  # MiB: what PostgreSQL asks for at once


@contextlib.asynccontextmanager
async def claimed(folder: Path) -> AsyncIterator[None]:
    """Make the folder if need be and keep others out of it.

    Raises:
        EmbeddedServerError: another service uses it, or a server runs in it that is not ours.
    """
    lock = await asyncio.to_thread(_lock, folder)
    try:
        await _wait_until_abandoned(folder)
        yield
    finally:
        lock.close()


def make_private(path: Path, mode: int = 0o700) -> None:
    """Make a folder with exactly this mode, whatever the umask."""
    path.mkdir()
    path.chmod(mode)


def sync(folder: Path) -> None:
    """Make a rename inside this folder permanent, even if the power fails."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def room(folder: Path) -> str:
    """Return a sentence on the disk if it is full: then the log does not say so."""
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize // 2**20
    if free >= WAL_SEGMENT:
        return ""
    return f" The disk of {folder} is full ({free} MiB free): make room and start again."


def _lock(folder: Path) -> IO[str]:
    """Lock the folder, which is made if need be; the lock is held until the file is closed."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Root's servers run as another user, who has to enter the folders inside, not list them.
        make_private(folder, 0o711 if os.geteuid() == 0 else 0o700)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    file = open(descriptor, "r+")  # noqa: SIM115 - held while we run
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
    except BlockingIOError:
        with file:
            raise _in_use(folder, f"pid {file.read() or 'unknown'}, another Precis") from None
    except OSError:
        file.close()
        raise
    return file


async def _wait_until_abandoned(folder: Path) -> None:
    """Wait for the servers of a service that has just ended."""
    started = time.monotonic()
    while owner := await asyncio.to_thread(_owner, folder):
        patience = STOPPING if await asyncio.to_thread(_is_stopping, folder) else GRACE
        if time.monotonic() - started > patience:
            raise _in_use(folder, f"pid {owner.pid}, a server that this Precis did not start")
        await asyncio.sleep(POLL)


def _in_use(folder: Path, by: str) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The data folder {folder} is in use by {by}. Stop it, or use another data folder."
    )


def _owner(folder: Path) -> psutil.Process | None:
    """Return the oldest server that runs in the folder.

    Each server has its own files as working directory. The oldest is the one to stop: PostgreSQL's
    own children are younger.
    """
    owners = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it ended, or we may not look at it
            if process.name() in SERVER_NAMES and Path(process.cwd()).is_relative_to(folder):
                owners.append((process.create_time(), process.pid, process))
    return min(owners)[2] if owners else None


def _is_stopping(folder: Path) -> bool:
    try:
        return "stopping" in (folder / CLUSTER / "postmaster.pid").read_text()
    except FileNotFoundError:
        return False
