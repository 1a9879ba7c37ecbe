"""Chats without ids: temporary chats, API clients, channels."""

from tests.builders import Json
from tests.e2e.model import MODELS
from tests.e2e.rig import WINDOW, Rig, filler, question
from tests.e2e.tab import Tab
from tests.e2e.view import View, facts, view, well_formed
from tests.waiting import until

# Nobody tells what the tools cost such a chat, and the filter's own estimate of their JSON is half too large: in a
# window of 16,384 it would leave out turns that fit.
WIDE = 2 * WINDOW
TURNS = 18


async def talk(rig: Rig, tab: Tab, turns: int = TURNS) -> None:
    """A temporary chat of so many turns, together longer than the window."""
    tab.new_chat(temporary=True)
    for _ in range(turns):
        await tab.send(f"{question()} {filler('Note', 1600)}")
        assert rig.size(rig.model.received[-1]) < WIDE


async def new_chats(rig: Rig, known: list[str]) -> list[str]:
    """The chats that Precis knows beside those, with all their work done."""
    found = [one for one in await rig.precis.chats() if one not in known]
    for one in found:
        await rig.precis.settled(one)
    return found


async def made(rig: Rig, known: list[str]) -> str:
    """Waits for a new chat with a summary; returns its id in Precis."""

    async def there() -> bool:
        return any([await rig.checkpoints(one) for one in await new_chats(rig, known)])

    await until(there, 60)
    (chat,) = await new_chats(rig, known)
    return chat


async def compressed(rig: Rig, chat: str) -> View:
    """The newest request, checked against the chat's summaries: what is hidden is what is covered."""
    well_formed(rig.model.received[-1].messages)
    seen = view(rig.model.received[-1])
    assert seen.summary in [one.summary for one in await rig.checkpoints(chat)]
    assert not seen.note, f"{seen.hidden_turns} turns are hidden, {len(facts(seen.summary))} are covered"
    assert facts(seen.summary) == facts(seen.hidden)
    assert seen.tail[0]["role"] == "user"
    return seen


async def test_a_temporary_chat_is_compressed_when_the_operator_allows_it(rig: Rig, tab: Tab) -> None:
    await rig.valves(temporary_hours=1)
    await rig.window(WIDE)
    known = await rig.precis.chats()
    await talk(rig, tab)
    chat = await made(rig, known)

    await tab.send(asked := question())

    seen = await compressed(rig, chat)
    assert seen.tail[-1]["content"] == asked


async def ask(rig: Rig, messages: list[Json]) -> Json:
    """A plain API client's request; returns the answer as a message."""
    body = {"model": MODELS[0], "messages": messages, "stream": False}
    answer = await rig.admin.post("/api/chat/completions", body)
    return {"role": "assistant", "content": answer["choices"][0]["message"]["content"]}


def conversation(turns: int) -> list[Json]:
    """What an API client may send: a system message, and turns with a fact each."""
    messages: list[Json] = [{"role": "system", "content": "You are terse."}]
    for number in range(turns):
        messages.append({"role": "user", "content": question()})
        messages.append({"role": "assistant", "content": filler(f"Answer {number}", 700)})
    return messages


async def test_an_api_clients_long_conversation_is_compressed_at_once_and_at_a_later_call(rig: Rig) -> None:
    known = await rig.precis.chats()
    messages = [*conversation(30), {"role": "user", "content": question()}]
    messages.append(await ask(rig, messages))
    assert rig.model.received[-1].tokens < WINDOW
    first = view(rig.model.received[-1])
    assert not first.note
    assert facts(rig.model.received[-1].messages) == facts(messages)
    chat = await made(rig, known)

    messages.append({"role": "user", "content": question()})
    await ask(rig, messages)

    seen = await compressed(rig, chat)
    assert seen.head.startswith("You are terse.")
    assert facts(seen.summary) | facts(seen.tail) == facts(messages)
