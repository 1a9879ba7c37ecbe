"""One line a summary, with Open WebUI's ids; the start; each migration; requests at `debug` alone."""

import pytest
from structlog.testing import capture_logs

from tests.fakes.scripted_llm import Say
from tests.service.harness import Harness

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
