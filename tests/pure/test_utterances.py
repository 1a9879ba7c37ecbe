"""A step, read once: numbered utterances with their speaker, their sort and what they answer."""

from service.text.blocks import Sort
from tests.pure.talks import heard, said, talk


def test_an_item_of_a_list_is_told_with_its_head() -> None:
    found = talk("Departure:\n- 04:00 from Oslo\n- 06:30 from Bergen\nThat is all.")
    assert [one.context for one in found] == ["", "Departure:", "Departure:", ""]


def test_code_that_is_shorter_than_what_tells_of_it_stands_whole() -> None:
    found = heard([said("Why?\n```\nraise Never\n```")])
    assert found[1].text == "[code: “raise Never”]"


def test_pasted_text_and_code_are_told_by_size_and_their_ends() -> None:
    code = "import never\nnever.begin(now, and_then=stop, at=midnight)\nnever.stop()"
    found = heard([said(f"Why?\n```\n{code}\n```\n<mail>\nYou must pay 99 EUR.\n</mail>")])
    assert [one.sort for one in found] == [Sort.OWN, Sort.CODE, Sort.PASTED]
    assert "3 lines, begins “import never”, ends “never.stop()”" in found[1].text
    assert not any(one.by_user for one in found[1:])


def test_a_text_of_the_length_of_a_book_is_told_by_its_size() -> None:
    (one,) = heard([said("It rains again today. " * 20_000)])
    assert one.sort is Sort.PASTED
