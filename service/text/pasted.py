"""Where a user's message has somebody else's words that no marks show. Pure.

In: a message. Out: spans. Separators, the names of a dialogue, the heads of a mail, a greeting with
its closing; a line that says whose words follow, and a question about a text. Most need words,
which are data of the nine languages that summaries are written in. What is found here still stands
in a summary, as something pasted: it only makes no rule, so that little is lost where this is
wrong.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from importlib import resources
from itertools import groupby
from typing import NamedTuple

Span = tuple[int, int]

_SHORT = 120  # characters of a paragraph beside a pasted text that is taken for the user's own
_ASK = 200  # characters of a line that asks about a text
_HEAD = 160  # characters of a line up to the colon behind which somebody is quoted
_NAME = 60  # characters of a greeting, a closing and a signature
_TURNS = 3  # lines of a dialogue
_HEADS = 3  # lines `Name: value` in a row; fewer are also found in notes and settings

_SEPARATOR = re.compile(r"[-=_*~#]{3,80}(?:[ ][^\n]{1,40}[ ][-=_*~#]{3,80})?")
_COLON = re.compile(r":(?=[\s\"“„«']|\Z)|：")
_TURN = re.compile(
    r"(?:\[?\d{1,2}[:.]\d\d[^\]\s]{0,8}\]?[ -]{1,3})?"
    r"(?P<name>[^\W\d_][\w.'-]{0,20}(?: [\w.'-]{1,20}){0,2})(?: ?[\[(][^\])\n]{1,30}[\])])?"
    r"(?::[ \t]|：)"
)

# `From: Ann <ann@example.org>`.
_HEAD_LINE = re.compile(r"[>* ]{0,8}[^\W\d_][\w -]{0,30}(?::[ \t]|：)\S")

_DATA = tomllib.loads(resources.files(__package__).joinpath("pasted.toml").read_text("utf-8"))
_PATTERNS = {
    name: re.compile("".join(map(str.strip, text.splitlines())), re.IGNORECASE)
    for name, text in _DATA.items()
}
_OURSELVES = frozenset(_DATA["ourselves"].split())
_ENDS_SENTENCE = (".", "!", "?", "。", "！", "？", ":", "：")
_QUESTION = ("?", "？")


class _Line(NamedTuple):
    """A line that is not blank: where it begins and ends, its words, and its paragraph."""

    begin: int
    end: int
    text: str
    paragraph: int


def spans(text: str, marked: Sequence[Span]) -> list[Span]:
    """What somebody else wrote beside the parts that have marks around them; they may overlap."""
    lines = _lines(text)
    framed = [*_between_separators(lines), *_dialogue(lines), *_mail(lines), *_letters(lines)]
    inside = _within(lines, sorted([*marked, *framed]))
    return framed + list(_announced(lines, inside)) + list(_asked_about(lines, inside))


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    begin, paragraph = 0, 0
    for whole in text.splitlines(keepends=True):
        words = whole.strip()
        if words:
            lines.append(_Line(begin, begin + len(whole.rstrip()), words, paragraph))
        else:
            paragraph += 1
        begin += len(whole)
    return lines


def _between_separators(lines: Sequence[_Line]) -> Iterator[Span]:
    """What two lines of the same signs enclose. Signs right below a line make it a head."""
    first: _Line | None = None
    for before, line in zip([None, *lines], lines, strict=False):
        if not _SEPARATOR.fullmatch(line.text):
            continue
        if first and line.text[0] == first.text[0]:
            yield first.begin, line.end
            first = None
        elif before is None or before.paragraph < line.paragraph or before.text[-1] in ":：":
            first = line


def _dialogue(lines: Sequence[_Line]) -> Iterator[Span]:
    """Lines that begin with the names of several speakers, who take turns."""
    turns = [(line, turn["name"]) for line in lines if (turn := _TURN.match(line.text))]
    names = Counter(name for _, name in turns)
    if len(turns) >= _TURNS and 1 < len(names) < len(turns):
        yield turns[0][0].begin, turns[-1][0].end


def _mail(lines: Sequence[_Line]) -> Iterator[Span]:
    """From heads, of which one is a subject, to the closing of the mail; else to the end."""
    for is_head, run in groupby(
        enumerate(lines), key=lambda one: bool(_HEAD_LINE.match(one[1].text))
    ):
        heads = list(run)
        subjects = (_PATTERNS["subject"].match(line.text) for _, line in heads)
        if is_head and len(heads) >= _HEADS and any(subjects):
            below = range(heads[-1][0] + 1, len(lines))
            closing = next((place for place in below if _closes(lines[place])), len(lines) - 1)
            yield heads[0][1].begin, lines[_signature(lines, closing)].end
            return


def _letters(lines: Sequence[_Line]) -> Iterator[Span]:
    """From a greeting to the closing below it, unless that is all: then it is the speaker's own."""
    greeting = None
    for place, line in enumerate(lines):
        if greeting is None:
            greeting = place if _greets(line) else None
        elif place > greeting + 1 and _closes(line):
            last = _signature(lines, place)
            if greeting > 0 or last + 1 < len(lines):
                yield lines[greeting].begin, lines[last].end
            greeting = None


