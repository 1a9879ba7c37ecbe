"""The publish gate: what of a summariser's narrative may stand in a summary. Pure.

A reply that is no answer at all is rejected whole. Of an answer the narrative is judged line by
line: a line with a value, a name or a quotation that nothing covered bears out is dropped, and so
is one that paraphrases what stands elsewhere in its own words: a user's rule, a tool's data. When
too little stands, the reply is rejected with the reasons, which the summariser is sent once. What
was kept by number needs no judging, because its words are copied.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from itertools import chain, islice
from typing import Any, NamedTuple

from service.summarising.memory import Paragraph
from service.summarising.reading import Finish, Reply
from service.summarising.reply.answer import Answer
from service.text import characters, languages, tokens
from service.text.plain import plain
from service.text.terms import has_digit, terms
from service.text.values import Evidence

LEAST_GAIN = 9 / 10
"""How large a summary may be at most, as a share of what it replaces."""


class Rejection(NamedTuple):
    """Why something may not stand: a word for it, and a sentence, which may quote the text."""

    kind: str
    reason: str


_QUOTED = re.compile(
    r"[\"“„«]([^\"“”„«»\n]{2,120})[\"”“»]|`([^`\n]{2,120})`|(?<!\w)'([^'\n]{2,120})'(?!\w)"
)
_HEAD = re.compile(r"\A#[^\n]{0,100}\n\s{0,40}(?:[-*]\s{1,8})?")
# Of letters alone: `OBUT9V` and `Nightly_Sync` are values, which occur as a whole or do not.
_NAME = re.compile(
    r"(?:(?:(?<=[^\W\d_] )|(?<=, ))[^\W\d_]{4,40}+|\b[A-Z][a-z]{1,30}[A-Z][^\W\d_]{1,30}+)"
    r"(?!\d|_++[^\W_])"
)
_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:[.:/@'’-][^\W_]++)++")
_PART = re.compile(r"[^\W_]++")
_SLACK = 5 / 4  # a model cannot count its own tokens exactly
_STANDS = 0.5  # of the lines have to be left, or a repair is asked for
_SHOWN = 160  # characters of a dropped line in a verdict
_MOST_REASONS = 12
_RETOLD = 0.6  # of a line's subject that only a tool or a pasted text has
_RULE = 0.5  # of the subject of a rule, or of a line, that the other has too
_PARTLY = 0.25  # of a line's subject that nobody spoke of, for a foreign sentence to be retold
_BORNE_OUT = 0.75  # of a line's subject that one sentence of somebody has
_LEAST_SHARED = 2
_LETTERS = 5  # words of one letter; more than that, and than half of a line, are words taken apart
_TELLING = 3  # subjects of a line of which one has to occur, in any form
_SENTENCES = re.compile(r"[.!?]\s|[。！？\n]|\\n")
_STEM = 4  # letters by which words of a rule are known in other forms
_NOUNS_HAVE_CAPITALS = ("de", "lb")
_MARKED = {
    "reasoning": Rejection("reasoning", "contains reasoning"),
    "protocol": Rejection("tool_protocol", "contains tool protocol"),
    "refusal": Rejection("refusal", "a refusal, not a record"),
}
_HARMLESS = ("rule_retold", "data_retold", "unheard")  # is left out, and is no reason to ask again


@dataclass(frozen=True, slots=True)
class Dropped:
    """A line that was left out, and why."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a reply; stored with the checkpoint and shown to operators.

    Attributes:
        outcome: `accepted`, `trimmed` (lines were dropped), `repaired` (the second reply was
            taken), `degraded` (code wrote it, because neither reply was usable), `extractive`
            (code writes here anyway), or `rejected`.
        reasons: why an earlier reply, or this one, was rejected.
        dropped: lines that were left out of the narrative.
        unfounded: choices that nothing in the text bears out; they were ignored.
        left_out: pins that found no room.
        masked: secrets that were masked in what is new.
        kinds: of `reasons` when this reply was rejected; no word of the text, so they may be
            logged.
    """

    outcome: str
    reasons: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    unfounded: tuple[str, ...] = ()
    left_out: int = 0
    masked: int = 0
    kinds: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether there is something to publish."""
        return self.outcome != "rejected"

    def as_json(self) -> dict[str, Any]:
        """For storage; empty fields are left out."""
        whole = {
            "outcome": self.outcome,
            "reasons": list(self.reasons),
            "dropped": [
                {"line": one.line[:_SHOWN], "reason": one.reason}
                for one in self.dropped[:_MOST_REASONS]
            ],
            "unfounded": [text[:_SHOWN] for text in self.unfounded[:_MOST_REASONS]],
            "left_out": self.left_out,
            "masked": self.masked,
        }
        return {name: value for name, value in whole.items() if value}


