"""The chat's own model writes: a prompt waits for its host, which asks the model and hands the answer in."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio

from service.storage import keys, prompts
from service.text import tokens
from service.usecases.compress import WorkerContext, compress
from tests.conftest import Service
from tests.service.events import tell_edit
from tests.service.harness import Harness, state, told
from tests.service.problems import is_problem
from tests.service.talk import Json, Talk, opened, row, rows, run_sql
from tests.service.test_metrics import value
from tests.web.visitor import visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

WINDOW = 16_384


def says(text: str) -> Json:
    """What a host hands in of a model that answered."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 20_000, "completion_tokens": 20}
    return {"status": 200, "completion": {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}}


def fails(status: int, body: str = "scripted failure") -> Json:
    """What a host hands in when there is no answer."""
    return {"status": status, "body": body}


GOOD = says(state("The pump was mended."))


@dataclass
class Host:
    """A chat's host, whose models answer as `answers` says."""

    harness: Harness
    http: httpx.AsyncClient
    talk: Talk
    answers: Callable[[Json], Json] = lambda _: GOOD
    forms: list[Json] = field(default_factory=list)

    async def choose(self, model: str | None) -> None:
        """As the installer does."""
        async with self.harness.runtime.database.engine.begin() as connection:
            await keys.choose_summariser(connection, "default", model)

    async def next(self, chat: str = "chat-1") -> Json:
        """Asks for a prompt of a chat."""
        answer = await self.http.post("/v1/prompts/next", json={"chat": chat})
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def reply(self, prompt: Json, answer: Json) -> httpx.Response:
        """Hands an answer in."""
        return await self.http.post(f"/v1/prompts/{prompt['id']}/reply", json=answer)

    async def work(self) -> None:
        """Workers do all that is due now."""
        while await compress(self.workers()):
            pass

    def workers(self) -> WorkerContext:
        """Workers without an endpoint of their own."""
        return self.harness.worker_context("extractive", summariser_window=8192)

    async def serve(self) -> int:
        """Workers and the host's models work until nothing is due; how many prompts were answered."""
        answered = 0
        await self.work()
        while prompt := (await self.next())["prompt"]:
            self.forms.append(prompt["form"])
            assert (await self.reply(prompt, self.answers(prompt["form"]))).status_code == 202
            answered += 1
            await self.work()
        return answered


@pytest_asyncio.fixture(loop_scope="module")
async def host(harness: Harness) -> Host:
    """The host of a tenant that lets each chat's own model write."""
    harness.talk.window = WINDOW
    made = Host(harness, harness.service.as_filter, harness.talk)
    await made.choose("chat")
    return made


async def turn(host: Host, leaf: str, **more: Any) -> Json:
    """Hands a branch over; the whole answer."""
    answer = await host.talk.put(host.talk.turn(leaf, **more))
    assert answer.status_code == 202
    found: Json = answer.json()
    return found


async def served(host: Host) -> list[Any]:
    """The checkpoints that a model wrote."""
    return await opened(host.harness.runtime, "select * from checkpoints where kind = 'llm' order by id")


async def taken(host: Host) -> Json:
    """A prompt of a long chat, which its host has taken."""
    await turn(host, host.talk.turns(24))
    await host.work()
    prompt: Json = (await host.next())["prompt"]
    return prompt


async def stored_prompts(host: Host) -> int:
    return int((await row(host.harness.runtime, "select count(*) as them from prompts")).them)


