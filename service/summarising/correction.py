"""Corrects a summary by hand: a memory and an operator's wishes → the new memory. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from service.errors import Unprocessable
from service.summarising import state as states
from service.summarising.choices import OPERATOR
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.message import Parts
from service.summarising.utterances import Utterance

_LONGEST_STATE = 100_000  # characters; what fits is counted in tokens as well
_LONGEST_PIN = 2000


def correct_memory(
    old: Memory,
    state: str | None = None,
    rules: Sequence[str] | None = None,
    quotations: Sequence[str] | None = None,
    forget: Sequence[str] = (),
) -> Memory:
    """Returns `old` with the parts that are given; None keeps a part.

    A rule or quotation whose text stands there already keeps its number and its source. Any other
    one gets the next number, and comes from `operator`. Pins that were replaced before stay.

    Args:
        old: the memory as it is.
        state: the new one, as Markdown.
        rules: the texts of all rules that are to hold.
        quotations: the texts of all quotations that are to hold.
        forget: numbers of sentences of the talk that are deleted.

    Raises:
        Unprocessable: nothing is given, a part is too long, or a number is not known.
    """
    if state is None and rules is None and quotations is None and not forget:
        raise Unprocessable("give a state, rules, quotations, or sentences to forget")
    new = old
    if state is not None:
        new = replace(new, state=_parse_state(_check_text(state, _LONGEST_STATE, "/state")))
    if rules is not None:
        new = _replace_pins(new, Kind.RULE, rules)
    if quotations is not None:
        new = _replace_pins(new, Kind.QUOTATION, quotations)
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


def _replace_pins(old: Memory, kind: Kind, texts: Sequence[str]) -> Memory:
    """Replaces the pins of a kind that hold by those with these texts."""
    wanted = [_parse_pin(text, f"/{kind}s/{place}") for place, text in enumerate(texts)]
    holding = old.list_holding(kind)
    known = {pin.text for pin in holding}
    pins = [pin for pin in old.pins if pin not in holding or pin.text in wanted]
    # A replaced pin names its successor by number, so no new pin takes a number that was given.
    number = max((max(pin.number, pin.replaced_by or 0) for pin in old.pins), default=0)
    for text in dict.fromkeys(wanted):
        if text not in known:
            number += 1
            pins.append(Pin(number, kind, text, source=OPERATOR))
    return replace(old, pins=tuple(pins))


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
