"""The servers' programs: as they are installed, or a copy that the servers' account can reach."""

import shutil
from importlib.metadata import distribution
from pathlib import Path

from service.embedded.account import Account, obstacle
from service.embedded.folder import make_private


def package(name: str) -> Path:
    """Return the folder of an installed package, which is not imported."""
    return Path(str(distribution(name).locate_file(name))).resolve()


def reachable(program: Path, name: str, folder: Path, account: Account | None) -> Path:
    """Return `program`, or a copy of it in the data folder when the account cannot reach it.

    Root often installs below its own home, /root, which nobody else may enter. The whole package
    `name` is copied, because a program finds its libraries by their place relative to its own.
    """
    if account is None or obstacle(program.parent, account) is None:
        return program
    copies = folder / "programs"
    copy = copies / f"{name}-{distribution(name).version}"
    if not copy.exists():
        if not copies.exists():
            make_private(copies, 0o711)
        _copy(package(name), copy)
    return copy / program.relative_to(package(name).parent)


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