async def test_no_prompt_is_put_out_of_a_chat_that_was_reset_meanwhile(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_pause, resets = prompts.find_pause, []

    async def reset_first(*looked: Any) -> float | None:
        resets.append(await host.harness.service.as_operator.post("/v1/chats/chat-1/reset", json={}))
        return await find_pause(*looked)

    monkeypatch.setattr(prompts, "find_pause", reset_first)
    await turn(host, host.talk.turns(24))
    while not resets:
        assert await compress(host.workers())

    assert resets[0].status_code == 202, resets[0].text
    assert await stored_prompts(host) == 0


# Who writes


async def test_the_chats_own_model_writes_what_code_has_served_meanwhile(host: Host) -> None:
    leaf = host.talk.turns(24)
    assert await turn(host, leaf) == {"due": True, "asks": True}
    await host.work()
    assert (await host.talk.ask(leaf))["status"] == "ready", "nobody waits for the model"
    assert await served(host) == []

    answered = await host.serve()

    made = await served(host)
    assert len(made) == answered > 2, "every call has led to a summary"
    assert {one.summariser for one in made} == {"openwebui:model-1"}
    assert "The pump was mended." in told(made[-1])
    assert {form["model"] for form in host.forms} == {"model-1"}
    assert (await host.next())["again"] is False
    assert await stored_prompts(host) == 0
    assert (await host.harness.chat()).due_at is None


async def test_page_and_line_say_who_writes_and_why_not(host: Host, service: Service) -> None:
    leaf = host.talk.turns(24)
    await turn(host, leaf)
    await host.work()
    assert await value(service, "precis_queue_chats", state="waiting_for_model") == 1
    assert " messages by code for now: " in (await host.talk.ask(leaf))["status_text"]
    key = service.as_operator.headers["Authorization"].removeprefix("Bearer ")
    async with visiting(service, key) as visitor:
        page = await visitor.get("/chats/chat-1")
        assert "A summary waits for model model-1. Open WebUI asks it after a turn" in page.text
        prompt = (await host.next())["prompt"]
        assert "Open WebUI asked it" in (await visitor.get("/chats/chat-1")).text
        assert "Summaries are written by each chat's own model." in (await visitor.get("/")).text
    await host.reply(prompt, fails(500))
    await host.work()
    assert " by code, because its model fails: " in (await host.talk.ask(leaf))["status_text"]

    await host.harness.due_now()
    await host.serve()

    assert " by " not in (await host.talk.ask(leaf))["status_text"]
    async with visiting(service, key) as visitor:
        assert "A summary waits" not in (await visitor.get("/chats/chat-1")).text


@pytest.mark.parametrize("chosen", [None, ""], ids=["nobody has chosen", "none is chosen"])
async def test_without_a_choice_code_alone_writes(host: Host, chosen: str | None) -> None:
    await host.choose(chosen)

    assert await turn(host, host.talk.turns(24)) == {"due": True, "asks": False}

    assert await host.serve() == 0
    assert {one.kind for one in await host.harness.made()} == {"extractive"}


async def test_an_endpoint_of_the_settings_goes_before_the_hosts_models(host: Host) -> None:
    await turn(host, host.talk.turns(24))
    while await compress(host.harness.worker_context()):
        pass
    assert {one.summariser for one in await served(host)} == {"openai:scripted"}
    assert await stored_prompts(host) == 0


async def test_a_chat_that_expires_is_written_by_code(host: Host) -> None:
    assert await turn(host, host.talk.turns(24), expires_in=3600) == {"due": True, "asks": False}
    assert await host.serve() == 0
    assert {one.kind for one in await host.harness.made()} == {"extractive"}


# Once, by one


async def test_a_prompt_is_given_once_and_has_one_reply(host: Host) -> None:
    await turn(host, host.talk.turns(24))
    await host.work()

    found = await asyncio.gather(*(host.next() for _ in range(8)))

    (prompt,) = [one["prompt"] for one in found if one["prompt"]]
    replies = await asyncio.gather(*(host.reply(prompt, GOOD) for _ in range(4)))
    assert sorted(one.status_code for one in replies) == [202, 404, 404, 404]


async def test_neither_another_chat_nor_another_tenants_key_gets_a_prompt_or_answers_one(
    host: Host, service: Service
) -> None:
    await turn(host, host.talk.turns(24))
    await host.work()
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create_key(connection, "elsewhere", "filter", "theirs")
    async with httpx.AsyncClient(base_url=service.url, headers={"Authorization": f"Bearer {key}"}) as http:
        theirs = Host(host.harness, http, host.talk)
        assert await theirs.next() == await host.next("chat-2") == {"prompt": None, "again": False}
        prompt = (await host.next())["prompt"]
        is_problem(await theirs.reply(prompt, GOOD), 404)
    assert (await host.reply(prompt, GOOD)).status_code == 202


async def test_a_turn_while_the_model_writes_costs_no_second_call(host: Host) -> None:
    prompt = await taken(host)
    leaf = host.talk.turns(4, leaf=list(host.talk.rows)[-1], prefix="meanwhile-")
    host.talk.model, host.talk.window = "model-2", 2 * WINDOW
    await host.talk.ask(leaf)
    await turn(host, leaf)
    await host.work()
    assert await host.next() == {"prompt": None, "again": False}, "one prompt of a chat is out at a time"

    assert (await host.reply(prompt, GOOD)).status_code == 202
    await host.work()

    (first, *_) = await served(host)
    assert first.covered_messages < 48
    assert await host.serve() > 0, "what came meanwhile follows"
    assert len({str(form["messages"]) for form in [prompt["form"], *host.forms]}) == len(host.forms) + 1


async def test_a_prompt_that_is_deleted_with_what_it_quotes_takes_no_reply(host: Host) -> None:
    prompt = await taken(host)
    host.talk.edit(list(host.talk.rows)[2], "Edited.")
    await tell_edit(host.harness.service, host.talk)
    assert await stored_prompts(host) == 0
    is_problem(await host.reply(prompt, GOOD), 404)


# When it fails


@pytest.mark.parametrize(
    ("answer", "cause", "failures"),
    [
        (fails(500, "RuntimeError: a pipe raised"), "HTTP 500", 1),
        # Of one user.
        (fails(403, "HTTPException: 403: Unauthorized"), "HTTP 403", 0),
        (fails(500, "Exception: Model not found"), "HTTP 500", 0),
        # Of this prompt.
        ({"status": 200, "completion": {"error": {"message": "no such model"}}}, "an error in place of an answer", 0),
        (
            {"status": 200, "completion": {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 9}}},
            "it was shown 9 of some",
            0,
        ),
    ],
)
async def test_the_cause_of_a_failure_is_shown_code_serves_and_the_model_is_to_blame_where_it_is(
    host: Host, answer: Json, cause: str, failures: int
) -> None:
    leaf = host.talk.turns(24)
    await turn(host, leaf)
    host.answers = lambda _: answer

    assert await host.serve() == 1

    chat = await host.harness.chat()
    assert f"model 'model-1' of the chat's host: {cause}" in chat.last_error
    assert chat.due_at is not None, "it is tried again"
    (breaker,) = await rows(host.harness.runtime, "select * from endpoints where tenant_id <> 0")
    assert breaker.failures == failures
    assert (await host.talk.ask(leaf))["status"] == "ready"
    assert await stored_prompts(host) == 0


