"""Exact values in a text: numbers with their units, dates, ids, URLs, paths, addresses. Pure.

`found` lists them as they stand, in any script: 余额5美元，已退款 holds `5美元`. `Evidence` answers whether a
value occurs in what a summary covers, however it is written there: `12,847`, `12.847`, `12 847` and
`12847` are one number, `5 GB` and `5 gigabytes` one size, `16:30` and `4:30 PM` one time.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from importlib import resources

from service.text import characters, dates
from service.text.dates import Date

_MARKS = r"\s\"'`“”„«»‘’<>()\[\]{}|;*、。，；：！？…「」『』【】《》〈〉（）［］・"
_TOKEN = re.compile(rf"[^{_MARKS}]+(?:['’](?=\d{{3}})[^{_MARKS}]+)*")
_TRAILING = ".,:;!?…*_-–—=/~〜～"
_RUNS = re.compile(f"(?P<glued>[{characters.UNSPACED}]+)|[^{characters.UNSPACED}]+")
_NUMBER = re.compile(
    r"\A[+\-−~≈<>=≤≥±]*+([$€£¥₽₹₩])?(\d[\d.,'’  ]*+)"
    r"([^\W\d_]{0,16}|[%‰°µ][^\W\d_]{0,2})?([$€£¥₽₹₩%])?"
)
_SUFFIXED = re.compile(r"\A(\d[\d.,]*+)((?:[-‐][^\W\d_]{0,30}[^\W\d_A-Z][^\W\d_]{0,30}){1,4})")
_RANGE = re.compile(r"\A(\d[\d.,]*+[^\W\d_]{0,3})(?:[-–—~〜～/:×x](\d[\d.,]*+[^\W\d_]{0,3})){1,3}")
_RANGE_PART = re.compile(r"\d[\d.,]*+")
_SPACED = re.compile(r"(?<![\d.,])(\d{1,3}(?:[   ]\d{3})+)(?![\d])")
_DIGITS = re.compile(r"\d+")
_DIGIT = re.compile(r"\d")
_ANY_NUMBER = re.compile(
    r"(?<![a-z_\d])(?<![a-z_][-–])([$€£¥₽₹₩]\s?)?(\d[\d.,'’]*)(\s?-?[^\W\d_]{1,16}|\s?[%‰°][^\W\d_]?)?"
    r"(\s?[$€£¥₽₹₩])?"
)
_CLOCK = re.compile(
    r"(?<![\d:.,])(\d{1,2})(?:\s?(?:[:.h時点點시]|uhr)\s?([0-5]\d)(?![\d.,])"
    r"|\s?(?:am\b|pm\b|a\.m|p\.m|uhr|h\b|ч\b|час|時|点|點|시))",
    re.IGNORECASE,
)
_TIME = re.compile(r"\A(\d{1,2})(?:[:.h時点點시]([0-5]\d)|\s?(?:am|pm|h|uhr)\b)", re.IGNORECASE)
_COUNTED = re.compile(r"(?<![\d.,])(?:(\d[\d.,]*+)\s?([兆億亿万萬千百조억만천백]+))+(\d+)?")
_COUNTED_PART = re.compile(r"(\d[\d.,]{0,40}+)\s?([兆億亿万萬千百조억만천백]+)|(\d+)")
_HAN_NUMBER = re.compile("[〇零一二三四五六七八九十百千万萬亿億两兩]+")
_LINK = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}://|www\.)\S+", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")  # as long as mail allows
_PATH = re.compile(
    r"\A(?:(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,8}|"
    r"[\w.@+-]+(?:/[\w.@+-]+){2,})"
)
_FILE_ENDING = (
    r"\w\.(?:py|sql|md|ya?ml|json|csv|tsv|txt|toml|ini|cfg|conf|env|sh|ts|tsx|jsx?|go|rs|java|kt|rb|"
    r"php|cs|c|h|cpp|html?|css|xml|pdf|xlsx?|docx?|pptx?|odt|png|jpe?g|svg|gif|zip|tar|gz|log|db|"
    r"parquet|ipynb|lock)"
)
_FILE_NAME = re.compile(rf"\A[\w.-]*{_FILE_ENDING}", re.IGNORECASE)
_ANY_FILE_NAME = re.compile(_FILE_ENDING, re.IGNORECASE)
_LIST_NUMBER = re.compile(r"^[^\S\n]*+(?:[-*•]\s*+)?\d{1,3}[.)]\s+", re.MULTILINE)
_SEPARATOR = re.compile("[.,]")
_GROUPING = re.compile("['’  ]")
_BLANK = re.compile(r"\s")
_LONGEST_HAN = 16  # signs of a number; more are no number
_DATA = tomllib.loads(resources.files(__package__).joinpath("values.toml").read_text("utf-8"))
UNITS: dict[str, str] = {
    alias: unit for unit, aliases in _DATA["units"].items() for alias in aliases.split()
}
_COUNTERS = frozenset(_DATA["counters"]["all"].split())
_LONGEST_UNIT = 7  # characters of a unit that is glued to its number
_TIMES = {
    **dict.fromkeys(("k", "tsd", "thousand", "tausend", "тыс"), 1_000),
    **dict.fromkeys(("m", "mio", "mn", "million", "millions", "millionen", "млн"), 10**6),
    **dict.fromkeys(("bn", "billion", "mrd", "млрд"), 10**9),
}
_POWERS = {
    **dict.fromkeys("百백", 100),
    **dict.fromkeys("千천", 1_000),
    **dict.fromkeys("万萬만", 10**4),
    **dict.fromkeys("億亿억", 10**8),
    **dict.fromkeys("兆조", 10**12),
}
_HAN_DIGITS = {
    **{sign: value for value, sign in enumerate("〇一二三四五六七八九")},
    "零": 0,
    "两": 2,
    "兩": 2,
}
_HAN_POWERS = {**_POWERS, "十": 10}
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
        return not self.readings or bool(self.unit) or len(_DIGIT.findall(self.text)) >= 2


@lru_cache(maxsize=4096)  # the same sentence is asked for its values, their sorts and its subject
def found(text: str) -> Sequence[Value]:
    """The values of `text`, its dates first. Numbers of a numbered list are none."""
    plain = _LIST_NUMBER.sub(lambda mark: " " * len(mark[0]), characters.digits(text))
    days = list(dates.found(plain))
    values = [Value(text[day.begin : day.end], date=day) for day in days]
    plain = _blanked(plain, [(day.begin, day.end) for day in days])
    counted = [] if plain.isascii() else list(_COUNTED.finditer(plain))
    for number in counted:
        unit, size = _glued_unit(plain[number.end() : number.end() + _LONGEST_UNIT])
        shown = text[number.start() : number.end() + size]
        values.append(Value(shown, frozenset({_summed(number[0])}), unit))
    plain = _blanked(plain, [number.span() for number in counted])
    words = list(_words(plain))
    for place, (begin, end) in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else (end, end)
        glued = following[0] == end < following[1]
        one = _value(plain[begin:end], plain[slice(*following)], glued=glued)
        if one:
            start = plain.find(one.text, begin)
            shown = text[start : start + len(one.text)]
            values.append(Value(shown, one.readings, one.unit))
    return tuple(values)


def _words(plain: str) -> Iterator[tuple[int, int]]:
    """Where words begin and end; in a script without blanks, a word of letters and digits ends at it."""
    for token in _TOKEN.finditer(plain):
        runs = [token.span()]
        if not token[0].isascii():
            runs = [run.span() for run in _RUNS.finditer(plain, *token.span())]
        for begin, end in runs:
            bare = plain[begin:end].rstrip(_TRAILING)
            if bare:
                yield begin, begin + len(bare)


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """`text` of the same length, with blanks in the place of these parts, which may lie within each other."""
    kept: list[str] = []
    position = 0
    for begin, end in sorted(spans):
        kept.append(text[position:begin])
        kept.append(" " * (end - max(begin, position)))
        position = max(position, end)
    return "".join([*kept, text[position:]])


def spelling(value: Value) -> str:
    """One spelling for all ways to write a value, with which values are compared with each other."""
    if value.date:
        return f"{value.date.days} {value.date.year or ''}".strip()
    if value.readings:
        return f"{max(value.readings)}{value.unit}"
    return characters.folded(value.text)


def sort(value: Value) -> str:
    """Of which sort a value is: `date`, `link`, `name` (ids, paths), or a number of some unit."""
    if value.readings:
        return f"number {value.unit}"
    if value.date:
        return "date"
    return "link" if _LINK.fullmatch(value.text) or _ADDRESS.fullmatch(value.text) else "name"


def marked(text: str) -> bool:
    """Whether `text` has a value at all; cheap."""
    patterns = (_DIGITS, _LINK, _ADDRESS, _ANY_FILE_NAME)
    return any(pattern.search(text) for pattern in patterns)


@dataclass(frozen=True)
class Evidence:
    """What the texts that a summary covers say; made once for each, asked for many values.

    `whole` is all of the texts. What is looked up in it is collected when it is first asked for.
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
        """The units with which each number occurs."""
        numbers = defaultdict[Decimal, set[str]](set)
        spaced = " ".join(_joined(match[0]) for match in _SPACED.finditer(self._plain))
        for reading, unit in (*_every_number(self._plain), *_every_number(spaced)):
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
        clocks = _CLOCK.finditer(self._plain)
        return frozenset((int(clock[1]) % 12, int(clock[2] or 0)) for clock in clocks)

    def has(self, value: Value) -> bool:
        """Whether the value occurs, in whatever spelling."""
        if value.date:
            return self.says(value.text) or self._dated(value.date)
        if not value.readings:
            return self.says(value.text) or self._clocked(value.text) or self._in_parts(value.text)
        if not value.unit and self.says(value.text):
            return True
        units = [self._numbers[reading] for reading in value.readings if reading in self._numbers]
        if any(not value.unit or value.unit in seen or "" in seen for seen in units):
            return True
        spelt = [word for one in value.readings for word in _SPELT.get(int(one), [])]
        return any(map(self.says, spelt)) or (value.unit in ("", "h") and self._clocked(value.text))

    def _dated(self, date: Date) -> bool:
        years = self._dates.get(date.days)
        if not years or date.year is None:
            return bool(years)
        return date.year in years or (None in years and Decimal(date.year) in self._numbers)

    def _clocked(self, text: str) -> bool:
        """Whether a time occurs, of twelve or of twenty-four hours."""
        time = _TIME.match(characters.digits(text))
        if not time:
            return False
        hour, minute = int(time[1]) % 12, int(time[2] or 0)
        told = not minute and any(Decimal(one) in self._numbers for one in (hour, hour + 12))
        return told or (hour, minute) in self._clocks  # `9 in the morning` has no clock

    def _in_parts(self, text: str) -> bool:
        """Whether all numbers of a range, or of a size such as `1920x1080`, occur."""
        plain = characters.digits(text)
        if not _RANGE.fullmatch(plain):
            return False
        parts = [_plain_readings(part) for part in _RANGE_PART.findall(plain)]
        return all(any(one in self._numbers for one in readings) for readings in parts)

    def missing(self, text: str) -> list[str]:
        """The values of `text` that do not occur, as they stand in it; small counts need not."""
        absent = self._absent(text)
        if absent and (joined := _joined(text)) != text:  # `12 847` is one number, or two
            return min(absent, self._absent(joined), key=len)
        return absent

    def _absent(self, text: str) -> list[str]:
        weighty = (value for value in found(text) if value.weighty)
        return [value.text for value in weighty if not self.has(value)]

    def says(self, words: str) -> bool:
        """Whether these words occur as they are, but for case and blanks, not as a part of longer ones."""
        words = " ".join(characters.folded(words).split())
        place = self._folded.find(words)
        while words and place >= 0:
            end = place + len(words)
            before, after = self._folded[place - 1 : place], self._folded[end : end + 1]
            if not characters.joins(before, words[0]) and not characters.joins(words[-1], after):
                return True
            place = self._folded.find(words, place + 1)
        return False


