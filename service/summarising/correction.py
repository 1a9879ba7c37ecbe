"""Correcting a summary by hand: in goes its memory and what an operator wants there, out comes the new memory. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from service.errors import Unprocessable
from service.summarising.kept.pins import shown
from service.summarising.memory import NARRATIVE, Kind, Memory, Paragraph, Pin
from service.summarising.reply import answer
from service.summarising.utterances import Utterance

_LONGEST_NARRATIVE = 100_000  # characters; what fits is counted in tokens as well
_MOST_LINES = 400  # as many as `answer.parse` reads
_LONGEST_LINE = 4000  # characters: as many of a line as it reads
_LONGEST_PIN = 2000
_MOST_PINS = 500
_SOURCE = "operator"


@dataclass(frozen=True, slots=True)
class GivenPin:
    """A pin as an operator wants it. With the `number` of one that there is, it stands for that one; else it is new."""

    kind: Kind
    text: str
    number: int | None = None


def corrected(
    old: Memory,
    narrative: str | None,
    pins: Sequence[GivenPin] | None,
    forget: Sequence[str] = (),
) -> Memory:
    """`old` with the parts that are given. Pins that were replaced before stay with those that took their place.

    A pin with a known number keeps where it came from; a new one gets the next number, and comes
    from `operator`.

    Args:
        old: the memory as it is.
        narrative: the new one, as Markdown; None keeps what is there.
        pins: all that are to be shown; None keeps those that are there.
        forget: numbers of sentences of the talk that are to go.

    Raises:
        Unprocessable: nothing is given, nothing is left, a part is too long, or a number is not
            known.
    """
    if narrative is None and pins is None and not forget:
        raise Unprocessable("give a narrative, pins, or sentences to forget")
    new = old
    if narrative is not None:
        new = replace(new, narrative=_narrated(_text(narrative, _LONGEST_NARRATIVE, "/narrative")))
    if pins is not None:
        new = replace(new, pins=_pinned(old.pins, pins))
    if forget:
        new = replace(new, talk=_without(old.talk, forget))
    if not (new.narrative or new.talk or new.ledger or any(shown(new.pins))):
        raise Unprocessable(
            "nothing would be left of this summary; to be without it, reset the chat"
        )
    return new


def _narrated(text: str) -> tuple[Paragraph, ...]:
    """In the form in which it is stored; lines under no head are the current state.

    Those of another section are refused: they are shown from the pins alone, and would be lost.
    """
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        raise Unprocessable(f"/narrative has more than {_MOST_LINES} lines", pointer="/narrative")
    if any(len(line) > _LONGEST_LINE for line in lines):
        why = f"/narrative has a line of more than {_LONGEST_LINE} characters; begin a new one"
        raise Unprocessable(why, pointer="/narrative")
    said = answer.parse(text)
    if said.keeps or said.replaced or said.drops:
        heads = ", ".join(NARRATIVE)
        why = f"the heads of a narrative are {heads}; give the rest as pins"
        raise Unprocessable(why, pointer="/narrative")
    return said.narrative


def _without(talk: Sequence[Utterance], forget: Sequence[str]) -> tuple[Utterance, ...]:
    """The talk without what is to go; it is read no more, so it does not come back."""
    known = {one.number for one in talk}
    for place, number in enumerate(forget):
        if number not in known:
            raise Unprocessable(
                f"{number!r} is no sentence of this checkpoint", pointer=f"/forget/{place}"
            )
    return tuple(one for one in talk if one.number not in set(forget))


def _pinned(old: Sequence[Pin], given: Sequence[GivenPin]) -> tuple[Pin, ...]:
    if len(given) > _MOST_PINS:
        raise Unprocessable(
            f"there are {len(given)} pins, and {_MOST_PINS} are the most", pointer="/pins"
        )
    known = {pin.number: pin for pin in old}
    numbers = count(max(known, default=0) + 1)
    pinned = {pin.number: pin for pin in old if pin.replaced_by is not None}
    seen = set[int]()
    for place, one in enumerate(given):
        if one.number is not None and (one.number not in known or one.number in seen):
            why = (
                "is there twice"
                if one.number in seen
                else "is no pin of this checkpoint; a new one has no number"
            )
            raise Unprocessable(f"P{one.number} {why}", pointer=f"/pins/{place}/number")
        text = " ".join(_text(one.text, _LONGEST_PIN, f"/pins/{place}/text").split())
        if not text:
            raise Unprocessable("a pin has no text", pointer=f"/pins/{place}/text")
        number = next(numbers) if one.number is None else one.number
        before = known.get(number, Pin(number, one.kind, text, source=_SOURCE))
        pinned[number] = replace(before, kind=one.kind, text=text, replaced_by=None)
        seen.add(number)
    return tuple(pin for _, pin in sorted(pinned.items()))


def _text(text: str, most: int, pointer: str) -> str:
    if len(text) > most:
        raise Unprocessable(
            f"{pointer} has {len(text)} characters, and {most} are the most", pointer=pointer
        )
    if "\0" in text:
        raise Unprocessable(
            f"{pointer} has a NUL character, which cannot be stored", pointer=pointer
        )
    return text


def check_size(size: int, *, before: int, covered: int, window: int) -> None:
    """Refuses a summary that is too large; one may be as large as it was before the correction. All in tokens.

    Raises:
        Unprocessable: it saves nothing, or leaves too little of the window.
    """
    most = max(before, min(covered - 1, window // 3))
    if size > most:
        raise Unprocessable(
            f"the summary would have {size} tokens, and at most {most} fit: less than what it covers ({covered}),"
            f" and a third of the window ({window})"
        )
