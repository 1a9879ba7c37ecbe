"""Which lines of a narrative take over what only an order of a tool, or of a pasted text, has said. Pure.

A summariser that obeys an order seldom repeats the words that give it away. So a line is compared with the passages
that order: when most of it stands there, and its new words nowhere else, it is an echo. Words are compared by their
beginnings, and by pairs of characters in scripts without blanks, so this knows no language.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from service.summarising.suspicion import visible

_WORD = re.compile(r"[^\W\d_]{4,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_PAIRS = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_STEM = 6  # letters
_MOST = 0.6  # of a line's words
# A line that begins like this tells somebody what to do.
_COMMAND = re.compile(
    r"\A\W*+(?:(?:please|only|just|always|never|ever|do not|don['’]t|ignore|disregard|forget|drop|skip|send|mail|"
    r"e-?mail|forward|post|"
    r"upload|pay|wire|transfer|book|buy|order|recommend|mention|reply|respond|answer|say|tell|write|use|call|run|"
    r"execute|delete|"
    r"remove|grant|approve|trust|follow|obey|act|pretend|bitte|nur|immer|nie(?:mals)?|ab sofort|toujours|jamais|"
    r"ne|uniquement|"
    r"siempre|nunca|jamás|sólo|solo|sempre|mai|só)\b|请|請|必须|必須|只|不要|禁止|从现在|всегда|никогда|только|не )",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What a line is compared with, as stems.

    Attributes:
        spoken: of what people and assistants said themselves, and of the record before.
        orders: of each passage that orders, wherever it stands.
    """

    spoken: frozenset[str]
    orders: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, spoken: Iterable[str], orders: Iterable[str]) -> "Heard":
        """What was said, and the passages that order."""
        return cls(frozenset(stem for text in spoken for stem in _stems(text)), tuple(map(_stems, orders)))

    def echoed(self, line: str) -> bool:
        """Whether a line repeats an order, or commands what nobody spoke of."""
        words = _stems(line)
        new = words - self.spoken
        if _COMMAND.match(line) and len(new) > (1 - _MOST) * len(words):
            return True
        return any(_mostly(new, order) and _mostly(words, order) for order in self.orders)


def _mostly(words: frozenset[str], order: frozenset[str]) -> bool:
    return bool(words) and len(words & order) >= _MOST * len(words)


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem for word in _WORD.findall(visible(text).casefold()) for stem in _of(word))


def _of(word: str) -> Iterable[str]:
    if not _PAIRS.match(word):
        return (word[:_STEM],)
    return (word[place : place + 2] for place in range(len(word) - 1))
