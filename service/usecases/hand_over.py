"""Use case: store a finished turn as its host stores it.

So a summary can be written before the next request comes, the host's own ids become known, and the
provider's `usage` says what our tokens are worth. To lose a turn costs only time: the next request
shows all of it again.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from service.names import RequestOutcome
from service.planning import policy
from service.request import native
from service.request.native import ROOT, Node
from service.storage import chats
from service.storage.ingests import IncomingMessage, Source, Transcript
from service.transcript import (
    Native,
    Stored,
    identity,
    prompt_tokens_of,
    tokens_read_of,
    unfold,
)
from service.usecases.ingest import IngestOutcome, ingest
from service.usecases.weigh import ServeContext, State, sizes_of

_SECONDS = 5.0  # for counting a question
_OF_AN_ANSWER = ("assistant", "tool")  # who speaks in it
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A turn that its host has stored.

    Attributes:
        tenant: whose chat it is.
        state: of the turn, as the answer to its last request had it, if there was one.
        rows: what the host stores, root to leaf: the turn, or the whole branch.
        is_branch: whether it is the whole branch.
        title, user_name: the chat's and the user's, for operators.
    """

    tenant: int
    state: State
    rows: Sequence[Stored]
    is_branch: bool
    title: str | None = None
    user_name: str | None = None


@dataclass(frozen=True, slots=True)
class _NativeRows:
    """The rows of a turn as a model is sent them.

    Attributes:
        messages: the native list.
        sources: of which row each message is.
        prints: the fingerprint of each.
    """

    messages: list[Native]
    sources: list[int]
    prints: list[bytes]


async def hand_over(context: ServeContext, turn: FinishedTurn) -> IngestOutcome:
    """Stores a turn, and says whether a summary will be written.

    Raises: as `ingest`.
    """
    turn = replace(turn, rows=[_checked(row) for row in turn.rows])
    transcript = await _transcript_of(context, turn)
    if not transcript.messages:
        return IngestOutcome(due=False)
    accepted = await ingest(context, transcript)
    await _note_window(context, turn)
    return accepted


def outcome_of(state: State) -> RequestOutcome:
    """Says what became of the requests of a turn."""
    if state.cut:
        return "truncated_with_summary" if state.served else "truncated"
    return "compressed" if state.served else "unchanged"


async def _transcript_of(context: ServeContext, turn: FinishedTurn) -> Transcript:
    state, settings = turn.state, context.settings
    unfolded = _unfolded(turn.rows)
    messages, prints = unfolded.messages, unfolded.prints
    above = None if turn.is_branch else state.above
    nodes = native.path(messages, prints, 0, len(messages), above or ROOT)
    files = _files_of(turn)
    factor = _measured_factor(turn)
    overhead = await _overhead_of(context, turn, unfolded)
    window = int(state.window / (factor or state.factor))
    return Transcript(
        tenant=turn.tenant,
        chat=state.chat,
        user=state.user,
        model=state.model,
        policy=settings.policy(state.model, window, overhead or 0),
        window=state.window,
        window_assumed=state.assumed,
        after=above,
        messages=[_handed(turn.rows, unfolded, node, files) for node in nodes],
        source=_source_of(turn, nodes),
        overhead=overhead,
        usage_factor=factor,
        expires_in=state.expires_in,
        compactor=chats.COMPACTS_ITSELF if state.compacted else None,
        title=turn.title,
        user_name=turn.user_name,
        lender=settings.lender_to(state.user),
        served=state.served,
    )


def _checked(row: Stored) -> Stored:
    """The row with nothing in `native` but messages of an answer, or without it.

    So each row is one node of the path, and its id is of the words that are stored.
    """
    native, others = row.get("native"), {key: row[key] for key in row if key != "native"}
    if row.get("role") != "assistant" or not isinstance(native, list):
        return others
    answer = [one for one in native if isinstance(one, dict) and one.get("role") in _OF_AN_ANSWER]
    return others | {"native": answer} if answer else others


