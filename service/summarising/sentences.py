"""Steps → the sentences that their speakers wrote themselves, as they stand, each with the message it came from. Pure.

Code, quotations, tables, logs and pasted documents are not the speaker's own words: an order in a forwarded mail is not
the user's order. What stands in quotation marks inside a sentence stays in it, but does not decide what the sentence is
(`Sentence.own`).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service import tokens
from service.transcript import Step

LONGEST = 320
"""Characters of a sentence; a longer one is taken apart at clauses, so that no end of it is lost."""

_FENCED = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
# <document>…</document>, <email>…, <context>…: what people and programs paste, with its beginning and its end.
_ELEMENT = re.compile(
    r"<(?P<tag>[a-z][\w:-]*)(?:\s[^<>]*)?>.*?</(?P=tag)\s*>|<!--.*?-->|<[^<>\n]{1,200}/>", re.DOTALL | re.I
)
_DELIMITED = re.compile(
    r'("""|\'\'\').*?(?:\1|\Z)'
    r"|^[^\w\n]*(?:begin|start|anfang|début)\b[^\n]*\n.*?^[^\w\n]*(?:end|ende|fin)\b[^\n]*$",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
# From here on a message is somebody else's text.
_PASTED = re.compile(
    r"^[ \t>*-]*(?:-{2,}\s*)?(?:original message|forwarded message|begin forwarded message|ursprüngliche nachricht|"
    r"weitergeleitete nachricht|message d'origine|message transféré|mensaje original|mensaje reenviado)\b.*"
    r"|^(?:from|von|de|da): .*\n(?:(?:sent|date|to|subject|gesendet|datum|an|betreff|envoyé|à|objet|para|"
    r"asunto): .*\n?)+[\s\S]*",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_SOURCE = (
    r"(?:e-?mails?|mails?|letter|article|(?:web ?)?page|website|readme|ticket|comments?|reviews?|transcript|"
    r"export|chat|"
    r"logs?|console|terminal|error|document|thread|post|nachricht|artikel|seite|konsole|protokoll|brief|kommentare?|"
    r"courriel|lettre|journal|correo|mensaje|carta|página|registro|pagina|lettera|邮件|网页|文章|日志|メール|ページ)"
)
# `Here is the mail:`, `The console showed this:`, `Can you translate the page below?`
_ANNOUNCED = re.compile(
    rf"^[^\n]{{0,160}}(?:\b(?:here(?:['’]s| is| are)|hier (?:ist|sind)|voici|aquí (?:está|tienes)|ecco|got|"
    rf"received|forwarded|"
    rf"pasted|bekommen|erhalten)\b[^\n]{{0,60}}\b{_SOURCE}\b[^\n]{{0,60}}[:：]|"
    rf"\b(?:wrote|writes|says|said|showed|shows|printed|returned|schrieb|schreibt|sagt|zeigt|écrit|dit|escribió|"
    rf"dice|scrive)\b"
    rf"[^\n]{{0,24}}[:：]|{_SOURCE}\b[^\n]{{0,24}}\b(?:below|unten|ci-dessous|abajo|qui sotto)\W{{1,3}})[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_FOREIGN_LINE = re.compile(
    r"^\s*(?:>|\||\$ |>>> |\+\+\+|@@|[{}\[\]]|</?\w|#!|import |from \w+ import|at \w+[.(]|"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|TRACE|FATAL)\]?\b|"
    r"(?:select|insert into|update|delete from|create table|alter table)\b.*[;(,]\s*$)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:(?:[*•+\-–—#]+|\d{1,3}[.)])\s+)+")
