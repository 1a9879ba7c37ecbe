"""Exact values in a text: numbers with their units, dates, ids, URLs, paths, addresses. Pure.

`found` lists them as they stand, in any script: 余额5美元，已退款 holds `5美元`. `Evidence` answers
whether a value occurs in what a summary covers, however it is written there: `12,847`, `12.847`,
`12 847` and `12847` are one number, `5 GB` and `5 gigabytes` one size, `16:30` and `4:30 PM` one
time.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from importlib import resources
from itertools import chain, pairwise

from service.text import characters, dates
from service.text.dates import Date

# Signs that end a word, in a class of characters. An apostrophe within a number does not.
_MARKS = r"\s\"'`“”„«»‘’<>()\[\]{}|;*、。，；：！？…「」『』【】《》〈〉（）［］・"
_TOKEN = re.compile(rf"[^{_MARKS}]+(?:['’](?=\d{{3}})[^{_MARKS}]+)*")
_TRAILING = ".,:;!?…*_-–—=/~〜～"
# A word of a script without blanks is cut where the script changes.
_RUNS = re.compile(f"(?P<glued>[{characters.UNSPACED}]+)|[^{characters.UNSPACED}]+")
# A whole word, in groups: currency, digits, unit or suffix, currency or per cent. `~$3.50`, `5GB`,
# `30-day`, `5-го`; not `5-A`, which is a name.
_NUMBER = re.compile(
    r"\A[+\-−~≈<>=≤≥±]*+([$€£¥₽₹₩])?(\d[\d.,'’  ]*+)"
    r"([^\W\d_]{0,16}|[%‰°µ][^\W\d_]{0,2}"
    r"|(?:[-‐][^\W\d_]{0,30}[^\W\d_A-Z][^\W\d_]{0,30}){1,4})([$€£¥₽₹₩%])?"
)
# `12 847`, also with the blanks that do not break a line.
_SPACED = re.compile(r"(?<![\d.,])(\d{1,3}(?:[   ]\d{3})+)(?![\d])")
_DIGITS = re.compile(r"\d+")
_DIGIT = re.compile(r"\d")
# A number anywhere in a text, but not in a name such as `sha_256` or `v-2`. Groups as `_NUMBER`.
_ANY_NUMBER = re.compile(
    r"(?<![a-z_\d])(?<![a-z_][-–])([$€£¥₽₹₩]\s?)?(\d[\d.,'’]*)"
    r"(\s?-?[^\W\d_]{1,16}|\s?[%‰°][^\W\d_]?)?(\s?[$€£¥₽₹₩])?"
)
# `16:30`, `16h30`, `16時30`, `4 pm`, `16 Uhr`.
_CLOCK = re.compile(
    r"(?<![\d:.,])(\d{1,2})(?:\s?(?:[:.h時点點시]|uhr)\s?([0-5]\d)(?!\d|[.,]\d)"
    r"|\s?(?:am\b|pm\b|a\.m|p\.m|uhr|h\b|ч\b|час|時|点|點|시))",
    re.IGNORECASE,
)
# `3万5千`: digits with powers of ten in ideographs, and its parts.
_COUNTED = re.compile(
    r"(?<![\d.,])\d[\d.,]*+\s?[兆億亿万萬千百十조억만천백][\d兆億亿万萬千百十조억만천백]*+"
)
_COUNTED_PART = re.compile(r"\d[\d.,]*|[^\d\s]")
_TEN = re.compile(r"(?<![\d兆億亿万萬千百])十")
_LINK = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}://|www\.)\S+", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")  # as long as mail allows
# From the root, home or a folder; with an ending, or with two slashes: `and/or` is no path.
_PATH = re.compile(
    r"\A(?:(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,8}|"
    r"[\w.@+-]+(?:/[\w.@+-]+){2,})"
)
_FILE_ENDING = (
    r"\w\.(?:py|sql|md|ya?ml|json|csv|tsv|txt|toml|ini|cfg|conf|env|sh|ts|tsx|jsx?|go|rs|java|kt|"
    r"rb|php|cs|c|h|cpp|html?|css|xml|pdf|xlsx?|docx?|pptx?|odt|png|jpe?g|svg|gif|zip|tar|gz|log|"
    r"db|parquet|ipynb|lock)"
)
_FILE_NAME = re.compile(rf"\A[\w.-]*{_FILE_ENDING}", re.IGNORECASE)
_DOTTED = re.compile(r"\A[^\W\d]\w*+(?:\.[^\W\d]\w*+)++")
# Between a name and its value, and the numbers of a range or a size: `10-20`, `3:2`, `1920x1080`.
_JOINT = re.compile(r"(?<=\w)[=:：](?=\w)|(?<=\d)[-–—~〜～/×x](?=\d)")
_NAMED = (_LINK, _ADDRESS, _PATH, _FILE_NAME)  # a word that is one of these is a value as a whole
_LIST_NUMBER = re.compile(r"^[^\S\n]*+(?:[-*•]\s*+)?\d{1,3}[.)]\s+", re.MULTILINE)
_SEPARATOR = re.compile("[.,]")
_GROUPING = re.compile("['’  ]")
_BLANK = re.compile(r"\s")
_WEIGHTY_DIGITS = 2  # from which a number without a unit is worth keeping for itself
# Units, and small numbers in words, of many languages.
_DATA = tomllib.loads(resources.files(__package__).joinpath("values.toml").read_text("utf-8"))
UNITS: dict[str, str] = {
    alias: unit for unit, aliases in _DATA["units"].items() for alias in aliases.split()
}
_LONGEST_UNIT = 7  # characters of a unit that is glued to its number
_TIMES = {
    **dict.fromkeys(("k", "tsd", "thousand", "tausend", "тыс"), 1_000),
    **dict.fromkeys(("m", "mio", "mn", "million", "millions", "millionen", "млн"), 10**6),
    **dict.fromkeys(("bn", "billion", "mrd", "млрд"), 10**9),
}
_POWERS = {
    "十": 10,
    **dict.fromkeys("百백", 100),
    **dict.fromkeys("千천", 1_000),
    **dict.fromkeys("万萬만", 10**4),
    **dict.fromkeys("億亿억", 10**8),
    **dict.fromkeys("兆조", 10**12),
}
_HAN_DIGITS = str.maketrans("〇零一二两兩三四五六七八九", "0012223456789")
_SPELT: dict[int, list[str]] = {
    int(number): words.split() for number, words in _DATA["spelt"].items()
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it stands in a text.

    A number has `readings`, because `1.234` is one thing here and another there; a date has a
    `date`.
    """

    text: str
    readings: frozenset[Decimal] = frozenset()
    unit: str = ""
    date: Date | None = None

    @property
    def weighty(self) -> bool:
        """Whether it is worth keeping for itself: not a small count such as `3`."""
        if not self.readings or self.unit:
            return True
        return len(_DIGIT.findall(self.text)) >= _WEIGHTY_DIGITS


