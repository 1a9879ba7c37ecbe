"""Whatever is sent: a clear 4xx problem, or a bounded and sensible answer; and nothing is stored half."""

import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from service.transcript import digest
from tests.conftest import Service, drain
from tests.service.problems import CONTEXT, LEAF, TRANSCRIPT, is_problem, three_turns
from tests.service.talk import Json, Talk, check_tree, rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

Spoil = Callable[[Json], object]


@pytest.fixture
def talk(service: Service) -> Talk:
    return three_turns(service)


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
    "no model": without("model"),
    "an escape in the model": change(model="a\x1b[2Jb"),
}
CONTEXTS: dict[str, Spoil] = BOTH | {
    "a NUL in an id": change(path=[("a\0b", "d" * 32)]),
    "a repeated id": change(path=[("a", "1"), ("b", "2"), ("a", "3")], depth=3),
    "a depth below the path's length": change(depth=3),
    "a size for some messages": change(sizes=[1]),
    "a C1 character in the user": change(user_id="a\x9bb"),
    "a size beyond 64 bits": change(sizes=[2**63]),
    "a description with a negative place": change(native={"leading": -1}),
}
TRANSCRIPTS: dict[str, Spoil] = BOTH | {
    "no user": without("user_id"),
    "a long id": change_message(id="i" * 10_000),
    "a blank in a fingerprint": change_message(fingerprint="d d"),
    "an id twice": change_message(3, id="u0"),
    "a digest that does not follow": change_message(2, digest="0" * 32),
    "after with a NUL": change(after=("a\0", "b")),
    "a huge served": change(served=2**80),
}


@pytest.mark.parametrize("spoil", CONTEXTS.values(), ids=CONTEXTS.keys())
async def test_a_bad_question_is_a_problem(talk: Talk, service: Service, spoil: Spoil) -> None:
    body = json.loads(json.dumps(talk.question(LEAF)))

    # With and without escapes: JSON may have a C1 character as it is.
    for ascii_only in (True, False):
        content = json.dumps(spoil(body), ensure_ascii=ascii_only).encode()
        response = await service.as_filter.post(CONTEXT, content=content)

        is_problem(response, 422)


@pytest.mark.parametrize("spoil", TRANSCRIPTS.values(), ids=TRANSCRIPTS.keys())
async def test_a_bad_hand_over_is_a_problem_and_nothing_is_stored(talk: Talk, service: Service, spoil: Spoil) -> None:
    await talk.ingest("a2")
    before = await tables(service.runtime)
    body = json.loads(json.dumps(talk.transcript(LEAF)))
    body["messages"][-1]["usage"] = {"prompt_tokens": 5000}

    response = await service.as_filter.put(TRANSCRIPT, content=json.dumps(spoil(body)))

    is_problem(response, 422)
    assert await tables(service.runtime) == before


