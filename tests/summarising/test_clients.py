"""The two clients against a scripted model, over real HTTP on loopback."""

import gzip
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import httpx
import pytest

from service.clients.llm import (
    MAX_ANSWER_BYTES,
    Endpoint,
    OllamaSummariser,
    OpenAISummariser,
)
from service.clients.summarisers import open_client
from service.errors import ConfigurationError, SummariserError
from service.planning.policy import count_output_tokens
from service.settings import Settings
from service.summarising.reading import Excerpt, Finish, Reading, Summariser
from tests.fakes.scripted_llm import (
    Behaviour,
    Endless,
    Fail,
    OtherShape,
    Say,
    ScriptedLLM,
    Slow,
    scripted_llm,
)

KEY = "sk-very-secret-key-0123456789"
READING = Reading(
    previous=("Earlier: the invoice has number 12,847.",),
    excerpts=(Excerpt("user", "Please ship it to Rotterdam."), Excerpt("assistant", "Shipped.")),
    state_tokens=400,
)
GUARD = timedelta(seconds=30)  # never reached; a broken client fails instead of hanging
IMPATIENT = timedelta(milliseconds=50)

Make = Callable[..., Summariser]


@pytest.fixture
async def llm() -> AsyncIterator[ScriptedLLM]:
    async with scripted_llm() as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        yield client


def openai(http: httpx.AsyncClient, llm: ScriptedLLM, limit: timedelta = GUARD) -> OpenAISummariser:
    return OpenAISummariser(Endpoint(http, llm.openai_url, "small", KEY, limit))


def ollama(http: httpx.AsyncClient, llm: ScriptedLLM, limit: timedelta = GUARD) -> OllamaSummariser:
    return OllamaSummariser(Endpoint(http, llm.ollama_url, "small", KEY, limit), window=8192)


@pytest.fixture(params=[openai, ollama])
def make(request: pytest.FixtureRequest, http: httpx.AsyncClient, llm: ScriptedLLM) -> Make:
    return lambda limit=GUARD: request.param(http, llm, limit)


async def failure(summariser: Summariser) -> str:
    """The failure in detail; it never has the key, nor does anything that it was raised from."""
    with pytest.raises(SummariserError) as caught:
        await summariser.summarise(READING)
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error} {error!r} {getattr(error, 'detail', '')}"
        error = error.__cause__ or error.__context__
    return caught.value.detail


async def test_a_good_answer_becomes_a_reply_with_the_providers_counts(make: Make, llm: ScriptedLLM) -> None:
    llm.script(Say("The order went to Rotterdam."))
    reply = await make().summarise(READING)
    assert reply.text == "The order went to Rotterdam."
    assert reply.finish is Finish.STOP
    assert reply.completion_tokens == len(reply.text) // 4
    assert reply.prompt_tokens == len(llm.requests[0].text) // 4 > 0


async def test_the_whole_reading_is_sent(make: Make, llm: ScriptedLLM) -> None:
    await make().summarise(READING)
    (request,) = llm.requests
    assert [message["role"] for message in request.messages] == ["system", "user"]
    for text in (*READING.previous, *(excerpt.text for excerpt in READING.excerpts)):
        assert text in request.text
    assert request.body["model"] == "small"
    assert request.body["stream"] is False
    assert request.headers["authorization"] == f"Bearer {KEY}"


async def test_what_openai_is_asked(http: httpx.AsyncClient, llm: ScriptedLLM) -> None:
    summariser = openai(http, llm)
    await summariser.summarise(READING)
    (request,) = llm.requests
    assert summariser.name == "openai:small"
    assert request.path == "/v1/chat/completions"
    assert request.body["max_tokens"] == count_output_tokens(READING.state_tokens) > READING.state_tokens
    assert request.body["temperature"] == 0.3


async def test_what_ollama_is_asked(http: httpx.AsyncClient, llm: ScriptedLLM) -> None:
    summariser = ollama(http, llm)
    await summariser.summarise(READING)
    (request,) = llm.requests
    assert summariser.name == "ollama:small"
    assert request.path == "/api/chat"
    expected = {"num_ctx": 8192, "num_predict": count_output_tokens(READING.state_tokens), "temperature": 0.3}
    assert request.body["options"] == expected
    assert request.body["truncate"] is False
    assert "think" not in request.body, "models that cannot think may answer 400 to it"


async def test_without_a_key_none_is_sent(http: httpx.AsyncClient, llm: ScriptedLLM) -> None:
    endpoint = Endpoint(http, llm.openai_url + "/", "small")
    await OpenAISummariser(endpoint).summarise(READING)
    assert "authorization" not in llm.requests[0].headers


