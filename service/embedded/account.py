"""Whom the servers run as: ourselves, or an unprivileged account when we are root.

PostgreSQL refuses to run as root. Reads the password database and file modes; changes nothing.
"""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from service.errors import EmbeddedServerError

UNPRIVILEGED = "nobody"


@dataclass(frozen=True)
class Account:
    """A user of this machine that is not root."""

    uid: int
    gid: int
    name: str


def account_for(data: Path) -> Account | None:
    """Return whom to become, or None to stay who we are.

    Files that are already there keep their owner: a folder first used by an ordinary user stays
    that user's when root starts Precis on it.
    """
    if os.geteuid() != 0:
        return None
    owner = data.stat().st_uid if data.exists() else 0
    try:
        entry = pwd.getpwuid(owner) if owner else pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        if not owner:
            raise EmbeddedServerError(
                f"As root, the embedded servers run as the user {UNPRIVILEGED}, which this machine lacks. "
                "Start Precis as an ordinary user."
            ) from None
        return Account(owner, data.stat().st_gid, f"uid {owner}")
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)


def check_reachable(target: Path, account: Account | None) -> None:
    """Refuse a path that the account cannot get to, naming the folder that is in the way."""
    if account is not None and (folder := obstacle(target, account)):
        raise EmbeddedServerError(
            f"As root, the embedded servers run as the user {account.name}, who cannot enter {folder} "
            f"(mode {stat.S_IMODE(folder.stat().st_mode):04o}) and so cannot reach {target}. "
            f"Start Precis as an ordinary user, or set PRECIS_DATA_DIR to a place that {account.name} can reach, "
            "such as /var/lib/precis."
        )


def obstacle(target: Path, account: Account) -> Path | None:
    """Return the uppermost folder on the way that the account cannot enter.

    A folder that does not exist yet is no obstacle.
    """
    way = (*reversed(target.parents), target)
    return next(
        (folder for folder in way if folder.is_dir() and not _may_enter(folder.stat(), account)),
        None,
    )


def give(path: Path, account: Account | None) -> None:
    """Hand over something that we have just made."""
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _may_enter(folder: os.stat_result, account: Account) -> bool:
    if folder.st_uid == account.uid:
        return bool(folder.st_mode & stat.S_IXUSR)
    if folder.st_gid == account.gid:
        return bool(folder.st_mode & stat.S_IXGRP)
    return bool(folder.st_mode & stat.S_IXOTH)
