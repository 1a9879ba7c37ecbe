"""Steps → excerpts: a summariser reads calls and results together, and reads what was planned."""

from hypothesis import given, settings
from hypothesis import strategies as st

from service import tokens
from service.summarising import prompt
from service.summarising.excerpts import excerpts
from service.summarising.reading import Excerpt, Reading
from service.transcript import Call, Step, step_tokens
from service.transcript.items import Attachment, ToolCall, ToolResult


def lookup(result: str = "42", *images: str, text: str = "I look.") -> Step:
    call = Call(ToolCall("c", "query", '{"q": "SELECT 1"}'), ToolResult("c", result, images))
    return Step("m", "assistant", text, (call,))


def test_a_step_is_its_text_its_calls_and_their_results() -> None:
    assert list(excerpts([(lookup("42", "/one"), 0, 1)])) == [
        Excerpt("assistant", "I look."),
        Excerpt("tool call", 'query {"q": "SELECT 1"}'),
        Excerpt("tool result", "42\n[1 images]"),
    ]


def test_attachments_are_named() -> None:
    step = Step("m", "user", "", (), (Attachment("a.pdf", image=False), Attachment("cat", image=True)))
    assert list(excerpts([(step, 0, 1)])) == [Excerpt("user", "[attached file: a.pdf]\n[attached image: cat]")]


def test_every_piece_of_a_step_names_its_calls() -> None:
    step = lookup("row\n" * 500)
    found = [next(iter(excerpts([(step, piece, 3)]))) for piece in range(3)]
    assert [one.label for one in found] == [
        "assistant, piece 1 of 3",
        'assistant, piece 2 of 3, continues query {"q": "SELECT 1"}',
        'assistant, piece 3 of 3, continues query {"q": "SELECT 1"}',
    ]
    assert "query" in found[0].text
    assert "".join(one.text for one in found) == "\n\n".join(
        f"[{one.label}]\n{one.text}" for one in excerpts([(step, 0, 1)])
    )


def test_inline_data_is_not_read() -> None:
    data = "data:image/png;base64," + "iVBORw0KGgo" * 30_000
    step = lookup(f'{{"png": "{data}"}}', text=f"Look: {data}")
    text = prompt.build(Reading("", tuple(excerpts([(step, 0, 1)])), 400)).user
    assert tokens.count(text) < 200
    assert len(text) < 2000


@given(
    st.lists(st.sampled_from(["word ", "移行", "12,847\n", "😀"]), min_size=1, max_size=200).map("".join),
    st.integers(1, 4),
)
@settings(max_examples=40)
def test_what_is_read_costs_about_what_was_planned(text: str, calls: int) -> None:
    call = Call(ToolCall("c", "query", text[:50]), ToolResult("c", text))
    step = Step("m", "assistant", text, (call,) * calls)
    read = "\n\n".join(f"[{one.label}]\n{one.text}" for one in excerpts([(step, 0, 1)]))
    assert tokens.count(read) <= step_tokens(step) + 4
