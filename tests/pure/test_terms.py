"""What texts are compared by, in any script."""

import pytest

from service.text.terms import find_terms


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
    assert len(find_terms(one) & find_terms(other)) >= 2


def test_values_are_compared_whole_and_words_by_their_beginnings() -> None:
    assert "report-2026.pdf" in find_terms("see report-2026.pdf")
    assert find_terms("reservation") == find_terms("reservations")
    assert not find_terms("4200 EUR") & find_terms("4201 USD")
