"""Which language a text is in: told from prose, and not at all from too little of it."""

import pytest

from service.text import languages

TEXTS = {
    "en": "We talked for a long time about the new heating and the costs of its maintenance, and decided nothing yet.",
    "de": "Wir haben lange über die neue Heizung und die Kosten der Wartung gesprochen und noch nichts entschieden.",
    "zh": "我们谈了很久关于新的暖气和维护费用的事情,但是还没有做出任何决定。",
}


@pytest.mark.parametrize(("code", "text"), TEXTS.items())
def test_prose_is_told(code: str, text: str) -> None:
    assert languages.detect(text) == code
    assert not languages.differs(text, code)


@pytest.mark.parametrize("text", ["", "Ok, danke!", "1 2 3 4 5 6 7 8 9", "https://example.org/" + "very-long/" * 30])
def test_too_little_prose_tells_nothing(text: str) -> None:
    assert languages.detect(text) is None
    assert not languages.differs(text, "de")


def test_code_and_links_in_a_text_do_not_decide() -> None:
    code = "```python\n" + "for value in the_list_of_values: print(value, end_of_line)\n" * 20 + "```"
    assert languages.detect(f"{TEXTS['de']}\n{code}\nhttps://example.org/the/english/page") == "de"


def test_english_words_in_a_german_text_are_no_other_language() -> None:
    text = (
        "Der Build läuft im Container, das Deployment nutzt Kubernetes und der Service hat einen Healthcheck bekommen."
    )
    assert not languages.differs(text, "de")
