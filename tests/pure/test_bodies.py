"""How many values JSON may have before it is decoded, and how deep they may lie."""

import json

import pytest

from service.api import bodies
from service.api.wire import CompressRequest
from service.errors import BadRequest, TooLarge, Unprocessable

ABOVE = 3  # the body, the list of messages, and the message


def body(content: object) -> bytearray:
    """A request with one message."""
    return bytearray(json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode())


def nested(levels: int) -> bytearray:
    """A request with so many lists within each other in a message."""
    return body("here").replace(b'"here"', b"[" * levels + b"]" * levels)


LARGE = [[0] * 60, [{}] * 30, [[]] * 60, {str(number): [] for number in range(40)}]
BROKEN = bytearray(b'","' * 101)  # texts alone


@pytest.mark.parametrize("sent", [*map(body, LARGE), BROKEN])
async def test_too_many_values_are_refused(sent: bytearray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MOST_VALUES", 50)
    with pytest.raises(TooLarge):
        await bodies.decode_body(sent, CompressRequest)


@pytest.mark.parametrize("text", [",[{" * 1000, '\\"' + ",[{" * 1000, "\\\\", '"'])
async def test_what_stands_in_a_text_is_no_value(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MOST_VALUES", 50)
    await bodies.decode_body(body([text, text]), CompressRequest)


async def test_a_body_may_be_as_deep_as_it_is_said() -> None:
    await bodies.decode_body(nested(bodies.DEEPEST - ABOVE), CompressRequest)


@pytest.mark.parametrize("levels", [bodies.DEEPEST - ABOVE + 1, 5000, 90_000])
async def test_a_deeper_body_is_refused(levels: int) -> None:
    with pytest.raises(BadRequest, match="levels"):
        await bodies.decode_body(nested(levels), CompressRequest)


def with_number(number: str) -> bytearray:
    return body("here").replace(b'"here"', number.encode())


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "9" * 400], ids=["NaN", "-Infinity", "400 digits"])
async def test_a_number_that_python_can_hold_is_read(number: str) -> None:
    await bodies.decode_body(with_number(number), CompressRequest)


@pytest.mark.parametrize("number", ["1e400", "9" * 4400], ids=["1e400", "4,400 digits"])
async def test_a_number_beyond_all_bounds_is_refused(number: str) -> None:
    with pytest.raises(Unprocessable):
        await bodies.decode_body(with_number(number), CompressRequest)
