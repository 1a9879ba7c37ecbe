"""The data folder: one service at a time, and no server of an earlier one still running in it.

    lock                                    locked by the service that uses it; has its pid
    database/  valkey/                      the servers' files, 0700
    postgres.password  valkey.password      0600, ours
    postgres.log  valkey.log                of the last start; *.log.old are of the one before

Existing folders keep their permissions; nothing above the data folder is touched.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import psutil

from service.errors import EmbeddedServerError

SERVER_NAMES = frozenset({"postgres", "initdb", "valkey-server"})
STOPPING = 30.0  # seconds: after a kill -9 of Precis, its PostgreSQL writes a last checkpoint


@contextlib.asynccontextmanager
async def claim_folder(folder: Path) -> AsyncIterator[None]:
    """Make the folder if it is missing, and keep other services out of it.

    Raises:
        EmbeddedServerError: another service uses it, or a server runs in it that is not ours.
    """
    with await asyncio.to_thread(_lock, folder):
        await asyncio.to_thread(_wait_until_abandoned, folder)
        yield


def list_servers(folder: Path) -> list[psutil.Process]:
    """Return the servers that run in the folder, which is their working directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it ended, or belongs to somebody else
            if process.name() in SERVER_NAMES and Path(process.cwd()).is_relative_to(folder):
                found.append(process)
    return found


def _lock(folder: Path) -> IO[str]:
    """Lock the folder, which is made if it is missing, until the file is closed."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Root's servers run as another user, who has to enter the folders inside, not list them.
        folder.mkdir(mode=0o700)
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)  # whatever the umask
    file = open(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with file:
            raise _refuse_folder(
                folder, f"pid {file.read() or 'unknown'}, another Precis"
            ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _wait_until_abandoned(folder: Path) -> None:
    """Wait for the servers of a service that has just ended."""
    _, left = psutil.wait_procs(list_servers(folder), timeout=STOPPING)
    if left:
        # PostgreSQL's own children are younger than what has to be stopped.
        oldest = min(left, key=psutil.Process.create_time)
        raise _refuse_folder(folder, f"pid {oldest.pid}, a server that this Precis did not start")


def _refuse_folder(folder: Path, by: str) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The data folder {folder} is in use by {by}. Stop it, or use another data folder."
    )
