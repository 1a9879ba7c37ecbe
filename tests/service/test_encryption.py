"""With a key, no word of a chat is in the database, rows cannot be moved, and all answers are the same."""

import re

import pytest

from service.errors import CannotOpen, ConfigurationError
from service.runtime import Urls, open_runtime
from service.settings import load
from service.storage import checkpoints, maintenance, messages
from service.storage.sealing import SEALED
from service.storage.tables import ChatKey
from service.usecases import ingest as ingesting
from service.usecases import rotate
from tests.conftest import fresh_database
from tests.service.encrypted import FIRST, MARK, SECOND, answers, columns, lived, service_with
from tests.service.events import fingerprints
from tests.service.harness import Harness
from tests.service.talk import Talk, check_tree, row, rows, run_sql

# A memory has what it shares with the summary as places in that.
HELD = {
    "messages.body",
    "checkpoints.summary",
    "checkpoints.verdict",
    "runs.reason",
}
KEYED = {
    "messages.message_id",
    "messages.parent_id",
    "messages.host_hash",
    "chats.leaf_id",
    "chats.due_leaves",
    "checkpoints.covered_until",
}


@pytest.fixture(autouse=True)
def _short_chats_are_searched_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "STORED_FROM", 4)


async def keyed_columns(harness: Harness, leaf: str) -> set[str]:
    """The columns with a hash of what was said; none has it as anybody could compute it."""
    cipher, urls = await harness.runtime.database.keyring.find_cipher(1), harness.runtime.urls
    sent = [*harness.talk.ids(leaf), *fingerprints(harness.talk).values()]
    assert await columns(urls, *sent) == set()
    return await columns(urls, *map(cipher.keyed_hash, sent))


async def test_no_column_has_a_word_of_the_chat_and_every_answer_is_the_same(urls: Urls, servers: Urls) -> None:
    async with (
        fresh_database(servers) as other_urls,
        service_with(urls, "") as plain,
        service_with(other_urls, FIRST) as sealed,
    ):
        leaf = await lived(plain)
        assert await lived(sealed) == leaf

        assert await columns(urls, MARK) >= HELD, "the search finds what is there"
        assert await columns(other_urls, MARK) == set()
        assert await keyed_columns(plain, leaf) >= KEYED
        assert await keyed_columns(sealed, leaf) == KEYED
        assert (await row(sealed.runtime, "select get_byte(secret, 0) as first from tenant_secrets")).first == SEALED

        said = await answers(plain.service, plain.talk, leaf)
        assert MARK in str(said)
        assert await answers(sealed.service, sealed.talk, leaf) == said
        await check_tree(sealed.runtime)


async def test_a_fork_reads_what_it_adopts_and_a_correction_is_sealed(urls: Urls) -> None:
    async with service_with(urls, FIRST) as harness:
        leaf = await lived(harness)
        talk, operator = harness.talk, harness.service.as_operator
        fork = Talk(harness.service.as_filter, "fork", talk.rows)
        own = await talk.ask(leaf)
        assert MARK in own["summary"]
        await fork.ingest(leaf)
        assert (await fork.ask(leaf))["summary"] == own["summary"]
        copies = "select count(*) as n from checkpoints where chat_id = 2"
        before = await row(harness.runtime, copies)
        await fork.ingest(fork.add("more", leaf))
        assert await row(harness.runtime, copies) == before, "a copy is known again"

        served = (await talk.ask(leaf))["checkpoint"]
        said = {"state": f"The {MARK} pump is sold.", "rules": []}
        corrected = await operator.patch(f"/v1/chats/chat-1/checkpoints/{served}", json=said)
        assert corrected.status_code == 200, corrected.text
        assert f"{MARK} pump is sold" in (await talk.ask(leaf))["summary"]
        assert await columns(urls, MARK) == set()
        await check_tree(harness.runtime)


