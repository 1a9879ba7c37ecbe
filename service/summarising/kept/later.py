"""Where a value was said again later, with another value. Pure.

Nothing is removed by it: the earlier sentence is shown with the later one, and the model decides.
So the measure is generous: two sentences share a term that few others have, and the later one has
another value of the same sort. Only where both name things, such as `H93-452`, one of them has to
be the same. Knows no language.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from service.summarising.utterances import Utterance
from service.text import tokens, values
from service.text.sentences import around, asks
from service.text.terms import has_digit, terms
from service.text.values import Value

_RARE = 6  # utterances that have a term, at most, for it to tell what they are about
_LEAST = 4  # letters of a word that says what a sentence is about
_PAIRS = 4  # of a script without blanks say as much as a word
_ASSISTANTS = 2  # words that two sentences share, where an assistant said the earlier one
_LONGEST = 40  # characters of the later sentence
_YEARS = 2  # between two dates for the same
_SIZE = 4  # times as large a number may be, to be about the same
_SHORTEST = 4  # characters of an identifier: `3pm` is none
_NAMES = ("name", "link")  # another file or address takes nobody's place

_Values = Mapping[str, Mapping[str, Value]]


def marks(talk: Sequence[Utterance]) -> dict[str, str]:
    """For the number of each utterance whose value was said again: the newest words, their number.

    Only a user's sentence follows a user's; an assistant's may be followed by anybody's.
    """
    stated = [one for one in talk if one.own and not asks(one.text)]
    by_users = [one for one in stated if one.by_user]
    found = dict(_marked(stated))
    for one in by_users:
        found.pop(one.number, None)
    return found | dict(_marked(by_users))


def _marked(stated: Sequence[Utterance]) -> Iterator[tuple[str, str]]:
    places = _places(stated)
    for place, one in enumerate(stated):
        if not _valued(one.text):
            continue
        newest = next(_said_again(stated, place, places), None)
        if newest:
            yield one.number, newest


def _places(stated: Sequence[Utterance]) -> Mapping[str, list[int]]:
    """In which utterances each telling term stands."""
    places = defaultdict[str, list[int]](list)
    for place, one in enumerate(stated):
        for term in _telling(one.text):
            places[term].append(place)
    return {term: found for term, found in places.items() if 1 < len(found) <= _RARE}


def _said_again(
    stated: Sequence[Utterance], place: int, places: Mapping[str, list[int]]
) -> Iterator[str]:
    """Words of later utterances with another value of the same sort, newest first."""
    earlier = stated[place]
    for at in sorted(_alike_later(earlier, place, places), reverse=True):
        later = stated[at]
        # Two values in one step stand beside each other; neither takes the other's place.
        if later.step == earlier.step or not _of_one_thing(earlier.text, later.text):
            continue
        value = _other_value(_valued(earlier.text), _valued(later.text))
        if value:
            # Its number is where recall reads the whole of it.
            yield f"{around(later.text, value.text, _LONGEST)}; {later.number}"


def _alike_later(earlier: Utterance, place: int, places: Mapping[str, list[int]]) -> Iterator[int]:
    """The places behind `place` of utterances that share enough telling terms with `earlier`."""
    shared = defaultdict[int, float](float)
    for term in _telling(earlier.text):
        weight = _weight(term)
        for at in places.get(term, ()):
            shared[at] += weight
    # An assistant says much, and has many values near each other.
    needed = 1 if earlier.by_user else _ASSISTANTS
    for at, weight in shared.items():
        if at > place and weight >= needed:
            yield at


def _weight(term: str) -> float:
    """What a shared term counts: 1 for a word, less for a pair of signs without blanks."""
    return 1 if term.isascii() or len(term) > 2 else 1 / _PAIRS


def _of_one_thing(earlier: str, later: str) -> bool:
    """Whether both name the same, or one of them names nothing."""
    named, also = _identifiers(earlier), _identifiers(later)
    return not named or not also or not named.isdisjoint(also)


def _other_value(before: "_Values", after: "_Values") -> Value | None:
    """The value for which one of its sort and size was given up."""
    for sort in after:
        if sort not in before:
            continue
        earlier, later = before[sort], after[sort]
        # A value that stands in both was not given up.
        if not earlier.keys().isdisjoint(later.keys()):
            continue
        for other in later.values():
            if any(_alike(one, other) for one in earlier.values()):
                return other
    return None


def _alike(one: Value, other: Value) -> bool:
    """Whether two values may be of the same thing: dates of about a year, or numbers of a size."""
    if one.date and other.date:
        years = (one.date.year, other.date.year)
        return None in years or abs((one.date.year or 0) - (other.date.year or 0)) <= _YEARS
    if not (one.readings and other.readings):
        return True
    small, large = sorted((max(one.readings), max(other.readings)))
    return small * _SIZE >= large


@lru_cache(maxsize=8192)
def _valued(text: str) -> "_Values":
    """The values of a text by their sort, each by its spelling."""
    if not values.marked(text):
        return {}
    by_sort = defaultdict[str, dict[str, Value]](dict)
    for one in values.found(text):
        if values.sort(one) not in _NAMES:
            by_sort[values.sort(one)][values.spelling(one)] = one
    return by_sort


@lru_cache(maxsize=8192)
def _telling(text: str) -> frozenset[str]:
    """What an utterance is about: names, and words that are not common."""
    words = (word for word in terms(text) if _says_a_subject(word))
    return _identifiers(text).union(word for word in words if not tokens.is_common(word))


def _says_a_subject(word: str) -> bool:
    return not has_digit(word) and (len(word) >= _LEAST or not word.isascii())


@lru_cache(maxsize=8192)
def _identifiers(text: str) -> frozenset[str]:
    """What things are called: letters and digits, such as `H93-452`."""
    names = (values.spelling(one) for one in values.found(text) if values.sort(one) == "name")
    return frozenset(filter(_is_identifier, names))


def _is_identifier(name: str) -> bool:
    return len(name) >= _SHORTEST and has_digit(name) and any(map(str.isalpha, name))
