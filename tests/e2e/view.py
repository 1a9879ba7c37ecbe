"""What reached the model, taken apart, and what must hold of it.

In: a `Received` request, which knows what Open WebUI had built. Out: a `View`: which messages are hidden, what stands
in their place, and the rest. `check` raises an AssertionError that says what is wrong with a request of any kind.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.request.record import OFFERED, is_record
from tests.builders import Json
from tests.e2e.model import Received, plain
from tests.e2e.precis import FACT, Checkpoint
from tests.filter.chat import pairs_are_whole

SUMMARY = re.compile(r"\[Previous conversation summary: .*?\[End of summary: [^]]*\]", re.DOTALL)
NOTE = re.compile(r"\[[^\[\]]*\bleft out\b[^\[\]]*\]")
"""What stands for messages that were left out without a summary."""


@dataclass(frozen=True)
class View:
    """`head` is the text of system messages and record; `added` is what the turn's own tool loop appended."""

    head: str
    hidden: list[Json]
    tail: list[Json]
    added: list[Json]

    @property
    def summary(self) -> str:
        """Our summary, to the byte, without what the filter adds to it; empty when there is none."""
        found = SUMMARY.search(self.head)
        return found[0].replace(f"{OFFERED}\n\n", "") if found else ""

    @property
    def says_how_to_look_up(self) -> bool:
        """Whether the last line of our summary names the tool that looks up what it covers."""
        found = SUMMARY.search(self.head)
        return found is not None and found[0].splitlines()[-3:-1] == [OFFERED, ""]

    @property
    def note(self) -> str:
        """The note about what was left out; empty when there is none."""
        found = NOTE.search(SUMMARY.sub("", self.head))
        return found[0] if found else ""

    @property
    def hidden_turns(self) -> int:
        """How many user messages are hidden."""
        return sum(written_by_user(one) for one in self.hidden)


def written_by_user(message: Json) -> bool:
    """False for the message in which Open WebUI shows the images of tool results."""
    return message["role"] == "user" and not plain(message["content"]).startswith("Here are the images from the tool")


def view(received: Received) -> View:
    """What became of what Open WebUI had built."""
    assert received.built, "no filter was called for this request"
    built = [one for one in received.built.messages if one["role"] != "system"]
    sent = [one for one in received.messages if one["role"] != "system"]
    head = [one for one in received.messages if one["role"] == "system"]
    if is_record(sent[:2]):
        head, sent = [*head, *sent[:1]], sent[2:]
    text = "\n".join(plain(one["content"]) for one in head)
    for start in range(len(built)):
        kept = built[start:]
        if len(sent) >= len(kept) and all(map(same, kept, sent)):
            return View(text, built[:start], sent[: len(kept)], sent[len(kept) :])
    raise AssertionError(
        f"what reached the model does not end as Open WebUI built it: {outline(built)} became {outline(sent)}"
    )


def same(built: Json, sent: Json) -> bool:
    """Whether a message is as it was; Open WebUI itself wraps a question in the text of files after the filters."""
    if built["role"] != sent["role"] or built.get("tool_calls") != sent.get("tool_calls"):
        return False
    if built.get("tool_call_id") != sent.get("tool_call_id"):
        return False
    if built["content"] == sent["content"]:
        return True
    # Under pressure the middle of a long text is left out.
    first, cut, _ = plain(sent["content"]).partition(" characters were left out here")
    if cut and plain(built["content"]).startswith(first.partition("\n[… ")[0]):
        return True
    return built["role"] == "user" and bool(built["content"]) and plain(built["content"]) in plain(sent["content"])


def outline(messages: Sequence[Json]) -> list[str]:
    """Roles and beginnings, for an error."""
    return [f"{one['role']}: {plain(one.get('content'))[:40]}" for one in messages]


def well_formed(messages: Sequence[Json]) -> None:
    """One system message at most, and first; then a user; each tool call answered at once, and nothing else is."""
    roles = [one["role"] for one in messages]
    assert "system" not in roles[1:], outline(messages)
    conversation = messages[1:] if roles[0] == "system" else messages
    assert conversation[0]["role"] == "user", outline(messages)
    assert pairs_are_whole(conversation), f"calls without results, or the other way round: {outline(messages)}"
    for before, one in pairwise(conversation):
        if one["role"] == "assistant":
            assert before["role"] != "assistant" or before.get("tool_calls"), (
                f"two answers in a row: {outline(messages)}"
            )


def check(received: Received, checkpoints: Sequence[Checkpoint], path: Sequence[Json]) -> View:
    """Checks a request, given the chat's stored summaries and its path, root to the newest user message.

    Well-formed; nothing is hidden that the summary does not cover, and nothing that it covers is sent again; the
    summary is that of this branch, to the byte; what is left stands as Open WebUI built it.
    """
    well_formed(received.messages)
    seen = view(received)
    assert len(SUMMARY.findall(seen.head)) <= 1, "two summaries"
    if seen.summary:
        fitting = next((one for one in checkpoints if one.summary == seen.summary), None)
        assert fitting, f"this summary is none of the chat's: {seen.summary[:200]}"
        covered = path[: fitting.messages]
        assert covered[-1]["id"] == fitting.until, "the summary is of another branch"
        users = sum(one["role"] == "user" for one in covered)
        assert facts(seen.summary) == facts(covered), "the summary tells something else than what it covers"
        assert seen.hidden_turns >= users, f"{seen.hidden_turns} turns are hidden, {users} are covered"
        assert seen.note or seen.hidden_turns == users, f"{seen.hidden_turns} turns are hidden, {users} are covered"
    elif seen.hidden:
        assert seen.note, f"{len(seen.hidden)} messages are hidden, and nothing says so: {seen.head[-300:]}"
    return seen


def facts(of: str | Sequence[Json]) -> set[str]:
    """The planted facts in a text or in messages."""
    text = of if isinstance(of, str) else "\n".join(plain(one.get("content")) for one in of)
    return set(FACT.findall(text))