@dataclass(frozen=True)
class Grounds:
    """What a narrative is judged by.

    Attributes:
        covered: all texts that are covered: what was read, and the memory before.
        said: what people and assistants said in their own words, a sentence each.
        by_users: of those what users said; only that can loosen a rule.
        foreign: what tools answered and users pasted.
        rules: pinned constraints, decisions and preferences, which stand in the users' own words.
        language: of the conversation; None when it cannot be told.
    """

    covered: Sequence[str]
    said: Sequence[str] = ()
    by_users: Sequence[str] = ()
    foreign: Sequence[str] = ()
    rules: Sequence[str] = ()
    language: str | None = None

    @cached_property
    def evidence(self) -> Evidence:
        """Of everything that is covered."""
        return Evidence.of(self.covered)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Values, and beginnings of all covered words, of joined ones of each part too."""
        whole = "\n".join(self.covered).replace("_", " ")
        parts = " ".join(chain.from_iterable(map(_PART.findall, _JOINED.findall(whole))))
        return frozenset(map(_stem, terms(whole) | terms(parts)))

    @cached_property
    def spoken(self) -> Evidence:
        """Of what people and assistants said themselves."""
        return Evidence.of((*self.said, *self.rules))

    @cached_property
    def only_foreign(self) -> frozenset[str]:
        """Subjects that nobody spoke of, but a tool or a pasted text."""
        said = {term for text in self.said for term in _subject(text)}
        return frozenset(term for text in self.foreign for term in _subject(text)) - said

    @cached_property
    def subjects(self) -> Sequence[tuple[frozenset[str], bool]]:
        """What each sentence is about that is no rule, and whether a user said it."""
        rules, users = set(self.rules), set(self.by_users)
        return [(_subject(text), text in users) for text in self.said if text not in rules]

    @cached_property
    def foreign_sentences(self) -> Sequence[frozenset[str]]:
        """What each sentence of foreign texts is about."""
        return [_subject(one) for text in self.foreign for one in _SENTENCES.split(text)]

    @cached_property
    def told_rules(self) -> Sequence[tuple[frozenset[str], frozenset[str]]]:
        """The terms of each rule, and what it is about."""
        return [(terms(rule), _subject(rule)) for rule in self.rules]

    @property
    def names_have_capitals(self) -> bool:
        """Whether a capital inside a sentence means a name: not in languages where nouns have one.

        Nor where the language is not known.
        """
        return self.language is not None and self.language not in _NOUNS_HAVE_CAPITALS


def rejection(reply: Reply) -> Rejection | None:
    """Why a reply is no answer at all; None when it is one."""
    text = reply.text.strip()
    if not text:
        return Rejection("empty", "empty answer")
    if reply.finish is Finish.LENGTH:
        return Rejection("cut_off", "cut off: the summariser reached its output limit")
    if reply.finish is not Finish.STOP:
        return Rejection("unfinished", "not finished normally")
    # A refusal may stand under a head; the other marks are looked for everywhere.
    searched = {"reasoning": text, "protocol": text, "refusal": _HEAD.sub("", text)}
    for kind, part in searched.items():
        if any(pattern.search(part) for pattern in patterns()[kind]):
            return _MARKED[kind]
    return None


def rejected(rejections: Sequence[Rejection], dropped: tuple[Dropped, ...] = ()) -> Verdict:
    """The verdict on a reply that may not stand."""
    reasons = tuple(one.reason for one in rejections)
    kinds = tuple(dict.fromkeys(one.kind for one in rejections))
    return Verdict("rejected", reasons, dropped, kinds=kinds)


def judge(answer: Answer, grounds: Grounds, limit: int) -> tuple[tuple[Paragraph, ...], Verdict]:
    """The paragraphs that stand, within about `limit` tokens, and the verdict."""
    kept: list[Paragraph] = []
    objections: dict[str, Rejection] = {}
    for paragraph in answer.narrative:
        lines = list(dict.fromkeys(map(plain, paragraph.lines)))
        found = _objections(lines, grounds)
        objections |= found
        standing = tuple(line for line in lines if line not in found)
        if standing:
            kept.append(Paragraph(paragraph.section, standing))
    dropped = tuple(Dropped(line, rejection.reason) for line, rejection in objections.items())
    rejections = [*_whole(answer, grounds), *_rest(answer, kept, objections, limit)]
    if rejections:
        return (), rejected(rejections, dropped)
    return tuple(kept), Verdict("trimmed" if dropped else "accepted", dropped=dropped)


def _objections(lines: Iterable[str], grounds: Grounds) -> dict[str, Rejection]:
    """By line; a line that may stand is not there."""
    judged = ((line, _objection(line, grounds)) for line in lines)
    return {line: rejection for line, rejection in judged if rejection}


def _whole(answer: Answer, grounds: Grounds) -> Iterator[Rejection]:
    """What is wrong with all that was written: in another language nothing of it may be known."""
    written = "\n".join(line for paragraph in answer.narrative for line in paragraph.lines)
    if grounds.language and languages.differs(written, grounds.language):
        yield Rejection(
            "other_language", f"not in the language of the conversation ({grounds.language})"
        )


def _rest(
    answer: Answer, kept: Sequence[Paragraph], objections: Mapping[str, Rejection], limit: int
) -> Iterator[Rejection]:
    """What is wrong with what is left of it."""
    lines = [line for paragraph in kept for line in paragraph.lines]
    chosen = answer.keeps or answer.replaced or answer.drops
    if not (lines or objections or chosen):
        yield Rejection("says_nothing", "says nothing")
    yield from islice(_too_many(len(lines), objections), _MOST_REASONS)
    written = tokens.count("\n".join(lines))
    if written > limit * _SLACK:
        yield Rejection("too_long", f"too long: {written} tokens where {limit} were asked for")


def _too_many(standing: int, objections: Mapping[str, Rejection]) -> Iterator[Rejection]:
    """The objections, if they leave too few lines standing to do without a second reply."""
    grave = {line: one for line, one in objections.items() if one.kind not in _HARMLESS}
    if standing >= _STANDS * (standing + len(grave)):
        return
    for line, one in grave.items():
        yield Rejection(one.kind, f"{one.reason} in: {line[:_SHOWN]}")


def _objection(line: str, grounds: Grounds) -> Rejection | None:
    """Why a line may not stand; None when it may."""
    # Reasons that ask for a repair come before those that only drop the line.
    unknown = _unknown(line, grounds)
    if unknown:
        return unknown
    subject = _subject(line)
    return (
        _unheard(line, subject, grounds)
        or _data_retold(line, subject, grounds)
        or _rule_retold(line, subject, grounds)
    )


def _unknown(line: str, grounds: Grounds) -> Rejection | None:
    """A value, a quotation or a name that nothing covered has."""
    missing = grounds.evidence.missing(line)
    if missing:
        return Rejection("value_unknown", f"{', '.join(missing[:3])} does not occur")
    name = next(_unknown_names(line, grounds), "")
    return Rejection("name_unknown", f"{name} does not occur") if name else None


def _unheard(line: str, subject: frozenset[str], grounds: Grounds) -> Rejection | None:
    """A line that shares no word with what is covered, or whose words cannot be compared."""
    if _is_taken_apart(line):
        return Rejection("unheard", "its words are taken apart, letter by letter")
    # A short line may well have no words but its own.
    if len(subject) >= _TELLING and not subject & grounds.stems:
        return Rejection("unheard", "nothing that is covered speaks of this")
    return None


def _data_retold(line: str, subject: frozenset[str], grounds: Grounds) -> Rejection | None:
    """Data of a tool or a pasted text, alone or beside the subject of a rule."""
    if _is_data(line, subject, grounds):
        return Rejection(
            "data_retold", "tells a tool's data, or a pasted text, that nobody spoke of"
        )
    if not any(subject & about for _, about in grounds.told_rules):
        return None
    # Beside the subject of a rule, one foreign value is enough.
    foreign = grounds.spoken.missing(line)
    if not foreign:
        return None
    reason = f"{foreign[0]}, which nobody spoke of, beside what a user's rule is about"
    return Rejection("data_retold", reason)


def _rule_retold(line: str, subject: frozenset[str], grounds: Grounds) -> Rejection | None:
    """A user's rule in other words, which might loosen it."""
    for rule, about in grounds.told_rules:
        if _loosens(line, subject, rule, about) and not _borne_out(subject, about, grounds):
            return Rejection(
                "rule_retold", "tells a rule in other words; it stands in the user's own"
            )
    return None