async def test_a_model_that_keeps_failing_is_left_alone_for_a_while_and_others_are_not(host: Host) -> None:
    await turn(host, host.talk.turns(24))
    host.answers = lambda _: fails(503)
    workers = host.harness.worker_context
    host.workers = lambda: workers("extractive", summariser_window=8192, breaker_after=2, breaker_pause=60)  # type: ignore[method-assign]
    for _ in range(2):
        await host.harness.due_now()
        assert await host.serve() == 1
    await host.harness.due_now()

    assert await host.serve() == 0, "its breaker is open"

    (breaker,) = await rows(host.harness.runtime, "select * from endpoints where tenant_id <> 0")
    assert (breaker.name, breaker.failures) == ("openwebui:model-1", 2)
    assert 30 < (await host.harness.chat()).wait.total_seconds() <= 60
    assert "HTTP 503" in (await host.harness.chat()).last_error
    await host.choose("small")
    host.answers = lambda _: GOOD
    await host.harness.due_now()
    assert await host.serve() > 0
    assert host.forms[-1]["model"] == "small", "it is asked in the place of the chat's own"


async def test_a_model_that_refuses_a_temperature_is_asked_without_one(host: Host) -> None:
    await turn(host, host.talk.turns(24))
    refused = fails(400, "Unsupported value: 'temperature' does not support 0.3 with this model.")
    host.answers = lambda form: refused if "temperature" in form else GOOD

    assert await host.serve() > 1

    assert ["temperature" in form for form in host.forms[:2]] == [True, False]
    assert await served(host)


