"""What a recall does with stored texts: it searches, resolves and shows. Pure, picklable values."""

from collections.abc import Mapping, Sequence

from service.recall import parts, ranking, shown
from service.recall.ranking import Hit
from service.recall.shown import Finding, PageRequest
from service.storage import codec
from service.text import languages
from service.transcript import Message, masked, parse, steps

_SAMPLE = 4000  # characters by which a chat's language is guessed


def search(bodies: Mapping[int, bytes], length: int, question: str, most: int) -> Sequence[Hit]:
    """The best places for a question on a path of `length` messages; at most `most`."""
    path: list[list[parts.SearchedPart]] = [[] for _ in range(length)]
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
    return ranking.ranked(path, question, language, most)


def named(bodies: Mapping[int, bytes], identity: str, *, marker: bool) -> tuple[int, int] | None:
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


def index(
    hits: Sequence[Hit],
    bodies: Mapping[int, bytes],
    calls_above: Mapping[int, int],
    room: int,
    first: int,
    mask: bool,
) -> Finding:
    """The hits in a line each, from the one with the number `first`, within `room` tokens."""
    messages = {place: _message(body, mask) for place, body in bodies.items()}
    # A text that was deleted since it was found is shown no more.
    visible = [hit for hit in hits if hit.message in messages]
    return shown.index(visible, messages, calls_above, room, first)


def page(body: bytes, request: PageRequest, mask: bool) -> Finding:
    """A message or a result as it is stored."""
    return shown.page(_message(body, mask), request)


def _message(body: bytes, mask: bool) -> Message:
    """The parsed message; its secrets masked, should it have been stored before they were."""
    content = codec.unpack(body)
    return parse(masked(content)[0] if mask else content)
