"""Exact values in a text: numbers with their units, dates, ids, URLs, paths, addresses. Pure.

`found` lists them as they stand. `Evidence` answers whether a value occurs in what a summary covers, however it is
written there: `12,847`, `12.847`, `12 847` and `12847` are one number, `5 GB` and `5 gigabytes` one size.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from service.summarising import dates
from service.summarising.dates import Date

_TOKEN = re.compile(r"[^\s\"'`“”„«»‘’<>()\[\]{}|;*]+(?:['’](?=\d{3})[^\s\"'`“”„«»‘’<>()\[\]{}|;*]+)*")
_TRAILING = ".,:;!?…*_-–—=/"
_NUMBER = re.compile(r"\A[+\-−~≈<>=≤≥±]*+([$€£¥])?(\d[\d.,'’  ]*+)([^\W\d_]{0,12}|[%‰°µ][^\W\d_]{0,2})?([$€£¥%])?")
_SPACED = re.compile(r"(?<![\d.,])(\d{1,3}(?:[   ]\d{3})+)(?![\d])")
_DIGITS = re.compile(r"\d+")
_DIGIT = re.compile(r"\d")
_ANY_NUMBER = re.compile(
    r"(?<![a-z_\d])(?<![a-z_][-–])([$€£¥]\s?)?(\d[\d.,'’]*)(\s?[^\W\d_]{1,12}|\s?[%‰°][^\W\d_]?)?(\s?[$€£¥])?"
)
_LINK = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}://|www\.)\S+", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")  # as long as mail allows
_PATH = re.compile(
    r"\A(?:(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,8}|"
    r"[\w.@+-]+(?:/[\w.@+-]+){2,})"
)
_FILE_ENDING = (
    r"\w\.(?:py|sql|md|ya?ml|json|csv|tsv|txt|toml|ini|cfg|conf|env|sh|ts|tsx|jsx?|go|rs|java|kt|rb|php|cs|c|h|cpp|"
    r"html?|css|xml|pdf|xlsx?|docx?|pptx?|odt|png|jpe?g|svg|gif|zip|tar|gz|log|db|parquet|ipynb|lock)"
)
_FILE_NAME = re.compile(rf"\A[\w.-]*{_FILE_ENDING}", re.IGNORECASE)
_ANY_FILE_NAME = re.compile(_FILE_ENDING, re.IGNORECASE)
_LIST_NUMBER = re.compile(r"^[^\S\n]*+(?:[-*•]\s*+)?\d{1,3}[.)]\s+", re.MULTILINE)
_NO_DIGIT = re.compile(r"\D")
_SEPARATOR = re.compile("[.,]")
_GROUPING = re.compile("['’  ]")
_BLANK = re.compile(r"\s")
UNITS = {
    alias: unit
    for unit, aliases in {
        "ms": "ms millisecond milliseconds millisekunde millisekunden",
        "s": "s sec secs second seconds sekunde sekunden seconde secondes segundo segundos",
        "min": "min mins minute minutes minuten minuto minutos",
        "h": "h hr hrs hour hours stunde stunden std heure heures hora horas",
        "d": "d day days tag tage tagen jour jours dia dias día días",
        "week": "week weeks woche wochen semaine semaines semana semanas",
        "month": "month months monat monate monaten mois mes meses",
        "year": "year years yr yrs jahr jahre jahren an ans année années año años",
        "b": "b byte bytes",
        "kb": "kb kib kilobyte kilobytes",
        "mb": "mb mib megabyte megabytes",
        "gb": "gb gib gigabyte gigabytes",
        "tb": "tb tib terabyte terabytes",
        "%": "% percent pct prozent pourcent porciento",
        "eur": "€ eur euro euros",
        "usd": "$ usd dollar dollars",
        "gbp": "£ gbp pound pounds pfund",
        "km": "km kilometre kilometres kilometer kilometers",
        "m": "m metre metres meter meters mètre mètres metro metros",
        "cm": "cm",
        "mm": "mm",
        "kg": "kg kilo kilos kilogram kilograms kilogramm",
        "g": "g gram grams gramm",
        "kwh": "kwh",
        "w": "w watt",
        "°c": "°c",
        "°f": "°f",
    }.items()
    for alias in aliases.split()
}
_TIMES = {"k": 1_000, "tsd": 1_000, "thousand": 1_000, "tausend": 1_000, "m": 10**6, "mio": 10**6, "mn": 10**6}
_TIMES |= {"million": 10**6, "millions": 10**6, "millionen": 10**6, "bn": 10**9, "billion": 10**9, "mrd": 10**9}


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it stands in a text.

    A number has `readings`, because `1.234` is one thing here and another there; a date has a `date`.
    """

    text: str
    readings: frozenset[Decimal] = frozenset()
    unit: str = ""
    date: Date | None = None

    @property
    def weighty(self) -> bool:
        """Whether it is worth keeping for itself: not a small count such as `3`."""
        return not self.readings or bool(self.unit) or len(_NO_DIGIT.sub("", self.text)) >= 2