@lru_cache(maxsize=4096)  # the same line is asked several times
def found(text: str) -> Sequence[Value]:
    """The values of `text`, its dates first. Numbers of a numbered list are none.

    What was found is blanked before the next search, so that no part of it is found again. All
    searches read texts of the same length, and a value is cut out of `text` itself.
    """
    plain = _LIST_NUMBER.sub(lambda mark: " " * len(mark[0]), characters.digits(text))
    days = list(dates.found(plain))
    undated = _blanked(plain, [(day.begin, day.end) for day in days])
    numbers = [] if undated.isascii() else list(_COUNTED.finditer(undated))
    rest = _blanked(undated, [number.span() for number in numbers])
    return (
        *(Value(text[day.begin : day.end], date=day) for day in days),
        *(_counted_value(text, undated, number) for number in numbers),
        *_of_words(text, rest),
    )


def _counted_value(text: str, plain: str, number: re.Match[str]) -> Value:
    """The value of a number with ideographs, such as `3万5千円`, which was found in `plain`."""
    unit = _unit_of(plain[number.end() : number.end() + _LONGEST_UNIT])
    return Value(text[number.start() : number.end()], frozenset({_summed(number[0])}), unit)


def _of_words(text: str, plain: str) -> Iterator[Value]:
    """The values that are words of `plain`, as they stand in `text`."""
    words = [*_words(plain), (len(plain), len(plain))]  # the last one has an empty one behind it
    for (begin, end), (next_begin, next_end) in pairwise(words):
        value = _value(plain[begin:end], plain[next_begin:next_end])
        if value:
            start = plain.find(value.text, begin)  # signs at the beginning may be left out
            literal = text[start : start + len(value.text)]
            yield Value(literal, value.readings, value.unit)


