"""The work of a recall on stored texts: it searches, resolves and shows. Pure, picklable values."""

from collections.abc import Mapping, Sequence

from service.recall import parts, ranking, shown
from service.recall.shown import Finding, PageRequest
from service.storage import codec
from service.text import languages
from service.transcript import Message, masked, parse, steps

_SAMPLE = 4000  # characters by which a chat's language is guessed


def search(
    bodies: Mapping[int, bytes],
    calls_above: Sequence[int],
    query: str,
    first: int,
    room: int,
    mask: bool,
) -> Finding:
    """The best places for some words, a line each, within `room` tokens.

    `calls_above` has of each message of the path how many calls stand above it; `first` is the
    number of the first place that is told.
    """
    path: list[list[parts.SearchedPart]] = [[] for _ in calls_above]
    sample: list[str] = []
    for place, body in bodies.items():
        words = codec.unpack_words(body)
        if words is None:
            message = parse(codec.unpack(body))
            words = parts.parts(message)
            if sum(map(len, sample)) < _SAMPLE:
                sample.append(parts.said(message))
        path[place] = words
    language = languages.detect("\n".join(sample)[:_SAMPLE])
    # One more than is told, to know whether there are more.
    hits = ranking.ranked(path, query, language, first + shown.RESULTS)[first - 1 :]
    near = {place for hit in hits for place in (hit.message, *hit.beside)}
    messages = {place: _message(bodies[place], mask) for place in near}
    return shown.index(hits, messages, calls_above, room, first)


def find_named(
    bodies: Mapping[int, bytes], identity: str, *, marker: bool
) -> tuple[int, int] | None:
    """The place of the message with a marker or a call, and which of its calls it is, from 1.

    A marker leads to the message, as call 0. The newest message wins.
    """
    for place in sorted(bodies, reverse=True):
        message = parse(codec.unpack(bodies[place]))
        if marker:
            if identity in message.markers:
                return place, 0
            continue
        ids = [call.call.id for step in steps(message) for call in step.calls]
        if identity in ids:
            return place, ids.index(identity) + 1
    return None


def show_page(body: bytes, request: PageRequest, mask: bool) -> Finding:
    """A message or a result as it is stored."""
    return shown.page(_message(body, mask), request)


def _message(body: bytes, mask: bool) -> Message:
    """The parsed message; its secrets masked, should it have been stored before they were."""
    content = codec.unpack(body)
    return parse(masked(content)[0] if mask else content)