@lru_cache(maxsize=4096)  # the same sentence is asked for its values, their sorts and its subject
def found(text: str) -> Sequence[Value]:
    """The values of `text`, its dates first. Numbers of a numbered list are none."""
    text = _LIST_NUMBER.sub("", text)
    days = list(dates.found(text))
    words = [word.rstrip(_TRAILING) for word in _TOKEN.findall(_without(days, text))]
    others = (_value(word, words, place) for place, word in enumerate(words))
    return (*(Value(day.text, date=day) for day in days), *filter(None, others))


def _without(days: Iterable[Date], text: str) -> str:
    """`text` without these dates, which may lie within each other."""
    kept, position = [], 0
    for day in sorted(days, key=lambda day: day.begin):
        kept.append(text[position : day.begin])
        position = max(position, day.end)
    return " ".join([*kept, text[position:]])


def spelling(value: Value) -> str:
    """One spelling for all ways to write a value, with which values are compared with each other."""
    if value.date:
        return f"{value.date.days} {value.date.year or ''}".strip()
    return f"{max(value.readings)}{value.unit}" if value.readings else value.text.casefold()


def sort(value: Value) -> str:
    """Of which sort a value is: `date`, `link`, `name` (ids, paths), or a number of some unit."""
    if value.readings:
        return f"number {value.unit}"
    if value.date:
        return "date"
    return "link" if _LINK.fullmatch(value.text) or _ADDRESS.fullmatch(value.text) else "name"


def marked(text: str) -> bool:
    """Whether `text` has a value at all; cheap."""
    return bool(_DIGITS.search(text) or _LINK.search(text) or _ADDRESS.search(text) or _ANY_FILE_NAME.search(text))


