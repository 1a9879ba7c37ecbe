"""The user that the servers run as: ours, or an unprivileged one when we are root.

PostgreSQL refuses to run as root. Reads the password database and file modes; changes nothing.
"""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from service.errors import EmbeddedServerError

UNPRIVILEGED = "nobody"  # nearly every system has it, so no account has to be created


@dataclass(frozen=True)
class Account:
    """A user of this machine that is not root."""

    uid: int
    gid: int
    name: str


def account_for(data: Path) -> Account | None:
    """Return the user to become, or None to stay as we are.

    Files that are already there keep their owner: a folder first used by an ordinary user stays
    with that user when root starts Precis on it.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        owner = data.stat()
        return Account(owner.st_uid, owner.st_gid, f"uid {owner.st_uid}")
    entry = pwd.getpwnam(UNPRIVILEGED)
    return Account(entry.pw_uid, entry.pw_gid, UNPRIVILEGED)


def check_reachable(target: Path, account: Account | None) -> None:
    """Refuse a path that the account cannot reach, naming the folder that is in the way."""
    folder = obstacle(target, account) if account else None
    if account is None or folder is None:
        return
    raise EmbeddedServerError(
        f"As root, the embedded servers run as the user {account.name}, who cannot enter {folder} "
        f"and so cannot reach {target}. Start Precis as an ordinary user, or set PRECIS_DATA_DIR "
        f"to a place that {account.name} can reach, such as /var/lib/precis."
    )


def obstacle(target: Path, account: Account) -> Path | None:
    """Return the uppermost folder on the way that the account cannot enter.

    A folder that does not exist yet is no obstacle.
    """
    for folder in (*reversed(target.parents), target):
        if folder.is_dir() and not _may_enter(folder.stat(), account):
            return folder
    return None


def give(path: Path, account: Account | None) -> None:
    """Make the account the owner of something that we have just made."""
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _may_enter(folder: os.stat_result, account: Account) -> bool:
    # As the kernel decides: only the first class that fits counts, even if a later one allows more.
    if folder.st_uid == account.uid:
        return bool(folder.st_mode & stat.S_IXUSR)
    if folder.st_gid == account.gid:
        return bool(folder.st_mode & stat.S_IXGRP)
    return bool(folder.st_mode & stat.S_IXOTH)
