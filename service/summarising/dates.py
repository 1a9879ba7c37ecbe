"""Dates in a text, however they are written: `2026-11-15`, `15.11.2026`, `15 November`, `Nov 15th, 2026`. Pure.

Day and month are compared in any order, because nobody can tell `4/3` from `3/4`; a year only where both have one.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_NAMES = (
    *("jan", "feb|fév|fev", "mar|mär|mrz", "apr|avr|abr", "may|mai|mag", "jun|juin|giu", "jul|juil|lug"),
    *("aug|août|aou|ago", "sep|set", "oct|okt|ott|out", "nov", "dec|dez|déc|dic"),
)
_MONTH = "(?P<{}>(?:" + "|".join(_NAMES) + r")[^\W\d_]{{0,8}})\.?"
_ORDINAL = r"(?:st|nd|rd|th|er|º|ª)?"
_YEAR = r"(?:,?\s+(?:de\s+|del\s+)?(?P<{}>(?:19|20)\d\d)\b)?"
_WRITTEN = re.compile(
    rf"(?<![\w.,/-])(?P<day>\d{{1,2}}){_ORDINAL}\.?\s+(?:of\s+|de\s+)?{_MONTH.format('month')}(?!\w){_YEAR.format('year')}"
    rf"|(?<!\w){_MONTH.format('named')}\s+(?P<of>\d{{1,2}}){_ORDINAL}(?![\w:]|[.,]\d){_YEAR.format('then')}",
    re.IGNORECASE,
)
_NUMERIC = re.compile(
    r"(?<![\w.,/-])(?:(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})|(?P<a>\d{1,2})([-/.])(?P<b>\d{1,2})\6(?P<c>\d{4}|\d\d)?)"
    r"(?![\w/-])"
)


class Date(NamedTuple):
    """A date and where it stands. `days` are day and month, the smaller number first."""

    text: str
    begin: int
    end: int
    days: tuple[int, int]
    year: int | None


def found(text: str) -> Iterator[Date]:
    """The dates of `text`: those with a month's name first."""
    for match in _WRITTEN.finditer(text):
        name = (match["month"] or match["named"]).casefold()
        day, year = int(match["day"] or match["of"]), match["year"] or match["then"]
        if day and day <= 31:
            yield _date(match, day, _number(name), year)
    for match in _NUMERIC.finditer(text):
        days = (match["m"], match["d"]) if match["y"] else (match["a"], match["b"])
        first, second = int(days[0]), int(days[1])
        year = match["y"] or match["c"]
        if 1 <= min(first, second) <= 12 and max(first, second) <= 31 and (year or match[0].endswith(".")):
            yield _date(match, first, second, year)


def _date(match: re.Match[str], day: int, month: int, year: str | None) -> Date:
    whole = int(year) + (2000 if year and len(year) == 2 else 0) if year else None
    return Date(match[0], match.start(), match.end(), (min(day, month), max(day, month)), whole)


def _number(name: str) -> int:
    return next(place for place, names in enumerate(_NAMES, 1) if name.startswith(tuple(names.split("|"))))
