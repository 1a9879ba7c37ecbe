"""Writes the prompt for a reading, in the language of the conversation. Pure.

The wordings are data (`wordings`) and have one version, which is stored with each checkpoint.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from service.planning.policy import REPAIR_TOKENS
from service.summarising.reading import Reading
from service.summarising.wordings import ENGLISH, WORDINGS
from service.text import tokens

VERSION: Final = "2026-11-28.5"
_REPAIR_WORDING: Final = 100  # tokens, with two fence lines
_RUN: Final = 24  # characters that are hardly alike by chance
_NUMBERED: Final = re.compile(r"\A\[\d{1,9}\.\d{1,9}\]")
# What a model can count, for a token of a state, which is names and figures more than prose.
_WORDS, _CHARACTERS = 0.45, 1.2
_COUNT_CHARACTERS = ("ja", "zh")
_LEAST_LIMIT = 0.5  # of the first limit is told in a repair


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages for an LLM; for a repair also its earlier answer and the faults of that."""

    system: str
    user: str
    earlier: str = ""
    repair: str = ""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages as every chat API takes them."""
        messages = [_make_message("system", self.system), _make_message("user", self.user)]
        if self.repair:
            messages += [
                _make_message("assistant", self.earlier),
                _make_message("user", self.repair),
            ]
        return messages


def build(reading: Reading) -> Prompt:
    """Writes the prompt for one call.

    The same reading gives the same bytes, and no text in it can close the fence.
    """
    language = reading.language if reading.language in WORDINGS else ENGLISH
    wording = WORDINGS[language].prompt
    rejected = reading.rejected
    # A repair shows the first answer in the place of the record that it was made from.
    previous = "" if rejected else "\n".join(reading.previous)
    record = f"{wording['record']}\n{previous or wording['nothing']}"
    entries = "\n".join([wording["entries"], *reading.entries]) if reading.entries else ""
    messages = _write_messages(reading, wording)
    faults = "\n".join(f"- {one}" for one in rejected.reasons) if rejected else ""
    # What was wrong with an earlier answer quotes it, and that comes from the chat.
    fence = _make_fence("\n".join((record, entries, messages, faults)))
    limit = _limit_length(reading, language)
    system = wording["system"].format(
        limit=limit,
        fence=fence,
        language=_name_language(reading.language, language, wording),
    )
    # The task is last: a model follows what it has read last, and the chat is no instruction.
    task = f"{wording['end']}\n\n{wording['task']}"
    user = "\n".join(f"{fence} {part}" for part in (record, entries, messages, task) if part)
    if rejected is None:
        return Prompt(system, user)
    # As much of both as a repair has room for.
    earlier = tokens.cut(rejected.text, reading.state_tokens * 5 // 4)
    faults = tokens.cut(faults, REPAIR_TOKENS - _REPAIR_WORDING)
    asked = wording["repair"].format(limit=limit)
    repair = f"{asked}\n{fence}\n{faults}\n{fence} {wording['end']}"
    return Prompt(system, user, earlier, repair)


def _write_messages(reading: Reading, wording: Mapping[str, str]) -> str:
    """Writes the messages below their head; "" where a model has just to shorten its answer."""
    if reading.rejected and reading.rejected.is_too_long:
        return ""
    part = wording["part"].format(part=reading.part, parts=reading.parts)
    head = wording["messages"] + (part if reading.parts > 1 else "")
    texts = "\n\n".join(f"[{one.label}]\n{one.text}" for one in reading.excerpts)
    return f"{head}\n{texts}"


def _make_message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _limit_length(reading: Reading, language: str) -> int:
    """Returns the most words of a state, or characters where words have no blanks.

    After an answer that was too long, the limit is lower in the same measure, because no model
    counts what it writes.
    """
    room = reading.state_tokens
    told = room * (_CHARACTERS if language in _COUNT_CHARACTERS else _WORDS)
    written = tokens.count(reading.rejected.text) if reading.rejected else 0
    return int(told * max(room / max(written, room), _LEAST_LIMIT))


def is_copied(text: str, reading: Reading) -> bool:
    """Whether most of a reply stands only in its prompt: the wording, and numbered lines.

    Words of the chat without a number may be repeated, because a state shows code and drafts whole.
    """
    numbered = set(reading.entries)
    for one in reading.excerpts:
        numbered.update(line.strip() for line in one.text.splitlines() if _NUMBERED.match(line))
    lines = [line.strip() for line in text.splitlines()]
    copied = [line for line in lines if line in numbered or repeats_prompt(line, reading.language)]
    return 2 * sum(map(len, copied)) > sum(map(len, lines))


def repeats_prompt(line: str, language: str) -> bool:
    """Whether a line of a reply repeats the wording, its example too, as small models do."""
    known = _list_runs(language if language in WORDINGS else ENGLISH)
    own = [line[at : at + _RUN] for at in range(len(line) - _RUN + 1)]
    return bool(own) and sum(run in known for run in own) * 3 >= len(own)


@lru_cache
def _list_runs(language: str) -> frozenset[str]:
    """Lists all runs of characters of a wording."""
    whole = "\n".join(WORDINGS[language].prompt.values())
    return frozenset(whole[at : at + _RUN] for at in range(len(whole)))


def _name_language(wanted: str, language: str, wording: Mapping[str, str]) -> str:
    """Names the language of the summary in the wording's own `language`."""
    return wording["language"] if wanted == language else wording["other"].format(code=wanted)


def _make_fence(text: str) -> str:
    """Makes a line that does not occur in `text`: its hash, hashed again until that is so."""
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
    fence = f"=== {digest[:16]} ==="
    while fence in text:
        digest = hashlib.sha256(digest.encode()).hexdigest()
        fence = f"=== {digest[:16]} ==="
    return fence
