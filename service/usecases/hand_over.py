"""Use case: store a finished turn as its host stores it.

So a summary can be written before the next request comes, the host's own ids become known, and the
provider's `usage` says what our tokens are worth. To lose a turn costs only time: the next request
shows all of it again.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from service.names import RequestOutcome
from service.planning import policy
from service.request import native
from service.request.native import ROOT, Node
from service.storage import chats, keys
from service.storage.ingests import IncomingMessage, Source, Transcript
from service.transcript import (
    Native,
    Stored,
    normalise_id,
    read_ollama_tokens,
    read_prompt_tokens,
    unfold_messages,
)
from service.usecases.ingest import IngestOutcome, ingest_transcript
from service.usecases.uploads import UserKey
from service.usecases.weigh import ServeContext, State, count_messages

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


class HandOverOutcome(NamedTuple):
    """Whether a summary will be written, and whether a model of the host `asks` for prompts."""

    due: bool
    asks: bool


@dataclass(frozen=True, slots=True)
class _NativeRows:
    """The rows of a turn as a model is sent them.

    Attributes:
        messages: the native list.
        sources: of which row each message is.
        prints: the fingerprint of each.
        calls: how many messages the model wrote in the last row.
        question: the last row of a user; -1 where there is none.
    """

    messages: list[Native]
    sources: list[int]
    prints: list[bytes]
    calls: int
    question: int


async def hand_over_turn(context: ServeContext, turn: FinishedTurn) -> HandOverOutcome:
    """Stores a turn when its user's turn has come, and wakes a worker if a summary is due.

    Raises: as `UploadQueue.turn` and `ingest_transcript`.
    """
    state = turn.state
    async with context.uploads.turn(UserKey(turn.tenant, state.user)):
        outcome = await _store_turn(context, turn)
    if outcome.wake_up is None:
        return HandOverOutcome(due=False, asks=False)
    # The user's turn is over by now, because this waits while Redis is away.
    await context.wake(outcome.wake_up, outcome.delay)
    asks = state.expires_in is None and await _is_for_host(context, turn.tenant)
    return HandOverOutcome(True, asks)


async def _is_for_host(context: ServeContext, tenant: int) -> bool:
    """Whether models of a tenant's host write its summaries: an endpoint of ours goes first."""
    if context.settings.summariser != "extractive":
        return False
    return bool(await keys.find_summariser(context.database.reads, tenant))


async def _store_turn(context: ServeContext, turn: FinishedTurn) -> IngestOutcome:
    turn = replace(turn, rows=[_clean_row(row) for row in turn.rows])
    state, settings = turn.state, context.settings
    native_rows = _unfold(turn.rows)
    above = None if turn.is_branch else state.above
    messages, prints = native_rows.messages, native_rows.prints
    nodes = native.cut_path(messages, prints, 0, len(messages), above or ROOT)
    if not nodes:
        return IngestOutcome()
    usage = _find_usage(turn, native_rows)
    counted = read_prompt_tokens(usage)
    factor = policy.find_usage_factor(counted, state.counted) if counted else None
    overhead = await _measure_overhead(context, turn, native_rows)
    window = int(state.window / (factor or state.factor))
    transcript = Transcript(
        tenant=turn.tenant,
        chat=state.chat,
        user=state.user,
        model=state.model,
        policy=settings.policy(state.model, window, overhead or 0),
        window=state.window,
        window_assumed=state.assumed,
        after=above,
        messages=[_make_message(turn, native_rows, node) for node in nodes],
        source=_find_source(turn, nodes),
        overhead=overhead,
        usage_factor=factor,
        expires_in=state.expires_in,
        compactor=chats.COMPACTS_ITSELF if state.compacted else None,
        title=turn.title,
        user_name=turn.user_name,
        served=state.served,
    )
    outcome = await ingest_transcript(context, transcript)
    await _note_window(context, turn, usage)
    return outcome


def find_outcome(state: State) -> RequestOutcome:
    """Says what became of the requests of a turn."""
    if state.cut:
        return "truncated_with_summary" if state.served else "truncated"
    return "compressed" if state.served else "unchanged"


