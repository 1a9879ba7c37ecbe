"""Steps → the sentences that their speakers wrote themselves, as they stand, each with the message it came from. Pure.

Code, quotations, tables, logs and pasted documents are not the speaker's own words: an order in a forwarded mail is not
the user's order. What stands in quotation marks inside a sentence stays in it, but does not decide what the sentence is
(`Sentence.own`).
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service import tokens
from service.transcript import Step

LONGEST = 320
"""Characters of a sentence; a longer one is taken apart at clauses, so that no end of it is lost."""

_FENCED = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
# <document>…</document>, <email>…, <context>…: what people and programs paste, with its beginning and its end. The
# ends are looked up, because a pattern that looks for the end itself reads the text once for each beginning.
_OPENING = re.compile(r"<(?P<tag>[a-z][\w:-]*+)(?:\s[^<>]*+)?>|(?P<comment><!--)|<[^<>\n]{1,200}/>", re.IGNORECASE)
_CLOSING = re.compile(r"</(?P<tag>[a-z][\w:-]*+)\s*+>", re.IGNORECASE)
_LONGEST_EMPTY = 203  # characters of an element that is closed where it begins, as in the pattern above
_BEGINNING = re.compile(
    r"(?P<quotes>\"{3}|'{3})|^[^\w\n]*+(?:begin|start|anfang|début)\b", re.MULTILINE | re.IGNORECASE
)
_ENDING = re.compile(r"^[^\w\n]*+(?:end|ende|fin)\b[^\n]*+$", re.MULTILINE | re.IGNORECASE)
# From here on a message is somebody else's text.
_FORWARDED = re.compile(
    r"^[ \t>*-]*+(?:(?:(?<=--)|(?<=-- ))\s++)?(?:original message|forwarded message|begin forwarded message|"
    r"ursprüngliche nachricht|"
    r"weitergeleitete nachricht|message d'origine|message transféré|mensaje original|mensaje reenviado)\b",
    re.IGNORECASE | re.MULTILINE,
)
_FROM = re.compile(r"^(?:from|von|de|da): ", re.IGNORECASE | re.MULTILINE)
_OTHER_HEAD = re.compile(
    r"^(?:sent|date|to|subject|gesendet|datum|an|betreff|envoyé|à|objet|para|asunto): ",
    re.IGNORECASE | re.MULTILINE,
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
    r"\A\s*+(?:>|\||\$ |>>> |\+\+\+|@@|[{}\[\]]|</?\w|#!|import |from \w+ import|at \w+[.(]|"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|TRACE|FATAL)\]?\b|"
    r"(?:select|insert into|update|delete from|create table|alter table)\b.*[;(,]\s*+$)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\A\s*+(?:(?:[*•+\-–—#]++|\d{1,3}[.)])\s++)+")
_EMPHASIS = re.compile(r"(?<![\w*])\*\*(?=\S)")  # not `2 ** 10`, `**kwargs`, `__init__.py`
_NO_EMPHASIS = re.compile(r"(?<=\S)\*\*(?![\w*])")
_END = re.compile(r"(?<=[.!?…])[\"')\]”’»]*\s+(?=\S)|(?<=[。！？])")  # many write sentences in small letters
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|z\.\s?B|d\.\s?h|u\.\s?a|bzw|ca|approx|no|nr|vs|etc|dr|mr|mrs|ms|st|inc|ltd|co|fig|p|pp|cf|"
    r"usw|inkl|ggf|evtl|max|min|tel|str|sog|vgl|bspw|abs|art|"
    r"jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec)|\b[A-Za-z])\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 12  # characters
_DAY = re.compile(r"\b\d{1,2}\.$")  # of `10. April`, which ends no sentence
_MONTH = re.compile(r"(?:jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez)", re.IGNORECASE)
_CLAUSE = re.compile(r"(?<=[;:])\s+|(?<!\s)\s++[-–—]\s+|(?<=,)\s+")
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
    text = _without(_elements(text), text)
    text = _without(_delimited(text), text)
    if (place := _forwarded(text)) is not None:
        text = text[:place] + "\n"
    return "\n".join(line for line in text.splitlines() if not _FOREIGN_LINE.match(line))


def _without(spans: Iterable[tuple[int, int]], text: str) -> str:
    """`text` with a line break in the place of each span."""
    kept, position = [], 0
    for begin, end in spans:
        kept.append(text[position:begin])
        position = end
    return "\n".join([*kept, text[position:]])


def _elements(text: str) -> Iterator[tuple[int, int]]:
    """Where elements of markup stand, each from its opening tag to the first closing tag of its name."""
    if "<" not in text:
        return
    closing = defaultdict[str, list[tuple[int, int]]](list)
    for end in _CLOSING.finditer(text):
        closing[end["tag"].lower()].append(end.span())
    last_comment = text.rfind("-->")
    position = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < position:  # in the element before
            continue
        position = opening.end()
        if opening["comment"]:
            if last_comment < position:
                continue
            position = text.index("-->", position) + len("-->")
        elif opening["tag"]:
            ends = closing.get(opening["tag"].lower(), [])
            nearest = bisect_left(ends, (position,))
            if nearest < len(ends):
                position = ends[nearest][1]
            elif not _is_empty(opening[0]):
                continue
        yield opening.start(), position


def _is_empty(tag: str) -> bool:
    """Whether an element is closed where it begins: `<br />`."""
    return tag.endswith("/>") and len(tag) <= _LONGEST_EMPTY and "\n" not in tag


def _delimited(text: str) -> Iterator[tuple[int, int]]:
    """Where text stands between triple quotes, or between a line `begin …` and a line `end …`."""
    ends = [end.span() for end in _ENDING.finditer(text)]
    position = 0
    while found := _BEGINNING.search(text, position):
        if quotes := found["quotes"]:
            end = text.find(quotes, found.end())
            position = end + len(quotes) if end >= 0 else len(text)
        else:
            line_end = text.find("\n", found.end())
            nearest = bisect_left(ends, (line_end,))
            if line_end < 0 or nearest == len(ends):
                position = found.start() + 1  # quotation marks in this line may still begin something
                continue
            position = ends[nearest][1]
        yield found.start(), position


def _forwarded(text: str) -> int | None:
    """From where on a message is somebody else's mail: below a line that says so, or from its head on."""
    announced, head = _FORWARDED.search(text), _FROM.search(text)
    if head and not _OTHER_HEAD.search(text, head.end()):
        head = None
    places = [found.start() for found in (announced, head) if found]
    return min(places, default=None)


