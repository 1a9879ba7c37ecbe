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
from service.storage import audit, chats, checkpoints, messages
from service.storage import recalls as paths
from service.storage.audit import Operator
from service.storage.recalls import RecallScope, VisiblePath
from service.summarising import ledger

_SECONDS = 2.0  # for which a model waits; an operator may wait longer
_OPERATORS_SECONDS = 30.0
_PARTS = 4  # of what the window leaves for messages, an answer has one
_LEAST_ROOM = 200  # tokens: of a few places the best, or some lines

_NOT_COVERED = "Nothing else of this conversation can be looked up: read what is above."


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
    if finding.not_kept:
        # The next request has the texts, and they are stored again.
        async with engine.begin() as connection:
            await chats.want_bodies(connection, path.chat)
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
        length = len(self._path.messages)
        bodies = await self._bodies(range(length))
        above = references.above(self._counts)
        asked = question.query, question.line, question.room, self._mask
        answer = await self._texts.run(recalls.search, bodies, above, *asked)
        return replace(answer, not_kept=length - len(bodies))

    async def read(self, question: RecallQuestion) -> Finding:
        """What a reference leads to, exactly."""
        meant = references.meant(question.ref, self._counts)
        if isinstance(meant, IdReference):
            meant = await self._named(meant)
        if isinstance(meant, Missing):
            return _missing(question.ref, meant)
        body = (await self._bodies([meant.message])).get(meant.message)
        if body is None:
            return await self._unkept(question.ref, meant)
        page = PageRequest(
            meant.message, meant.call, meant.before, question.line, question.grep, question.room
        )
        return await self._texts.run(recalls.page, body, page, self._mask)

    async def _bodies(self, places: Iterable[int]) -> dict[int, bytes]:
        """The packed bodies at some places of the path, as far as they are kept."""
        path = self._path.messages
        ids = {path[place].message_id: place for place in places if 0 <= place < len(path)}
        async with self._engine.connect() as connection:
            bodies_by_id = await messages.bodies(connection, self._path.chat, ids)
        return {ids[identity]: packed for identity, packed in bodies_by_id.items()}

    async def _named(self, reference: IdReference) -> Target | Missing:
        bodies = await self._bodies(range(len(self._path.messages)))
        match = await self._texts.run(recalls.named, bodies, reference.id, marker=reference.marker)
        if match is None:
            return Missing(())
        place, call = match
        return Target(place, call, references.above(self._counts)[place])

    async def _unkept(self, ref: str, place: Target) -> Finding:
        """That a text is not kept, with what the ledger says of it."""
        number = place.before + place.call
        says = [f"The stored text of {ref} is not kept any more; it can be read in the next turn."]
        if place.call and self._path.checkpoint is not None:
            memory = await checkpoints.memory(self._engine, self._path.chat, self._path.checkpoint)
            entries = memory.ledger if memory else ()
            lines = [ledger.write_line(one) for one in entries if one.first <= number <= one.last]
            says += [f"The summary says of it: {line[2:]}" for line in lines]
        return Finding("\n".join(says), status="not_kept", not_kept=1)


def _missing(ref: str, missing: Missing) -> Finding:
    near = f" There are {', '.join(missing.near)}." if missing.near else ""
    return Finding(f"The earlier part of this conversation has no {ref!r}.{near}", status="nothing")
