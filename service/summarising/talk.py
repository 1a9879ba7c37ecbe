"""The talk: chooses the sentences of a summary that nobody pointed at, and writes them. Pure.

Users come before answers, and newer words before older ones, so a correction stands before what it
corrects. Each message has its best sentence before any has its second.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from service.summarising.markup import make_harmless, quote_marks
from service.summarising.utterances import Speaker, Utterance
from service.summarising.wordings import OBLIGING
from service.text import tokens
from service.text.sentences import reports_failure

_SPACE = 1  # tokens around an utterance
_SHORT = 60  # tokens of a user's message that stands as a whole
_STEP = 4  # tokens of the line that a step has: the speaker's name
_LINE = 2  # tokens of a list mark and a line break

# A number, an address, a path, a name with a point or a line inside.
_VALUE = re.compile(r"\d|\w[@/_]\w|\w\.\w{2}")
_DIGITS = re.compile(r"\d+")

_count = lru_cache(maxsize=8192)(tokens.count)


class _Tier(IntEnum):
    """The kind of an utterance, the most important first."""

    RULE = 0
    """A user's own, that lays something down."""
    VALUE = 1
    """A user's, with a number, a path or the like, which nobody can make up for."""
    SAID = 2
    """Anything else that a user said or sent."""
    ANSWER = 3
    """The first sentence of an answer, one with a value, and a line that reports a failure."""
    REST = 4


def write_with_context(utterance: Utterance) -> str:
    """Writes an utterance behind the head of its list or the question that it answers."""
    if not utterance.context:
        return utterance.text
    return f"{utterance.context} → {utterance.text}"


def choose(utterances: Sequence[Utterance], room: int) -> list[Utterance]:
    """Chooses the best of the talk for `room` tokens, in its order."""
    best: list[Utterance] = []
    begun: set[int] = set()
    shown: set[tuple[int, str]] = set()
    repeated: set[str] = set()
    left = room
    for one in _rank_talk(utterances):
        words = write_with_context(one)
        head = (one.step, one.context)
        # A head stands once, and so does the name of who speaks.
        price = _count(one.text if head in shown else words) + _SPACE
        if one.step not in begun:
            price += _STEP
        if words in repeated or price > left:
            continue
        left -= price
        best.append(one)
        begun.add(one.step)
        repeated.add(words)
        shown |= {head, (one.step, one.text)}
    # Dates stand above lines too, so what they take together is measured.
    while best and count_tokens(write_lines(sorted(best, key=_get_place))) > room:
        best.pop()
    return sorted(best, key=_get_place)


def _rank_talk(utterances: Sequence[Utterance]) -> Iterator[Utterance]:
    """Ranks the talk, the best first: by tier, then by turn, then by age."""
    ranked: list[tuple[tuple[int, ...], Utterance]] = []
    said_since: Counter[str] = Counter()
    for step, spoken in groupby(reversed(utterances), key=lambda one: one.step):
        for tier, turn, one in _rank_step(list(spoken)):
            # What differs in its numbers only was said again and again.
            pattern = _DIGITS.sub("", write_with_context(one))
            later_turn = max(turn, said_since[pattern])
            ranked.append(((tier, later_turn, -step, one.place), one))
            said_since[pattern] += 1
    return (one for _, one in sorted(ranked, key=itemgetter(0)))


def _rank_step(spoken: Sequence[Utterance]) -> Iterator[tuple[_Tier, int, Utterance]]:
    """Yields the utterances of a step that say something, with their tiers and turns.

    A short message of a user stands as a whole, as good as its best sentence: alone, one of its
    sentences may mean something else.
    """
    tiers = sorted((_find_tier(one), one.place, one) for one in spoken if _says_something(one))
    own = [(tier, one) for tier, _, one in tiers if one.by_user]
    own_tokens = sum(_count(one.text) for _, one in own)
    is_short = own_tokens <= _SHORT
    for turn, (tier, _, one) in enumerate(tiers):
        if is_short and one.by_user:
            yield own[0][0], 0, one
        else:
            yield tier, turn, one


def _find_answer_tier(one: Utterance) -> _Tier:
    """Finds the tier of an assistant's sentence, or of a line that a user pasted."""
    has_value = bool(_VALUE.search(write_with_context(one)))
    is_telling = one.own and (one.place == 1 or has_value)
    return _Tier.ANSWER if is_telling or reports_failure(one.text) else _Tier.REST


def _says_something(one: Utterance) -> bool:
    """Whether an utterance has a letter or a digit."""
    return any(map(str.isalnum, one.text))


def _find_tier(one: Utterance) -> _Tier:
    """Finds the tier of an utterance."""
    is_line = not one.own and bool(one.context)
    if is_line or one.speaker is Speaker.ASSISTANT:
        return _find_answer_tier(one)
    if one.own and OBLIGING.search(one.text):
        return _Tier.RULE
    return _Tier.VALUE if _VALUE.search(write_with_context(one)) else _Tier.SAID


def write_lines(utterances: Sequence[Utterance]) -> tuple[str, ...]:
    """Writes a line for each step; where there are several days, each stands above its steps."""
    shown: list[str] = []
    days = {_format_day(one) for one in utterances}
    day = days.pop() if len(days) == 1 else ""
    for (_, speaker), group in groupby(utterances, key=lambda one: (one.step, one.speaker)):
        spoken = list(group)
        if _format_day(spoken[0]) not in ("", day):
            day = _format_day(spoken[0])
            shown.append(f"({day})")
        shown.append(make_harmless(f"{speaker}: {_write_step(spoken)}"))
    return tuple(shown)


def count_tokens(shown: Iterable[str]) -> int:
    """Counts the tokens of lines with their marks."""
    return sum(_count(line) + _LINE for line in shown)


def _get_place(one: Utterance) -> tuple[int, int]:
    """Returns where an utterance stands in the talk."""
    return one.step, one.place


def _write_step(spoken: Sequence[Utterance]) -> str:
    """Writes the utterances of a step; a head stands before the first that needs it."""
    parts: list[str] = []
    shown: set[str] = set()
    place = 0
    for one in spoken:
        words = one.text if one.context in shown else write_with_context(one)
        shown |= {one.context, one.text}
        if place and one.place > place + 1:
            parts.append("…")
        parts.append(quote_marks(words))
        place = one.place
    return " ".join(parts)


def _format_day(one: Utterance) -> str:
    """Formats the day of an utterance; "" when it is not known."""
    return f"{datetime.fromtimestamp(one.at, UTC):%Y-%m-%d}" if one.at else ""