def parted(role: str, text: str) -> tuple[str, str]:
    """A user's text up to the line that announces somebody else's, and from there on; nobody says where that ends."""
    announced = _ANNOUNCED.search(text) if role == "user" else None
    return (text[: announced.end()], text[announced.end() :]) if announced else (text, "")


def split(text: str) -> Iterator[str]:
    """The sentences of `text`, each on one line, none longer than `LONGEST`; list marks and emphasis are left out."""
    for line in text.splitlines():
        line = " ".join(_without_emphasis(_BULLET.sub("", line, count=1)).split())
        for sentence in _line_sentences(line):
            yield from _bounded(sentence)


def _without_emphasis(line: str) -> str:
    """`line` without the marks of `**bold**` words; a mark begins something only if a later one ends it."""
    ends = [end.start() for end in _NO_EMPHASIS.finditer(line)] if "**" in line else []
    if not ends:
        return line
    kept, position = [], 0
    for mark in _EMPHASIS.finditer(line):
        if mark.start() < position:
            continue
        nearest = bisect_left(ends, mark.end() + 1)  # there is something between them
        if nearest == len(ends):
            break
        kept += [line[position : mark.start()], line[mark.end() : ends[nearest]]]
        position = ends[nearest] + len("**")
    return "".join([*kept, line[position:]])


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
    begin = max(begin, end.start() - _LONGEST_ABBREVIATION)
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
    begin = 0
    while len(text) - begin > LONGEST:
        cut = text.rfind(" ", begin, begin + LONGEST)
        if cut <= begin:
            return  # one endless word: no sentence
        yield text[begin:cut]
        begin = cut + 1
    if begin < len(text):
        yield text[begin:]