@dataclass(slots=True)
class Evidence:
    """What the texts that a summary covers say; made once for each, asked for many values."""

    _folded: str = ""
    _numbers: dict[Decimal, set[str]] = field(default_factory=lambda: defaultdict(set))
    _dates: dict[tuple[int, int], set[int | None]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Evidence":
        """Evidence from all of `texts`."""
        folded = [text.casefold() for text in texts]
        whole = "\n".join(folded)
        made = cls("\n".join(" ".join(text.split()) for text in folded))
        spaced = " ".join(_joined(match[0]) for match in _SPACED.finditer(whole))
        for reading, unit in (*_every_number(whole), *_every_number(spaced)):
            made._numbers[reading].add(unit)
        for day in dates.found(whole):
            made._dates[day.days].add(day.year)
        return made

    def has(self, value: Value) -> bool:
        """Whether the value occurs, in whatever spelling."""
        if value.date:
            return self.says(value.text) or self._dated(value.date)
        if not value.readings:
            return self.says(value.text)
        units = [self._numbers[reading] for reading in value.readings if reading in self._numbers]
        return any(not value.unit or value.unit in seen or seen == {""} for seen in units)

    def _dated(self, date: Date) -> bool:
        years = self._dates.get(date.days)
        if not years or date.year is None:
            return bool(years)
        return date.year in years or (None in years and Decimal(date.year) in self._numbers)

    def missing(self, text: str) -> list[str]:
        """The values of `text` that do not occur, as they stand in it."""
        absent = [value.text for value in found(text) if not self.has(value)]
        if absent and (joined := _joined(text)) != text:  # `12 847` is one number, or two
            return min(absent, [value.text for value in found(joined) if not self.has(value)], key=len)
        return absent

    def says(self, words: str) -> bool:
        """Whether these words occur as they are, but for case and blanks, not as a part of longer ones."""
        words = " ".join(words.casefold().split())
        place = self._folded.find(words)
        while words and place >= 0:
            before, after = self._folded[place - 1 : place], self._folded[place + len(words) :][:1]
            if not (before.isalnum() and words[0].isalnum()) and not (after.isalnum() and words[-1].isalnum()):
                return True
            place = self._folded.find(words, place + 1)
        return False


def _value(word: str, words: list[str], place: int) -> Value | None:
    if not word:
        return None
    if _LINK.fullmatch(word) or _ADDRESS.fullmatch(word) or _PATH.fullmatch(word) or _FILE_NAME.fullmatch(word):
        return Value(word)
    if not any(character.isdigit() for character in word):
        return Value(word) if "_" in word.strip("_") else None
    number = _NUMBER.fullmatch(word)
    if number and (readings := _readings(number)):
        following = words[place + 1] if place + 1 < len(words) else ""
        return Value(word, readings, _unit(number, following))
    return Value(word.lstrip("#~+=-–—:.,"))


def _every_number(text: str) -> Iterator[tuple[Decimal, str]]:
    """All readings of all numbers in a long text, parts of ids and dates too."""
    for match in _ANY_NUMBER.finditer(text):
        sign, digits, after, behind = match.groups()
        unit = UNITS.get((after or "").strip()) or UNITS.get((sign or behind or "").strip()) or ""
        factor = _TIMES.get((after or "").strip(), 1)
        for reading in _plain_readings(digits):
            yield reading, unit
            if factor > 1:
                yield reading * factor, UNITS.get((sign or behind or "").strip(), "")
        if not digits.isdigit():
            for part in _DIGITS.findall(digits):
                yield Decimal(part), ""


def _readings(number: re.Match[str]) -> frozenset[Decimal]:
    word = (number[3] or "").casefold()
    if word and word not in UNITS and word not in _TIMES and word not in ("x", "er", "e"):  # nor `72nd`: it is a name
        return frozenset()
    plain = _plain_readings(number[2])
    return frozenset(plain | {one * _TIMES[word] for one in plain}) if word in _TIMES else frozenset(plain)


def _plain_readings(digits: str) -> set[Decimal]:
    """`1.234,5` can only be one number; `1.234` may be two."""
    digits = _GROUPING.sub("", digits).rstrip(".,")
    if digits.isdigit():
        return {Decimal(digits)}
    separators = _DIGIT.sub("", digits)
    last = separators[-1:]
    readings = set()
    if len(set(separators)) == 2 and separators.count(last) == 1:
        other = "," if last == "." else "."
        readings.add(digits.replace(other, "").replace(last, "."))
    elif len(set(separators)) == 1:
        groups = _SEPARATOR.split(digits)
        thousands = all(len(group) == 3 for group in groups[1:]) and 0 < len(groups[0]) <= 3 and groups[0][0] != "0"
        if thousands:
            readings.add("".join(groups))
        if len(groups) == 2 and not (thousands and groups[1] == "000"):  # or any 5 would bear out 5,000
            readings.add(".".join(groups))
    return {value for reading in readings if (value := _decimal(reading)) is not None}


def _decimal(digits: str) -> Decimal | None:
    try:
        return Decimal(digits).normalize() + 0
    except InvalidOperation:
        return None


def _unit(number: re.Match[str], following: str) -> str:
    own = (number[3] or "").casefold()
    sign = number[1] or number[4] or ""
    if own in UNITS and not (own in _TIMES and sign):
        return UNITS[own]
    return UNITS.get(sign) or ("" if own else UNITS.get(following.casefold(), ""))


def _joined(text: str) -> str:
    """`text` with the blanks inside numbers such as `12 847` left out."""
    return _SPACED.sub(lambda match: _BLANK.sub("", match[1]), text)