def _is_taken_apart(line: str) -> bool:
    """Whether a line has its words letter by letter, which nothing can be compared with."""
    words = line.split()
    letters = sum(
        len(word) == 1 and word.isalpha() and not characters.unspaced(word) for word in words
    )
    return letters > max(_LETTERS, len(words) // 2)


def _is_data(line: str, subject: frozenset[str], grounds: Grounds) -> bool:
    """Whether a line says what only a foreign text says: most of it, or one sentence there.

    What somebody said in one sentence too was used, and may be told.
    """
    unsaid = len(subject & grounds.only_foreign)
    if unsaid >= max(_RETOLD * len(subject), _LEAST_SHARED):
        return True
    if unsaid < max(_PARTLY * len(subject), 1) and not grounds.spoken.missing(line):
        return False
    return _told_by(grounds.foreign_sentences, subject)


def _told_by(sentences: Iterable[frozenset[str]], subject: frozenset[str]) -> bool:
    """Whether one of these sentences has most of a subject."""
    enough = max(_BORNE_OUT * len(subject), _LEAST_SHARED)
    return any(len(subject & one) >= enough for one in sentences)


def _loosens(
    line: str, subject: frozenset[str], rule: frozenset[str], about: frozenset[str]
) -> bool:
    """Whether a line is about the same as a rule without being its words.

    What such a line changes of the rule cannot be known, so it counts as loosening it.
    """
    enough = max(_LEAST_SHARED, _RULE * min(len(subject), len(about)))
    return len(subject & about) >= enough and terms(line) != rule


def _borne_out(subject: frozenset[str], rule: frozenset[str], grounds: Grounds) -> bool:
    """Whether one sentence says what a line tells, all that it has of the rule included.

    A user's, or an assistant's that no foreign text gave it.
    """
    tainted = _told_by(grounds.foreign_sentences, subject)
    told = (one for one, by_user in grounds.subjects if by_user or not tainted)
    return _told_by((one for one in told if subject & rule <= one), subject)


def _unknown_names(line: str, grounds: Grounds) -> Iterator[str]:
    """Quotations, and words with a capital inside a sentence, that nothing covered has."""
    for match in _QUOTED.finditer(line):
        words = next(filter(None, match.groups())).strip(" .,;:!?…")
        quoted = " ".join(words.split())
        if not grounds.evidence.names(quoted):
            yield f"“{quoted}”"
    if not grounds.names_have_capitals:
        return
    for word in _NAME.findall(line):
        if not word[0].isupper():
            continue
        # A name is known in any form: only the beginnings are compared.
        stems = {term[:_STEM] for term in terms(word)}
        if stems and not stems & grounds.stems:
            yield word


def _subject(text: str) -> frozenset[str]:
    """What a text is about: its values, and the beginnings of its longer words."""
    found = filter(_tells_a_subject, terms(text.replace("_", " ")))
    return frozenset(map(_stem, found))


def _tells_a_subject(term: str) -> bool:
    return len(term) >= _STEM or has_digit(term) or characters.unspaced(term)


def _stem(term: str) -> str:
    """What is compared of a term: the whole of a value, the beginning of a word."""
    return term if has_digit(term) else term[:_STEM]


@cache
def patterns() -> dict[str, tuple[re.Pattern[str], ...]]:
    """The marks of what is no answer, by kind."""
    data = tomllib.loads(resources.files(__package__).joinpath("gate.toml").read_text("utf-8"))
    return {
        kind: tuple(re.compile(mark["pattern"], re.IGNORECASE | re.MULTILINE) for mark in marks)
        for kind, marks in data.items()
    }
