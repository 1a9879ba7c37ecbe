"""The words that a search compares, in any script."""

import pytest

from service.recall import words

# A text, and words that it has to have.
FOUND = [
    ("Order INV-2031 is late.", ["order", "inv-2031", "inv", "2031"]),
    ("set order_id here", ["order_id", "order", "id"]),
    ("getUserName()", ["getusername", "get", "user", "name"]),
    ("1.200.000 Einheiten", ["1.200.000", "1200000"]),
    ("２，０３１円", ["2,031", "2031", "円"]),
    ("٢٠٣١ طلب", ["2031", "طلب"]),
    ("Straße", ["strasse"]),
    ("订单INV-2031已发货", ["订单", "inv-2031", "inv", "2031", "已发", "发货"]),
    ("ｵｰﾀﾞｰ", ["オー", "ーダ", "ダー"]),
    ("주문번호는", ["주문", "문번", "번호", "호는"]),
    ("ใบสั่งซื้อ", ["ใบ", "บส"]),
]
# A text, and words that must not be there.
NOT_FOUND = [
    ("INV-2031", ["20", "31", "inv2031"]),
    ("1,20", ["120"]),
    ("_ -- … !", [""]),
    ("a/" * 60 + "b", ["a/" * 60 + "b"]),
]
# Words of a question and of a chat in its language, which are compared alike.
ALIKE = [
    ("de", "Rechnung", "Rechnungen"),
    ("de", "muller", "Müller"),
    ("ru", "заказ", "заказа"),
    (None, "Ｏｒｄｅｒ", "order"),
]
DIFFERENT = [
    ("de", "Rechnung", "Lieferung"),
    ("ru", "йод", "иод"),
    (None, "order", "orders"),
    (None, "が", "か"),
]


@pytest.mark.parametrize(("text", "expected"), FOUND)
def test_a_text_has_these_words(text: str, expected: list[str]) -> None:
    assert set(expected) <= set(words.split_words(text))


@pytest.mark.parametrize(("text", "others"), NOT_FOUND)
def test_a_text_has_no_other_words(text: str, others: list[str]) -> None:
    assert not set(others) & set(words.split_words(text))


@pytest.mark.parametrize(("language", "asked", "there"), ALIKE)
def test_words_are_compared_without_endings_accents_and_width(language: str | None, asked: str, there: str) -> None:
    assert _keys(asked, language) & set(words.find_stems(words.split_words(there), language).values())


@pytest.mark.parametrize(("language", "asked", "there"), DIFFERENT)
def test_other_words_stay_apart(language: str | None, asked: str, there: str) -> None:
    assert not _keys(asked, language) & set(words.find_stems(words.split_words(there), language).values())


def _keys(text: str, language: str | None) -> set[str]:
    return {key for one in words.split_words(text) for key in words.find_variants(one, language)}
