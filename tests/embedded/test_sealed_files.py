"""With a key, no file of an embedded service has a word of a chat: neither tables, WAL, logs nor Valkey's."""

from pathlib import Path

import pytest

from service.embedded.servers import run_embedded_servers
from service.storage.database import migrate
from tests.service.encrypted import FIRST, MARK, lived, readable, service_with


def files_with(folder: Path, word: str) -> set[str]:
    """The parts of the folder that have a file with this word, as it is or compressed."""
    found = set()
    for file in folder.rglob("*"):
        if file.is_file() and word.encode() in readable(file.read_bytes()):
            found.add("wal" if "pg_wal" in file.parts else "tables" if "base" in file.parts else file.name)
    return found


@pytest.mark.parametrize(
    ("keys", "expected"),
    [pytest.param("", {"wal", "tables"}, marks=pytest.mark.slow, id="plain"), pytest.param(FIRST, set(), id="sealed")],
)
async def test_the_files_of_a_service_show_its_texts_without_a_key_alone(
    new: Path, keys: str, expected: set[str]
) -> None:
    async with run_embedded_servers(new, fast=True) as urls:
        await migrate(urls.database)
        async with service_with(urls, keys) as harness:
            await lived(harness)
    # Stopped, so that all pages are in their files.
    assert files_with(new, MARK) == expected
