"""The servers' programs: as they are installed, or a copy that the servers' account can get to."""

import shutil
from importlib.metadata import distribution
from pathlib import Path

from service.embedded.account import Account, obstacle
from service.embedded.folder import make_private


def reachable(program: Path, package: str, folder: Path, account: Account | None) -> Path:
    """Return `program`, or a copy of it in the data folder when the account cannot enter the installation.

    Root often installs below its own home, /root, which nobody else may enter. The whole package is
    copied: a program finds its libraries by their place relative to its own.

    Args:
        program: The installed program.
        package: The distribution that it comes from; a copy belongs to its version.
        folder: The data folder, which the account can reach and which is locked for us.
        account: Whom the servers run as.
    """
    if account is None or obstacle(program.parent, account) is None:
        return program
    installed = distribution(package)
    copies = folder / "programs"
    copy = copies / f"{package}-{installed.version}"
    if not copy.exists():
        if not copies.exists():
            make_private(copies, 0o711)
        half = copies / f"{copy.name}.new"
        shutil.rmtree(half, ignore_errors=True)  # of a start that was killed while it copied
        for file in installed.files or ():
            if file.parts[0] != ".." and "__pycache__" not in file.parts:
                target = half / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), target)
        _open_up(half)
        half.rename(copy)
    return copy / program.relative_to(Path(str(installed.locate_file(""))).resolve())


def _open_up(tree: Path) -> None:
    """Let everybody read and run what we may read and run: these are files of a public package."""
    for path in (tree, *tree.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)
