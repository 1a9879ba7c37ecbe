"""One line a summary, with Open WebUI's ids; the start; each migration; requests at `debug` alone."""

import pytest
from structlog.testing import capture_logs

from service.settings import Settings
from tests.conftest import serving
from tests.fakes.scripted_llm import Say
from tests.service.harness import Harness
from tests.service.talk import Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_each_summary_is_one_line_without_a_word_of_the_chat(harness: Harness) -> None:
    harness.llm.default = Say("## State\n- Story of nobody.")
    await harness.long_chat()
    with capture_logs() as logs:
        await harness.drain()

    told = [line for line in logs if line["event"] == "summary.published"]
    made = [*await harness.made(), *await harness.interim()]
    assert len(told) >= len(await harness.made()) > 0
    assert {line["log_level"] for line in told} == {"info"}
    for line in told:
        assert (line["chat"], line["user"]) == ("chat-1", harness.talk.user)
        assert line["tokens_before"] > line["tokens_after"] > 0
        assert line["messages"] > 0
        assert line["seconds"] >= 0
    assert {"openai:scripted"} <= {line["model"] for line in told}
    assert {one.covered_messages for one in made} <= {line["messages"] for line in told}
    assert "Story" not in str(logs)


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("level", ["debug", "info"])
async def test_the_start_is_a_line_and_requests_are_at_debug(settings: Settings, level: str) -> None:
    with capture_logs() as logs:
        async with serving(settings.model_copy(update={"log_level": level})) as service:
            await service.as_operator.get("/v1/chats?user=somebody")
            talk = Talk(service.as_filter)
            await talk.ask(talk.turns(2))

    assert [line["summariser"] for line in logs if line["event"] == "service.started"] == ["extractive"]
    requests = [(line["method"], line["path"], line["status"]) for line in logs if line["event"] == "request"]
    both = [("GET", "/v1/chats", 200), ("POST", "/v1/chats/chat-1/context", 200)]
    assert requests == (both if level == "debug" else [])
