"""Filters before ours change the request: translations, masks, memories. A summary is put in all the same."""

from collections.abc import Callable

import pytest

from service.transcript import Native
from tests.conftest import Service, drain
from tests.filter.chat import Chat, Turn, filler

Change = Callable[[list[Native]], list[Native]]


def each(role: str, change: Callable[[str], object]) -> Change:
    """A filter that changes the text of all messages of a role."""

    def changed(messages: list[Native]) -> list[Native]:
        return [{**one, "content": change(str(one["content"]))} if one["role"] == role else one for one in messages]

    return changed


def newest(change: Callable[[str], object]) -> Change:
    return lambda messages: [*messages[:-1], {**messages[-1], "content": change(str(messages[-1]["content"]))}]


KINDS: dict[str, Change] = {
    "translates": each("user", lambda text: text[::-1]),
    "makes parts": each("user", lambda text: [{"type": "text", "text": text}]),
    "loads a skill": newest(lambda text: f"<skill>Write well.</skill>\n{text}"),
    "takes a command away": newest(lambda _: "Do it."),
    "adds a memory": lambda messages: [messages[0], {"role": "user", "content": "I like tea."}, *messages[1:]],
    "takes the prompt away": lambda messages: messages[1:],
    "takes citations away": each("assistant", lambda text: text.replace("the hills", "hills")),
}


async def long(chat: Chat) -> None:
    for number in range(9):
        await chat.say_nothing_of(filler(f" question{number}", 350) + " ", filler(f"answer{number}", 350))


async def turn_with(chat: Chat, service: Service, change: Change, text: str) -> Turn:
    """A whole turn, of which another filter changes the request; work is done."""
    turn = chat.request(chat.ask(filler(text, 350)))
    turn.body["messages"] = change(turn.messages)
    await chat.enter(turn)
    await service.stored()
    sent = list(turn.messages)
    await chat.reply(turn, "Yes.")
    await drain(service.runtime)
    turn.body["messages"] = sent
    return turn


@pytest.mark.parametrize("kind", KINDS)
async def test_a_filter_that_is_switched_on_costs_one_turn_without_a_summary_at_most(
    roomy_chat: Chat, roomy: Service, kind: str
) -> None:
    await long(roomy_chat)
    await turn_with(roomy_chat, roomy, list, "now")
    turn = await turn_with(roomy_chat, roomy, KINDS[kind], "and now")
    turn.is_summarised()  # or not; the rest is as it was
    turn = await turn_with(roomy_chat, roomy, KINDS[kind], "and then")
    assert turn.is_summarised()