def _value(word: str, following: str, *, glued: bool) -> Value | None:
    """The value that a word is, if it is one; `following` is the next word, `glued` without a blank."""
    if any(pattern.fullmatch(word) for pattern in (_LINK, _ADDRESS, _PATH, _FILE_NAME)):
        return Value(word)
    if not any(character.isdigit() for character in word):
        return Value(word) if "_" in word.strip("_") else None
    if suffixed := _SUFFIXED.fullmatch(word):  # `30-day`, `14-tägig`, `5-го`
        unit = UNITS.get(suffixed[2].strip("-‐").casefold(), "")
        return Value(word, frozenset(_plain_readings(suffixed[1])), unit)
    number = _NUMBER.fullmatch(word)
    if not number or not (readings := _readings(number)):
        return Value(word.lstrip("#~+=-–—:.,"))
    own = (number[3] or "").casefold()
    if own and own not in UNITS and own not in _TIMES and not own.isascii():
        unit, size = _glued_unit(own)
        return Value(word[: number.start(3) + size], readings, unit)
    if glued:
        unit, size = _glued_unit(following)
        return Value(word + following[:size], readings, unit)
    return Value(word, readings, _unit(number, following))


def _glued_unit(letters: str) -> tuple[str, int]:
    """The unit that begins a run of letters behind a number, and its length; counters have none."""
    for size in range(min(_LONGEST_UNIT, len(letters)), 0, -1):
        if letters[:size] in UNITS:
            return UNITS[letters[:size]], size
        if letters[:size] in _COUNTERS:
            return "", size
    return "", 0


