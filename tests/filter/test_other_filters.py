"""Filters before ours change the request: translations, masks, memories. A summary is put in all the same."""

import re
from collections.abc import Callable

import pytest

from filter_stub.precis_filter import leading
from service.transcript import Native
from tests.conftest import Service, drain
from tests.filter.chat import Chat, filler

pytestmark = pytest.mark.asyncio(loop_scope="module")

Change = Callable[[list[Native]], list[Native]]


def each_question(change: Callable[[str], object]) -> Change:
    def changed(messages: list[Native]) -> list[Native]:
        return [{**one, "content": change(str(one["content"]))} if one["role"] == "user" else one for one in messages]

    return changed


def newest(change: Callable[[str], object]) -> Change:
    return lambda messages: [*messages[:-1], {**messages[-1], "content": change(str(messages[-1]["content"]))}]


def each_answer(change: Callable[[str], object]) -> Change:
    def changed(messages: list[Native]) -> list[Native]:
        return [
            {**one, "content": change(str(one["content"]))} if one["role"] == "assistant" else one for one in messages
        ]

    return changed


KINDS: dict[str, Change] = {
    "strips blanks": each_question(str.strip),
    "translates": each_question(lambda text: text[::-1]),
    "masks names": each_question(lambda text: re.sub("river", "[MASKED]", text)),
    "dates": each_question(lambda text: f"[2026-11-25] {text}"),
    "adds an instruction": each_question(lambda text: f"{text}\n\nAnswer briefly."),
    "makes parts": each_question(lambda text: [{"type": "text", "text": text}]),
    "loads a skill": newest(lambda text: f"<skill>Write well.</skill>\n{text}"),
    "takes a command away": newest(lambda _: "Do it."),
    "adds a memory": lambda messages: [messages[0], {"role": "user", "content": "I like tea."}, *messages[1:]],
    "adds a rule": lambda messages: [{"role": "system", "content": "Be kind."}, *messages],
    "takes the prompt away": lambda messages: messages[1:],
    "takes citations away": each_answer(lambda text: text.replace("the hills", "hills")),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_chat_is_compressed_with_a_filter_before_ours(chat: Chat, service: Service, kind: str) -> None:
    for number in range(9):
        await chat.say_nothing_of(filler(f" question{number}", 350) + " ", filler(f"answer{number}", 350))
    await chat.say(filler("now", 350), "Yes.")
    await drain(service.runtime)
    chat.ask(filler("and now", 350))
    turn = chat.request(str(chat.leaf))
    turn.body["messages"] = KINDS[kind](turn.messages)
    await chat.enter(turn)
    assert turn.served
    systems = len(leading(turn.original))
    assert turn.messages[:systems] == turn.original[:systems]
    tail = turn.messages[systems + 2 :]
    assert tail == turn.original[-len(tail) :]
    assert tail[0]["role"] == "user"
