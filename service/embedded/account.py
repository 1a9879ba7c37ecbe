"""The user that runs the servers: ours, or an unprivileged one when we are root.

PostgreSQL refuses to run as root.
"""

import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from service.errors import EmbeddedServerError

UNPRIVILEGED = "nobody"  # nearly every system has it, so no account has to be created


@dataclass(frozen=True)
class Account:
    """A user of this machine that is not root."""

    uid: int
    gid: int
    name: str


def choose_account(data: Path) -> Account | None:
    """Return the user to become, or None to stay as we are.

    Existing files keep their owner: a folder first used by an ordinary user stays with that user
    when root starts Precis on it.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        owner = data.stat()
        return Account(owner.st_uid, owner.st_gid, f"uid {owner.st_uid}")
    entry = pwd.getpwnam(UNPRIVILEGED)
    return Account(entry.pw_uid, entry.pw_gid, UNPRIVILEGED)


def check_reachable(target: Path, account: Account | None) -> None:
    """Refuse a path that the account cannot reach, and name the folder that is in the way."""
    folder = find_obstacle(target, account)
    if account and folder:
        raise EmbeddedServerError(
            f"As root, the embedded servers run as the user {account.name}, who cannot enter"
            f" {folder} and so cannot reach {target}. Start Precis as an ordinary user, or set"
            f" PRECIS_DATA_DIR to a place that {account.name} can reach, such as /var/lib/precis."
        )


def find_obstacle(target: Path, account: Account | None) -> Path | None:
    """Return the uppermost existing folder on the way that the account cannot enter."""
    if account is None:
        return None
    for folder in (*reversed(target.parents), target):
        if folder.is_dir() and not _may_enter(folder.stat(), account):
            return folder
    return None


def give(path: Path, account: Account | None) -> None:
    """Make the account the owner of something that we have just made."""
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def find_package(name: str) -> Path:
    """Return the folder of an installed package, which is not imported."""
    return Path(str(distribution(name).locate_file(name))).resolve()


def copy_within_reach(program: Path, name: str, folder: Path, account: Account | None) -> Path:
    """Return `program`, or a copy of it in the data folder when the account cannot reach it.

    Root often installs below its own home, /root, which nobody else may enter. The whole package
    `name` is copied, because a program finds its libraries by their place relative to its own.
    """
    if find_obstacle(program.parent, account) is None:
        return program
    copies = folder / "programs"
    copies.mkdir(exist_ok=True)
    copies.chmod(0o711)  # whatever the umask
    copy = copies / f"{name}-{distribution(name).version}"
    if not copy.exists():
        _copy(find_package(name), copy)
    return copy / program.relative_to(find_package(name).parent)


def _copy(installed: Path, copy: Path) -> None:
    """Copy a package and the libraries beside it, completely or not at all."""
    unfinished = copy.with_name(f"{copy.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a start that was killed while it copied
    for tree in installed.parent.glob(f"{installed.name}*"):
        shutil.copytree(tree, unfinished / tree.name)
    # Everybody may read and run what we may: these are files of a public package.
    for path in (unfinished, *unfinished.rglob("*")):
        mode = path.stat().st_mode
        ours = mode & 0o500
        path.chmod(mode | ours >> 3 | ours >> 6)
    unfinished.rename(copy)


def _may_enter(folder: os.stat_result, account: Account) -> bool:
    # As the kernel decides: only the first class that fits counts, even if a later one allows more.
    if folder.st_uid == account.uid:
        return bool(folder.st_mode & stat.S_IXUSR)
    if folder.st_gid == account.gid:
        return bool(folder.st_mode & stat.S_IXGRP)
    return bool(folder.st_mode & stat.S_IXOTH)