@pytest.mark.parametrize(
    ("behaviour", "text", "finish"),
    [
        (Say("The order went to", finish="length"), "The order went to", Finish.LENGTH),
        (Slow("In small pieces."), "In small pieces.", Finish.STOP),
        (Say("NUL \0 and half a pair \ud83d"), "NUL  and half a pair ?", Finish.STOP),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_odd_answers_are_replies_for_the_gate_to_judge(
    make: Make, llm: ScriptedLLM, behaviour: Behaviour, text: str, finish: Finish
) -> None:
    llm.script(behaviour)
    reply = await make().summarise(READING)
    assert (reply.text, reply.finish, len(llm.requests)) == (text, finish, 1)


@pytest.mark.parametrize(
    ("status", "body", "hint"),
    [
        (400, {"error": {"message": "odd"}}, "HTTP 400"),
        (401, {"error": {"message": "bad key"}}, "Check the API key"),
        (404, {"error": "model 'small' not found"}, "Check the name of the model and the base URL"),
        (308, "", "The base URL redirects"),
        (503, "the model is still loading", "HTTP 503: the model is still loading"),
        (
            400,
            {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 2639, "n_ctx": 1024}},
            "The configured window is larger than the server's",
        ),
        (
            400,
            {"error": {"message": "This model's maximum context length is 8192 tokens."}},
            "The configured window is larger than the server's",
        ),
    ],
)
async def test_an_error_is_not_retried_here_and_says_how_to_mend_it(
    make: Make, llm: ScriptedLLM, status: int, body: object, hint: str
) -> None:
    llm.script(Fail(status, body, {"Location": "/elsewhere"}))
    message = await failure(make())
    assert hint in message
    assert "'small'" in message
    assert llm.url in message
    assert len(llm.requests) == 1


@pytest.mark.parametrize("body", ["<html>It works!</html>", "", "[" * 100_000, '{"message":'])
async def test_an_answer_that_is_not_json_is_quoted(make: Make, llm: ScriptedLLM, body: str) -> None:
    llm.script(OtherShape(body))
    message = await failure(make())
    assert "not a chat answer" in message
    assert (body[:300] or "(empty)") in message
    assert len(message) < 700


async def test_the_total_time_bounds_an_answer_that_trickles(make: Make, llm: ScriptedLLM) -> None:
    llm.default = Slow("too slow", pause=0.02)
    assert "no whole answer in" in await failure(make(IMPATIENT))
    assert len(llm.requests) == 1


@pytest.mark.parametrize("behaviour", [Endless(), OtherShape(" " * MAX_ANSWER_BYTES + "{}")], ids=["endless", "long"])
async def test_an_endless_answer_is_cut(make: Make, llm: ScriptedLLM, behaviour: Behaviour) -> None:
    llm.default = behaviour
    assert f"over {MAX_ANSWER_BYTES} bytes" in await failure(make())
    assert len(llm.requests) == 1


@pytest.mark.parametrize("kind", [openai, ollama])
async def test_a_server_that_is_not_there(http: httpx.AsyncClient, kind: Make) -> None:
    async with scripted_llm() as gone:
        pass
    message = await failure(kind(http, gone))
    assert "ConnectError" in message
    assert "Is the server up?" in message


async def test_the_key_is_in_no_error_and_no_log(
    make: Make, llm: ScriptedLLM, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = "x" * (300 - len(KEY) // 2) + KEY  # some servers repeat the key; here the quotation ends within it
    llm.script(Fail(500, f"Incorrect key: {KEY}"), Fail(500, echo), OtherShape(echo))
    for _ in range(3):
        assert KEY[:8] not in await failure(make())
    assert KEY not in caplog.text
    assert "Rotterdam" not in caplog.text  # nor the chat


async def test_the_key_is_not_in_a_repr(http: httpx.AsyncClient) -> None:
    assert KEY not in repr(Endpoint(http, "http://localhost/v1", "small", KEY))


@pytest.mark.parametrize(
    "url", ["", "localhost:8080/v1", "ftp://host/v1", "http://user:word@host/v1", "http://host/v1?key=x"]
)
async def test_a_bad_address_is_refused(http: httpx.AsyncClient, url: str) -> None:
    with pytest.raises(ConfigurationError, match="base URL"):
        Endpoint(http, url, "small")


@pytest.mark.parametrize("key", [f"{KEY}\n", "schlüssel"])
async def test_a_key_that_cannot_be_a_header_is_refused(http: httpx.AsyncClient, key: str) -> None:
    with pytest.raises(ConfigurationError, match="API key") as caught:
        Endpoint(http, "http://host/v1", "small", key)
    assert key.strip() not in str(caught.value)


async def test_a_packed_answer_is_not_unpacked_and_its_quotation_can_be_stored() -> None:
    async def packed() -> AsyncIterator[bytes]:
        yield gzip.compress(b'{"choices": [{"message": {"content": "Read."}}]}')

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=packed())

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        message = await failure(OpenAISummariser(Endpoint(http, "http://llm/v1", "m")))
    assert "not a chat answer" in message
    assert "\0" not in message


@pytest.mark.parametrize("wanted", [False, True])
async def test_the_proxy_of_the_environment_sees_nothing_unless_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with open_client(Settings(use_proxy=wanted)) as http:
        for url in ("http://llm/v1", "https://llm/v1"):
            chosen = http._transport_for_url(httpx.URL(url))
            assert (chosen is not http._transport) == wanted
