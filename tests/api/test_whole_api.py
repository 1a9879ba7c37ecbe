"""The whole API as its own description tells it, with both kinds of key: whatever is asked, the service never fails.

Schemathesis reads `/openapi.json` of the running service and makes requests that fit it, and such that do not. The
database has chats, checkpoints and work, and a part of the requests is about those; a worker is at work meanwhile.
`TEST_API_EXAMPLES=100` makes so many requests for each operation. Only a whole run has the phase in which Schemathesis
goes through the borders of each field.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import Service
from tests.effort import ALL
from tests.service.talk import Talk, rows
from tests.waiting import until

EXAMPLES = os.environ.get("TEST_API_EXAMPLES", "3" if ALL else "1")
PHASES = "coverage,fuzzing" if ALL else "fuzzing"
SEED = os.environ.get("TEST_API_SEED", "1")
KEPT = [f"kept-{number}" for number in range(3)]
DOOMED = [f"doomed-{number}" for number in range(8)]
DESTROYING = ("DELETE /v1/chats/{chat_id}", "POST /v1/chats/{chat_id}/reset")
CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance"


async def stored_chats(service: Service) -> tuple[list[int], Talk]:
    """Chats with summaries, some of them also with work that is due; the ids of the checkpoints, and one chat."""
    first = Talk(service.as_filter, KEPT[0])
    leaf = first.turns(14)
    for chat in (*KEPT, *DOOMED):
        await Talk(service.as_filter, chat, first.rows).ingest(leaf)

    async def done() -> bool:
        return not await rows(service.runtime, "select 1 from chats where due_at is not null")

    await until(done, 60)
    return [one.id for one in await rows(service.runtime, "select id from checkpoints order by id limit 20")], first


def configuration(checkpoints: Sequence[int], talk: Talk) -> str:
    """Which known values a part of the requests has."""
    known = {
        "kept": KEPT,
        "doomed": DOOMED,
        "checkpoints": list(checkpoints),
        "events": ["chat.deleted", "chat.updated", "folder.deleted"],
        "users": [talk.user],
        "numbers": [-1, 0, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64],
    }
    lines = [f"[dictionaries.{name}]\nvalues = {values!r}" for name, values in known.items()]
    lines += ["[parameters]", *_bound(path__chat_id="kept", path__checkpoint_id="checkpoints", body__chat="kept")]
    lines += _bound(
        body__user="users",
        body__user_id="users",
        query__cursor="numbers",
        query__limit="numbers",
        body__keep="checkpoints",
    )
    for name in DESTROYING:
        lines += ["[[operations]]", f'include-name = "{name}"', "[operations.parameters]"]
        lines += _bound(path__chat_id="doomed", body__keep="checkpoints")
    lines += ["[[operations]]", 'include-name = "POST /v1/events"', "[operations.parameters]"]
    lines += _bound(body__type="events", body__chat_id="doomed", body__user_id="users")
    return "\n".join(lines)


def _bound(**names: str) -> Iterator[str]:
    for place, dictionary in names.items():
        yield f'"{place.replace("__", ".")}" = {{ dictionary = "{dictionary}", probability = 0.6 }}'


@pytest.mark.parametrize("scope", [pytest.param("filter", marks=pytest.mark.slow), "operator"])
async def test_no_request_that_the_description_allows_or_forbids_makes_the_service_fail(
    service_with_worker: Service, tmp_path: Path, scope: str
) -> None:
    service = service_with_worker
    checkpoints, talk = await stored_chats(service)
    (tmp_path / "schemathesis.toml").write_text(configuration(checkpoints, talk))
    key = service.filter_key if scope == "filter" else service.operator_key

    program = (sys.executable, "-m", "schemathesis.cli", "--config-file", tmp_path / "schemathesis.toml", "run")
    options = ("--checks", CHECKS, "--max-examples", EXAMPLES, "--seed", SEED, "--phases", PHASES)
    report = ("--generation-database", "none", "--no-color", "--continue-on-failure", "--warnings", "off")
    asked = await asyncio.create_subprocess_exec(
        *(*program, f"{service.url}/openapi.json", "-H", f"Authorization: Bearer {key}", *options, *report),
        cwd=tmp_path,
        stdout=PIPE,
        stderr=STDOUT,
    )
    said, _ = await asked.communicate()

    assert asked.returncode == 0, said.decode()
    assert (await service.as_operator.get("/readyz")).status_code == 200
    if scope == "operator":
        assert await rows(service.runtime, "select 1 from audit"), "requests were about what there is"
