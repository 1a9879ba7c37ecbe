"""Secrets in what tools gave are not persisted: masked in stored texts and in summaries."""

import json

import pytest

from service.storage import codec
from service.transcript import count_stored_tokens, parse, split_steps
from tests.conftest import Service, serving
from tests.leaks import BARE, FORMATS, KEY, PASSWORD
from tests.service.talk import Json, Talk, row, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWERS = {"output items": FORMATS["output items"], "body": FORMATS["body"], "bare value": BARE}
SECRETS = (KEY, PASSWORD, "abcdefghij0123456789", "x1y2z3")


def leaking(talk: Talk, name: str) -> str:
    """A question and an answer whose tool gives secrets away; returns the answer's id."""
    return talk.add("a0", talk.add("u0", None), **{key: ANSWERS[name][key] for key in ANSWERS[name] if key != "id"})


async def stored(service: Service, identity: str = "a0") -> Json:
    found = await row(service.runtime, "select body from messages where host_id = :id", id=identity)
    return codec.unpack(found.body)


async def everything(service: Service) -> str:
    """All that the database has, texts of messages among it."""
    bodies = [codec.unpack(one.body) for one in await rows(service.runtime, "select body from messages")]
    return json.dumps([bodies, await tables(service.runtime)], default=str)


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_secret_of_a_tool_is_stored(talk: Talk, service: Service, name: str) -> None:
    leaf = leaking(talk, name)
    await talk.ingest(leaf)

    found = await everything(service)
    assert [secret for secret in SECRETS if secret in found] == []
    kept, given = split_steps(parse(await stored(service))), split_steps(parse(talk.rows["a0"]))
    assert [(one.text, [call.call.name for call in one.calls]) for one in kept] == [
        (one.text, [call.call.name for call in one.calls]) for one in given
    ]
    # Id and size are those of what was handed over, and the same content again is not taken for another one.
    row_of_it = await row(service.runtime, "select * from messages where host_id = 'a0'")
    cipher = await service.runtime.database.keyring.find_cipher(1)
    assert row_of_it.message_id == cipher.keyed_hash(talk.ids(leaf)[-1])
    assert row_of_it.tokens == count_stored_tokens(talk.rows["a0"])


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_secret_of_a_tool_is_stored_of_a_request(talk: Talk, service: Service, name: str) -> None:
    leaf = leaking(talk, name)

    await talk.ask(leaf)
    await service.stored()

    assert len(await rows(service.runtime, "select 1 from messages")) == 2
    found = await everything(service)
    assert [secret for secret in SECRETS if secret in found] == []


async def test_switched_off_everything_is_stored_as_it_came(service: Service) -> None:
    async with serving(service.runtime.settings.model_copy(update={"mask_secrets": False})) as unmasked:
        talk = Talk(unmasked.as_filter)
        await talk.ingest(leaking(talk, "output items"))

    handed = talk.rows["a0"]
    assert await stored(service) == {key: value for key, value in handed.items() if key not in ("id", "parentId")}
