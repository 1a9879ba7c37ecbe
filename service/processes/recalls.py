"""The work of a recall on stored texts: it searches and shows. Pure, picklable values."""

from collections.abc import Mapping, Sequence

from service.recall import display, parts, ranking
from service.recall.display import Finding, PageRequest
from service.storage import codec
from service.text import languages
from service.transcript import Message, mask_message, parse

_SAMPLE = 4000  # characters by which a chat's language is guessed


def search(
    bodies: Mapping[int, bytes],
    calls_above: Sequence[int],
    query: str,
    first: int,
    room: int,
    mask: bool,
) -> Finding:
    """The best places for some words, a line each.

    Args:
        bodies: the packed messages, by place in the path.
        calls_above: the number of calls above each message of the path.
        query: the words.
        first: number of the first place to list, from 1.
        room: tokens that the answer may take.
        mask: whether secrets are masked.
    """
    path: list[list[parts.SearchedPart]] = [[] for _ in calls_above]
    sample = ""
    for place, body in bodies.items():
        words = codec.unpack_words(body)
        if words is None:
            message = parse(codec.unpack(body))
            words = parts.make_parts(message)
            if len(sample) < _SAMPLE:
                sample += parts.join_spoken_text(message) + "\n"
        path[place] = words
    language = languages.detect(sample[:_SAMPLE])
    # One more than is listed shows whether there are more.
    most = first + display.RESULTS
    hits = ranking.rank_passages(path, query, language, most)[first - 1 :]
    messages: dict[int, Message] = {}
    for hit in hits:
        for place in (hit.message, *hit.neighbours):
            messages[place] = _parse_body(bodies[place], mask)
    return display.render_hits(hits, messages, calls_above, room, first)


def show_page(body: bytes, request: PageRequest, mask: bool) -> Finding:
    """A message or a result as it is stored."""
    return display.render_page(_parse_body(body, mask), request)


def _parse_body(body: bytes, mask: bool) -> Message:
    """The parsed message. Masking covers one that was stored before secrets were masked."""
    content = codec.unpack(body)
    return parse(mask_message(content) if mask else content)