def _clean_row(row: Stored) -> Stored:
    """The row with nothing in `native` but messages of an answer, or without it.

    So each row is one node of the path, and its id is of the words that are stored.
    """
    native, others = row.get("native"), {key: row[key] for key in row if key != "native"}
    if row.get("role") != "assistant" or not isinstance(native, list):
        return others
    answer = [one for one in native if isinstance(one, dict) and one.get("role") in _OF_AN_ANSWER]
    return others | {"native": answer} if answer else others


def _unfold(rows: Sequence[Stored]) -> _NativeRows:
    """Unfolds rows as their host tells it, or as Open WebUI does it."""
    messages: list[Native] = []
    sources: list[int] = []
    calls, question = 0, -1
    for place, row in enumerate(rows):
        own: list[Native] = row.get("native") or unfold_messages([row])
        messages += own
        sources += [place] * len(own)
        calls = sum(message.get("role") == "assistant" for message in own)
        if row.get("role") == "user":
            question = place
    prints = [native.hash_message(message) for message in messages]
    return _NativeRows(messages, sources, prints, calls, question)


def _find_usage(turn: FinishedTurn, native_rows: _NativeRows) -> object:
    """The provider's `usage`, if it is that of the request which was counted last.

    It is that of the last call of a turn, so we must have prepared that one: some versions of Open
    WebUI show a filter the first call alone, and some give the sum over all calls.
    """
    state = turn.state
    is_of_last = state.counted > 0 and native_rows.calls == state.calls
    return turn.rows[-1].get("usage") if is_of_last else None


def _find_source(turn: FinishedTurn, nodes: Sequence[Node]) -> Source:
    """Says who has shown the nodes; a request has shown the path of a branch."""
    if not turn.is_branch:
        return "turn"
    above = turn.state.above
    return "branch" if above is None or any(node.id == above for node in nodes) else "unseen"


def _make_message(turn: FinishedTurn, native_rows: _NativeRows, node: Node) -> IncomingMessage:
    """A node with what its host stores of it, which says more than a request does."""
    first, last = native_rows.sources[node.begin], native_rows.sources[node.end - 1]
    row = turn.rows[last]
    stored = row if first == last else native.make_stored(native_rows.messages, node)
    # Hosts may not tell the files of the turn's question with its row.
    if last == native_rows.question and turn.state.files and not stored.get("files"):
        stored = stored | {"files": turn.state.files}
    host_id = normalise_id(str(row["id"])) if row.get("id") else None
    text = _encode({key: value for key, value in stored.items() if key != "id"})
    return IncomingMessage(node.id, text, host_id, _hash_row(row) if host_id else None)


def _hash_row(row: Stored) -> str:
    """The hash of what a host stores; the events function for Open WebUI computes the same."""
    seen = [row.get("role"), row.get("output") or row.get("content") or ""]
    packed = json.dumps(seen, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(packed.encode("utf-8", "surrogatepass")).hexdigest()[:32]


async def _note_window(context: ServeContext, turn: FinishedTurn, usage: object) -> None:
    """Notes the window of a model that nobody has told, if its server has cut the request."""
    read = read_ollama_tokens(usage)
    if not (read and turn.state.assumed):
        return
    window = policy.find_shown_window(read, turn.state.counted)
    if window:
        await context.windows.note(turn.tenant, turn.state.model, window)


async def _measure_overhead(
    context: ServeContext, turn: FinishedTurn, native_rows: _NativeRows
) -> int | None:
    """Counts what went beside the path: what was added to the question counts too.

    None where no request was seen.
    """
    if not turn.state.calls:
        return None
    messages, prints = native_rows.messages, native_rows.prints
    newest = native.outline_request(messages, prints).newest
    asked = slice(newest, newest + 1)
    sizes, _ = await count_messages(context, messages[asked], prints[asked], _SECONDS)
    return turn.state.beside + max(turn.state.question - sum(sizes), 0)
