"""Finds exact values in a text: numbers, dates, ids, URLs, paths, addresses. Pure, linear.

A value is a word with a digit, or with the signs of an id, a path or an address. `Evidence` tells
whether it occurs in what a summary covers: as it stands there, or as the same number in another
spelling (`12,847`, `12.847`, `12 847`, `12847`). A date or a range occurs where its numbers stand
side by side, in any order. Units are words like others, and are not compared.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from importlib import resources
from itertools import pairwise

from service.text import characters

# Number words, names of months and factors, of many languages; small ones are never asked about.
_DATA = tomllib.loads(resources.files(__package__).joinpath("values.toml").read_text("utf-8"))


def _load_words(table: str) -> dict[str, int]:
    return {word: int(number) for number, words in _DATA[table].items() for word in words.split()}


_WORDS = _load_words("words") | _load_words("months")
_FACTORS = _load_words("factors")

# Signs that end a word, in a class of characters.
_MARKS = r"\s\"'`“”„«»‘’<>()\[\]{}|;*、。，；：！？…「」『』【】《》〈〉（）［］・"
_BLANK = "[ \u00a0\u202f]"
_CURRENCY = "[$€£¥₽₹₩]"
_HAN_POWERS = "十百千万萬億亿兆"
_HAN_DIGITS = "〇零一二两兩三四五六七八九"
_TWO = str.maketrans("两兩", "二二")
_WORD = re.compile(
    # `12 847`
    rf"(?<![\d.,]){_CURRENCY}?\d{{1,3}}(?:{_BLANK}\d{{3}})++(?![\d])"
    # `2.5 million`
    rf"|{_CURRENCY}?\d[\d.,]*+{_BLANK}?(?i:{'|'.join(sorted(_FACTORS, key=len, reverse=True))})\b"
    # `2024年5月3日`, `11월 15일`
    r"|\d++(?:[年月日時时点點년월시]\s?\d++)++"
    # `3万5千`
    rf"|\d[\d.,]*+[{_HAN_POWERS}][\d{_HAN_POWERS}]*+"
    # all others, with what may stand before a path or an amount; `12'847` is one of them
    rf"|(?:(?:~|\.{{0,2}})/|{_CURRENCY})?[^\W{characters.UNSPACED}]"
    rf"(?:[^{_MARKS}{characters.UNSPACED}]|['’](?=\d{{3}}))*+"
)
_BEHIND = ".,:;!?…_-–—=/~〜～"  # end no value
_NAMED = re.compile(
    r"[^\W_]_[^\W_]|\w@\w|://\w|\Awww\.|\A(?:~|\.{0,2})/\w|\w\.(?:"
    + "|".join(_DATA["files"].split())
    + r")\Z",
    re.IGNORECASE,
)
# Digits, and the letters behind them: `$5GB`, `30-day`, `5-го`; a `v` before them is a version.
_NUMBER = re.compile(
    rf"(?:{_CURRENCY}|[vV](?=\d))?(\d[\d.,'’ \u00a0\u202f]*+)"
    r"([%‰°]?[^\W\d_]*+(?:[-‐][^\W\d_]++)*+)\W?"
)
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})++")
_DECIMAL = re.compile(r"\A([\d.,]*\d)([.,])(\d+)")
_HAN = re.compile(
    # From the beginning of its digits only, so that a long run of them is read once.
    f"(?<![\\d{_HAN_DIGITS}])[\\d{_HAN_DIGITS}]*"
    f"[{_HAN_DIGITS}{_HAN_POWERS}][\\d{_HAN_DIGITS}{_HAN_POWERS}]*+"
)
# Between a name and its value; between the numbers of a date, a time, a range or a size; and before
# the second end of a range that has a sign or a letter, such as `$500-$1,200` and `T2-T6`.
_JOINT = re.compile(
    r"(?<=\w)[=:：](?=\w)|(?<=\d)(?:[-–—‐~〜～/×xh.]|[年月日時时点點년월시]\s?)(?=\d)"
    rf"|(?<=\d)[-–—‐~〜～](?=(?:{_CURRENCY}|[^\W\d_])\d)|(?<=\d[h%€°])[-–—‐~〜～](?=\d)"
)
# Signs between values that are written together: `1032+9600=10632`, `04:00–LAS`, `a→b`.
_BETWEEN = re.compile(r"[+*=&^→←⇒|]|[–—](?!\d)|(?<!\d)[–—]")
_ADDRESS = re.compile(r"://|@|\Awww\.", re.IGNORECASE)
_PIECE = re.compile(r"\d+|[^\W\d_]+")
_YEAR = 1000
_SPACED = 8  # characters that hardly stand in a row by chance, blanks left out
_LONGEST = 60  # characters of a number; to read thousands of digits takes quadratic time


def find_values(text: str) -> list[str]:
    """Finds the values of a text as they stand in it; a single digit is none."""
    plain = characters.convert_digits(text)
    values: list[str] = []
    for word in _WORD.finditer(plain):
        for begin, end in _split_word(word):
            value = plain[begin:end]
            has_digit = any(map(str.isdigit, value))
            if len(value) > 1 and (has_digit or _NAMED.search(value)):
                values.append(text[begin:end])
    return values


def _split_word(word: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yields where the values of a word begin and end; an address is one value."""
    begin, end = word.span()
    if not _ADDRESS.search(word[0]):
        for sign in _BETWEEN.finditer(word.string, begin, end):
            yield begin, _find_end(word.string, begin, sign.start())
            begin = sign.end()
    yield begin, _find_end(word.string, begin, end)


