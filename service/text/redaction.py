"""Masks secrets in a text: API keys, bearer tokens, passwords, private keys.

In: a text, plain or JSON or code. Out: the same text with `[masked: GitHub Token]` in the place of
each secret, and how many there were. What is around a secret stays byte for byte, JSON stays JSON,
and masking twice is masking once. Every pattern is bounded or possessive, so that the cost grows
with the text and no faster.

docs/adr/0011-secrets.md says which patterns are detect-secrets', and why the rest is ours.
"""

import base64
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from typing import Any


@dataclass(frozen=True, slots=True)
class MaskedText:
    """A text without secrets."""

    text: str
    #: Number of secrets that were masked in it.
    count: int


@dataclass(frozen=True, slots=True)
class _Rule:
    """Finds one kind of secret."""

    #: The kind that stands in the mask.
    kind: str
    #: Finds candidates.
    pattern: re.Pattern[str]
    #: Whether a candidate is a secret.
    holds: Callable[[str], bool] = bool
    #: The pattern is in lower case, and reads the text in lower case.
    any_case: bool = False
    #: The pattern is tried only where one of these occurs; with none, always.
    hints: tuple[str, ...] = ()


# Words that documentation and templates have in the place of a secret.
_PLACEHOLDER = re.compile(
    r"\A(?:[<{\[]|\$(?:\w+$|[{(]|env:)|%[(s]|[*•.x]+$|your|"
    r"(?:none|null|true|false|undefined|redacted)$)",
    re.IGNORECASE,
)
_JOINT = re.compile(r"[-_./:]")
_WORD = re.compile(r"[^\W\d_][^\W\d]*|[A-Za-z._-]+")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[A-Za-z]")
_MIXED = re.compile(r"\d|[a-z][A-Z]|=$")


def _is_value(text: str) -> bool:
    """Whether a text is no placeholder such as `${PASSWORD}`, `<token>` or `****`."""
    return not _PLACEHOLDER.match(text) and "://" not in text


def _is_worded(text: str) -> bool:
    """Whether a text consists of words and numbers, as `my-app-v2` and `2024-01-31` do."""
    long_parts = [part for part in _JOINT.split(text) if len(part) > 3]
    return all(part.isalpha() or part.isdigit() for part in long_parts)


def _is_password(text: str) -> bool:
    """Whether a text is neither a word nor an identifier.

    `password: required` is documentation, and `password = user_password` is code.
    """
    if not _is_value(text) or _WORD.fullmatch(text):
        return False
    return not (_is_worded(text) and _IDENTIFIER.fullmatch(text))


def _is_random(text: str) -> bool:
    """Whether letters and digits are mixed within a word of a text."""
    if not _is_value(text) or _is_worded(text):
        return False
    return bool(_DIGIT.search(text)) and bool(_LETTER.search(text))


def _is_credentials(text: str) -> bool:
    """Whether a text may be a token behind `Bearer`, where prose has plain words."""
    return _is_value(text) and bool(_MIXED.search(text))


def _has_aws_length(text: str) -> bool:
    """Whether a text is as long as a key of AWS; DNA (`ACCA…`) and base64 look alike."""
    return len(text) in (20, 40)


def _is_web_token(text: str) -> bool:
    """Whether the first two parts of a text are those of a JSON Web Token."""
    return all(map(_is_coded_json, text.split(".")[:2]))


def _is_coded_json(part: str) -> bool:
    """Whether a part of a JSON Web Token is JSON in base64."""
    try:
        json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode())
    except ValueError:
        return False
    return True


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "aws": _has_aws_length,
    "web_token": _is_web_token,
    "credentials": _is_credentials,
    "value": _is_value,
    "password": _is_password,
    "random": _is_random,
}


def _load_patterns(name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the patterns of a file, one for each of its words, with their entries."""
    data = tomllib.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))
    for one in data["pattern"]:
        pattern = "".join(map(str.strip, one["pattern"].splitlines()))
        for word in one.get("words", ["@"]):
            yield pattern.replace("@", "".join(map(str.strip, word.splitlines()))), one


_RULES = tuple(
    _Rule(
        one["kind"],
        re.compile(pattern),
        _CHECKS.get(one.get("check", ""), bool),
        one.get("any_case", False),
        tuple(one.get("hints", ())),
    )
    for pattern, one in chain(
        _load_patterns("key_patterns.toml"), _load_patterns("secret_patterns.toml")
    )
)
_PASSES = 4  # a secret right beside another one may be found only when the other is masked
_SHORTEST_KEY = 20  # characters; a shorter group of a pattern is a part of a key
_REST = re.compile(r"[\w-]{0,512}")


def mask(text: str) -> MaskedText:
    """Replaces each secret by its kind; a text without secrets stays the same object."""
    count = 0
    for _ in range(_PASSES):
        finds = sorted(_find_secrets(text))
        if not finds:
            break
        masked = list(_join_spans(finds))
        text = _replace_secrets(text, masked)
        count += len(masked)
    return MaskedText(text, count)


_SecretSpan = tuple[int, int, int]
"""Where a secret begins and ends, and the place of the rule that found it."""


def _replace_secrets(text: str, finds: list[_SecretSpan]) -> str:
    out: list[str] = []
    position = 0
    for start, end, order in finds:
        out += [text[position:start], f"[masked: {_RULES[order].kind}]"]
        position = end
    return "".join([*out, text[position:]])


def _find_secrets(text: str) -> Iterator[_SecretSpan]:
    """Yields the secrets that rules find, rule by rule; they may overlap."""
    lower = _lower_ascii(text)
    for order, rule in enumerate(_RULES):
        if rule.hints and not any(hint in lower for hint in rule.hints):
            continue
        for start, end in _apply_rule(rule, text, lower):
            yield start, end, order


def _apply_rule(rule: _Rule, text: str, lower: str) -> Iterator[tuple[int, int]]:
    """Yields where the secrets of one rule begin and end."""
    reached = 0
    for match in rule.pattern.finditer(lower if rule.any_case else text):
        if match.start() < reached:  # in what was added to the find before
            continue
        start, end = _find_span(match)
        if not rule.holds(text[start:end]):
            continue
        reached = end
        # The letter of an escape such as `\r` belongs to the backslash.
        escaped = text[start - 1 : start] == "\\"
        yield (start + 1 if escaped else start), end


def _lower_ascii(text: str) -> str:
    """Converts ASCII letters to lower case, so that places in both texts agree.

    `str.lower` makes some characters longer, and needs twelve bytes for each while it works.
    """
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _find_span(match: re.Match[str]) -> tuple[int, int]:
    """Finds where in a match the secret stands.

    Our patterns name its group. Those of detect-secrets have it in their first group, or in the
    whole match when that group is missing or only a part of the key. They also end where the
    shortest keys of a service do, so the rest of a longer one is added.
    """
    if match.lastgroup:
        return match.span(match.lastgroup)
    group = 1 if match.lastindex and match.end(1) - match.start(1) >= _SHORTEST_KEY else 0
    end = match.end(group)
    rest = _REST.match(match.string, end)
    return match.start(group), rest.end() if rest else end


def _join_spans(finds: list[_SecretSpan]) -> Iterator[_SecretSpan]:
    """Joins overlapping secrets to one, of the rule that stands first."""
    start, end, order = finds[0]
    for other in finds[1:]:
        if other[0] < end:
            end, order = max(end, other[1]), min(order, other[2])
        else:
            yield start, end, order
            start, end, order = other
    yield start, end, order
