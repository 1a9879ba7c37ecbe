"""Which values of results were used afterwards: quoted in an answer, or put into a later call.

In: what results hold, and the answers and arguments that came later. Out: `Field`s with the number
of their uses. Values and texts are compared as sequences of atoms (words, numbers, single
characters of scripts without blanks), each looked up once, so the work grows with the texts alone.
A value that says something by itself (an id, a long number, a name of several words) counts
wherever it stands. One that does not (`6`, `gold`) counts only close to what it belongs to: to
the key of its row, or to a word of its field's name.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, TypeVar

from service.summarising.ledger import tables
from service.summarising.ledger.tables import Table
from service.summarising.ledger.wording import Number, line

_LONGEST = 80  # characters of a value; what is longer is told by its lines
_LINE = 160
_LINES = 3000  # of one result that are looked at
_LEAVES = 6000
_COLUMNS = 40  # fields that belong to one row
_ATOMS = 12  # of a value
_NEWEST = 3  # results that one value is looked for in
_COMMON = 3  # rows of a result that a value may stand in and still tell them apart
_BEFORE, _AFTER = 6, 24  # atoms around the key of a row in which its other values are looked for
_CLOSE = 6  # atoms between a value and a word of its name
_FOCUS = 12  # a text that uses one value says more of it than one that uses a dozen
_ENDING = 8  # characters that tell the kind of a file
_STEM = 5  # characters by which words of a name are compared
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_ATOM = re.compile(rf"[0-9]++(?:[.,][0-9]++){{0,8}}|[{_SPACELESS}]|[^\W_{_SPACELESS}]++")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_DIGIT = re.compile(r"\d")
_NUMERAL = re.compile(r"[+-]?[0-9][0-9.,]*")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?(?:[T ][0-9:.]{4,15})?Z?|[0-9]{1,2}:[0-9]{2}(?::[0-9.]{2,9})?"
)
_MIDNIGHT = re.compile(r"(?<=[0-9]:[0-9]{2}):00(?:\.0{1,9})?Z?")
_WORD = re.compile(r"[^\s\"'`“”()\[\]{}<>|;=→]++")
_NO_WORD = ".,:;!?*_-–—"
_NOTHING = {"", "0", "true", "false", "null", "none"}

Key = tuple[str, ...]
_T = TypeVar("_T")
_Name = tuple[str, str]
_Index = dict[Key, deque[_T]]
_Queue = deque[tuple[Any, str, str]]
"""What is to be looked into, with its name and what tells its row from others."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a result.

    Attributes:
        name: of its field, with the path to it; `line 12` for a line of a text.
        value: as it stands there.
        owner: what tells its row from others, such as an id; "" when there is but one.
        line: whether `value` is a line of a text, of which the values count.
        uses: how much later texts used it; 0 for a value that none did.
    """

    name: str
    value: str
    owner: str = ""
    line: bool = False
    uses: int = 0


# ---- what a result holds


def fields(content: Any) -> Iterator[Field]:  # noqa: ANN401 - a tool's JSON
    """The values of parsed JSON, a table or a text: plain ones first, then what lies deeper."""
    if isinstance(content, str) and not isinstance(content, Number):
        yield from _of_text(content, "")
        return
    yield from islice(_in_order(content), _LEAVES)


def _in_order(content: Any) -> Iterator[Field]:  # noqa: ANN401
    queue: _Queue = deque([(content, "", "")])
    while queue:
        yield from _within(*queue.popleft(), queue)


def _within(one: Any, name: str, owner: str, queue: _Queue) -> Iterator[Field]:  # noqa: ANN401
    """The plain values of one node; those that have values themselves are put into `queue`."""
    table = one if isinstance(one, Table) else tables.records(one)
    if table is not None and table.what == "rows":
        queue.extend(_rows(table, name))
    elif isinstance(one, dict):
        yield from _within_object(one, name, owner, queue)
    elif isinstance(one, list):
        yield from _within_array(one, name, owner, queue)
    else:
        yield from _plain(one, name, owner)


def _within_object(one: Mapping[str, Any], name: str, owner: str, queue: _Queue) -> Iterator[Field]:
    keyed = len(one) > 1 and tables.alike(list(one.values()))
    for key, cell in one.items():
        path = f"{name}.{key}" if name else key
        if not isinstance(cell, dict | list):
            yield from _plain(cell, path, owner)
        elif cell:
            # A key that is data, not a name of a field, tells its object from others.
            is_owner = isinstance(cell, dict) and (keyed or strong(key))
            nearest = line(key, _LONGEST) if is_owner else owner
            queue.append((cell, path[-2 * _LONGEST :], nearest))


def _within_array(one: Sequence[Any], name: str, owner: str, queue: _Queue) -> Iterator[Field]:
    for place, cell in enumerate(one):
        if isinstance(cell, dict | list):
            queue.append((cell, f"{name}[{place}]", owner))
        else:
            yield from _plain(cell, name, owner)


def _rows(table: Table, name: str) -> Iterator[tuple[Any, str, str]]:
    """Each row with what tells it from the others."""
    for place in range(len(table.rows)):
        row = table.row(place)
        yield _Row(row), f"{name}[{place}]" if name else "", line(_key_of(row), _LONGEST)


def _key_of(row: Mapping[str, Any]) -> str:
    """The cell that tells a row from others: best one that says something by itself."""
    texts = [cell for cell in row.values() if isinstance(cell, str) and 0 < len(cell) <= _LONGEST]
    bare = [cell for cell in texts if not isinstance(cell, Number)]
    telling = next(filter(strong, bare), "")
    return telling or next(iter(bare or texts), "")


class _Row(dict[str, Any]):
    """A row of a table that was read already; it is not one of columns."""


def _plain(cell: Any, path: str, owner: str) -> Iterator[Field]:  # noqa: ANN401
    if cell is tables.ABSENT:
        return
    text = _as_text(cell)
    if len(text) > _LONGEST or "\n" in text:
        yield from _of_text(text, path)
    elif text != owner or owner not in path:  # or it repeats the key that it stands under
        yield Field(line(path, 2 * _LONGEST), line(text, _LONGEST), owner)


def _as_text(cell: Any) -> str:  # noqa: ANN401 - a tool's JSON
    """A single value as JSON writes it; numbers are texts already."""
    if cell is None:
        return "null"
    return str(cell).lower() if isinstance(cell, bool) else cell


def _of_text(text: str, path: str) -> Iterator[Field]:
    lines = text.splitlines()[:_LINES]
    for number, one in enumerate(lines, 1):
        if one.strip():
            name = ", ".join(filter(None, (path, f"line {number}" if len(lines) > 1 else "")))
            yield from (Field(name, part, line=True) for part in _parts(one))


def _parts(text: str) -> Iterator[str]:
    """A line in pieces that can be shown."""
    words: list[str] = []
    length = 0
    for word in text.split():
        if length and length + len(word) > _LINE:
            yield line(" ".join(words), _LINE)
            words, length = [], 0
        words.append(word[:_LINE])
        length += len(word) + 1
    yield line(" ".join(words), _LINE)


# ---- atoms


def atoms(text: str) -> list[str]:
    """Words and numbers in one spelling, in order."""
    return [_number(atom) if atom[0].isdigit() else atom for atom in _ATOM.findall(text.casefold())]


def _number(atom: str) -> str:
    """`1,234.50` and `1234.5` are one number."""
    if "," in atom and _GROUPED.fullmatch(atom):
        atom = atom.replace(",", "")
    whole, _, rest = atom.replace(",", ".").partition(".")
    if "." in rest:  # a version, an address
        return atom
    rest = rest.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{rest}" if rest else "")


def strong(value: str) -> bool:
    """Whether a value says something wherever it stands: an id, a long number, a full name."""
    if len(value) < 4 or _MOMENT.fullmatch(value):
        return len(value) == 3 and not value.isascii()
    if not _DIGIT.search(value):
        several = " " in value.strip() and len(value) > 7
        return several or not value.isascii() or _is_name(value)
    if not _NUMERAL.fullmatch(value):
        return sum(map(len, _ATOM.findall(value))) > 3
    return len(value.strip("+-0").replace(".", "")) > 3 and not _YEAR.fullmatch(value)


def may_be_found(one: Field) -> bool:
    """Whether a later text can use it at all: many lines of a text hold no value."""
    return next(_keys(one), None) is not None


def _is_name(word: str) -> bool:
    """The name of a file, a path, an address."""
    before, _, ending = word.rpartition(".")
    if before and len(ending) <= _ENDING and ending.isalnum() and ending[0].isalpha():
        return True
    inner = word[1:-1]
    return "@" in inner or "/" in inner


def _keys(found: Field) -> Iterator[tuple[Key, bool]]:
    """How a field is looked for, and whether it may stand anywhere."""
    return _keys_of_line(found.value) if found.line else _keys_of_value(found.value)


def _keys_of_value(value: str) -> Iterator[tuple[Key, bool]]:
    if value.casefold() in _NOTHING:
        return
    key = tuple(atoms(_MIDNIGHT.sub("", value)))
    if not 0 < len(key) <= _ATOMS:
        return
    # A single letter stands in every text.
    if len(key) > 1 or len(key[0]) > 1 or key[0].isdigit():
        yield key, strong(value)


def _keys_of_line(text: str) -> Iterator[tuple[Key, bool]]:
    """The ids, numbers and names in a line of a text; a path by its last name too."""
    for one in _WORD.findall(text)[:_COLUMNS]:
        word = one.strip(_NO_WORD)
        if not _is_value(word):
            continue
        for part in (word, word.rpartition("/")[2]):
            key = tuple(atoms(part))
            if 0 < len(key) <= _ATOMS and len(part) > 2:
                yield key, True


def _is_value(word: str) -> bool:
    if _DIGIT.search(word) and (strong(word) or _long(word)):
        return True
    return len(word) > 4 and _is_name(word)


def _long(word: str) -> bool:
    """A number of three figures or more, which is no round one and no year."""
    figures = "".join(filter(str.isdigit, word))
    return len(figures.strip("0")) > 2 and not _YEAR.fullmatch(word) and not _MOMENT.fullmatch(word)


# ---- what was used


@dataclass(slots=True)
class _Held:
    """A field of an entry, while texts are read."""

    place: int
    field: Field
    key: Key = ()
    uses: int = 0


@dataclass(slots=True)
class Uses:
    """The values of all results so far, and how often later texts used them."""

    _held: dict[int, list[_Held]] = field(default_factory=lambda: defaultdict(list))
    _strong: dict[Key, deque[_Held]] = field(default_factory=dict)
    _weak: dict[Key, deque[_Held]] = field(default_factory=dict)
    _owned: dict[Key, deque[Sequence[_Held]]] = field(default_factory=dict)
    _lengths: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    _heard: set[str] = field(default_factory=set)

    def hear(self, text: str) -> None:
        """Reads what users say: a result that repeats it brings nothing new."""
        self._heard.update(atoms(text))

    def add(self, place: int, found: Iterable[Field]) -> None:
        """Values of the entry at `place`, as a result holds them or as they were stored."""
        fields = list(found)
        keyed = [_keyed(place, one) for one in fields]
        often = Counter(chain.from_iterable(keys for _, keys in keyed))
        in_most_rows = _most_rows(fields)
        rows: dict[_Name, list[_Held]] = defaultdict(list)
        anchors: dict[_Name, set[Key]] = defaultdict(set)
        for held, keys in keyed:
            self._held[place].append(held)
            row = _row_of(held.field)
            for key, anywhere in keys.items():
                telling = anywhere and often[key] <= _COMMON
                self._index(held, key, telling=telling)
                # What most rows have in common tells none of them, unless it was used before.
                if often[key] > in_most_rows and not held.uses:
                    continue
                if not _adds_to_owner(key, held.field):
                    continue
                rows[row].append(held)
                if telling:
                    anchors[row].add(key)
        self._own(rows, anchors)

    def _index(self, held: _Held, key: Key, *, telling: bool) -> None:
        """Where a value is looked for: anywhere, close to its name, or only in its row."""
        new = not self._heard.issuperset(key)
        if telling and (held.uses or new):
            self._put(self._strong, key, held)
        elif not held.field.line and (new or key[0][0].isdigit()):
            self._put(self._weak, key, held)
        if not held.field.line:
            held.key = key

    def _own(self, rows: Mapping[_Name, list[_Held]], anchors: Mapping[_Name, set[Key]]) -> None:
        """Values of a row are looked for around what tells it from other rows."""
        owners = {row: tuple(atoms(row[0])) for row in rows}
        named = Counter(owners.values())
        for row, members in rows.items():
            own = {owners[row]} if named[owners[row]] <= _COMMON else set()
            for key in anchors[row] | own:
                if 0 < len(key) <= _ATOMS:
                    self._put(self._owned, key, members[:_COLUMNS])

    def _put(self, index: _Index[_T], key: Key, held: _T) -> None:
        index.setdefault(key, deque(maxlen=_NEWEST)).append(held)
        self._lengths[key[0]].add(len(key))

    def read(self, text: str, weight: int = _FOCUS) -> None:
        """Marks what an answer, or the arguments of a call, uses; they share `weight`."""
        said = atoms(text)
        places: dict[Key, list[int]] = defaultdict(list)
        words: dict[str, list[int]] = defaultdict(list)
        for place, atom in enumerate(said):
            words[atom[:_STEM]].append(place)
            for length in self._lengths.get(atom, ()):
                places[tuple(said[place : place + length])].append(place)
        used = {
            id(held): held
            for key, where in places.items()
            for held in self._at(key, where, places, words)
        }
        for held in used.values():
            held.uses += max(weight // len(used), 1)
        self._heard.update(said)

    def _at(
        self,
        key: Key,
        where: Sequence[int],
        places: Mapping[Key, Sequence[int]],
        words: Mapping[str, Sequence[int]],
    ) -> Iterator[_Held]:
        """The values that are used, by what stands in a text under one key."""
        if key in self._strong:
            yield self._strong[key][-1]
        for row in self._owned.get(key, ()):
            for one in row:
                if one.key != key and _near(places.get(one.key, ()), where):
                    yield one
        weak = self._weak.get(key)
        if weak and _is_close_to_its_name(weak[-1], where, words):
            yield weak[-1]

    def of(self, place: int) -> list[Field]:
        """The values of the entry at `place`, in their order, with their uses."""
        return [replace(held.field, uses=held.uses) for held in self._held.get(place, ())]


def _keyed(place: int, one: Field) -> tuple[_Held, dict[Key, bool]]:
    """A field with the keys under which it is looked for."""
    return _Held(place, one, uses=one.uses), dict(_keys(one))


def _most_rows(fields: Iterable[Field]) -> int:
    """In more rows than this a value says nothing of any of them."""
    return max(_COMMON, len(set(map(_row_of, fields))) // 2)


def _row_of(one: Field) -> _Name:
    return one.owner, one.name.rpartition("]")[0]


def _adds_to_owner(key: Key, one: Field) -> bool:
    """Whether a value of a row says more than what tells the row from others."""
    return bool(one.owner) and not set(key) <= set(atoms(one.owner))


def _is_close_to_its_name(
    held: _Held, where: Sequence[int], words: Mapping[str, Sequence[int]]
) -> bool:
    of_a_row = held.field.owner and held.field.owner not in held.field.name
    if of_a_row:  # all rows have the name, so that it says nothing of which row is meant
        return False
    return any(_near(words.get(stem, ()), where, _CLOSE, _CLOSE) for stem in _stems(held))


def _stems(held: _Held) -> Iterator[str]:
    """Words of the last name of a field's path, but for its own value."""
    last = held.field.name.rpartition(".")[2]
    return (atom[:_STEM] for atom in atoms(last) if len(atom) > 2 and atom not in held.key)


def _near(
    some: Sequence[int], others: Sequence[int], before: int = _BEFORE, after: int = _AFTER
) -> bool:
    """Whether one of `some` stands at most so many atoms before or after one of `others`."""
    for place in others:
        index = bisect_left(some, place - before)
        if index < len(some) and some[index] <= place + after:
            return True
    return False
