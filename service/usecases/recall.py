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
from service.recall.references import IdReference, Missing, Target
from service.recall.shown import Finding, PageRequest
from service.storage import audit, messages
from service.storage import recalls as paths
from service.storage.audit import Operator
from service.storage.recalls import RecallScope, VisiblePath

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
    """What is asked: `query`, some words, or `ref`, a reference.

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


async def of_branch(
    engine: AsyncEngine,
    texts: Texts,
    branch: RecallScope,
    by: Operator,
    question: RecallQuestion,
    mask: bool,
) -> Finding:
    """What the covered part of a branch has for a question.

    Raises:
        Unavailable: it took too long, or no text process starts.
    """
    path = None
    # Without a checkpoint all of the request is above, unless it was cut.
    if branch.checkpoint or branch.whole:
        async with engine.connect() as connection:
            path = await paths.covered(connection, branch)
    if path is None:
        return Finding(_NOT_COVERED, status="not_covered")
    question = replace(question, room=_room(question.room, path.left_tokens))
    finding = await _within_time(_Search(engine, texts, path, mask), question, _SECONDS)
    await _note(engine, by, branch.chat, question, finding)
    return finding


def _room(most: int, left: int | None) -> int:
    """Tokens of an answer that stays whole in the request, beside a summary and other answers."""
    return most if left is None else min(most, max(left // _PARTS, _LEAST_ROOM))


async def of_chat(
    engine: AsyncEngine,
    texts: Texts,
    by: Operator,
    chat: str,
    question: RecallQuestion,
    mask: bool,
) -> Finding:
    """What the newest path of a chat has for an operator's question, covered or not.

    Raises:
        NotFound: this tenant has no such chat.
        Unavailable: it took too long, or no text process starts.
    """
    async with engine.connect() as connection:
        path = await paths.newest(connection, by.tenant, chat)
    if path is None:
        raise NotFound(f"there is no chat {chat!r}")
    finding = await _within_time(_Search(engine, texts, path, mask), question, _OPERATORS_SECONDS)
    await _note(engine, by, chat, question, finding)
    return finding


async def _within_time(lookup: "_Search", question: RecallQuestion, seconds: float) -> Finding:
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


async def _note(
    engine: AsyncEngine, by: Operator, chat: str, question: RecallQuestion, finding: Finding
) -> None:
    mode = "read" if question.ref else "search"
    async with engine.begin() as connection:
        await audit.record(connection, by, "chat.recall", chat, mode=mode, status=finding.status)


class _Search:
    """Looks up one question on one path."""

    def __init__(self, engine: AsyncEngine, texts: Texts, path: VisiblePath, mask: bool) -> None:
        self._engine = engine
        self._texts = texts
        self._path = path
        self._counts = [one.step_calls for one in path.messages]
        self._mask = mask

    async def search(self, question: RecallQuestion) -> Finding:
        """The best places for some words."""
        bodies = await self._bodies(range(len(self._path.messages)))
        above = references.above(self._counts)
        asked = question.query, question.line, question.room, self._mask
        return await self._texts.run(recalls.search, bodies, above, *asked)

    async def read(self, question: RecallQuestion) -> Finding:
        """What a reference leads to, exactly."""
        meant = references.meant(question.ref, self._counts)
        if isinstance(meant, IdReference):
            meant = await self._named(meant)
        if isinstance(meant, Missing):
            return _missing(question.ref, meant)
        body = (await self._bodies([meant.message]))[meant.message]
        page = PageRequest(
            meant.message, meant.call, meant.before, question.line, question.grep, question.room
        )
        return await self._texts.run(recalls.page, body, page, self._mask)

    async def _bodies(self, places: Iterable[int]) -> dict[int, bytes]:
        """The packed bodies at some places of the path."""
        path = self._path.messages
        ids = {path[place].message_id: place for place in places}
        async with self._engine.connect() as connection:
            bodies_by_id = await messages.bodies(connection, self._path.chat, ids)
        if len(bodies_by_id) < len(ids):
            raise _TextsDeleted
        return {ids[identity]: packed for identity, packed in bodies_by_id.items()}

    async def _named(self, reference: IdReference) -> Target | Missing:
        bodies = await self._bodies(range(len(self._path.messages)))
        match = await self._texts.run(recalls.named, bodies, reference.id, marker=reference.marker)
        if match is None:
            return Missing(())
        place, call = match
        return Target(place, call, references.above(self._counts)[place])


def _missing(ref: str, missing: Missing) -> Finding:
    near = f" There are {', '.join(missing.near)}." if missing.near else ""
    return Finding(f"The earlier part of this conversation has no {ref!r}.{near}", status="nothing")
