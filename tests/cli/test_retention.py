"""`precis retention`, and what reset and recompute say of a chat whose texts are gone."""

from tests.cli.conftest import Cli
from tests.conftest import Service, drain
from tests.service.talk import Talk, row, rows, run_sql


async def test_retention_counts_first_then_removes_and_the_commands_say_what_waits(cli: Cli, service: Service) -> None:
    talk = Talk(service.as_filter)
    await talk.ingest(talk.turns(14))
    await drain(service.runtime)
    await run_sql(service.runtime, "update messages set created_at = now() - interval '31 days'")

    counted = await cli("retention", "--dry-run", PRECIS_RETENTION="off")
    assert counted.exit_code == 0
    assert "found" in counted.stdout
    assert "bodies      │    28" in counted.stdout
    assert await rows(service.runtime, "select 1 from messages where body is null") == []
    removed = await cli("retention")
    assert "removed" in removed.stdout
    assert (await row(service.runtime, "select count(*) as gone from messages where body is null")).gone == 28
    assert "bodies      │       0" in (await cli("retention")).stdout

    waits = (
        "Texts that new summaries need were deleted (see PRECIS_KEEP_BODIES): the work waits for the chat's next turn."
    )
    assert (await cli("chats", "recompute", "chat-1")).stdout == f"{waits}\n"
    assert (await cli("chats", "reset", "chat-1", "--yes")).stdout == f"0 checkpoints deleted. {waits}\n"
    assert waits in (await cli("chats", "show", "chat-1")).stdout
    assert "waits for the next turn" in (await cli("chats", "list")).stdout