_EMPHASIS = re.compile(r"(?<![\w*])\*\*(?=\S)(.+?)(?<=\S)\*\*(?![\w*])")  # not `2 ** 10`, `**kwargs`, `__init__.py`
_END = re.compile(r"(?<=[.!?…])[\"')\]”’»]*\s+(?=\S)|(?<=[。！？])")  # many write sentences in small letters
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|z\.\s?B|d\.\s?h|u\.\s?a|bzw|ca|approx|no|nr|vs|etc|dr|mr|mrs|ms|st|inc|ltd|co|fig|p|pp|cf|"
    r"usw|inkl|ggf|evtl|max|min|tel|str|sog|vgl|bspw|abs|art|"
    r"jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec)|\b[A-Za-z])\.$",
    re.IGNORECASE,
)
_DAY = re.compile(r"\b\d{1,2}\.$")  # of `10. April`, which ends no sentence
_MONTH = re.compile(r"(?:jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez)", re.IGNORECASE)
_CLAUSE = re.compile(r"(?<=[;:])\s+|\s+[-–—]\s+|(?<=,)\s+")
_QUOTED = re.compile(r"[\"“„«][^\"“”„«»\n]{16,}[\"”“»]|(?<!\w)'[^'\n]{16,}'(?!\w)|`[^`\n]{16,}`")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence on one line. `first` tells that a message of the speaker begins with it.

    `role` is the speaker's, or `pasted` for what a user announces as somebody else's text.
    """

    text: str
    source: str
    role: str
    first: bool = False

    @property
    def own(self) -> str:
        """The sentence without what it quotes."""
        return unquoted(self.text)


def sentences(steps: Iterable[Step]) -> Iterator[Sentence]:
    """The own sentences of the speakers of `steps`, in order."""
    for step in steps:
        first = True
        own, pasted = parted(step.role, own_words(tokens.without_data(step.text)))
        for text in split(own):
            yield Sentence(text, step.message_id, step.role, first)
            first = False
        for text in split(pasted):
            yield Sentence(text, step.message_id, "pasted")


def unquoted(text: str) -> str:
    """`text` without what stands in quotation marks, but for a word or two."""
    return _QUOTED.sub('"…"', text)


def own_words(text: str) -> str:
    """`text` without code, quoted lines, tables, logs and pasted documents."""
    text = _FENCED.sub("\n", text)
    text = _DELIMITED.sub("\n", _ELEMENT.sub("\n", text))
    text = _PASTED.sub("\n", text, count=1)
    return "\n".join(line for line in text.splitlines() if not _FOREIGN_LINE.match(line))


def parted(role: str, text: str) -> tuple[str, str]:
    """A user's text up to the line that announces somebody else's, and from there on; nobody says where that ends."""
    announced = _ANNOUNCED.search(text) if role == "user" else None
    return (text[: announced.end()], text[announced.end() :]) if announced else (text, "")


def split(text: str) -> Iterator[str]:
    """The sentences of `text`, each on one line, none longer than `LONGEST`; list marks and emphasis are left out."""
    for line in text.splitlines():
        line = " ".join(_EMPHASIS.sub(r"\1", _BULLET.sub("", line, count=1)).split())
        for sentence in _line_sentences(line):
            yield from _bounded(sentence)


def _line_sentences(line: str) -> Iterator[str]:
    begin = 0
    for end in _END.finditer(line):
        if not _goes_on(line, begin, end):
            yield line[begin : end.start()] + end[0].rstrip()
            begin = end.end()
    if begin < len(line):
        yield line[begin:]


def _goes_on(line: str, begin: int, end: re.Match[str]) -> bool:
    """Whether the point is one of an abbreviation or of a date."""
    if _DAY.search(line, begin, end.start()) and _MONTH.match(line, end.end()):
        return True
    return bool(_ABBREVIATION.search(line, begin, end.start()))


def _bounded(sentence: str) -> Iterator[str]:
    """Takes a long sentence apart at its clauses, and a long clause between words."""
    begin, last = 0, 0
    if len(sentence) > LONGEST:
        for end in _CLAUSE.finditer(sentence):
            if end.start() - begin > LONGEST and last > begin:
                yield from _words(sentence[begin:last].strip())
                begin = last
            last = end.end()
        if last > begin and len(sentence) - begin > LONGEST:
            yield from _words(sentence[begin:last].strip())
            begin = last
    yield from _words(sentence[begin:].strip())


def _words(text: str) -> Iterator[str]:
    while len(text) > LONGEST:
        cut = text.rfind(" ", 0, LONGEST)
        if cut <= 0:
            break  # one endless word: no sentence
        yield text[:cut]
        text = text[cut + 1 :]
    if 0 < len(text) <= LONGEST:
        yield text