def _source_of(turn: FinishedTurn, nodes: Sequence[Node]) -> Source:
    """Says who has shown the nodes; a request has shown the path of a branch."""
    if not turn.is_branch:
        return "turn"
    above = turn.state.above
    return "branch" if above is None or any(node.id == above for node in nodes) else "unseen"


def _unfolded(rows: Sequence[Stored]) -> _NativeRows:
    messages: list[Native] = []
    sources: list[int] = []
    for place, row in enumerate(rows):
        own = _native_of(row)
        messages += own
        sources += [place] * len(own)
    return _NativeRows(messages, sources, [native.fingerprint(one) for one in messages])


def _native_of(row: Stored) -> list[Native]:
    """A row as a model is sent it: as its host tells that, or as Open WebUI makes it."""
    return row.get("native") or unfold([row])


def _files_of(turn: FinishedTurn) -> dict[int, list[dict[str, str]]]:
    """The files of the turn's question, by its row: hosts may not tell them with the row."""
    questions = [place for place, row in enumerate(turn.rows) if row.get("role") == "user"]
    return {questions[-1]: turn.state.files} if questions and turn.state.files else {}


def _handed(
    rows: Sequence[Stored],
    unfolded: _NativeRows,
    node: Node,
    files: dict[int, list[dict[str, str]]],
) -> IncomingMessage:
    """A node with what its host stores of it, which says more than a request does."""
    first, last = unfolded.sources[node.begin], unfolded.sources[node.end - 1]
    row = rows[last]
    stored = row if first == last else native.stored_of(unfolded.messages, node)
    if not stored.get("files") and last in files:
        stored = stored | {"files": files[last]}
    told = identity(str(row["id"])) if row.get("id") else None
    text = _encode({key: value for key, value in stored.items() if key != "id"})
    words = native.words_of(unfolded.prints, node)
    return IncomingMessage(node.id, words, text, told, _hash_of(row) if told else None)


def _hash_of(row: Stored) -> str:
    """The hash of what a host stores; the events function for Open WebUI computes the same."""
    seen = [row.get("role"), row.get("output") or row.get("content") or ""]
    packed = json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(packed.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _measured_factor(turn: FinishedTurn) -> float | None:
    """The tokens that the provider counts for one of ours; None where that is not known.

    A `usage` is that of the last call of a turn, so we must have prepared that one: some versions
    of Open WebUI show a filter the first call alone, and some give the sum over all calls.
    """
    counted = prompt_tokens_of(turn.rows[-1].get("usage"))
    if not (counted and _is_of_last_request(turn)):
        return None
    return policy.usage_factor(counted, turn.state.counted)


def _is_of_last_request(turn: FinishedTurn) -> bool:
    """Whether the `usage` of a turn is that of the request which was counted last."""
    calls = sum(message.get("role") == "assistant" for message in _native_of(turn.rows[-1]))
    return turn.state.counted > 0 and calls == turn.state.calls


async def _note_window(context: ServeContext, turn: FinishedTurn) -> None:
    """Notes the window of a model that nobody has told, if its server has cut the request."""
    read = tokens_read_of(turn.rows[-1].get("usage"))
    if not (read and turn.state.assumed and _is_of_last_request(turn)):
        return
    window = policy.shown_window(read, turn.state.counted)
    if window:
        await context.windows.note(turn.tenant, turn.state.model, window)


async def _overhead_of(
    context: ServeContext, turn: FinishedTurn, unfolded: _NativeRows
) -> int | None:
    """The tokens that went beside the path: what was added to the question counts too.

    None where no request was seen.
    """
    if not turn.state.calls:
        return None
    messages, prints = unfolded.messages, unfolded.prints
    newest = native.outline(messages, prints).newest
    asked = slice(newest, newest + 1)
    sizes, _ = await sizes_of(context, messages[asked], prints[asked], _SECONDS)
    return turn.state.beside + max(turn.state.question - sum(sizes), 0)
