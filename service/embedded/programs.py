"""The servers' programs: as they are installed, or a copy that the servers' account can reach."""

import shutil
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path

from service.embedded.account import Account, obstacle
from service.embedded.folder import make_private


def reachable(program: Path, package: str, folder: Path, account: Account | None) -> Path:
    """Return `program`, or a copy of it in the data folder when the account cannot reach it.

    Root often installs below its own home, /root, which nobody else may enter. The whole package is
    copied, because a program finds its libraries by their place relative to its own.

    Args:
        program: The installed program.
        package: The distribution that it comes from; a copy belongs to its version.
        folder: The data folder, which the account can reach and which is locked for us.
        account: The user that the servers run as.
    """
    if account is None or obstacle(program.parent, account) is None:
        return program
    installed = distribution(package)
    copies = folder / "programs"
    copy = copies / f"{package}-{installed.version}"
    if not copy.exists():
        _copy(installed, copy)
    return copy / program.relative_to(Path(str(installed.locate_file(""))).resolve())


def _copy(installed: Distribution, copy: Path) -> None:
    """Copy a package, completely or not at all."""
    if not copy.parent.exists():
        make_private(copy.parent, 0o711)
    unfinished = copy.with_name(f"{copy.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a start that was killed while it copied
    for file in filter(_is_needed, installed.files or ()):
        target = unfinished / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(file.locate()), target)
    _open_up(unfinished)
    unfinished.rename(copy)


def _is_needed(file: PackagePath) -> bool:
    # What begins with `..`, such as scripts in `bin`, is outside of the package.
    return file.parts[0] != ".." and "__pycache__" not in file.parts


def _open_up(tree: Path) -> None:
    """Let everybody read and run what we may read and run: these are files of a public package."""
    for path in (tree, *tree.rglob("*")):
        mode = path.stat().st_mode
        ours = mode & 0o500
        path.chmod(mode | ours >> 3 | ours >> 6)
