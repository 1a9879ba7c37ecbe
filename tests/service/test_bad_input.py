"""Whatever is sent: a clear 4xx problem, or a bounded and sensible answer; and nothing is stored half."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.storage import codec, keys
from service.transcript import digest
from tests.conftest import Service, drain
from tests.service.talk import Json, Talk, check_tree, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEAF = "a4"
CONTEXT = "/v1/chats/chat-1/context"
TRANSCRIPT = "/v1/chats/chat-1/transcript"
Spoil = Callable[[Json], object]


@pytest.fixture
def talk(service: Service) -> Talk:
    made = Talk(service.as_filter)
    made.turns(3)
    return made


def is_problem(response: httpx.Response, *statuses: int) -> Json:
    """A problem of RFC 9457, in words, and bounded."""
    assert response.status_code in statuses, response.text[:500]
    assert response.headers["content-type"] == "application/problem+json"
    problem: Json = response.json()
    assert problem["type"].startswith("urn:precis:problem:")
    assert problem["title"]
    assert problem["status"] == response.status_code
    assert problem["detail"]
    assert len(response.content) < 8000
    return problem


def change(**values: object) -> Spoil:
    return lambda body: body | values


def change_message(place: int = 0, **values: object) -> Spoil:
    def spoil(body: Json) -> Json:
        body["messages"][place] |= values
        return body

    return spoil


def without(name: str) -> Spoil:
    return lambda body: {key: value for key, value in body.items() if key != name}


BOTH: dict[str, Spoil] = {
    "another shape": lambda _: {"hello": "world"},
    "a list": lambda _: [],
    "a number": lambda _: 5,
    "null": lambda _: None,
    "an unknown field": change(surprise=1),
    "an unknown field with a long name": change(**{"s" * 100_000: 1}),
    "no model": without("model"),
    "a model of the wrong type": change(model=5),
    "an empty model": change(model=""),
    "a long model": change(model="m" * 10_000),
    "a negative window": change(window_tokens=-1),
    "a tiny window": change(window_tokens=10),
    "a huge window": change(window_tokens=10**30),
    "a window in words": change(window_tokens="large"),
}
CONTEXTS: dict[str, Spoil] = BOTH | {
    "an empty path": change(path=[]),
    "no path": without("path"),
    "a long id": change(path=[("i" * 10_000, "d" * 32)]),
    "an empty id": change(path=[("", "d" * 32)]),
    "a NUL in an id": change(path=[("a\0b", "d" * 32)]),
    "a line end in an id": change(path=[("a\nb", "d" * 32)]),
    "a line end after an id": change(path=[("a\n", "d" * 32)]),
    "a long digest": change(path=[("a", "d" * 10_000)]),
    "pairs of three": change(path=[("a", "b", "c")]),
    "a pair of numbers": change(path=[(1, 2)]),
    "a repeated id": change(path=[("a", "1"), ("b", "2"), ("a", "3")], depth=3),
    "a depth below the path's length": change(depth=3),
    "a depth of zero": change(depth=0),
    "a negative depth": change(depth=-5),
    "a huge depth": change(depth=10**40),
    "a depth with a fraction": change(depth=7.5),
    "a negative size": change(sizes=[-1]),
    "a huge size": change(sizes=[10**30]),
    "a long user": change(user_id="u" * 201),
    "a NUL in the user": change(user_id="a\0b"),
    "a user of the wrong type": change(user_id=5),
}
TRANSCRIPTS: dict[str, Spoil] = BOTH | {
    "no messages": change(messages=[]),
    "no user": without("user_id"),
    "a control character in the user": change(user_id="a\x07b"),
    "a message of the wrong type": change(messages=["hello"]),
    "a long id": change_message(id="i" * 10_000),
    "a NUL in an id": change_message(id="a\0b"),
    "an escape in an id": change_message(id="a\x1bb"),
    "no fingerprint": change_message(fingerprint=None),
    "a blank in a fingerprint": change_message(fingerprint="d d"),
    "an unknown role": change_message(role="wizard"),
    "an id twice": change_message(3, id="u0"),
    "a digest that does not follow": change_message(2, digest="0" * 32),
    "another fingerprint": change_message(2, fingerprint="f" * 32),
    "another id": change_message(2, id="renamed"),
    "after with three parts": change(after=("a", "b", "c")),
    "after with a NUL": change(after=("a\0", "b")),
    "served in words": change(served="yes"),
    "a negative served": change(served=-1),
    "a huge served": change(served=2**80),
    "an overhead in words": change(overhead="some"),
    "a negative overhead": change(overhead=-1),
    "a huge overhead": change(overhead=2**80),
    "a short life": change(expires_in=59),
    "a life of centuries": change(expires_in=10**10),
    "a life in words": change(expires_in="an hour"),
    "an unknown compactor": change(compactor="somebody"),
}
ODD: dict[str, object] = {
    "content": 5,
    "output": {"type": "message"},
    "files": "report.csv",
    "usage": [1],
    "timestamp": "yesterday",
}


@pytest.mark.parametrize("spoil", CONTEXTS.values(), ids=CONTEXTS.keys())
async def test_a_bad_question_is_a_problem(talk: Talk, service: Service, spoil: Spoil) -> None:
    body = json.loads(json.dumps(talk.question(LEAF)))

    response = await service.as_filter.post(CONTEXT, content=json.dumps(spoil(body)))

    is_problem(response, 422)


@pytest.mark.parametrize("spoil", TRANSCRIPTS.values(), ids=TRANSCRIPTS.keys())
async def test_a_bad_hand_over_is_a_problem_and_nothing_is_stored(talk: Talk, service: Service, spoil: Spoil) -> None:
    await talk.hand_over("a2")
    before = await tables(service.runtime)
    body = json.loads(json.dumps(talk.transcript(LEAF)))
    body["messages"][-1]["usage"] = {"prompt_tokens": 5000}

    response = await service.as_filter.put(TRANSCRIPT, content=json.dumps(spoil(body)))

    is_problem(response, 422)
    assert await tables(service.runtime) == before


async def stored(service: Service, identity: str) -> Json:
    found = await rows(service.runtime, "select body from messages where message_id = :id", id=identity)
    return codec.unpack(found[0].body)


@pytest.mark.parametrize("name", ODD)
async def test_a_field_of_another_type_is_dropped_and_the_message_is_taken(
    talk: Talk, service: Service, name: str
) -> None:
    body = talk.transcript(LEAF)
    body["messages"][-1] |= {"content": "Said.", name: ODD[name]}

    response = await talk.put(body)

    assert response.status_code == 202, response.text
    kept = {"id": LEAF, "role": "assistant", "content": "Said."}
    assert await stored(service, LEAF) == {key: value for key, value in kept.items() if key != name}


@pytest.mark.parametrize("moment", [-1, 10**30, True, float("nan")])
async def test_a_time_that_is_none_is_dropped(talk: Talk, service: Service, moment: float) -> None:
    body = talk.transcript(LEAF)
    body["messages"][-1]["timestamp"] = moment

    response = await service.as_filter.put(TRANSCRIPT, content=json.dumps(body))

    assert response.status_code == 202, response.text
    assert "timestamp" not in await stored(service, LEAF)


async def test_of_a_file_its_type_and_names_are_kept(talk: Talk, service: Service) -> None:
    named = {"type": "file", "name": "report.csv", "content_type": "text/csv"}
    talk.rows[LEAF]["files"] = [named | {"url": "x", "file": {"data": {"content": "secret"}}}, 5, {"name": 5}]

    await talk.hand_over(LEAF)

    assert (await stored(service, LEAF))["files"] == [named, {}]


BODIES = {
    "nothing": b"",
    "half of it": b'{"model": "m", "path": [',
    "no JSON": b"hello",
    "bytes that are no UTF-8": b'{"model": "\xff\xfe"}',
    "half of a surrogate pair": b'{"model": "\\ud800"}',
    "100,000 open brackets": b"[" * 100_000,
    "100,000 brackets": b"[" * 100_000 + b"]" * 100_000,
    "100,000 brackets in a message": b'{"messages": [{"output": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
    "a number of 100,000 digits": b'{"depth": ' + b"9" * 100_000 + b"}",
    "the same field twice": b'{"model": "m", "model": "n"}',
    "a form": b"model=m&depth=1",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize(("method", "where"), [("POST", CONTEXT), ("PUT", TRANSCRIPT)])
async def test_a_body_that_is_no_usable_json_is_a_problem(
    service: Service, method: str, where: str, body: bytes
) -> None:
    before = await tables(service.runtime)

    response = await service.as_filter.request(method, where, content=body)

    is_problem(response, 400, 422)
    assert await tables(service.runtime) == before


@pytest.mark.parametrize("body", [b"[", b"[" * 100_000, b'{"keep": "x"}', b'{"kept": 1}', b"x" * 17 * 2**20, b"5"])
async def test_a_bad_reset_is_a_problem_and_drops_nothing(talk: Talk, service: Service, body: bytes) -> None:
    talk.turns(12, leaf=LEAF)
    await talk.hand_over(list(talk.rows)[-1])
    await drain(service.runtime)
    before = await tables(service.runtime)

    response = await service.as_operator.post("/v1/chats/chat-1/reset", content=body)

    is_problem(response, 400, 413, 422)
    assert await tables(service.runtime) == before


async def test_a_chat_id_that_cannot_be_one_is_a_problem(talk: Talk, service: Service) -> None:
    body = talk.transcript(LEAF)
    for chat in ("c" * 10_000, "a%00b", "a%0Ab", "%1B"):
        is_problem(await talk.put(body, chat=chat), 422)
        is_problem(await service.as_operator.get(f"/v1/chats/{chat}"), 422)
    assert (await tables(service.runtime))["chats"] == []


async def test_a_chat_id_may_have_any_other_character(service: Service) -> None:
    for chat in ("local%3Aé%20%2e", "%F0%9F%98%80", "'; drop table chats; --", "%25s"):
        talk = Talk(service.as_filter, chat)
        leaf = talk.turns(1)
        await talk.hand_over(leaf)
        assert (await talk.ask(leaf))["known"] == leaf
    assert len((await tables(service.runtime))["chats"]) == 4


async def test_half_a_surrogate_pair_in_a_text_is_a_problem(talk: Talk, service: Service) -> None:
    """The filter sends them as `?`; JSON can say them, but they are no text."""
    body = json.dumps(talk.transcript(LEAF)).replace("Reading", "\\ud83d", 1)

    response = await service.as_filter.put(TRANSCRIPT, content=body.encode())

    is_problem(response, 400)
    assert (await tables(service.runtime))["messages"] == []


async def test_a_nul_in_texts_is_stored_and_summarised_without_it(service: Service) -> None:
    """Databases that know NUL have it; PostgreSQL has not, neither in texts nor in JSON."""
    talk = Talk(service.as_filter)
    leaf = talk.turns(1)
    text = "You must keep\0 the budget of 4\0711 EUR below 90\0 percent."
    output = [
        {"type": "function_call", "call_id": "c\0", "name": "q\0uery", "arguments": '{"a": "\0"}'},
        {"type": "function_call_output", "call_id": "c\0", "output": [{"type": "input_text", "text": "a\0b"}]},
        {"type": "message", "content": [{"type": "output_text", "text": f"Decided: {text}"}]},
    ]
    leaf = talk.add("asked", leaf, content=text, files=[{"type": "file", "name": "re\0port.csv"}])
    leaf = talk.add("answered", leaf, "assistant", output=output)
    leaf = talk.turns(14, leaf=leaf)

    assert await talk.hand_over(leaf)
    await drain(service.runtime)

    assert [run.outcome for run in await rows(service.runtime, "select outcome from runs")] == ["done"]
    assert "budget" in (await talk.ask(leaf))["summary"]


async def test_the_same_hand_over_with_a_nul_twice_is_the_same(service: Service) -> None:
    talk = Talk(service.as_filter)
    leaf = talk.add("asked", None, content="a\0b")

    await talk.hand_over(leaf)
    await talk.hand_over(leaf)

    await check_tree(service.runtime)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", "9" * 300, "9" * 4400, "0." + "1" * 5000])
async def test_odd_numbers_inside_a_message_never_fail_the_service(talk: Talk, service: Service, number: str) -> None:
    body = json.dumps(talk.transcript(LEAF, served=0))
    body = body.replace('"role": "assistant"', f'"role": "assistant", "usage": {{"prompt_tokens": {number}}}')
    body = body.replace('"role": "user"', f'"role": "user", "error": {{"x": {number}}}, "output": [{{"x": {number}}}]')

    response = await service.as_filter.put(TRANSCRIPT, content=body.encode())

    if response.status_code != 202:
        is_problem(response, 400, 422)
        assert (await tables(service.runtime))["messages"] == []
    await check_tree(service.runtime)


# Size


async def test_a_path_of_50000_messages_is_too_large(service: Service) -> None:
    path = [(f"id-{number}", "d" * 32) for number in range(50_000)]
    question = {"model": "m", "depth": 50_000, "path": path}
    messages = [{"id": i, "fingerprint": "f", "digest": d, "role": "user", "content": ""} for i, d in path]

    problem = is_problem(await service.as_filter.post(CONTEXT, json=question), 413)
    assert "50000" in problem["detail"]
    is_problem(await service.as_filter.put(TRANSCRIPT, json={"model": "m", "user_id": "u", "messages": messages}), 413)
    assert (await tables(service.runtime))["chats"] == []


async def in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 2**18):
        yield content[start : start + 2**18]


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
async def test_a_message_of_20_mb_is_too_large(talk: Talk, service: Service, chunked: bool) -> None:
    talk.rows[LEAF]["content"] = "x" * 20 * 2**20
    body = json.dumps(talk.transcript(LEAF)).encode()

    response = await service.as_filter.put(TRANSCRIPT, content=in_pieces(body) if chunked else body)

    problem = is_problem(response, 413)
    assert problem["limit"] == 16 * 2**20
    assert (await tables(service.runtime))["chats"] == []


async def test_a_large_message_below_the_limit_is_taken(talk: Talk, service: Service) -> None:
    talk.rows[LEAF]["content"] = "lorem ipsum " * 200_000

    assert await talk.hand_over(LEAF) is True

    await check_tree(service.runtime)


async def raw(service: Service, head: str, body: bytes, *, close: bool = False) -> bytes:
    """Sends bytes as they are; returns what came back before the connection ended."""
    host, port = service.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"PUT {TRANSCRIPT} HTTP/1.1\r\nHost: precis\r\nAuthorization: Bearer {service.filter_key}\r\n"
        f"Connection: close\r\n{head}\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    if close:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("length", ["abc", "-5", "1_0", "٣", "9" * 40, "0x10", "5, 6"])
async def test_an_invalid_content_length_is_refused(talk: Talk, service: Service, length: str) -> None:
    body = json.dumps(talk.transcript(LEAF)).encode()

    answer = await raw(service, f"Content-Length: {length}", body, close=True)

    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413"))
    assert (await tables(service.runtime))["chats"] == []


async def test_a_content_length_below_the_body_cuts_it_and_stores_nothing(talk: Talk, service: Service) -> None:
    body = json.dumps(talk.transcript(LEAF)).encode()

    answer = await raw(service, f"Content-Length: {len(body) - 5}", body)

    assert answer.startswith(b"HTTP/1.1 400")
    assert (await tables(service.runtime))["chats"] == []


async def test_a_client_that_goes_away_within_its_body_leaves_nothing(talk: Talk, service: Service) -> None:
    body = json.dumps(talk.transcript(LEAF)).encode()

    assert b" 202 " not in await raw(service, f"Content-Length: {len(body) + 5}", body, close=True)

    assert (await tables(service.runtime))["chats"] == []
    assert await talk.hand_over(LEAF) is False  # and the service goes on


# Contradictions with what is stored


async def test_a_fingerprint_that_stood_for_another_content_is_a_problem(talk: Talk, service: Service) -> None:
    await talk.hand_over(LEAF)
    before = await tables(service.runtime)
    body = talk.transcript(LEAF)
    body["messages"][2]["content"] = "Something else under the same fingerprint."

    problem = is_problem(await talk.put(body), 422)

    assert problem["pointer"] == "/messages/2/fingerprint"
    assert await tables(service.runtime) == before


async def test_a_cycle_through_stored_messages_is_a_problem(talk: Talk, service: Service) -> None:
    """An ancestor of `after` comes again below it: the body alone does not show it."""
    await talk.hand_over(LEAF)
    before = await tables(service.runtime)
    honest = talk.rows["u0"]
    talk.rows["u0-again"] = honest | {"id": "u0-again", "parentId": LEAF}
    body = talk.transcript("u0-again", after=LEAF)
    above, fingerprint = body["after"][1], body["messages"][0]["fingerprint"]
    body["messages"][0] |= {"id": "u0", "digest": digest(above, "u0", fingerprint)}

    problem = is_problem(await talk.put(body), 422)

    assert "cycle" in problem["detail"]
    assert await tables(service.runtime) == before


# Keys, methods and routes

ENDPOINTS = [
    ("POST", CONTEXT, "filter"),
    ("PUT", TRANSCRIPT, "filter"),
    ("GET", "/v1/chats", "operator"),
    ("GET", "/v1/chats/chat-1", "operator"),
    ("DELETE", "/v1/chats/chat-1", "operator"),
    ("GET", "/v1/chats/chat-1/checkpoints", "operator"),
    ("GET", "/v1/chats/chat-1/checkpoints/1", "operator"),
    ("POST", "/v1/chats/chat-1/reset", "operator"),
    ("POST", "/v1/chats/chat-1/recompute", "operator"),
]


@pytest.mark.parametrize(("method", "where", "scope"), ENDPOINTS)
async def test_every_endpoint_wants_a_key_of_its_scope(
    talk: Talk, service: Service, method: str, where: str, scope: str
) -> None:
    await talk.hand_over(LEAF)
    before = await tables(service.runtime)
    wrong = service.operator_key if scope == "filter" else service.filter_key
    headers: dict[str, int] = {
        "": 401,
        "Bearer": 401,
        "Bearer nonsense": 401,
        f"Bearer {service.filter_key[:-1]}": 401,
        f"Basic {service.filter_key}": 401,
        "Bearer " + "k" * 8000: 401,
        "Bearer \xe9\xff": 401,
        f"Bearer {wrong}": 403,
    }
    async with httpx.AsyncClient(base_url=service.url) as client:
        for header, status in headers.items():
            given = {b"Authorization": header.encode("latin-1")} if header else {}
            response = await client.request(method, where, headers=given)
            is_problem(response, status)
            assert ("www-authenticate" in response.headers) == (status == 401)
    assert await tables(service.runtime) == before


async def test_a_revoked_key_opens_nothing(talk: Talk, service: Service) -> None:
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create(connection, "default", "filter", "to be revoked")
        found = await keys.find(connection, key)
        assert found
        assert await keys.revoke(connection, found.id)
        assert not await keys.revoke(connection, found.id)
    async with httpx.AsyncClient(base_url=service.url, headers={"Authorization": f"Bearer {key}"}) as client:
        is_problem(await client.put(TRANSCRIPT, json=talk.transcript(LEAF)), 401)


@pytest.mark.parametrize(("method", "where"), [("GET", CONTEXT), ("POST", TRANSCRIPT), ("PATCH", "/v1/chats")])
async def test_a_wrong_method_is_a_problem_that_names_the_right_one(service: Service, method: str, where: str) -> None:
    response = await service.as_filter.request(method, where)

    is_problem(response, 405)
    assert response.headers["allow"]


@pytest.mark.parametrize("where", ["/", "/v2", "/v1/chats/a/b/c", "/v1/chats/%2F%2F", "/../../etc/passwd", "/v1"])
async def test_an_unknown_route_is_a_problem(service: Service, where: str) -> None:
    is_problem(await service.as_operator.get(where), 404)


@pytest.mark.parametrize(
    "query",
    [
        "cursor=nonsense",
        "cursor=%00",
        "cursor=%C3%A9",
        "cursor=MQ==",
        "cursor=bm93IDE=",
        "cursor=MjAyNi0wMS0wMSA5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk=",  # 2026-01-01 and a huge id
        "cursor=MDAwMS0wMS0wMVQwMDowMDowMCsyMzowMCAx",  # 0001-01-01T00:00:00+23:00 1
        "cursor=OTk5OS0xMi0zMVQyMzo1OTo1OS0yMzowMCAx",  # 9999-12-31T23:59:59-23:00 1
        "cursor=" + "a" * 10_000,
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=many",
        "limit=" + "9" * 5000,
    ],
)
async def test_a_bad_cursor_or_limit_is_a_problem(service: Service, query: str) -> None:
    is_problem(await service.as_operator.get(f"/v1/chats?{query}"), 400, 422)


@pytest.mark.parametrize("checkpoint", ["0", "-1", "x", "9" * 40, "1.5"])
async def test_a_checkpoint_id_that_cannot_be_one_is_a_problem(service: Service, checkpoint: str) -> None:
    is_problem(await service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{checkpoint}"), 422)


# Anything at all

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["a0", "\0", "user"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(["type", "id", "call_id", "name", "arguments", "output", "content", "text", "status", "code"])
kinds = st.sampled_from(
    [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "open_webui:code_interpreter",
        "output_text",
        "text",
    ]
)
items = st.dictionaries(names, anything | kinds | st.lists(anything, max_size=3), max_size=6) | st.fixed_dictionaries(
    {"type": kinds},
    optional={"call_id": anything, "name": anything, "arguments": anything, "output": anything, "content": anything},
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool", "developer"])},
    optional={
        "content": st.text(max_size=50) | st.lists(items, max_size=3),
        "output": st.lists(items | anything, max_size=5),
        "files": st.lists(st.dictionaries(names, anything, max_size=4), max_size=2),
        "usage": st.dictionaries(st.sampled_from(["prompt_tokens", "prompt_eval_count"]), anything, max_size=2),
        "error": anything,
        "timestamp": st.integers(0, 253_402_300_799),
    },
)


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_no_body_ever_fails_the_service(service: Service, data: st.DataObject) -> None:
    talk = Talk(service.as_filter)
    question, transcript = talk.question(talk.turns(1)), talk.transcript("a0")
    for method, where, body in (("POST", CONTEXT, question), ("PUT", TRANSCRIPT, transcript)):
        name = data.draw(st.sampled_from(sorted(body)))
        value = data.draw(anything)
        spoilt = body | {name: value} if data.draw(st.booleans()) else value
        response = await service.as_filter.request(method, where, content=encoded(spoilt))
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            is_problem(response, response.status_code)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.lists(messages, min_size=1, max_size=4))
async def test_whatever_a_message_holds_it_is_taken_and_worked_on(service: Service, made: list[Json]) -> None:
    talk = Talk(service.as_filter, f"chat-{abs(hash(repr(made)))}")
    talk.window, leaf = 2048, None
    for number, message in enumerate(made):
        talk.rows[f"m{number}"] = {"id": f"m{number}", "parentId": leaf, "content": ""} | message
        leaf = f"m{number}"
    leaf = talk.turns(6, leaf=leaf)

    response = await service.as_filter.put(
        f"/v1/chats/{talk.chat}/transcript", content=encoded(talk.transcript(leaf, served=0))
    )

    assert response.status_code in (202, 400), response.text  # 400: half of a surrogate pair
    await drain(service.runtime)
    assert {run.outcome for run in await rows(service.runtime, "select outcome from runs")} <= {"done", "nothing to do"}