def _greets(line: _Line) -> bool:
    short = len(line.text) <= _NAME and line.text[-1] in ",，:：!！、。"
    return short and bool(_PATTERNS["greeting"].match(line.text))


def _closes(line: _Line) -> bool:
    return len(line.text) <= _NAME and bool(_PATTERNS["closing"].fullmatch(line.text))


def _signature(lines: Sequence[_Line], closing: int) -> int:
    """The last line of a letter: the name below its closing, if there is one."""
    below = lines[closing + 1 : closing + 2]
    is_name = below and len(below[0].text) <= _NAME and not below[0].text.endswith(_ENDS_SENTENCE)
    return closing + bool(is_name)


def _announced(lines: Sequence[_Line], inside: Set[int]) -> Iterator[Span]:
    """What stands behind or below the first line that says whose words follow."""
    for place, line in enumerate(lines):
        behind = None if line.begin in inside else _says_who(line.text)
        if behind is None:
            continue
        inline = behind < len(line.text)
        below = _paragraphs(lines[place if inline else place + 1 :])
        yield from _region(below, inside, line.begin + behind if inline else -1)
        return


def _says_who(words: str) -> int | None:
    """Where somebody else's words may begin in a line that announces them; None if it does not."""
    colon = _COLON.search(words, 0, _HEAD)
    head = words[: colon.start()] if colon else words[:_HEAD]
    copied = _PATTERNS["copied"].search(head) and (colon or _PATTERNS["this"].search(head))
    verb = _PATTERNS["says"].search(head) if colon else None
    if verb and not copied:
        subject = head[: verb.start()].casefold().split()[-2:]
        copied = None if _OURSELVES.intersection(subject) else verb
    if not copied:
        return None
    return colon.end() if colon else len(words)


def _asked_about(lines: Sequence[_Line], inside: Set[int]) -> Iterator[Span]:
    """The text that a line above or below asks about; with marks around another, it is that one."""
    asks = [place for place, line in enumerate(lines) if _asks_about(line.text)]
    if inside or not asks:
        return
    place = asks[0]
    line = lines[place]
    colon = _COLON.search(line.text)
    if colon and colon.end() < len(line.text):
        yield from _region([[line]], inside, line.begin + colon.end())
        return
    above, below = lines[:place], lines[place + 1 :]
    # Without a colon it is the longer side: what a user says beside a text is mostly short.
    if below and (colon or _size(below) > _size(above)):
        yield from _region(_paragraphs(below), inside)
    else:
        yield from _region(_paragraphs(above)[::-1], inside)


def _size(lines: Sequence[_Line]) -> int:
    return sum(len(line.text) for line in lines)


def _asks_about(words: str) -> bool:
    points = words.endswith((*_QUESTION, ":", "：")) or bool(_PATTERNS["this"].search(words))
    return points and len(words) <= _ASK and bool(_PATTERNS["about"].search(words))


_Paragraph = list[_Line]


def _paragraphs(lines: Sequence[_Line]) -> list[_Paragraph]:
    return [list(group) for _, group in groupby(lines, key=lambda line: line.paragraph)]


def _region(near: Sequence[_Paragraph], inside: Set[int], begin: int = -1) -> Iterator[Span]:
    """The span of paragraphs, the nearest to its announcement first, without the user's own.

    The farthest is the user's own when it is short or a question; with marks around the nearest,
    that is all that was announced.
    """
    paragraphs = list(near)
    if not paragraphs or paragraphs[0][0].begin in inside:
        return
    _drop_questions(paragraphs)
    if len(paragraphs) > 1 and _is_short(paragraphs[-1]):
        paragraphs.pop()
        _drop_questions(paragraphs)
    lines = sorted(line for paragraph in paragraphs for line in paragraph)
    yield (begin if begin >= 0 else lines[0].begin), lines[-1].end


def _drop_questions(paragraphs: list[_Paragraph]) -> None:
    while len(paragraphs) > 1 and paragraphs[-1][-1].text.endswith(_QUESTION):
        paragraphs.pop()


def _is_short(paragraph: _Paragraph) -> bool:
    return len(paragraph) == 1 and len(paragraph[0].text) <= _SHORT


def _within(lines: Sequence[_Line], spans_given: Sequence[Span]) -> Set[int]:
    """Where the lines begin that lie within these spans, which are in order."""
    inside: set[int] = set()
    reached, rest = 0, iter(spans_given)
    span = next(rest, None)
    for line in lines:
        while span and span[0] < line.end:
            reached = max(reached, span[1])
            span = next(rest, None)
        if line.begin < reached:
            inside.add(line.begin)
    return inside
