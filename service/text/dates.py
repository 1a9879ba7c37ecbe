"""Dates in a text, however they are written. Pure.

`2026-11-15`, `15.11.2026`, `15 November`, `Nov 15th, 2026`, `15 ноября`, `2026年11月15日`,
`11월 15일`. Day and month are compared in any order, because nobody can tell `4/3` from `3/4`; a
year only where both have one.
"""

import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

_DATA = tomllib.loads(resources.files(__package__).joinpath("values.toml").read_text("utf-8"))
_NUMBER_OF = {
    name: int(number) for number, names in _DATA["months"].items() for name in names.split()
}
_LONGEST_FIRST = sorted(_NUMBER_OF, key=len, reverse=True)
_MONTH = "(?P<{}>(?:" + "|".join(_LONGEST_FIRST) + r"))(?![^\W\d_])\.?"
_ORDINAL = r"(?:st|nd|rd|th|er|º|ª)?"
_YEAR = r"(?:,?\s{{1,3}}(?:de\s|del\s)?(?P<{}>(?:19|20)\d\d)\b)?"
_WRITTEN = re.compile(
    rf"(?<![\w.,/-])(?P<day>\d{{1,2}}){_ORDINAL}\.?\s{{1,3}}(?:of\s|de\s)?{_MONTH.format('month')}"
    rf"(?!\w){_YEAR.format('year')}"
    rf"|(?<!\w){_MONTH.format('named')}\s{{1,3}}(?P<of>\d{{1,2}}){_ORDINAL}(?![\w:]|[.,]\d)"
    rf"{_YEAR.format('then')}",
    re.IGNORECASE,
)
_NUMERIC = re.compile(
    r"(?<![a-zA-Z0-9_.,/-])(?:(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})"
    r"|(?P<a>\d{1,2})([-/.])(?P<b>\d{1,2})\6(?P<c>\d{4}|\d\d)?)(?![a-zA-Z0-9_/-])"
)
_EAST = re.compile(
    r"(?:(?<!\d)(?P<y>\d{4})\s?[年년]\s?)?(?<!\d)(?P<m>\d{1,2})\s?[月월]\s?(?P<d>\d{1,2})\s?[日号號일]"
)


class Date(NamedTuple):
    """A date and where it stands. `days` are day and month, the smaller number first."""

    text: str
    begin: int
    end: int
    days: tuple[int, int]
    year: int | None


def found(text: str) -> Iterator[Date]:
    """The dates of `text`: first those with a month's name, then 月 and 월, then in numbers."""
    yield from _with_names(text)
    yield from _eastern(text)
    yield from _in_numbers(text)


def _with_names(text: str) -> Iterator[Date]:
    for match in _WRITTEN.finditer(text):
        name = (match["month"] or match["named"]).casefold()
        day = int(match["day"] or match["of"])
        # Ignoring case, the pattern takes `ı` for `i`, which makes no known name.
        if 1 <= day <= 31 and name in _NUMBER_OF:
            yield _date(match, day, _NUMBER_OF[name], match["year"] or match["then"])


def _eastern(text: str) -> Iterator[Date]:
    for match in _EAST.finditer(text):
        month, day = int(match["m"]), int(match["d"])
        if 1 <= month <= 12 and 1 <= day <= 31:
            yield _date(match, day, month, match["y"])


def _in_numbers(text: str) -> Iterator[Date]:
    for match in _NUMERIC.finditer(text):
        year = match["y"] or match["c"]
        first = int(match["m"] or match["a"])
        second = int(match["d"] or match["b"])
        # Without a year, `4/3` is a fraction and `4.3` a number; `4.3.` is a date.
        if (year or match[0].endswith(".")) and _plausible(first, second):
            yield _date(match, first, second, year)


def _plausible(first: int, second: int) -> bool:
    """Whether one of the two may be a month, and the other one a day."""
    smaller, larger = sorted((first, second))
    return 1 <= smaller <= 12 and larger <= 31


def _date(match: re.Match[str], day: int, month: int, year: str | None) -> Date:
    days = (min(day, month), max(day, month))
    return Date(match[0], match.start(), match.end(), days, _whole_year(year))


def _whole_year(year: str | None) -> int | None:
    """A year of two digits is one of this century."""
    if not year:
        return None
    return int(year) + 2000 if len(year) == 2 else int(year)