def _find_end(text: str, begin: int, end: int) -> int:
    """Finds where a value ends, without signs behind it."""
    return begin + len(text[begin:end].rstrip(_BEHIND))


def read_numbers(value: str) -> frozenset[Decimal]:
    """Reads the numbers that a value may mean, because `1.234` has two; none for a name."""
    if len(value) > _LONGEST:
        return frozenset()
    plain = characters.convert_digits(value)
    if _HAN.fullmatch(plain):
        return frozenset([Decimal(_read_han(plain))])
    number = _NUMBER.fullmatch(plain)
    if not number:
        return frozenset()
    suffix = number[2].strip("-‐")
    if len(suffix) == 1 and suffix.isupper():  # `14C` is a seat
        return frozenset()
    plain_readings = _read_digits(re.sub(r"['’\s]", "", number[1]).rstrip(".,"))
    factor = _FACTORS.get(suffix.casefold(), 1)
    return frozenset(plain_readings | {one * factor for one in plain_readings})


def _read_digits(digits: str) -> set[Decimal]:
    if digits.isdigit():
        return {Decimal(digits)}
    numbers: set[Decimal] = set()
    if _GROUPED.fullmatch(digits):
        numbers.add(Decimal(re.sub("[.,]", "", digits)))
    decimal = _DECIMAL.fullmatch(digits)
    if not decimal or decimal[2] in decimal[1]:
        return numbers
    whole = re.sub("[.,]", "", decimal[1])
    # `5,000` is not read as 5: any 5 in the text would then be evidence of five thousand.
    if (whole == decimal[1] or _GROUPED.fullmatch(decimal[1])) and decimal[3] != "000":
        numbers.add(Decimal(f"{whole}.{decimal[3]}"))
    return numbers


def _read_han(number: str) -> int:
    """Reads a number such as `三十五` or `3万5千`.

    A power below 10,000 multiplies the digits before it, a higher one all before it; one that
    nothing precedes counts once.
    """
    whole, group, digits = 0, 0, 0
    for sign in number[:_LONGEST].translate(_TWO):
        value = int(unicodedata.numeric(sign))
        if value < 10:
            digits = digits * 10 + value
        elif value < 10**4:
            group, digits = group + (digits or 1) * value, 0
        else:
            whole, group, digits = whole + (group + digits or 1) * value, 0, 0
    return whole + group + digits