def _every_number(text: str) -> Iterator[tuple[Decimal, str]]:
    """All readings of all numbers in a long text, parts of ids and dates too."""
    for match in _ANY_NUMBER.finditer(text):
        sign, digits, after, behind = match.groups()
        word = (after or "").strip(" -\n\t\xa0\u202f")
        unit = UNITS.get(word) or UNITS.get((sign or behind or "").strip()) or ""
        if word and not unit and not word.isascii():
            unit, _ = _glued_unit(word)
        factor = _TIMES.get(word, 1)
        for reading in _plain_readings(digits):
            yield reading, unit
            if factor > 1:
                yield reading * factor, UNITS.get((sign or behind or "").strip(), "")
        if not digits.isdigit():
            for part in _DIGITS.findall(digits):
                yield Decimal(part), ""
    if not text.isascii():
        yield from _in_ideographs(text)


def _in_ideographs(text: str) -> Iterator[tuple[Decimal, str]]:
    """`3万5千円` and 三十五, as far as `found` reads them or a summariser writes them in digits."""
    for number in _COUNTED.finditer(text):
        yield _summed(number[0]), _glued_unit(text[number.end() : number.end() + _LONGEST_UNIT])[0]
    for number in _HAN_NUMBER.finditer(text):
        if len(number[0]) <= _LONGEST_HAN:
            yield Decimal(_han(number[0])), ""