def _words(plain: str) -> Iterator[tuple[int, int]]:
    """Where words begin and end.

    A word of letters and digits also ends where a script without blanks begins.
    """
    for token in _TOKEN.finditer(plain):
        runs = [token.span()]
        if not token[0].isascii():
            runs = [run.span() for run in _RUNS.finditer(plain, *token.span())]
        for begin, end in runs:
            bare = plain[begin:end].rstrip(_TRAILING)
            if bare:
                yield begin, begin + len(bare)


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """`text` with blanks in the place of these parts, which may lie within each other."""
    pieces: list[str] = []
    position = 0
    for begin, end in sorted(spans):
        pieces.append(text[position:begin])
        pieces.append(" " * (end - max(begin, position)))
        position = max(position, end)
    return "".join([*pieces, text[position:]])


@dataclass(frozen=True)
class Evidence:
    """What the texts that a summary covers say; made once, asked for many values.

    `whole` is all of the texts. Each index of it is made when it is first needed.
    """

    whole: str = ""

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Evidence":
        """Evidence from all of `texts`."""
        return cls("\n".join(texts))

    @cached_property
    def _folded(self) -> str:
        return " ".join(characters.folded(self.whole).split())

    @cached_property
    def _plain(self) -> str:
        return characters.digits(self.whole).casefold()

    @cached_property
    def _numbers(self) -> Mapping[Decimal, set[str]]:
        """The units with which each number occurs; "" for none."""
        numbers = defaultdict[Decimal, set[str]](set)
        # `12 847` is one number or two, and 二〇 has digits: all readings count.
        spaced = " ".join(_joined(match[0]) for match in _SPACED.finditer(self._plain))
        in_digits = _TEN.sub("1十", self._plain.translate(_HAN_DIGITS))
        readings = [self._plain, spaced, in_digits if in_digits != self._plain else ""]
        for reading, unit in chain.from_iterable(map(_every_number, readings)):
            numbers[reading].add(unit)
        return numbers

    @cached_property
    def _dates(self) -> Mapping[tuple[int, int], set[int | None]]:
        """The years with which each day occurs."""
        years = defaultdict[tuple[int, int], set[int | None]](set)
        for day in dates.found(self._plain):
            years[day.days].add(day.year)
        return years

    @cached_property
    def _clocks(self) -> frozenset[tuple[int, int]]:
        """The times of the text as hours and minutes of a clock of twelve hours."""
        clocks = _CLOCK.finditer(self._plain)
        return frozenset((int(clock[1]) % 12, int(clock[2] or 0)) for clock in clocks)

    def has(self, value: Value) -> bool:
        """Whether the value occurs, in whatever spelling."""
        if value.date:
            return self.says(value.text) or self._dated(value.date)
        if value.readings:
            return self._has_number(value)
        return self.names(value.text) or self._clocked(value.text)

    def _has_number(self, value: Value) -> bool:
        if not value.unit and self.says(value.text):
            return True
        if any(self._counts(reading, value.unit) for reading in value.readings):
            return True
        words = chain.from_iterable(_SPELT.get(int(reading), []) for reading in value.readings)
        if any(map(self.says, words)):
            return True
        return value.unit in ("", "h") and self._clocked(value.text)

    def _counts(self, reading: Decimal, unit: str) -> bool:
        """Whether a number occurs with this unit; without any on one side, units do not differ."""
        units = self._numbers.get(reading)
        if units is None:
            return False
        return not unit or unit in units or "" in units

    def _dated(self, date: Date) -> bool:
        years = self._dates.get(date.days)
        if not years or date.year is None:
            return bool(years)
        # The year may stand elsewhere: once above a list of days.
        return date.year in years or (None in years and Decimal(date.year) in self._numbers)

    def _clocked(self, text: str) -> bool:
        """Whether a time occurs, of twelve or of twenty-four hours."""
        time = _CLOCK.match(characters.digits(text))
        if not time:
            return False
        hour, minute = int(time[1]) % 12, int(time[2] or 0)
        if (hour, minute) in self._clocks:
            return True
        # `9 in the morning` has no clock: a full hour may be any number.
        return not minute and (
            Decimal(hour) in self._numbers or Decimal(hour + 12) in self._numbers
        )

    def missing(self, text: str) -> list[str]:
        """The values of `text` that do not occur, as they stand in it; small counts need not."""
        absent = self._absent(text)
        if not absent:
            return []
        joined = _joined(text)
        if joined == text:
            return absent
        # `12 847` is one number or two: the reading that leaves less missing is right.
        return min(absent, self._absent(joined), key=len)

    def _absent(self, text: str) -> list[str]:
        weighty = (value for value in found(text) if value.weighty)
        return [value.text for value in weighty if not self.has(value)]

    def names(self, words: str) -> bool:
        """Whether words occur, or each part of what is joined: `json.JSONDecodeError`, `x=32`."""
        words = words.lstrip(":：")
        if self.says(words):
            return True
        dotted = _DOTTED.fullmatch(words) and not _FILE_NAME.fullmatch(words)
        parts = words.split(".") if dotted else _JOINT.split(words)
        return len(parts) > 1 and all(self._has_part(part) for part in parts)

    def _has_part(self, part: str) -> bool:
        values = found(part)
        return self.says(part) or (bool(values) and all(map(self.has, values)))

    def says(self, words: str) -> bool:
        """Whether these words occur as they are, ignoring case and blanks, as whole words."""
        words = " ".join(characters.folded(words).split())
        if not words:
            return False
        place = self._folded.find(words)
        while place >= 0:
            if self._stand_alone(place, place + len(words)):
                return True
            place = self._folded.find(words, place + 1)
        return False

    def _stand_alone(self, begin: int, end: int) -> bool:
        """Whether the words between two places are no part of longer ones."""
        text = self._folded
        joined_before = characters.joins(text[begin - 1 : begin], text[begin])
        return not joined_before and not characters.joins(text[end - 1], text[end : end + 1])