async def test_a_pipe_that_answers_in_a_stream_only_is_asked_for_one(host: Host) -> None:
    await turn(host, host.talk.turns(24))
    event = '{"choices": [{"delta": {"content": "## State\\n- The pump was mended."}, "finish_reason": "stop"}]}'
    streamed = {"status": 200, "body": f"data: {event}\n\ndata: [DONE]\n\n"}
    refused = fails(400, "This model only supports stream mode")
    host.answers = lambda form: streamed if form["stream"] else refused

    assert await host.serve() > 1

    assert [form["stream"] for form in host.forms[:2]] == [False, True]
    assert "The pump was mended." in told((await served(host))[-1])


async def test_a_chat_that_is_left_alone_meanwhile_keeps_no_prompt(host: Host) -> None:
    prompt = await taken(host)
    await run_sql(host.harness.runtime, "update chats set left_alone_at = now()")
    assert (await host.reply(prompt, GOOD)).status_code == 202
    await host.work()
    assert await stored_prompts(host) == 0
    assert await served(host) == []


async def test_a_prompt_that_nobody_takes_is_made_anew_after_the_next_turn(host: Host) -> None:
    leaf = host.talk.turns(24)
    await turn(host, leaf)
    await host.work()
    assert await stored_prompts(host) == 1
    await run_sql(host.harness.runtime, "update prompts set expires_at = now()")
    await host.harness.due_now()
    await host.work()

    assert await stored_prompts(host) == 0
    assert (await host.harness.chat()).due_at is None
    (run,) = await host.harness.runs(by_code=False)
    assert run.outcome == "waits"
    assert "nobody asked model 'model-1'" in run.reason

    await turn(host, host.talk.turns(1, leaf=leaf, prefix="next-"))
    assert await host.serve() > 0


async def test_a_model_that_never_answers_is_one_that_is_away(host: Host) -> None:
    prompt = await taken(host)
    assert (await host.harness.chat()).wait.total_seconds() > 60
    await run_sql(host.harness.runtime, "update prompts set expires_at = now()")
    await host.harness.due_now()
    await host.work()

    chat = await host.harness.chat()
    assert "no answer in time" in chat.last_error
    (breaker,) = await rows(host.harness.runtime, "select * from endpoints where tenant_id <> 0")
    assert breaker.failures == 1
    is_problem(await host.reply(prompt, GOOD), 404)


# What a prompt may have


async def test_a_model_with_a_tiny_window_is_not_asked(host: Host) -> None:
    host.talk.window = 4096
    await turn(host, host.talk.turns(12))
    assert await host.serve() == 0
    assert {one.kind for one in await host.harness.made()} == {"extractive"}
    assert (await host.harness.chat()).due_at is None


async def test_a_model_is_asked_also_where_its_provider_counts_much_more_than_we_do(host: Host) -> None:
    leaf = host.talk.turns(24)
    await turn(host, leaf)
    await run_sql(host.harness.runtime, "update chats set usage_factor = 3")
    assert await host.serve() > 0
    assert {one.kind for one in await host.harness.made()} == {"llm"}


@pytest.mark.parametrize(("window", "factor"), [(6144, 1), (16_384, 1), (8192, 2)])
async def test_a_prompt_and_its_answer_fit_into_the_window_of_the_chats_own_model(
    host: Host, window: int, factor: int
) -> None:
    host.talk.window = window
    await turn(host, host.talk.turns(4, tokens=6000))
    await run_sql(host.harness.runtime, f"update chats set usage_factor = {factor}")
    assert await host.serve() > 0
    for form in host.forms:
        size = sum(tokens.count(one["content"]) + tokens.MESSAGE_TOKENS for one in form["messages"])
        assert (size + form["max_tokens"]) * factor <= window