def _summed(counted: str) -> Decimal:
    """What `1億3万5千` comes to; factors in a row, as in `3百万`, are one."""
    whole = Decimal(0)
    for digits, powers, rest in _COUNTED_PART.findall(counted):
        if rest:
            return whole + Decimal(rest)
        times = 1
        for power in powers[:4]:
            times *= _POWERS[power]
        whole += max(_plain_readings(digits), default=Decimal(0)) * times
    return whole


def _han(signs: str) -> int:
    """A number in ideographs: digit by digit (二〇二四), or with its powers (三百二十)."""
    if not any(sign in _HAN_POWERS for sign in signs):
        return int("".join(str(_HAN_DIGITS[sign]) for sign in signs))
    whole, group, digit = 0, 0, 0
    for sign in signs:
        if sign in _HAN_DIGITS:
            digit = _HAN_DIGITS[sign]
        elif _HAN_POWERS[sign] < 10**4:
            group += (digit or 1) * _HAN_POWERS[sign]
            digit = 0
        else:
            whole += (group + digit or 1) * _HAN_POWERS[sign]
            group, digit = 0, 0
    return whole + group + digit


def _readings(number: re.Match[str]) -> frozenset[Decimal]:
    word = (number[3] or "").casefold()
    known = word in UNITS or word in _TIMES or word in ("x", "er", "e")
    if word and not known and word[0].isascii():  # `72nd` and `9f` are names
        return frozenset()
    plain = _plain_readings(number[2])
    return (
        frozenset(plain | {one * _TIMES[word] for one in plain})
        if word in _TIMES
        else frozenset(plain)
    )


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
        grouped = all(len(group) == 3 for group in groups[1:])
        thousands = grouped and 0 < len(groups[0]) <= 3 and groups[0][0] != "0"
        if thousands:
            readings.add("".join(groups))
        if len(groups) == 2 and not (
            thousands and groups[1] == "000"
        ):  # or any 5 would bear out 5,000
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
