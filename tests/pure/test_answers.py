"""A model's answer is read in whatever form a host hands it on."""

import json
from typing import Any

import pytest

from service.clients.answers import RawAnswer, read_answer
from service.errors import SummariserAway, SummariserError
from service.summarising.reading import Finish, Reply

USAGE = {"prompt_tokens": 90, "completion_tokens": 7}


def completion(content: Any, **more: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return {"choices": [choice | more], "usage": USAGE}


def stream(*contents: str | None, finish: str | None = "stop") -> str:
    events: list[dict[str, Any]] = [{"choices": [{"delta": {"content": one}}]} for one in contents]
    events += [{"choices": [{"delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": USAGE}]
    return "".join(f"data: {json.dumps(one)}\n\n" for one in events) + "data: [DONE]\n\n"


WHOLE = Reply("## Goal\nÜben.", Finish.STOP, 90, 7)
OF_OLLAMA = {
    "message": {"role": "assistant", "content": WHOLE.text, "thinking": "Hm."},
    "done_reason": "stop",
    "prompt_eval_count": 90,
    "eval_count": 7,
}


@pytest.mark.parametrize(
    "body",
    [
        completion(WHOLE.text),
        json.dumps(completion(WHOLE.text)),
        completion([{"type": "text", "text": "## Goal\n"}, {"type": "image"}, {"type": "text", "text": "Üben."}]),
        completion(WHOLE.text, message={"content": WHOLE.text, "reasoning_content": "Hm."}),
        completion(WHOLE.text, finish_reason=None),
        OF_OLLAMA,
        json.dumps(OF_OLLAMA),
        stream("## Goal\n", None, "Üben."),
        ": a comment\n\n" + stream("## Goal\nÜben.", finish=None),
    ],
)
def test_every_form_of_an_answer_says_the_same(body: Any) -> None:
    assert read_answer(RawAnswer(200, body), 400) == WHOLE


def test_an_answer_as_long_as_it_may_be_is_cut_off_whatever_it_says_itself() -> None:
    assert read_answer(RawAnswer(200, completion("Well")), 7).finish is Finish.LENGTH


def test_nothing_and_only_reasoning_are_an_empty_answer() -> None:
    nothing: list[Any] = [None, "", []]
    for content in nothing:
        assert read_answer(RawAnswer(200, completion(content)), 400).text == ""


def test_a_stream_that_broke_off_is_read_as_far_as_it_came() -> None:
    broken = stream("## Goal\n", "Üben.")[:90] + "\ndata: {half"
    assert read_answer(RawAnswer(200, broken), 400).text == "## Goal\n"


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_a_status_that_every_request_would_meet_says_that_the_model_is_away(status: int) -> None:
    with pytest.raises(SummariserAway, match=f"HTTP {status}") as caught:
        read_answer(RawAnswer(status, '{"detail": "No secret here."}'), 400)
    assert "secret" not in str(caught.value)
    assert "No secret here." in caught.value.detail


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, "stream must be true"),
        (200, {"error": {"message": "boom"}}),
        (200, 'data: {"error": "boom"}\n\n'),
        (200, {"detail": "boom"}),
        (200, "<html>"),
        (200, None),
        (200, []),
        (200, {"choices": []}),
        (200, {"choices": [{}]}),
        (200, completion(7)),
        (200, completion([7])),
        (200, {"message": "boom"}),
    ],
)
def test_what_is_no_answer_is_an_error_of_this_request_alone(status: int, body: Any) -> None:
    with pytest.raises(SummariserError) as caught:
        read_answer(RawAnswer(status, body), 400)
    assert not isinstance(caught.value, SummariserAway)
    assert "boom" not in str(caught.value)