BODIES = {
    "bytes that are no UTF-8": b'{"model": "\xff\xfe"}',
    "half of a surrogate pair": b'{"model": "\\ud800"}',
    "100,000 open brackets": b"[" * 100_000,
    "the same field twice": b'{"model": "m", "model": "n"}',
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


@pytest.mark.parametrize("chat", ["%ff", "%ED%A0%80"])
async def test_a_chat_id_of_bytes_that_are_no_text_is_refused(talk: Talk, service: Service, chat: str) -> None:
    """Read leniently, all of them are the same character, and all of these chats one."""
    body = talk.transcript(LEAF)

    is_problem(await talk.put(body, chat=chat), 400)
    is_problem(await service.as_filter.post(f"/v1/chats/{chat}/context", json=talk.question(LEAF)), 400)
    for method, where in (("GET", ""), ("DELETE", ""), ("POST", "/reset"), ("GET", "/checkpoints/1")):
        is_problem(await service.as_operator.request(method, f"/v1/chats/{chat}{where}"), 400)
    is_problem(await service.as_operator.post(f"/v1/jobs/{chat}/retry"), 400)

    assert (await tables(service.runtime))["chats"] == []


async def test_however_long_the_new_messages_are_said_to_be_there_is_an_answer(talk: Talk, service: Service) -> None:
    leaf = talk.turns(20, leaf=LEAF)
    await talk.ingest(leaf)
    await drain(service.runtime)
    asked = talk.add("new", leaf)
    above = talk.add("newer", talk.add("other", leaf))

    for newest in (asked, above):  # the path that was handed over last goes on, and one that branches off
        answer = await talk.ask(newest, sizes=[2**40] * len(talk.question(newest)["path"]))
        assert answer["status"] == "ready"
        assert answer["tokens"]["before"] >= 2**40 // 4


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
    leaf = talk.turns(20, leaf=leaf)

    assert await talk.ingest(leaf)
    await drain(service.runtime)

    assert [run.outcome for run in await rows(service.runtime, "select outcome from runs")] == ["done"]
    assert "budget" in (await talk.ask(leaf))["summary"]


@pytest.mark.parametrize("number", ["1e400", "NaN", "9" * 4400])
async def test_odd_numbers_inside_a_message_never_fail_the_service(talk: Talk, service: Service, number: str) -> None:
    body = json.dumps(talk.transcript(LEAF, served=0))
    body = body.replace('"role": "assistant"', f'"role": "assistant", "usage": {{"prompt_tokens": {number}}}')
    body = body.replace('"role": "user"', f'"role": "user", "error": {{"x": {number}}}, "output": [{{"x": {number}}}]')

    response = await service.as_filter.put(TRANSCRIPT, content=body.encode())

    if response.status_code != 202:
        is_problem(response, 400, 422)
        assert (await tables(service.runtime))["messages"] == []
    await check_tree(service.runtime)


# Contradictions with what is stored


async def test_a_fingerprint_that_stood_for_another_content_is_a_problem(talk: Talk, service: Service) -> None:
    await talk.ingest(LEAF)
    before = await tables(service.runtime)
    body = talk.transcript(LEAF)
    body["messages"][2]["content"] = "Something else under the same fingerprint."

    problem = is_problem(await talk.put(body), 422)

    assert problem["pointer"] == "/messages/2/fingerprint"
    assert await tables(service.runtime) == before


async def test_a_cycle_through_stored_messages_is_a_problem(talk: Talk, service: Service) -> None:
    """An ancestor of `after` comes again below it: the body alone does not show it."""
    await talk.ingest(LEAF)
    before = await tables(service.runtime)
    honest = talk.rows["u0"]
    talk.rows["u0-again"] = honest | {"id": "u0-again", "parentId": LEAF}
    body = talk.transcript("u0-again", after=LEAF)
    above, fingerprint = body["after"][1], body["messages"][0]["fingerprint"]
    body["messages"][0] |= {"id": "u0", "digest": digest(above, "u0", fingerprint)}

    problem = is_problem(await talk.put(body), 422)

    assert "cycle" in problem["detail"]
    assert await tables(service.runtime) == before


# Too large


async def test_a_path_of_40000_messages_is_too_large(service: Service) -> None:
    path = [(f"id-{number}", "d" * 32) for number in range(40_000)]
    question = three_turns(service).question(LEAF)
    question |= {"depth": 40_000, "path": path, "sizes": [1] * 40_000}
    messages = [{"id": i, "fingerprint": "f", "digest": d, "role": "user", "content": ""} for i, d in path]

    problem = is_problem(await service.as_filter.post(CONTEXT, json=question), 413)
    assert "40000" in problem["detail"]
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
    assert problem["limit"] == 8 * 2**20
    assert (await tables(service.runtime))["chats"] == []


@pytest.mark.parametrize("query", ["cursor=%C3%A9", "cursor=OTk5OS0xMi0zMVQyMzo1OTo1OS0yMzowMCAx", "limit=201"])
async def test_a_bad_cursor_or_limit_is_a_problem(service: Service, query: str) -> None:
    """The second cursor says 9999-12-31T23:59:59-23:00 1."""
    is_problem(await service.as_operator.get(f"/v1/chats?{query}"), 400, 422)


# What pages of others and proxies send


@pytest.mark.parametrize("where", ["/v1/chats", "/v1/nothing"])
async def test_no_browser_guesses_a_kind_and_no_cache_keeps_a_text(service: Service, where: str) -> None:
    answer = await service.as_operator.get(where)
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert answer.headers.get_list("cache-control") == ["no-store"]


@pytest.mark.parametrize(("kind", "status"), [("text/plain", 415), ("APPLICATION/JSON; charset=utf-8", 202)])
async def test_a_body_is_taken_as_json_alone(service: Service, kind: str, status: int) -> None:
    body = json.dumps(three_turns(service).transcript(LEAF)).encode()

    answer = await service.as_filter.put(TRANSCRIPT, content=body, headers={"Content-Type": kind})

    assert answer.status_code == status
    for where, client in ((CONTEXT, service.as_filter), ("/v1/events", service.as_events)):
        answer = await client.post(where, content=b"{}", headers={"Content-Type": kind})
        assert (answer.status_code == 415) == (status == 415), where


async def test_a_body_without_a_kind_is_refused_and_no_body_needs_none(service: Service) -> None:
    headers = {"Authorization": f"Bearer {service.operator_key}"}
    async with httpx.AsyncClient(base_url=service.url, headers=headers) as http:
        is_problem(await http.post("/v1/keys", content=b"{}"), 415)
        assert (await http.post("/v1/jobs/retry")).status_code == 202
