"""Installs Open WebUI, each version into an environment of its own that is kept between runs.

In: a version of `VERSIONS`. Out: the folder of its virtual environment, in $PRECIS_E2E_HOME (~/.cache/precis/e2e).

Since 0.11 Open WebUI has a slim mode, which needs 660 MB instead of 3 GB. What is installed is pinned:
`constraints/VERSION.txt` is what `uv pip compile` of `open-webui==VERSION` and `torch==2.13.0` says of it.
"""

import fcntl
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
VERSIONS = ("0.12.4", "0.11.4", "0.10.2", "0.9.6")
NEWEST = VERSIONS[0]
PYTHON = ">=3.11,<3.13"  # every one of these versions says so

log = logging.getLogger(__name__)


def home() -> Path:
    return Path(os.environ.get("PRECIS_E2E_HOME") or Path.home() / ".cache" / "precis" / "e2e")


def since(version: str, first: str) -> bool:
    """Whether `version` is `first` or newer; `first` may be shorter, as in "0.9"."""
    numbers, least = ([int(part) for part in one.split(".")] for one in (version, first))
    return numbers >= least


def is_slim(version: str) -> bool:
    """Whether the version starts without torch, a vector database and the like (USE_SLIM_DOCKER)."""
    return since(version, "0.11")


def installed(version: str) -> Path:
    """Return the environment of this version, after installing it if need be; one installs, others wait.

    Raises:
        CalledProcessError: pip or uv could not install it; what they said is on the standard error.
    """
    sources = [_constraints(version), *([HERE / "slim.txt"] if is_slim(version) else [])]
    return prepare_environment(version, sources, functools.partial(_install, version))


def prepare_environment(name: str, sources: Sequence[Path], install: Callable[[Path], None]) -> Path:
    """Return an environment that is kept under this name, and install it again when one of its sources has changed."""
    environment = home() / name
    finished = environment / "installed"
    recipe = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    with _locked(home() / f"{name}.lock"):
        if not finished.exists() or finished.read_text() != recipe:
            log.info("installing %s into %s", name, environment)
            shutil.rmtree(environment, ignore_errors=True)
            uv("venv", "--python", PYTHON, environment)
            install(environment / "bin" / "python")
            finished.write_text(recipe)
    return environment


def _install(version: str, python: Path) -> None:
    install: tuple[str | Path, ...] = ("pip", "install", "--python", python)
    if is_slim(version):
        uv(*install, "--no-deps", f"open-webui=={version}")
        uv(*install, "-c", _constraints(version), "-r", HERE / "slim.txt")
    else:
        # First, and by pip, whose settings say where a build without several GB of CUDA packages is.
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "-c", _constraints(version))
        subprocess.run([*pip, "--quiet", "torch"], check=True)
        uv(*install, "-c", _constraints(version), f"open-webui=={version}")


def uv(*arguments: str | Path) -> None:
    """Runs uv.

    Raises:
        CalledProcessError: uv failed; its own words are on the standard error.
    """
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], check=True)


def _constraints(version: str) -> Path:
    return HERE / "constraints" / f"{version}.txt"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