def _value(word: str, following: str) -> Value | None:
    """The value that a word is, if it is one; without signs behind it, `following` is the next."""
    if any(pattern.fullmatch(word) for pattern in _NAMED):
        return Value(word)
    if not any(map(str.isdigit, word)):
        is_identifier = "_" in word.strip("_")
        return Value(word) if is_identifier else None
    number = _NUMBER.fullmatch(word)
    readings = _readings(number) if number else frozenset()
    if number and readings:
        return Value(word, readings, _unit(number, following))
    # An id or another name with a digit, without the signs before it.
    return Value(word.lstrip("#~+=-–—:.,"))


def _own_unit(number: re.Match[str]) -> str:
    """The letters behind a number in its own word, in small letters."""
    return (number[3] or "").strip("-‐").casefold()


def _unit_of(letters: str) -> str:
    """The unit that letters behind a number are; in other scripts, what they begin with."""
    if letters in UNITS or letters.isascii():
        return UNITS.get(letters, "")
    beginnings = (letters[:size] for size in range(_LONGEST_UNIT, 0, -1))
    return next((UNITS[one] for one in beginnings if one in UNITS), "")


def _every_number(text: str) -> Iterator[tuple[Decimal, str]]:
    """All readings of all numbers in a long text, parts of ids and dates too."""
    for match in _ANY_NUMBER.finditer(text):
        yield from _amounts(match)
        digits = match[2]
        if not digits.isdigit():
            for part in _DIGITS.findall(digits):
                yield Decimal(part), ""
    if not text.isascii():
        for number in _COUNTED.finditer(text):
            yield _summed(number[0]), _unit_of(text[number.end() : number.end() + _LONGEST_UNIT])


