"""Steps, utterances and replies for tests of what is made of them."""

from collections.abc import Sequence

from service.planning.policy import Policy
from service.summarising import summarise
from service.summarising.reading import Finish, Reply
from service.summarising.summarise import Candidate, CoveredSpan, Material, Task
from service.summarising.utterances import Utterance, read_passages
from service.transcript import Call, Step
from service.transcript.items import ToolCall, ToolResult

ROOMY = Policy.sized(32_768)


def written(read: Material, text: str) -> Candidate:
    """What becomes of a reply that has much room."""
    return summarise.compose(Task(read, ROOMY, CoveredSpan(40, 20_000)), Reply(text, Finish.STOP))


def said(text: str, role: str = "user", identity: str = "m", result: str | None = None) -> Step:
    """A step; with a `result`, it calls a tool that answers so."""
    call = [Call(ToolCall("c", "query", '{"q": 1}'), ToolResult("c", result))] if result is not None else []
    return Step(identity, role, text, tuple(call))


def talk(*texts: str) -> list[Utterance]:
    """The utterances of a talk in which user and assistant take turns, the user first."""
    return heard([said(text, ("user", "assistant")[place % 2], f"m{place}") for place, text in enumerate(texts)])


def heard(steps: Sequence[Step]) -> list[Utterance]:
    """The utterances of steps, numbered from 1."""
    found: list[Utterance] = []
    for number, step in enumerate(steps, 1):
        before = [one for one in found if one.step == number - 1]
        for passage in read_passages(step, number, before=before):
            found += passage.utterances
    return found
