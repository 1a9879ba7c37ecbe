"""Reads the messages of an ingest: a few bytes in a thread, all others in a text process.

A message that is too hard to read is stored as a note of its size.
"""

import asyncio
from collections.abc import Iterator, Sequence

import structlog

from service.errors import TextProcessAway, TextTooHard, Unavailable
from service.processes import Texts, intake
from service.processes.intake import RawMessage, TokenCountedMessage

_SMALL = 2**14  # bytes; reading so few takes milliseconds, whatever they are
_SLICE = 2**16  # bytes that are read in one go
_MOST_HARD = 2  # deadlines that one ingest may cost

log = structlog.get_logger(__name__)


async def read_messages(
    texts: Texts, wanted: Sequence[RawMessage], mask_secrets: bool
) -> list[TokenCountedMessage]:
    """Reads the messages.

    Raises:
        Unavailable: no text process starts.
    """
    counted: list[TokenCountedMessage] = []
    hard = 0
    for some in _split_slices(wanted):
        read: list[TokenCountedMessage] | None = None
        # Each slice that was too hard took a whole deadline, and the user's other uploads wait.
        if hard < _MOST_HARD or _count_bytes(some) <= _SMALL:
            read = await _parse(texts, some, mask_secrets)
        if read is None:
            hard += 1
            read = await asyncio.to_thread(intake.make_placeholders, some)
        counted += read
    return counted


async def _parse(
    texts: Texts, some: Sequence[RawMessage], mask_secrets: bool
) -> list[TokenCountedMessage] | None:
    """The parsed messages; None when they are too hard to read."""
    if _count_bytes(some) <= _SMALL:
        return await asyncio.to_thread(intake.parse_messages, some, mask_secrets)
    try:
        return await texts.run(intake.parse_messages, some, mask_secrets)
    except TextTooHard as error:
        log.warning("handover.too_hard", kind=error.kind, messages=len(some))
        return None
    except TextProcessAway as error:
        raise Unavailable(str(error)) from error


def _count_bytes(some: Sequence[RawMessage]) -> int:
    return sum(len(one.text) for one in some)


def _split_slices(wanted: Sequence[RawMessage]) -> Iterator[list[RawMessage]]:
    """The messages in slices of about `_SLICE` bytes, a larger one alone."""
    some: list[RawMessage] = []
    size = 0
    for one in wanted:
        if some and size + len(one.text) > _SLICE:
            yield some
            some, size = [], 0
        some.append(one)
        size += len(one.text)
    if some:
        yield some
