"""Use case: look up what a request hides. A model asks through Open WebUI, or an operator.

In: words, or a reference. Out: a text to read, and exactly what is stored. Only the hidden part of
one branch of one user's chat is seen, or an operator's whole branch. That somebody asked is noted,
without a word of it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncEngine

from service.errors import NotFound, TextProcessAway, TextTooHard, Unavailable
from service.processes import Texts, recalls
from service.recall import references
from service.recall.display import Finding, PageRequest
from service.recall.references import UnknownReference
from service.storage import contexts as paths
from service.storage import keys, messages
from service.storage.contexts import RecallScope, VisiblePath
from service.storage.keys import Operator

_SECONDS = 2.0  # for which a model waits; an operator may wait longer
_OPERATORS_SECONDS = 30.0
_PARTS = 4  # of what the window leaves for messages, an answer has one
_LEAST_ROOM = 200  # tokens: of a few places the best, or some lines

_DELETED = (
    "The stored texts of this conversation were deleted for their age. Its next turn stores them"
    " again, and then they can be looked up."
)
_NOT_COVERED = "Nothing else of this conversation can be looked up: read what is above."


class _TextsDeleted(Exception):
    """Texts of the path were deleted for their age."""


@dataclass(frozen=True, slots=True)
class RecallQuestion:
    """A question: `query`, some words, or `ref`, a reference.

    Attributes:
        query: see `recall.ranking`.
        ref: see `recall.references`.
        line: where to begin to read, from 1; of words, with which result.
        grep: words that a line has to have, to be read.
        room: tokens that the answer may have.
    """

    query: str = ""
    ref: str = ""
    line: int = 1
    grep: str = ""
    room: int = 2000


async def recall_for_model(
    engine: AsyncEngine,
    texts: Texts,
    branch: RecallScope,
    by: Operator,
    question: RecallQuestion,
    mask: bool,
) -> Finding:
    """Looks a model's question up in the covered part of its branch.

    Raises:
        Unavailable: it took too long, or no text process starts.
    """
    async with engine.connect() as connection:
        path = await paths.find_covered_path(connection, branch)
    if path is None:
        return Finding(_NOT_COVERED, status="not_covered")
    question = replace(question, room=_find_room(question.room, path.left_tokens))
    finding = await _run_within(_Search(engine, texts, path, mask), question, _SECONDS)
    await _record_recall(engine, by, branch.chat, question, finding)
    return finding


def _find_room(most: int, left: int | None) -> int:
    """Tokens of an answer that stays whole in the request, beside a summary and other answers."""
    return most if left is None else min(most, max(left // _PARTS, _LEAST_ROOM))


async def recall_for_operator(
    engine: AsyncEngine,
    texts: Texts,
    by: Operator,
    chat: str,
    question: RecallQuestion,
    mask: bool,
) -> Finding:
    """Looks an operator's question up in the newest path of a chat, covered or not.

    Raises:
        NotFound: this tenant has no such chat.
        Unavailable: it took too long, or no text process starts.
    """
    async with engine.connect() as connection:
        path = await paths.find_newest_path(connection, by.tenant, chat)
    if path is None:
        raise NotFound(f"there is no chat {chat!r}")
    finding = await _run_within(_Search(engine, texts, path, mask), question, _OPERATORS_SECONDS)
    await _record_recall(engine, by, chat, question, finding)
    return finding


async def _run_within(lookup: "_Search", question: RecallQuestion, seconds: float) -> Finding:
    try:
        async with asyncio.timeout(seconds):
            if question.ref:
                return await lookup.read(question)
            return await lookup.search(question)
    except _TextsDeleted:
        return Finding(_DELETED, status="nothing")
    except (TimeoutError, TextTooHard) as error:
        raise Unavailable(
            "looking this up took too long; ask for fewer words, or for one reference"
        ) from error
    except TextProcessAway as error:
        raise Unavailable(str(error)) from error


async def _record_recall(
    engine: AsyncEngine, by: Operator, chat: str, question: RecallQuestion, finding: Finding
) -> None:
    mode = "read" if question.ref else "search"
    async with engine.begin() as connection:
        await keys.record_change(
            connection, by, "chat.recall", chat, mode=mode, status=finding.status
        )


class _Search:
    """Looks up one question on one path."""

    def __init__(self, engine: AsyncEngine, texts: Texts, path: VisiblePath, mask: bool) -> None:
        self._engine = engine
        self._texts = texts
        self._path = path
        self._call_counts = [message.step_calls for message in path.messages]
        self._mask = mask

    async def search(self, question: RecallQuestion) -> Finding:
        """The best places for some words."""
        bodies = await self._load_bodies(range(len(self._path.messages)))
        return await self._texts.run(
            recalls.search,
            bodies,
            references.count_calls_above(self._call_counts),
            question.query,
            question.line,
            question.room,
            self._mask,
        )

    async def read(self, question: RecallQuestion) -> Finding:
        """The message or result that a reference leads to, exactly."""
        target = references.resolve(question.ref, self._call_counts)
        if isinstance(target, UnknownReference):
            return _describe_unknown(question.ref, target)
        bodies = await self._load_bodies([target.message])
        page = PageRequest(target, question.line, question.grep, question.room)
        return await self._texts.run(recalls.show_page, bodies[target.message], page, self._mask)

    async def _load_bodies(self, places: Iterable[int]) -> dict[int, bytes]:
        """The packed bodies at some places of the path."""
        path = self._path.messages
        place_of = {path[place].message_id: place for place in places}
        async with self._engine.connect() as connection:
            body_of = await messages.load_bodies(connection, self._path.chat, place_of)
        if len(body_of) < len(place_of):
            raise _TextsDeleted
        return {place_of[message]: body for message, body in body_of.items()}


def _describe_unknown(reference: str, unknown: UnknownReference) -> Finding:
    nearby = f" There are {', '.join(unknown.nearby)}." if unknown.nearby else ""
    text = f"The earlier part of this conversation has no {reference!r}.{nearby}"
    return Finding(text, status="nothing")
