"""Writes what a summariser is shown of the covered steps. Pure.

Each sentence of a user's own words has a number, and so has each line of an assistant's. A tool's
result is shown whole up to some 400 tokens, and a longer one by its size and its beginning. Earlier
choices are shown too, because a summariser can correct only what it sees.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from service.summarising import ledger
from service.summarising.memory import Pin
from service.summarising.message import write_pin
from service.summarising.reading import Excerpt
from service.summarising.utterances import Passage, list_choices
from service.text import redaction, tokens
from service.text.plain import drop_hidden
from service.transcript import Call, Step
from service.transcript.steps import RESULT_TOKENS

_LIKE_A_NUMBER = re.compile(r"\[(\d{1,9}\.\d{1,9})\]")
_BEGINNING = RESULT_TOKENS * 3 // 4


def clean_step(step: Step, mask: bool) -> tuple[Step, int]:
    """Removes hidden characters, and secrets if `mask` is set; returns the number of secrets."""
    masked = 0

    def clean(text: str) -> str:
        nonlocal masked
        text = drop_hidden(text)
        if not mask:
            return text
        found = redaction.mask(text)
        masked += found.count
        return found.text

    calls: list[Call] = []
    for one in step.calls:
        call = replace(one.call, arguments=clean(one.call.arguments))
        result = replace(one.result, text=clean(one.result.text))
        calls.append(Call(call, result))
    # Inline files are cut out first, so that nothing else has to read them.
    text = clean(tokens.drop_data(step.text))
    return replace(step, text=text, calls=tuple(calls)), masked


def make_excerpts(
    step: Step, passages: Sequence[Passage], first_call: int, piece: int, pieces: int
) -> Iterator[Excerpt]:
    """Yields a step as it is read, or one of its `pieces`; calls are numbered from `first_call`."""
    text = "\n".join(map(_number_passage, passages))
    calls = [_write_call(number, call) for number, call in enumerate(step.calls, first_call)]
    if pieces > 1:
        # The whole is cut, calls included, so that the pieces are about equally long.
        whole = "\n".join([text, *(f"[tool] {shown}" for shown in calls)])
        label = f"{step.role}, piece {piece + 1} of {pieces}"
        yield Excerpt(label, tokens.split_evenly(whole, pieces)[piece])
        return
    if text:
        yield Excerpt(step.role, text)
    for shown in calls:
        yield Excerpt("tool", shown)


def list_entries(rules: Sequence[Pin], quotations: Sequence[Pin], limit: int) -> tuple[str, ...]:
    """Lists pins as lines for the summariser, ordered by number, within `limit` tokens.

    Rules come first, because a state does not repeat them; of each kind the newest.
    """
    chosen: list[tuple[int, str]] = []
    for pin in (*reversed(rules), *reversed(quotations)):
        entry = f"P{pin.number} {pin.kind}: {write_pin(pin)}"
        limit -= tokens.count(entry) + 1
        if limit < 0:
            break
        chosen.append((pin.number, entry))
    return tuple(entry for _, entry in sorted(chosen))


def _number_passage(passage: Passage) -> str:
    """Writes a passage with the numbers of its choices.

    Code and pasted text have none: later summaries carry on only what a state says of them.
    """
    first = passage.utterances[0] if passage.utterances else None
    if first and not first.own:
        return f"({first.sort})\n{_hide_numbers(passage.text)}"
    choices = list_choices([passage])
    return " ".join(f"[{one.number}] {_hide_numbers(one.text)}" for one in choices)


def _hide_numbers(text: str) -> str:
    """Replaces what looks like a number of ours, because a choice could mean it."""
    return _LIKE_A_NUMBER.sub(r"(\1)", text)


def _write_call(number: int, call: Call) -> str:
    """Writes a call with its result, under the number that it will have in the ledger."""
    result = _hide_numbers(tokens.drop_data(call.result.text))
    if tokens.count(result) <= RESULT_TOKENS:
        return f"T{number} {ledger.write_call(call)} →\n{result}"
    outline = _hide_numbers(ledger.write_outline(call))
    return f"T{number} {outline}\nIt begins:\n{tokens.cut(result, _BEGINNING)}"
