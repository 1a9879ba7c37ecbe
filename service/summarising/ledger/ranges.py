"""From the cells of a column to its range and sum, exactly.

The numbers stand as in the source, nothing is rounded. In: cells as parsed (`Number`, text, None).
Out: `244..6583 (sum 98123)`, or "" when they are no numbers and no moments. A text that can be read
in several ways (1.234 in English or German) has a range only when all ways agree on it.
"""

import re
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from itertools import filterfalse
from typing import Any

from service.summarising.ledger.wording import Number

_LONGEST = 40  # characters; what is longer is no figure to compare
_MISSING = re.compile(r"(?:[-–]|null|NULL|None|NaN|nan|n/a|N/A|NA|-?Infinity)?")
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_PLAIN = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_ENGLISH = re.compile(r"[+-]?(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|0|[1-9][0-9]*)(?:\.[0-9]+)?")
_CONTINENTAL = re.compile(r"[+-]?(?:[1-9][0-9]{0,2}(?:\.[0-9]{3})+|0|[1-9][0-9]*)(?:,[0-9]+)?")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?)?Z?"
)
_CURRENCY = re.compile(r"(?:[$€£¥₹]|[A-Z]{3} ) ?")
_UNIT = re.compile(r" ?(?:%|[€$£¥₹]|[A-Za-zµ°²³/]{1,6})\Z")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# A sum of these says nothing: they name, order or measure something, or are themselves ratios and
# means.
_NOT_SUMMED = """
id ids uid pid no nr num number code key index idx rank year month day hour minute week quarter
date time at ts timestamp epoch lat lon lng latitude longitude port zip postcode phone version
chunk step page line position pos seq sequence level age score rating grade temp temperature
humidity pressure speed pct percent percentage rate ratio share per avg average mean median min
max std stddev variance price probability x y z row attempt batch task job shard node account
invoice customer user p rps qps iops ms latency lag load hit wait
"""
_NO_SUM = re.compile("|".join(_NOT_SUMMED.split()), re.IGNORECASE)
_WAYS: tuple[tuple[re.Pattern[str], dict[int, str]], ...] = (
    (_PLAIN, str.maketrans({})),
    (_ENGLISH, str.maketrans({",": ""})),
    (_CONTINENTAL, str.maketrans({".": "", ",": "."})),
)
"""The ways to write a number, and what becomes of the signs in it."""


def span(cells: Sequence[Any], name: str = "") -> str:
    """`min..max` of a column, with the sum where that says something.

    "" for cells that are neither numbers nor moments.
    """
    texts = list(filterfalse(_is_missing, cells))
    if len(texts) < 2 or not all(map(_may_be_figure, texts)):
        return ""
    # Moments of one length sort as texts.
    if len(set(map(len, texts))) == 1 and all(map(_MOMENT.fullmatch, texts)):
        return f"{min(texts)}..{max(texts)}"
    bare = _without_units(texts)
    readings = _readings(bare, isinstance(texts[0], Number))
    ends = {_ends(texts, read) for read in readings}
    if len(ends) != 1:
        return ""
    # Readings may agree on the ends and differ in the sum.
    certain = len(readings) == 1 and bare is texts
    total = _sum(bare, readings[0], name) if certain else ""
    return "..".join(ends.pop()) + total


def _is_missing(cell: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    return cell is None or (isinstance(cell, str) and bool(_MISSING.fullmatch(cell)))


def _may_be_figure(cell: Any) -> bool:  # noqa: ANN401 - a tool's JSON
    return isinstance(cell, str) and len(cell) <= _LONGEST


def _readings(texts: Sequence[str], json: bool) -> list[Sequence[int | Decimal]]:
    """The different ways to read all of the texts as numbers; JSON leaves but one."""
    if all(map(_WHOLE.fullmatch, texts)):  # `int` is faster, and nothing is ambiguous
        return [[int(text) for text in texts]]
    found: list[Sequence[int | Decimal]] = []
    for pattern, signs in _WAYS[:1] if json else _WAYS:
        if all(map(pattern.fullmatch, texts)):
            read = [Decimal(text.translate(signs)) for text in texts]
            found += [] if read in found else [read]
    return found


def _ends(texts: Sequence[str], numbers: Sequence[int | Decimal]) -> tuple[str, str]:
    least, most = min(numbers), max(numbers)
    return texts[numbers.index(least)], texts[numbers.index(most)]


def _without_units(texts: list[str]) -> list[str]:
    """The texts without a currency or a unit that all have; `texts` itself when there is none."""
    before, after = _CURRENCY.match(texts[0]), _UNIT.search(texts[0])
    prefix, suffix = before[0] if before else "", after[0] if after else ""
    if not (prefix or suffix) or not all(
        text.startswith(prefix) and text.endswith(suffix) for text in texts
    ):
        return texts
    return [text[len(prefix) : len(text) - len(suffix)] for text in texts]


def _sum(texts: Sequence[str], numbers: Sequence[int | Decimal], name: str) -> str:
    if any(map(_NO_SUM.fullmatch, _WORD.findall(name))) or _are_keys(texts):
        return ""
    if any("e" in text or "E" in text for text in texts):
        return ""
    # Enough digits for the sum of any numbers that may be so long.
    with localcontext(Context(prec=2 * _LONGEST + 20)):
        return f" (sum {sum(numbers, start=Decimal(0)):f})"


def _are_keys(texts: Sequence[str]) -> bool:
    """Equally long whole numbers without repetition, like the numbers of invoices."""
    lengths = {len(text) for text in texts}
    different = len(set(texts)) == len(texts) > 2
    return (
        len(lengths) == 1 and lengths.pop() > 4 and different and all(map(_WHOLE.fullmatch, texts))
    )
