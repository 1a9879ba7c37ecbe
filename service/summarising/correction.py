"""Corrects a summary by hand: a memory and an operator's wishes → the new memory. Pure."""

from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import count

import msgspec

from service.errors import Unprocessable
from service.summarising import state as states
from service.summarising.choices import OPERATOR
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.message import Parts
from service.summarising.utterances import Utterance

_LONGEST_STATE = 100_000  # characters; what fits is counted in tokens as well
_LONGEST_PIN = 2000


class GivenPin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pin as an operator wants it; one with the `number` of a known pin replaces that."""

    kind: Kind
    text: str
    number: int | None = None


def correct_memory(
    old: Memory,
    state: str | None,
    pins: Sequence[GivenPin] | None,
    forget: Sequence[str] = (),
) -> Memory:
    """`old` with the parts that are given.

    A pin with a known number keeps where it came from; a new one gets the next number, and comes
    from `operator`. Pins that were replaced before stay, with those that took their place.

    Args:
        old: the memory as it is.
        state: the new one, as Markdown; None keeps what is there.
        pins: all that are to be shown; None keeps those that are there.
        forget: numbers of sentences of the talk that are deleted.

    Raises:
        Unprocessable: nothing is given, a part is too long, or a number is not known.
    """
    if state is None and pins is None and not forget:
        raise Unprocessable("give a state, pins, or sentences to forget")
    new = old
    if state is not None:
        new = replace(new, state=_parse_state(_check_text(state, _LONGEST_STATE, "/state")))
    if pins is not None:
        new = replace(new, pins=_replace_pins(old.pins, pins))
    if forget:
        new = replace(new, talk=_forget_sentences(old.talk, forget))
    return new


def _parse_state(text: str) -> tuple[str, ...]:
    """Parses a state into its stored form."""
    state = states.parse_state(text.splitlines())
    # An empty file is a slip of a pipe or an editor, and the correction would be served at once.
    if all(line.startswith(states.HEAD) for line in state):
        raise Unprocessable("/state is empty; leave it out to keep it", pointer="/state")
    return state


def _forget_sentences(talk: Sequence[Utterance], forget: Sequence[str]) -> tuple[Utterance, ...]:
    """Removes sentences from the talk; their messages are not read again, so they stay away.

    They go from the items of their list, and from the answers to them, too.
    """
    known = {one.number for one in talk}
    for place, number in enumerate(forget):
        if number not in known:
            raise Unprocessable(
                f"{number!r} is no sentence of this checkpoint, as 12.3 may be; its page and"
                " `precis chats show CHAT --checkpoint ID` list them",
                pointer=f"/forget/{place}",
            )
    gone = [one.text for one in talk if one.number in forget]
    left: list[Utterance] = []
    for one in talk:
        if one.number in forget:
            continue
        is_above = any(text in one.context for text in gone)
        left.append(replace(one, context="") if is_above else one)
    return tuple(left)


def _replace_pins(old: Sequence[Pin], given: Sequence[GivenPin]) -> tuple[Pin, ...]:
    """Merges the given pins with those that were replaced before, ordered by number."""
    known = {pin.number: pin for pin in old}
    numbers = count(max(known, default=0) + 1)
    # A replaced pin is not shown to the operator, so it is missing in `given` without being meant.
    pinned = {pin.number: pin for pin in old if pin.replaced_by is not None}
    seen = set[int]()
    for place, one in enumerate(given):
        _check_number(one.number, known, seen, f"/pins/{place}/number")
        text = _parse_pin(one.text, f"/pins/{place}/text")
        number = next(numbers) if one.number is None else one.number
        before = known.get(number, Pin(number, one.kind, text, source=OPERATOR))
        pinned[number] = replace(before, kind=one.kind, text=text, replaced_by=None)
        seen.add(number)
    return tuple(pin for _, pin in sorted(pinned.items()))


def _check_number(
    number: int | None, known: Container[int], seen: Container[int], pointer: str
) -> None:
    """Refuses a number that was given twice or that no pin has; None is a new pin's."""
    if number is None:
        return
    if number in seen:
        raise Unprocessable(f"P{number} is there twice", pointer=pointer)
    if number not in known:
        why = f"P{number} is no pin of this checkpoint; a new one has no number"
        raise Unprocessable(why, pointer=pointer)


def _parse_pin(text: str, pointer: str) -> str:
    """Parses the text of a pin, which stands on one line."""
    line = " ".join(_check_text(text, _LONGEST_PIN, pointer).split())
    if not line:
        raise Unprocessable("a pin has no text", pointer=pointer)
    return line


def _check_text(text: str, most: int, pointer: str) -> str:
    """Refuses a text that is too long, or that cannot be stored."""
    if len(text) > most:
        raise Unprocessable(
            f"{pointer} has {len(text)} characters, and {most} are the most", pointer=pointer
        )
    if "\0" in text:
        raise Unprocessable(
            f"{pointer} has a NUL character, which cannot be stored", pointer=pointer
        )
    return text


def check_summary(
    parts: Parts, size: int, *, owns_state: bool, before: int, covered: int, window: int
) -> None:
    """Refuses a summary that has nothing in it, is too large, or lacks some of an own state.

    All in tokens. One may be as large as it was `before` the correction. `owns_state` says that the
    operator wrote the state.

    Raises:
        Unprocessable: it says nothing, saves nothing, leaves too little of the window, or has no
            room for the whole state.
    """
    if parts.is_empty:
        raise Unprocessable(
            "nothing would be left of this summary; to be without it, reset the chat"
        )
    most = max(before, min(covered - 1, window // 3))
    if size > most:
        raise Unprocessable(
            f"the summary would have {size} tokens, and at most {most} fit: less than what it"
            f" covers ({covered}), and a third of the window ({window})"
        )
    # What an operator wrote is never cut without a word.
    if owns_state and parts.given_up:
        raise Unprocessable(
            f"{len(parts.given_up)} lines of the state have no room; shorten it",
            pointer="/state",
        )
