"""What texts are compared by, in any script."""

import pytest

from service.text.terms import terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the pumps are mended", "The PUMPS were Mended!"),
        ("предпочитаем утренние поезда", "Предпочитаем утренний поезд"),
        ("请把预算改成三千", "预算改成四千"),
        ("order ZX-77 at 03:15", "zx-77, 03:15"),
    ],
)
def test_texts_about_the_same_share_terms(one: str, other: str) -> None:
    assert len(terms(one) & terms(other)) >= 2


def test_values_are_compared_whole_and_words_by_their_beginnings() -> None:
    assert "report-2026.pdf" in terms("see report-2026.pdf")
    assert terms("reservation") == terms("reservations")
    assert not terms("4200 EUR") & terms("4201 USD")