def _amounts(number: re.Match[str]) -> Iterator[tuple[Decimal, str]]:
    """The readings of a match of `_ANY_NUMBER`; `5 m` is five metres, and five millions."""
    sign, digits, after, behind = number.groups()
    word = (after or "").strip(" -\n\t\xa0\u202f")
    currency = UNITS.get((sign or behind or "").strip(), "")
    unit = _unit_of(word) or currency
    factor = _TIMES.get(word, 1)
    for reading in _plain_readings(digits):
        yield reading, unit
        if factor > 1:
            yield reading * factor, currency


def _summed(number: str) -> Decimal:
    """What `1億3万5千` comes to.

    A power below 10,000 multiplies the digits before it, a higher one the whole group before it; a
    power that nothing precedes counts once.
    """
    whole, group, digits = Decimal(0), Decimal(0), Decimal(0)
    for part in _COUNTED_PART.findall(number):
        power = _POWERS.get(part, 0)
        if not power:
            digits = max(_plain_readings(part), default=Decimal(0))
            continue
        if power < 10**4:
            group += (digits or 1) * power
        else:
            whole += (group + digits or 1) * power
            group = Decimal(0)
        digits = Decimal(0)
    return whole + group + digits


def _readings(number: re.Match[str]) -> frozenset[Decimal]:
    """What a match of `_NUMBER` may mean; nothing when it is a name."""
    word = _own_unit(number)
    is_unit = word in UNITS or word in _TIMES or word in ("x", "er", "e")
    has_suffix = (number[3] or "").startswith(("-", "‐"))
    if word and not (is_unit or has_suffix) and word[0].isascii():  # `72nd` and `9f` are names
        return frozenset()
    plain = _plain_readings(number[2])
    if word not in _TIMES:
        return frozenset(plain)
    return frozenset(plain | {reading * _TIMES[word] for reading in plain})


def _plain_readings(digits: str) -> set[Decimal]:
    """`1.234,5` can only be one number; `1.234` may be two."""
    digits = _GROUPING.sub("", digits).rstrip(".,")
    if digits.isdigit():
        return {Decimal(digits)}
    readings = map(_decimal, _spellings(digits))
    return {reading for reading in readings if reading is not None}


def _spellings(digits: str) -> list[str]:
    """What a number with points and commas may be, without grouping and with a decimal point."""
    separators = _DIGIT.sub("", digits)
    distinct = len(set(separators))
    if distinct == 1:
        return _spellings_of_groups(_SEPARATOR.split(digits))
    decimal = separators[-1:]
    if distinct != 2 or separators.count(decimal) > 1:
        return []
    grouping = "," if decimal == "." else "."
    return [digits.replace(grouping, "").replace(decimal, ".")]


def _spellings_of_groups(groups: Sequence[str]) -> list[str]:
    """What `1.234` or `1,234,567` may be, given in the groups between its separators."""
    first, *others = groups
    grouped = all(len(group) == 3 for group in others)
    thousands = grouped and 0 < len(first) <= 3 and first[0] != "0"
    spellings = ["".join(groups)] if thousands else []
    # `5,000` is not read as 5: any 5 in the text would then be evidence of five thousand.
    round_thousands = thousands and others == ["000"]
    if len(groups) == 2 and not round_thousands:
        spellings.append(".".join(groups))
    return spellings


def _decimal(digits: str) -> Decimal | None:
    try:
        return Decimal(digits).normalize() + 0
    except InvalidOperation:
        return None


def _unit(number: re.Match[str], following: str) -> str:
    """The unit of a match of `_NUMBER`; `$5m` are dollars, `5m` are metres."""
    own = _own_unit(number)
    currency = number[1] or number[4] or ""
    is_factor = own in _TIMES and bool(currency)
    if own in UNITS and not is_factor:
        return UNITS[own]
    if currency in UNITS:
        return UNITS[currency]
    return _unit_of(own or following.casefold())


def _joined(text: str) -> str:
    """`text` with the blanks inside numbers such as `12 847` left out."""
    return _SPACED.sub(lambda match: _BLANK.sub("", match[1]), text)
