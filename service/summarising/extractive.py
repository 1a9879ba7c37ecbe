"""The built-in summariser: picks sentences by rule, writes none. Deterministic, needs no model, invents nothing.

It is the summariser of an installation without an LLM, and the degraded fallback of one whose LLM stays away or gives
nothing usable. Pins and ledger are made by code whoever writes; this is the narrative: what was asked, in order, where
the conversation stands, and what is open. Pure: reading in, an answer as an LLM would write it out.
"""

import re
from collections.abc import Iterator, Sequence

from service import tokens
from service.summarising import answer
from service.summarising.answer import GOAL, QUESTIONS, STATE
from service.summarising.reading import Excerpt, Reading
from service.summarising.sentences import own_words, parted, split

_ASKED = "Asked: "
_ANSWERED = "Last answered: "
_LEAST = 12  # characters; "Thanks!" asks nothing
_SHORT = 160  # characters of a line about an earlier request
_PIECE = re.compile(r"^(?P<role>user|assistant)(?:, piece \d+ of \d+.*)?$")


def extract(reading: Reading) -> str:
    """The new narrative, within `summary_tokens`: the newest requests, the last answer and its questions."""
    before = answer.parse(reading.previous).narrative
    asked = [line for line in before[STATE] if line.startswith(_ASKED)]
    asked += [_ASKED + text for excerpt in reading.excerpts if _role(excerpt) == "user" for text in _request(excerpt)]
    last = next((list(_own(excerpt)) for excerpt in reversed(reading.excerpts) if _role(excerpt) == "assistant"), [])
    answered = [_ANSWERED + " ".join(last[:2])] if last else []
    questions = [sentence for sentence in last if sentence.endswith(("?", "？"))][:3]
    room = reading.summary_tokens - sum(map(_cost, [*answered, *questions, *before[GOAL]])) - 24  # the heads
    state = [*_newest(list(dict.fromkeys(asked)), room), *answered]
    return answer.written({GOAL: before[GOAL], QUESTIONS: questions, STATE: state})


def unread(previous: str, messages: int, size: int, summary_tokens: int) -> str:
    """The narrative so far, and that so many messages of `size` tokens could not be read."""
    before = answer.parse(previous).narrative
    line = f"{_ASKED}({messages} messages of {size:,} tokens in all, too hard to read)"
    room = summary_tokens - sum(map(_cost, [*before[QUESTIONS], *before[GOAL]])) - 24  # the heads
    state = _newest([*before[STATE], line], max(room, _cost(line)))
    return answer.written({GOAL: before[GOAL], QUESTIONS: before[QUESTIONS], STATE: state})


def _role(excerpt: Excerpt) -> str:
    found = _PIECE.match(excerpt.label)
    return found["role"] if found else ""


def _own(excerpt: Excerpt) -> Iterator[str]:
    return (
        sentence for sentence in split(parted(_role(excerpt), own_words(excerpt.text))[0]) if len(sentence) >= _LEAST
    )


def _request(excerpt: Excerpt) -> list[str]:
    """What a user's message asks: its first sentence, or the one with the question."""
    said = list(_own(excerpt))
    asking = next((sentence for sentence in said if sentence.endswith(("?", "？"))), said[0] if said else "")
    return [_shortened(asking)] if asking else []


def _shortened(sentence: str) -> str:
    """Cut between words, so that no number loses its end."""
    if len(sentence) <= _SHORT:
        return sentence
    begin, blank, _ = sentence[:_SHORT].rpartition(" ")
    return f"{begin} …" if blank else "…"


def _newest(lines: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines):
        room -= _cost(line)
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]


def _cost(line: str) -> int:
    return tokens.count(line) + 3