@dataclass(frozen=True)
class Evidence:
    """The texts that a summary covers, with indexes that are made when they are first needed."""

    whole: str

    @cached_property
    def _folded(self) -> str:
        return " ".join(characters.fold(self.whole).split())

    @cached_property
    def _without_blanks(self) -> str:
        return self._folded.replace(" ", "")

    @cached_property
    def _numbers(self) -> frozenset[Decimal]:
        """All numbers of the texts, in digits and in words, parts of names and dates too."""
        numbers = {Decimal(one) for one in self._row}
        for value in find_values(self.whole):
            numbers |= read_numbers(value)
        if not self.whole.isascii():
            numbers.update(Decimal(_read_han(one)) for one in _HAN.findall(self.whole))
        return frozenset(numbers)

    @cached_property
    def _row(self) -> list[int]:
        """The numbers of the texts in order, also words and months, without zeros."""
        row: list[int] = []
        for piece in _PIECE.findall(characters.convert_digits(self.whole).casefold()):
            if piece.isdecimal():
                row.append(int(piece[:_LONGEST]))
            elif piece in _WORDS:
                row.append(_WORDS[piece])
        return [number for number in row if number]

    @cached_property
    def _side_by_side(self) -> frozenset[frozenset[int]]:
        return frozenset(map(frozenset, pairwise(self._row)))

    def missing(self, text: str) -> list[str]:
        """Lists the values of `text` that do not occur, as they stand in it."""
        return [value for value in find_values(text) if not self.has(value)]

    def has(self, value: str) -> bool:
        """Whether a value, or what is quoted, occurs in whatever spelling."""
        if (
            self.says(value)
            or read_numbers(value) & self._numbers
            or self._says_without_blanks(value)
        ):
            return True
        parts = _JOINT.split(characters.convert_digits(value))
        if len(parts) == 1:
            return self._says_each_word(value)
        if all(map(str.isdecimal, parts)):
            return self._has_side_by_side([int(part[:_LONGEST]) for part in parts])
        return all(map(self.has, parts))

    def _has_side_by_side(self, parts: Sequence[int]) -> bool:
        """Whether numbers stand beside each other; a year may stand elsewhere, once above all."""
        numbers = set(parts) - {0}
        small = {part for part in numbers if part < _YEAR}
        beside = small if len(small) > 1 else set[int]()
        known = all(Decimal(part) in self._numbers for part in numbers - beside)
        return known and all(self._stands_beside(part, beside - {part}) for part in beside)

    def _stands_beside(self, number: int, others: Iterable[int]) -> bool:
        return any(frozenset((number, one)) in self._side_by_side for one in others)

    def says(self, words: str) -> bool:
        """Whether these words occur as they are, ignoring case and blanks, as whole words."""
        words = " ".join(characters.fold(words).split())
        if not words:
            return False
        place = self._folded.find(words)
        while place >= 0:
            if self._stand_alone(place, place + len(words)):
                return True
            place = self._folded.find(words, place + 1)
        return False

    def _says_without_blanks(self, value: str) -> bool:
        """Whether a long value occurs with blanks or line breaks in it: `FF 74 4F 63`."""
        bare = "".join(characters.fold(value).split())
        return len(bare) >= _SPACED and bare in self._without_blanks

    def _says_each_word(self, value: str) -> bool:
        """Whether what stands between slashes occurs: `€/portion`; a file is one value."""
        words = value.split("/")
        if len(words) == 1 or "." in value or _ADDRESS.search(value):
            return False
        return all(self.says(word) for word in words if word)

    def _stand_alone(self, begin: int, end: int) -> bool:
        """Whether the words between two places are no part of longer ones."""
        text = self._folded
        joined_before = characters.joins(text[begin - 1 : begin], text[begin])
        return not joined_before and not characters.joins(text[end - 1], text[end : end + 1])
