"""What breaks other context filters before a request (see the hazards of the read path), each by name."""

import copy
import re
from typing import Any

import pytest

from filter_stub.precis_filter import TOOL_IMAGES
from service.demo.host import Host
from service.transcript import Native
from tests.builders import called, returned, said
from tests.conftest import Service, drain
from tests.filter.chat import Chat, Turn, filler, native, pairs_are_whole, remembered, tool_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]

PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
IMAGE = {"type": "image", "url": PICTURE, "name": "cat.png"}
DOCUMENT = {"type": "file", "id": "f1", "url": "f1", "name": "plan.pdf"}


async def prepare(chat: Chat, service: Service, **first: object) -> None:
    """A chat of eight long turns with a summary, of which the first question has `first`."""
    for number in range(8):
        chat.ask(filler(f"q{number}", 450), **(first if number == 0 else {}))
        chat.answer(filler(f"a{number}", 450))
    await chat.say("How far are we?", "Quite far.")
    await drain(service.runtime)


def check(turn: Turn, tail: list[Native]) -> None:
    """The request carries a summary and this tail; system messages come first, then a user message."""
    assert turn.served
    assert turn.tail == tail
    roles = [one["role"] for one in turn.messages]
    first = next(role for role in roles if role != "system")
    assert first == "user"
    assert roles[: roles.index("user")] == ["system"] * (len(turn.base) + 1)


@pytest.mark.parametrize("system", ["", "You are a pirate."])
async def test_the_system_prompt_stays_first_and_the_list_never_opens_with_an_assistant(
    chat: Chat, service: Service, system: str
) -> None:
    chat.system = system
    await prepare(chat, service)
    chat.ask("Go on.")
    turn = await chat.inlet()
    check(turn, turn.original[-len(turn.tail) :])
    assert turn.messages[: len(turn.base)] == turn.base
    assert bool(turn.base) is bool(system)


