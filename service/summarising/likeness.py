"""When two texts say the same, or speak of the same thing: by their words without endings, and their values. Pure."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from math import ceil

from service.summarising import cues, values
from service.summarising.sentences import Sentence, split

_MEANT = 0.6  # of a proposal's words that a sentence has to have, to be what it means
_NEIGHBOURS = 512  # sentences that a proposal is compared with
_STOP_WORDS = """
a an and are as at be been may must might shall nothing never nobody but by can could did do does for from had has
have he her his how i if in into is it its just let me more my no not now of ok on only or our please she should so
some than thanks that the their them then there they this to too up us use was we were what when which who will with
would yes you your instead actually all also any about der die das den dem des ein eine einen und oder aber ist sind
war nicht nur für mit von zu im auf es ich wir du sie bitte jetzt statt auch le la les un une et ou est sont pas
pour avec de en je nous vous el los las y o son para con por il lo gli e di che per non si am vom zum zur kein keine
keinen keiner keinem
"""
# What is counted is no subject: a laptop for 500 EUR has nothing to do with a budget of 500 EUR.
_STOP = frozenset((*_STOP_WORDS.split(), *values.UNITS)) - {"second"}  # `the second car`
_NEGATION = re.compile(
    r"\b(?:never|not|no|cannot|without|nobody|nothing|none|neither|avoid|stop|forbid\w*|forbidden|"
    r"nie(?:mals)?|nicht|kein\w*|ohne|pas|jamais|sans|aucun\w*|nunca|jamás|sin|non|mai|senza|não|sem|не|нет|никогда)\b"
    r"|n['’]t\b|[不别勿没无]|ない|ません|禁止",
    re.IGNORECASE,
)
_CONTRACTED = re.compile(r"['’](?:s|m|re|ve|ll|d|t)$")  # I've, it's, don't
_CLAUSE = re.compile(r"[,;:.!]\s|\b(?:and|but|und|aber|et|mais|y|pero)\b", re.IGNORECASE)
_SUFFIX = re.compile(r"(?:ings?|ed|es|s|en|n|er|e)$")
_WORD = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")


def negated(text: str) -> bool:
    """Whether a sentence says that something is not, or must not be."""
    return bool(_NEGATION.search(text))


def bans(text: str) -> list[frozenset[str]]:
    """What each clause of a sentence that forbids something is about."""
    return [about for clause in _CLAUSE.split(text) if negated(clause) and len(about := subject(clause)) >= 2]


@lru_cache(maxsize=4096)
def key(text: str) -> str:
    """The words of a text, by which two ways to write the same sentence are equal."""
    return " ".join(_WORD.findall(text.casefold()))


@lru_cache(maxsize=4096)
def weighty(text: str) -> frozenset[str]:
    """The weighty values of a text, in one spelling."""
    found = values.found(text) if values.marked(text) else []
    return frozenset(values.spelling(value) for value in found if value.weighty)


@lru_cache(maxsize=4096)
def sorts(text: str) -> frozenset[str]:
    """Of which sorts the values of a text are: only a date takes the place of a date."""
    found = values.found(text) if values.marked(text) else []
    return frozenset(values.sort(value) for value in found if value.weighty)


@lru_cache(maxsize=4096)
def subject(text: str) -> frozenset[str]:
    """What a sentence is about: its words without values, articles and the like, and without endings."""
    for value in values.found(text) if values.marked(text) else ():
        if not value.readings and not value.date:  # the words of an address say nothing
            text = text.replace(value.text, " ")
    words = (word for word in _WORD.findall(text.casefold()) if not any(letter.isdigit() for letter in word))
    telling = (word for word in words if word not in _STOP and len(word) > 1 and not _CONTRACTED.search(word))
    return frozenset(_stem(word) for word in telling if not cues.replaces(word))


def _stem(word: str) -> str:
    return _SUFFIX.sub("", word) if len(word) > 4 else word


class Index:
    """Finds the sentence that a summariser's words mean."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self._sentences = sentences
        self._words = [_words(sentence.text) for sentence in sentences]
        self._with: Mapping[str, list[int]] = defaultdict(list)
        for place, words in enumerate(self._words):
            for word in words:
                self._with[word].append(place)

    def meant(self, text: str) -> Sentence | None:
        """What a proposal means: one sentence, or the first that is found when it copies several."""
        return self._best(text) or next(filter(None, map(self._best, split(text))), None)

    def _best(self, text: str) -> Sentence | None:
        """The sentence with most of the words of `text` and all of its values; a user's, and the newest, of equals."""
        words = _words(text)
        asked = weighty(text)
        near = [(len(words & self._words[place]), place) for place in self._near(words)]
        ranked = sorted(
            (count, self._sentences[place].role == "user", place)
            for count, place in near
            if count >= _MEANT * len(words)
        )
        for _, _, place in reversed(ranked):
            sentence = self._sentences[place]
            # It has the values, and has the words not in a quotation alone.
            if asked <= weighty(sentence.text) and words & _words(sentence.own):
                return sentence
        return None

    def _near(self, words: frozenset[str]) -> set[int]:
        """Places of sentences that may have most of `words`.

        Such a sentence has one of the rarest of them. When many have even those, the newest are looked at.
        """
        rarest = sorted(words, key=lambda word: (len(self._with.get(word, ())), word))
        near: set[int] = set()
        for word in rarest[: len(words) - ceil(_MEANT * len(words)) + 1]:
            near.update(islice(reversed(self._with.get(word, ())), _NEIGHBOURS - len(near)))
        return near


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    words = frozenset(_WORD.findall(text.casefold()))
    return words - _STOP or words