async def test_texts_that_were_moved_are_refused(urls: Urls) -> None:
    async with service_with(urls, FIRST) as harness:
        leaf = await lived(harness)
        database, talk = harness.runtime.database, harness.talk
        served = (await talk.ask(leaf))["checkpoint"]
        assert served
        await run_sql(
            harness.runtime,
            "update checkpoints set summary = other.summary, memory = other.memory from checkpoints other"
            " where checkpoints.id = :this and other.id <> :this",
            this=served,
        )
        async with database.engine.connect() as connection:
            with pytest.raises(CannotOpen, match=r"checkpoints\.memory"):
                await checkpoints.load_memory(database.engine, ChatKey(1, 1), served)
            with pytest.raises(CannotOpen, match=r"checkpoints\.summary"):
                await checkpoints.load_summary(connection, ChatKey(1, 1), served)
        assert (await talk.client.post("/v1/compress", json=talk.request(leaf))).status_code == 500

        other = Talk(harness.service.as_filter, "other", talk.rows, user="user-2")
        await other.ingest("marked")
        this = (await database.keyring.find_cipher(1)).keyed_hash(other.ids("marked")[-1])
        async with database.engine.connect() as connection:
            assert await messages.load_bodies(connection, ChatKey(1, 1), [this])
        named = rf"messages\.body of chat 1, row '{re.escape(this)}'"
        others = "select body from messages m where m.host_id = 'marked' and m.chat_id <> messages.chat_id"
        await run_sql(harness.runtime, f"update messages set body = ({others}) where host_id = 'marked'")
        async with database.engine.connect() as connection:
            with pytest.raises(CannotOpen, match=named) as refused:
                await messages.load_bodies(connection, ChatKey(1, 1), [this])
        assert MARK not in str(refused.value)


@pytest.mark.slow
async def test_a_plain_database_goes_on_with_a_key_is_rotated_and_becomes_plain_again(urls: Urls) -> None:
    async with service_with(urls, "") as plain:
        leaf = await lived(plain)
        said = await answers(plain.service, plain.talk, leaf)
        talk_rows = plain.talk.rows
    async with service_with(urls, FIRST) as mixed:
        mixed.talk.rows.update(talk_rows)
        assert await answers(mixed.service, mixed.talk, leaf) == said
        leaf = mixed.talk.turns(2, leaf=leaf)
        await mixed.talk.ingest(leaf)
        await mixed.due_now()
        await mixed.compress()
        mixed.talk.edit("answer", "Something else.")
        await mixed.talk.ingest(leaf)
        await mixed.compress()
        said = await answers(mixed.service, mixed.talk, leaf)

        held = await rotate.rotate_keys(mixed.runtime.database, lambda _: None)

        assert {one.key for one in held} == {1}
        assert await columns(urls, MARK) == set()
        assert await answers(mixed.service, mixed.talk, leaf) == said
        await check_tree(mixed.runtime)
    for keys, left in ((f"{SECOND},{FIRST}", {2}), (f"none,{SECOND}", {None}), ("", {None})):
        async with service_with(urls, keys) as rotated:
            rotated.talk.rows.update(mixed.talk.rows)
            assert await answers(rotated.service, rotated.talk, leaf) == said
            held = await rotate.rotate_keys(rotated.runtime.database, lambda _: None)
            assert {one.key for one in held} == left
            assert await answers(rotated.service, rotated.talk, leaf) == said
            await check_tree(rotated.runtime)
            assert await rotate.rotate_keys(rotated.runtime.database, lambda _: None) == held
    assert await columns(urls, MARK) >= HELD - {"runs.reason"}, "an error goes with a text that it may quote"


async def test_a_key_may_be_removed_only_when_nothing_is_sealed_with_it(urls: Urls) -> None:
    async with service_with(urls, FIRST) as harness:
        await lived(harness)
    with pytest.raises(ConfigurationError, match="sealed with key 1"):
        async with open_runtime(load(database_url=urls.database, redis_url=urls.redis, encryption_keys=SECOND), urls):
            pass
    async with service_with(urls, f"{SECOND},{FIRST}") as harness:
        assert len(await rows(harness.runtime, "select * from sealing_keys")) == 2
        await rotate.rotate_keys(harness.runtime.database, lambda _: None)
    async with service_with(urls, SECOND) as harness:
        assert [one.id for one in await rows(harness.runtime, "select * from sealing_keys")] == [2]


async def test_a_rotation_goes_on_with_what_a_killed_one_has_left(urls: Urls, monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_with(urls, "") as harness:
        leaf = harness.talk.add("marked", harness.talk.turns(1))
        await harness.talk.ingest(harness.talk.add("answer", leaf, "assistant"))
    monkeypatch.setattr(maintenance, "BATCH", 1)
    batches: list[int] = []
    async with service_with(urls, FIRST) as harness:
        while not batches or batches[-1]:
            async with harness.runtime.database.engine.begin() as connection:
                batches.append(await maintenance.reseal(connection, ChatKey(1, 1)))

    assert batches == [1, 1, 1, 1, 0]