async def test_the_summary_is_injected_once_when_inlet_runs_twice_on_one_request(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    chat.ask("Go on.")
    turn = await chat.inlet()
    await chat.enter(turn)
    assert turn.messages == turn.original
    assert len(chat.host.statuses) == 1


async def test_the_words_of_open_webuis_marker_in_a_users_message_mean_nothing(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    chat.ask("What does [CONVERSATION SUMMARY] mean?")
    assert (await chat.inlet()).served


@pytest.mark.parametrize("place", ["covered", "kept", "newest"])
@pytest.mark.parametrize(
    ("file", "shown"), [(IMAGE, "image_url"), (DOCUMENT, "<attached_files>")], ids=["image", "file"]
)
async def test_a_chat_with_a_file_and_tool_calls_is_served(
    chat: Chat, service: Service, place: str, file: Json, shown: str
) -> None:
    files = {"files": [file]}
    await prepare(chat, service, **(files if place == "covered" else {}))
    await chat.say("And this?", "Found.", *tool_answer("found", tokens=40), **(files if place == "kept" else {}))
    chat.ask("Go on.", **(files if place == "newest" else {}))
    turn = await chat.inlet()
    check(turn, turn.original[-len(turn.tail) :])
    assert pairs_are_whole(turn.tail)
    assert (shown in str(turn.tail)) is (place != "covered")
    assert (shown in str(turn.hidden)) is (place == "covered")


@pytest.mark.parametrize("failed", [{}, {"error": {"content": "the provider failed"}}])
async def test_a_chat_with_a_failed_or_empty_answer_is_served(
    chat: Chat, service: Service, failed: dict[str, Any]
) -> None:
    await prepare(chat, service)
    chat.ask("This one fails.")
    chat.answer("", **failed)
    await chat.say("Once more.", "Here you are.")
    chat.ask("Go on.")
    turn = await chat.inlet()
    check(turn, turn.original[-len(turn.tail) :])
    roles = [one["role"] for one in turn.tail]
    assert ["user", "user"] in [roles[place : place + 2] for place in range(len(roles))]


async def cover_all_but_a_question(chat: Chat, service: Service) -> None:
    """The leaf becomes a question that is about to be answered anew, and everything above it is covered."""
    await chat.say(filler("bulk", 4500), "Read.")
    await chat.say(filler("long", 1100), filler("reply", 1100))
    await drain(service.runtime)
    chat.leaf = str(chat.rows[str(chat.leaf)]["parentId"])


async def edited(chat: Chat, *change: tuple[int, str]) -> Turn:
    """The next request, of which an earlier filter changed the texts at these places."""
    chat.ask("Go on.")
    turn = chat.request(str(chat.leaf))
    for place, words in change:
        turn.body["messages"][place]["content"] = words
    return await chat.enter(turn)


async def test_an_earlier_filter_may_edit_the_newest_user_message(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    turn = await edited(chat, (-1, "[today is Sunday]"))
    check(turn, turn.original[-len(turn.tail) :])
    assert turn.messages[-1] == {"role": "user", "content": "[today is Sunday]"}


async def test_an_earlier_filter_may_edit_the_only_message_that_is_not_covered(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    await cover_all_but_a_question(chat, service)
    turn = chat.request(str(chat.leaf))
    turn.messages[-1]["content"] = "[removed]"
    await chat.enter(turn)
    assert turn.tail == [{"role": "user", "content": "[removed]"}]


async def test_an_earlier_filter_may_put_words_around_a_kept_message(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    turn = await edited(chat, (-3, "[on Saturday] How far are we? [end]"))
    check(turn, turn.original[-len(turn.tail) :])


async def test_a_request_whose_older_messages_were_cut_by_an_earlier_filter_keeps_all_that_is_left(
    chat: Chat, service: Service
) -> None:
    await prepare(chat, service)
    chat.ask("Go on.")
    turn = chat.request(str(chat.leaf))
    turn.body["messages"] = [turn.original[0], *turn.original[-2:]]
    await chat.enter(turn)
    assert turn.messages == turn.original


@pytest.mark.parametrize("regenerated", [False, True])
async def test_a_user_message_that_an_earlier_filter_added_at_the_end_hides_nothing(
    chat: Chat, service: Service, regenerated: bool
) -> None:
    """Counting user messages from the end is wrong by one then; the texts tell."""
    await prepare(chat, service)
    if regenerated:
        await cover_all_but_a_question(chat, service)
    else:
        chat.ask("The real question")
    turn = await chat.inlet()
    assert turn.served
    assert (len(turn.tail) == 1) is regenerated
    more = chat.request(str(chat.leaf))
    more.messages.append({"role": "user", "content": "Answer in English."})
    await chat.enter(more)
    assert more.messages == [*turn.messages, {"role": "user", "content": "Answer in English."}]


async def test_a_users_message_that_an_earlier_filter_put_in_front_is_covered_or_kept(
    chat: Chat, service: Service
) -> None:
    await prepare(chat, service)
    chat.ask("Go on.")
    turn = chat.request(str(chat.leaf))
    turn.messages.insert(1, {"role": "user", "content": "Memory: the user likes tea."})
    await chat.enter(turn)
    check(turn, native(chat.path())[-len(turn.tail) :])


async def test_the_images_of_tool_results_are_no_turn(chat: Chat, service: Service) -> None:
    """Open WebUI puts them into a user message that no user wrote."""
    await prepare(chat, service)
    items = [called("i1", "photo"), returned("i1", "a cat", PICTURE), said("It is a cat.")]
    await chat.say("Take a picture.", "It is a cat.", *items)
    chat.ask("Go on.")
    turn = await chat.inlet()
    check(turn, turn.original[-len(turn.tail) :])
    (shown,) = [one for one in turn.tail if str(one["content"]).find(TOOL_IMAGES) > 0]
    assert shown["role"] == "user"
    assert turn.tail[0] != shown
    covered = [row["id"] for row in chat.path()][: len(chat.path()) - 1]
    assert native([chat.rows[one] for one in covered])[: len(turn.hidden)] == turn.hidden


async def test_the_images_of_tool_results_never_open_the_tail(chat: Chat, service: Service) -> None:
    for number in range(9):
        items = [called(f"i{number}", "photo"), returned(f"i{number}", filler(f"r{number}", 700), PICTURE), said("Ok.")]
        await chat.say(f"Picture {number}, please.", "Ok.", *items)
        await drain(service.runtime)
        chat.ask("Go on.")
        turn = await chat.inlet()
        assert str(turn.tail[0]["content"]).startswith(("Picture", "Go on"))
        assert pairs_are_whole(turn.tail)
        chat.leaf = chat.rows[str(chat.leaf)]["parentId"]
    assert turn.served


async def test_a_large_tool_result_of_the_newest_turns_is_sent_in_full(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    result = filler("needle", 3000)
    await chat.say("Read the log.", "Done.", called("log", "read"), returned("log", result), said("Done."))
    await drain(service.runtime)
    chat.ask("What was in it?")
    turn = await chat.inlet()
    assert {"role": "tool", "tool_call_id": "log", "content": result} in turn.messages
    check(turn, turn.original[-len(turn.tail) :])


async def test_a_guided_regeneration_keeps_the_old_answer_and_the_instruction(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    chat.ask("Name a river.")
    question = str(chat.leaf)
    turn = await chat.inlet()
    old = chat.answer("The Rhine.", *tool_answer("Rhine", tokens=30))
    await chat.outlet(turn)
    instruction = {"role": "user", "content": "Make it shorter."}
    turn = await chat.inlet(question, *native([chat.rows[old]]), instruction, regeneration_message_id=old)
    check(turn, turn.original[-len(turn.tail) :])
    assert turn.messages[-1] == instruction
    assert turn.hidden == native(chat.path(question))[: len(turn.hidden)]


async def test_a_guided_regeneration_in_a_chat_of_equal_questions_hides_nothing_that_is_not_covered(
    chat: Chat, service: Service
) -> None:
    for number in range(8):
        await chat.say_nothing_of("go on", filler(f"a{number}", 900))
    await chat.say("go on", "Quite far.")
    await drain(service.runtime)
    chat.ask("go on")
    question = str(chat.leaf)
    expected = (await chat.inlet()).tail
    old = chat.answer("Further.")
    instruction = {"role": "user", "content": "go on, but shorter"}
    turn = await chat.inlet(question, *native([chat.rows[old]]), instruction, regeneration_message_id=old)
    check(turn, [*expected, *native([chat.rows[old]]), instruction])


async def test_a_continued_answer_stays_the_last_message(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    chat.ask("Name all rivers.")
    question = str(chat.leaf)
    turn = await chat.inlet()
    part = chat.answer("The Rhine,")
    await chat.outlet(turn)
    turn = await chat.inlet(question, *native([chat.rows[part]]), assistant_message_id=part, message_id=part)
    check(turn, turn.original[-len(turn.tail) :])
    assert turn.messages[-1] == {"role": "assistant", "content": "The Rhine,"}
    chat.rows[part] |= {"content": "The Rhine, the Po", "output": [said("The Rhine, the Po")]}
    await chat.outlet(turn)
    chat.ask("Go on.")
    turn = await chat.inlet()
    check(turn, turn.original[-len(turn.tail) :])
    assert {"role": "assistant", "content": "The Rhine, the Po"} in turn.tail


def forked(chat: Chat, user: str) -> Chat:
    """A fork: the same messages with the same ids in another chat."""
    fork = Chat(Host(chat.host.chats), chat.filter, f"{chat.id}-fork", leaf=chat.leaf, user=user, numbers=chat.numbers)
    fork.rows.update(copy.deepcopy(chat.rows))
    return fork


async def test_a_fork_of_the_same_user_gets_the_summary_at_once(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    fork = forked(chat, chat.user)
    fork.ask("Go on in the fork.")
    turn = await fork.inlet()
    check(turn, turn.original[-len(turn.tail) :])
    fork.answer("Yes.")
    await fork.outlet(turn)
    fork.ask("And now?")
    again = await fork.inlet()
    check(again, again.original[-len(again.tail) :])
    assert again.summary == turn.summary


async def test_a_fork_of_another_user_is_another_chat(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    fork = forked(chat, "somebody else")
    fork.ask("Go on in the fork.")
    turn = await fork.inlet()
    assert turn.messages == turn.original
    fork.answer("Yes.")
    await fork.outlet(turn)
    await drain(service.runtime)
    fork.ask("And now?")
    turn = await fork.inlet()
    check(turn, turn.original[-len(turn.tail) :])


async def test_diagnostics_of_one_request_are_not_seen_by_another(chat: Chat, service: Service) -> None:
    await prepare(chat, service)
    chat.ask("Go on.")
    await chat.inlet()  # its answer is kept
    before = remembered(chat.filter)
    turn = await chat.inlet()
    assert turn.served
    moments = r"'(_away_since|_again_at)': [\d.]+"  # of the last request
    assert re.sub(moments, "", remembered(chat.filter)) == re.sub(moments, "", before)
