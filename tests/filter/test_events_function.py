"""The function of type Event: what it tells of Open WebUI's events, and that nobody ever notices it."""

import asyncio
import contextlib
import copy
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from filter_stub import precis_events, precis_filter
from tests.builders import Json, called, returned, said
from tests.filter.functions import load
from tests.filter.host import Host
from tests.filter.wire import Answer, Behaviour, HangUp, Silence, Wire, wire
from tests.service.talk import Talk


@contextlib.asynccontextmanager
async def told(behaviour: Behaviour, key: str = "key") -> AsyncIterator[tuple[Any, Wire]]:
    async with wire(behaviour) as tap:
        loaded = load(precis_events, "Event", service_url=tap.url, api_key=key)
        type(loaded).event.__globals__["PAUSES"] = (0, 0, 0)
        try:
            yield loaded, tap
        finally:
            for task in list(loaded._in_background):
                task.cancel()
            await asyncio.gather(*loaded._in_background, return_exceptions=True)
            if loaded._http:
                await loaded._http.aclose()


async def all_told(loaded: Any) -> None:
    while tasks := list(loaded._in_background):
        await asyncio.gather(*tasks, return_exceptions=True)


def event(name: str, subject: str, kind: str = "", **data: object) -> Json:
    """What is read of an event as Open WebUI 0.12.4 builds it (`open_webui/events.py:build_event`)."""
    return {
        "event": name,
        "actor": {"id": "user-1"},
        "subject": {"type": kind or name.rpartition(".")[0], "id": subject},
        "data": data,
    }


def host(talk: Talk) -> Host:
    return Host({talk.chat: copy.deepcopy(talk.rows)})


# What it tells


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        (event("chat.deleted", "c", owner_id="u"), [{"type": "chat.deleted", "chat_id": "c"}]),
        (event("chat.deleted_all", "u", "user"), [{"type": "chat.deleted_all", "user_id": "u"}]),
        (event("user.deleted", "u"), [{"type": "user.deleted", "user_id": "u"}]),
        (event("chat.created", "c", title="New Chat"), []),
        (event("message.deleted", "m", channel_id="general"), []),
        (event("folder.deleted", "f", folder_ids=["f"], delete_contents=False), []),
        (event("something.of.tomorrow", "x"), []),
    ],
    ids=lambda value: value["event"] if isinstance(value, dict) else "",
)
async def test_deletions_alone_are_told_with_the_ids_and_without_any_text(happened: Json, expected: list[Json]) -> None:
    async with told(Answer({}, 202), "a key\n”") as (loaded, tap):
        with Host({"m": {}}).importable():
            await loaded.event(happened)
            await all_told(loaded)
        assert tap.asked == ["POST events"] * len(expected)
        assert tap.bodies("POST") == expected
        for seen in tap.seen:
            assert seen.headers["authorization"] == "Bearer akey"
            assert seen.headers["precis-filter"] == precis_filter.VERSION


@pytest.mark.parametrize(
    "happened",
    [
        event("chat.updated", "c", title="Another title"),
        event("message.updated", "parts", chat_id="c", content_preview="One."),
        event("message.deleted", "gone", chat_id="c"),
    ],
    ids=lambda happened: happened["event"],
)
async def test_an_edit_is_told_by_the_fingerprints_of_all_messages_that_the_chat_has(happened: Json) -> None:
    talk = Talk(None, "c")  # type: ignore[arg-type]
    leaf = talk.turns(2)
    output = [said("Let me look."), called("k", arguments='{"ä": 1}'), returned("k", "42 \ud800"), said("42")]
    leaf = talk.add("loop", leaf, "assistant", "Let me look.\n42", output=output)
    leaf = talk.add("parts", leaf, content=[{"type": "text", "text": "ü"}])  # type: ignore[arg-type]
    talk.rows["empty"] = {"id": "empty", "role": "assistant", "parentId": leaf, "content": None}
    async with told(Answer({}, 202)) as (loaded, tap):
        with host(talk).importable():
            await loaded.event(happened)
            await all_told(loaded)
        (body,) = tap.bodies("POST")
    assert body == {
        "type": "chat.updated",
        "chat_id": "c",
        "fingerprints": {name: fingerprint(row) for name, row in talk.rows.items()},
    }


def fingerprint(row: Json) -> str:
    """As a service makes it of what the filter has sent, in which half a character is a question mark."""
    sent = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    seen = [sent["role"], sent.get("output") or sent.get("content") or ""]
    packed = json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(packed.encode()).hexdigest()[:32]


# Whatever goes wrong


@pytest.mark.parametrize(
    "behaviour",
    [Silence(), HangUp(), Answer("<html>It works!</html>"), Answer({}, 426), Answer({}, 500)],
    ids=repr,
)
async def test_open_webui_waits_for_no_answer_and_sees_no_error(behaviour: Behaviour) -> None:
    async with told(behaviour) as (loaded, tap):
        for _ in range(3):
            happened = event("chat.deleted", "c")
            before = copy.deepcopy(happened)
            call = loaded.event(happened)
            with pytest.raises(StopIteration):
                call.send(None)  # it comes to its end without waiting for anything
            assert happened == before
        assert len(loaded._in_background) == 3
        await tap.arrived.wait()


async def test_a_service_that_is_away_is_told_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    async with told(HangUp()) as (loaded, tap):
        await loaded.event(event("chat.deleted", "c"))
        await tap.arrived.wait()
        tap.behaviour = Answer({}, 202)
        await all_told(loaded)
        assert tap.asked == ["POST events"] * 2
    assert "was not told" not in caplog.text


@pytest.mark.parametrize(("behaviour", "tries"), [(Answer({}, 503), 3), (HangUp(), 3), (Answer({}, 401), 3)])
async def test_in_the_end_it_gives_up_and_says_so_without_the_key(
    behaviour: Behaviour, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with told(behaviour, "secret-key") as (loaded, tap):
        with caplog.at_level(logging.WARNING, "precis"):
            await loaded.event(event("chat.deleted", "c"))
            await all_told(loaded)
        assert len(tap.seen) == tries
        assert loaded._in_background == set()
    assert "was not told of chat.deleted c: " in caplog.text
    assert "secret-key" not in caplog.text


async def test_an_event_without_a_subject_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with told(Answer({}, 202)) as (loaded, tap):
        await loaded.event(event("chat.deleted", "c") | {"subject": None, "data": None})
        (task,) = loaded._in_background
        await all_told(loaded)
        assert task.exception() is None
        assert tap.seen == []
    assert "was not told of chat.deleted None" in caplog.text


async def test_a_chat_that_open_webui_cannot_read_deletes_nothing() -> None:
    class Broken(Host):
        async def get_messages_map_by_chat_id(self, _: str) -> None:
            raise RuntimeError("no database")

    async with told(Answer({}, 202)) as (loaded, tap):
        with Broken().importable():
            await loaded.event(event("chat.updated", "c"))
            await loaded.event(event("folder.deleted", "f", delete_contents=True))
            await all_told(loaded)
        assert tap.seen == []
