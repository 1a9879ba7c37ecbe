"""Where a value was said anew, the earlier sentence is shown with the later one."""

import pytest

from service.summarising.kept.later import marks
from tests.pure.talks import talk


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The budget of the garden is 4,200 EUR.", "The budget went up, it is 5,100 EUR."),
        ("Le devis du jardin est de 4 200 euros.", "Finalement le devis monte à 5 100 euros."),
        ("花园的预算是4200元。", "花园的预算现在是5100元。"),
        ("Бюджет сада 4200 евро.", "Теперь бюджет 5100 евро."),
        ("The inspection is on 3 May 2026.", "They moved the inspection to 9 May 2026."),
        ("Please proceed with option 2.", "Let us go with option 1."),
        ("Rent for bay H55-848 is 4207 a month.", "For H55-848 it's 7723."),
    ],
)
def test_a_value_that_was_said_anew_is_marked(earlier: str, later: str) -> None:
    found = talk(earlier, "Noted.", later)
    assert marks(found) == {"1.1": f"{later}; 3.1"}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The budget is 4,200 EUR.", "The meeting is at 15:30."),
        ("Nora's date of birth is 1988-04-10.", "A good date for the trip is 2024-05-17."),
        ("The budget of the garden is 4,200 EUR.", "The garden needs 3 EUR of seeds."),
        ("The budget of the garden is 4,200 EUR.", "And the garden has 30 trees of 4,200 EUR."),
        ("The budget of the garden is 4,200 EUR.", "Is the budget of the garden 5,100 EUR?"),
        ("Is the budget of the garden 4,200 EUR?", "The budget of the garden is 5,100 EUR."),
        ("Look at src/pump.py for the pump.", "Look at src/valve.py for the pump."),
        ("Rent for bay H55-848 is 4207 a month.", "Rent for bay F68-778 is 4950 a month."),
        ("F28-806: 9130, sorry.", "F56-182: 6862, sorry."),
    ],
)
def test_what_is_no_other_value_for_the_same_is_not_marked(earlier: str, later: str) -> None:
    assert marks(talk(earlier, "Noted.", later)) == {}


def test_an_assistant_does_not_speak_for_the_user() -> None:
    assert marks(talk("The budget of the garden is 4,200 EUR.", "The budget of the garden is 5,100 EUR.")) == {}


def test_pasted_text_says_nothing_anew() -> None:
    pasted = "See:\n<mail>\nThe budget of the garden is 9,900 EUR.\n</mail>"
    assert marks(talk("The budget of the garden is 4,200 EUR.", "Noted.", pasted)) == {}


def test_the_newest_of_several_is_shown() -> None:
    budgets = [f"The budget of the garden is {amount} EUR." for amount in ("4,200", "5,100", "6,300")]
    found = talk(budgets[0], "Ok.", budgets[1], "Ok.", budgets[2])
    assert marks(found) == {"1.1": f"{budgets[2]}; 5.1", "3.1": f"{budgets[2]}; 5.1"}
