"""Open WebUI may compress the same chat itself: never both at once, and everybody is told."""

from tests.conftest import Service, drain
from tests.filter.chat import Chat, Turn
from tests.service.talk import row

MARK = "[CONVERSATION SUMMARY]"


def compacted(chat: Chat, summary: str, kept: int = 3) -> Turn:
    """A request as Open WebUI's own compaction leaves it: a summary behind its marker, and the newest messages."""
    turn = chat.request(str(chat.leaf))
    system, *others = turn.messages
    prompt = f"{system['content']}\n{MARK}\n{summary}"
    turn.body["messages"] = [{"role": "system", "content": prompt}, *others[-kept:]]
    return turn


async def compactor(service: Service, chat: Chat) -> str | None:
    found = await row(service.runtime, "select compactor from chats where external_id = :chat", chat=chat.id)
    named: str | None = found.compactor
    return named


async def test_what_open_webui_has_compacted_is_left_alone_and_everybody_is_told(
    roomy_chat: Chat, roomy: Service
) -> None:
    chat = roomy_chat
    chat.grow(9, 350)
    chat.ask("How far are we?")
    turn = await chat.enter(compacted(chat, "They talked."))
    assert turn.messages == turn.original
    assert chat.host.statuses == ["Context compacted by Open WebUI itself"]
    await chat.reply(turn, "Far.")
    assert await compactor(roomy, chat) == "open-webui"
    await drain(roomy.runtime)

    chat.ask("And now?")
    turn = await chat.inlet()
    assert turn.messages == turn.original, "no summary was written meanwhile"
    await chat.reply(turn, "Farther.")
    assert await compactor(roomy, chat) is None, "Open WebUI has stopped"


async def test_a_prompt_that_has_the_marker_is_no_compaction(roomy_chat: Chat, roomy: Service) -> None:
    chat = roomy_chat
    chat.grow(9, 350)
    await chat.say("How far are we?", "Far.")
    await drain(roomy.runtime)
    chat.system = "End with the heading\n[CONVERSATION SUMMARY]\nand what was said."
    chat.ask("And now?")
    turn = await chat.inlet()
    assert turn.summary
    assert turn.messages[0] == turn.original[0]
