"""After an edit in place, the very next request shows the new text, and nearly all else of the chat stands in it.

Open WebUI saves other words under the same id, and tells no filter of it.
"""

import uuid
from collections.abc import Callable

import pytest

from tests.builders import Json, said
from tests.conftest import Service, drain
from tests.filter.chat import Chat, filter_of, tool_answer, working
from tests.filter.host import Host
from tests.service.talk import prose, rows

TURNS = 60
PICTURE = {"type": "image", "url": "data:image/png;base64,iVBORw0KGgo=", "name": "p.png"}
PAPER = {"type": "file", "url": "paper", "name": "paper.pdf"}

Turn = Callable[[Chat, int], None]


def short(chat: Chat, number: int) -> None:
    chat.ask(prose(40, f"q{number}"))
    chat.answer(prose(60, f"a{number}"))


def with_tools(chat: Chat, number: int) -> None:
    chat.ask(prose(40, f"q{number}"))
    chat.answer("", *tool_answer(f"a{number}"))


def with_files(chat: Chat, number: int) -> None:
    chat.ask(prose(100, f"q{number}"), files=[PICTURE if number % 9 == 0 else PAPER])
    chat.answer(prose(200, f"a{number}"))


def without_answers(chat: Chat, number: int) -> None:
    chat.ask(prose(150, f"q{number}"))
    if number % 4:
        chat.answer(prose(250, f"a{number}"))


def edited(row: Json, text: str) -> None:
    """Saves other words of a message, as the page does."""
    row["content"] = text
    if "output" in row:
        row["output"] = [said(text)]


@pytest.mark.parametrize("kind", [short, with_tools, with_files, without_answers])
async def test_the_new_text_stands_and_nearly_all_else(service: Service, kind: Turn) -> None:
    async with filter_of(service.url, service.filter_key) as loaded:
        chat = Chat(Host(), loaded, f"edited-{uuid.uuid4()}", window=16_384)
        for number in range(TURNS):
            kind(chat, number)
        async with working(service.runtime):
            await chat.say(prose(40, "first look"), "Yes.")
            await drain(service.runtime)
            shares = []
            for share in (0.1, 0.5, 0.9):
                path = chat.path()
                row = path[int(len(path) * share)]
                edited(row, f"Now it says otherwise, number {share}.")
                chat.ask(prose(40, f"after {share}"))
                turn = await chat.inlet()
                state = turn.metadata["precis"]["state"]
                sent = str(turn.messages)
                covered = len(turn.original) - len(turn.messages) > 2
                assert covered or f"number {share}" in sent
                shares.append(1 - state.get("first_left_out", 0) / len(turn.original))
                await chat.reply(turn, prose(60, f"answer after {share}"))
                await drain(service.runtime)
            stored = await rows(
                service.runtime,
                "select host_id from messages join chats on chats.id = chat_id where external_id = :chat and confirmed",
                chat=chat.id,
            )
    assert min(shares) >= 0.8, shares
    told = [one.host_id for one in stored]
    assert len(told) == len(set(told)), "of an edited message, the old one is gone"
