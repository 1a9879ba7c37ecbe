"""Real chats, played: what is covered, how large a summary may be, what is sent in the end."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import talk
from benchmarks.played import Path as ChatPath
from service.settings import Settings
from service.summarising.reading import Finish, Reading, Reply
from service.transcript import Stored


def a_chat(turns: int) -> list[Stored]:
    """Turns with a fact in each."""
    messages: list[Stored] = []
    for number in range(turns):
        asked = f"Bay {number} of the mill has {number * 37 + 11} crates in it. What follows?"
        answered = f"On bay {number}: " + "the miller counts the sacks again before noon. " * 20
        for role, content in (("user", asked), ("assistant", answered)):
            identity = f"{role}-{number}"
            messages.append({"id": identity, "role": role, "content": content, "timestamp": 1_750_000_000})
    return messages


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    folder = tmp_path / "chats"
    folder.mkdir()
    (folder / "mill.json").write_text(json.dumps({"name": "mill", "messages": a_chat(20)}))
    return folder


def played(chats: Path, *options: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, int]]:
    """What the command writes for the chat."""
    out = chats.parent / "out"
    monkeypatch.setattr(sys, "argv", ["talk", str(chats), "--out", str(out), *options])
    talk.main()
    return (out / "mill.txt").read_text(), json.loads((out / "mill.json").read_text())


def test_a_window_shows_the_last_request_with_summary_and_tail(chats: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, figures = played(chats, "--window", "4096", monkeypatch=monkeypatch)
    assert figures["covered_tokens"] > 0
    assert text.startswith("[user]\n[Previous conversation summary:")
    assert "Bay 19 of the mill has 714 crates in it." in text
    assert "On bay 19" not in text


class Silent:
    """A model that says nothing."""

    name = "silent"

    async def summarise(self, reading: Reading) -> Reply:
        assert reading.excerpts
        return Reply("", Finish.STOP)


async def test_what_a_silent_model_leaves_is_written_by_code() -> None:
    text, figures = await talk.bounded(ChatPath.of(a_chat(20)), 0.2, Settings(), Silent())
    assert set(figures["outcomes"]) == {"degraded"}
    assert figures["rejections"]
    assert "677 crates" in text
