"""Kill -9, again and again, while fifty chats go on: `./scripts/chaos --kills N --seed S --json PATH`.

Whom it hits, and after how many turns, follows from the seed. At the end the traffic stops, the work that is due is
waited for, and everything that was promised is looked for in the database.

All texts are encrypted, and at the end none may stand openly in any file.
"""

import asyncio
import json
import shutil
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import click

from service.runtime import open_runtime
from service.storage import checkpoints as of_checkpoints
from service.storage import codec, messages
from service.storage.database import connect
from service.storage.sealing import Cipher
from service.storage.tables import ChatKey
from service.transcript import unfold_messages
from tests.fakes.scripted_llm import Request, ScriptedLLM, scripted_llm
from tests.faults.fleet import Fleet, Kind, fleet
from tests.faults.traffic import Traffic, narrate, story_in
from tests.folders import reachable_folder
from tests.service.encrypted import columns
from tests.service.talk import check_tree
from tests.waiting import until

CHATS = 50
_TEXT = "[[chaos-"  # with what every message begins
_MOMENT = 0.15  # seconds that the model takes
_SHOWN = 20  # faults that are printed; the file has all of them
PATIENCE = 300.0  # seconds that anything may take here; what takes longer has not converged
# Twenty kills in this proportion: a database server is back in a tenth of the time that a Python process takes.
SHARES: dict[Kind, int] = {"worker": 7, "api": 3, "redis": 5, "postgres": 5}
DECK: list[Kind] = [kind for kind, share in SHARES.items() for _ in range(share)]


@dataclass(frozen=True)
class Figures:
    """What came of it. `lost` to `unconverged` must be 0; `faults` says in words what was not."""

    kills: int
    lost: int
    doubled: int
    mismatched: int
    unconverged: int
    llm_calls: int
    llm_calls_wasted: int
    turns: int
    served: int
    seconds_to_converge: float
    kills_by_kind: dict[str, int]
    faults: list[str]

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.doubled or self.mismatched or self.unconverged or self.faults)


class Model:
    """A scripted model that takes a moment, and counts."""

    def __init__(self, llm: ScriptedLLM) -> None:
        self.calls = self.busy = 0
        self._llm = llm
        llm.thinking = self._think

    async def _think(self, _: Request) -> None:
        self.calls += 1
        self._llm.requests.clear()  # thousands of them would fill the memory
        self.busy += 1
        try:
            # Not to wait for anything: a kill has to find calls that are under way.
            await asyncio.sleep(_MOMENT)
        finally:
            self.busy -= 1


async def play(made: Fleet, traffic: Traffic, kills: int, seed: int) -> Figures:
    """Kills so often, then lets everything come to rest."""
    model = Model(made.llm)
    killed: Counter[Kind] = Counter()
    expected = _count_starts(made)
    async with asyncio.TaskGroup() as group:
        group.create_task(traffic.run())
        for number in range(kills):
            killed[await _kill(made, traffic, model, number, seed)] += 1
        traffic.stop()
    seconds = await _settled(made, traffic)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(member.up.wait() for member in made.members))
    expected.update(killed)
    if _count_starts(made) != expected:
        traffic.faults.append(f"somebody ended who was not killed: {_count_starts(made)} starts, not {expected}")
    await traffic.look()
    return await _figures(made, traffic, model, killed, seconds)


def _count_starts(made: Fleet) -> Counter[Kind]:
    """How often the members of each kind have been started."""
    starts: Counter[Kind] = Counter()
    for member in made.members:
        starts[member.kind] += member.starts
    return starts


async def _kill(made: Fleet, traffic: Traffic, model: Model, number: int, seed: int) -> Kind:
    """Kills one after some turns, and says of what kind it was."""
    rng = Random(f"{seed}:{number}")
    kind = Random(f"{seed}:{number // len(DECK)}").sample(DECK, len(DECK))[number % len(DECK)]
    turns = rng.randint(6, 12)
    before = traffic.counts["turn"]
    awaited = before + rng.randint(1, turns - 4)
    traffic.allow(turns)
    await until(lambda: traffic.counts["turn"] >= awaited, PATIENCE)
    if kind == "worker":  # while one of them waits for the model, if one does at all
        await until(lambda: bool(model.busy) or traffic.counts["turn"] >= before + turns - 1, PATIENCE)
    members = made.of(kind)
    await until(lambda: any(member.up.is_set() for member in members), PATIENCE)
    victim = rng.choice([member for member in members if member.up.is_set()])
    if kind == "redis":
        await made.flush()  # it may lose everything
    await victim.kill()
    return kind


async def _settled(made: Fleet, traffic: Traffic) -> float:
    """How many seconds it took until nothing was due."""
    started = time.monotonic()
    try:
        await until(made.converged, PATIENCE, every=0.25)  # each look is a new connection
    except TimeoutError:
        traffic.faults.append(f"not converged after {PATIENCE:.0f} s")
    return time.monotonic() - started


async def _figures(made: Fleet, traffic: Traffic, model: Model, killed: Counter[Kind], seconds: float) -> Figures:
    counts, faults = traffic.counts, list(traffic.faults)
    async with connect(made.urls.database, keys=made.settings.sealing_keys) as database:
        (tenant,) = await made.rows("select distinct tenant_id from chats")
        cipher = await database.keyring.find_cipher(tenant["tenant_id"])
    checkpoints = await _checkpoints(made, cipher)
    lost = await _lost(made, traffic, cipher)
    whole = [one for one in checkpoints if one["kind"] != "interim"]
    doubled = Counter((one["chat_id"], one["parent_id"], one["covered_until"]) for one in whole)
    wrong = _wrong(traffic, checkpoints, cipher)
    unconverged = await made.rows("select external_id, attempts, last_error from chats where due_at is not null")
    faults += lost + wrong + [str(dict(one)) for one in unconverged]
    async with open_runtime(made.settings, made.urls) as runtime:
        try:
            await check_tree(runtime)
        except (AssertionError, KeyError) as error:  # a row, or the row above it
            faults.append(f"rows contradict one another: {error}")
    faults += await _open_texts(made)
    return Figures(
        kills=killed.total(),
        lost=len(lost),
        doubled=sum(count > 1 for count in doubled.values()),
        mismatched=counts["mismatch"] + len(wrong),
        unconverged=len(unconverged),
        llm_calls=model.calls,
        llm_calls_wasted=model.calls - len(whole),
        turns=counts["turn"],
        served=counts["ready"],
        seconds_to_converge=round(seconds, 2),
        kills_by_kind={kind: killed[kind] for kind in SHARES},
        faults=faults,
    )


async def _checkpoints(made: Fleet, cipher: Cipher) -> list[dict[str, Any]]:
    """All checkpoints of the traffic, with the summary as it was before it was sealed."""
    stored = await made.rows("select external_id, c.* from checkpoints c join chats on chats.id = chat_id")
    found = []
    for one in stored:
        where = of_checkpoints.aad_for_part(ChatKey(one["tenant_id"], one["chat_id"]), one["id"], "summary")
        found.append({**one, "summary": codec.unpack_text(cipher.decrypt(where, one["summary"]))})
    return found


async def _lost(made: Fleet, traffic: Traffic, cipher: Cipher) -> list[str]:
    """Acknowledged messages that are not stored as they were acknowledged."""
    stored = {
        (one["external_id"], one["message_id"]): one
        for one in await made.rows("select external_id, m.* from messages m join chats on chats.id = chat_id")
    }
    found = []
    for chat in traffic.chats:
        for node, identity in chat.expected().items():
            keyed = cipher.keyed_hash(node)
            row = stored.get((chat.talk.chat, keyed))
            if row is None or row["host_id"] != identity:
                found.append(f"{chat.talk.chat}: {identity} is {'other' if row else 'not'} stored")
                continue
            where = messages.aad_for_body(ChatKey(row["tenant_id"], row["chat_id"]), keyed)
            (native,) = unfold_messages([codec.unpack(cipher.decrypt(where, row["body"]))])
            if native["content"] != chat.talk.rows[identity]["content"]:
                found.append(f"{chat.talk.chat}: {identity} has another text")
    return found


def _wrong(traffic: Traffic, checkpoints: list[Any], cipher: Cipher) -> list[str]:
    """Checkpoints, served or not, whose boundary was never on a path of theirs, or that tell of something else."""
    places_of = {
        chat.talk.chat: {cipher.keyed_hash(node): place for node, place in chat.places.items()}
        for chat in traffic.chats
    }
    found = []
    for one in checkpoints:
        told = story_in(one["summary"])
        places = places_of[one["external_id"]]
        place = places.get(one["covered_until"])
        stories = {place.story} if place else set()
        if one["kind"] == "interim":  # goes on with what a model told some turns above
            stories = {"", *(place.story for place in places.values())}
        if not place or place.depth != one["covered_messages"] or told not in stories:
            found.append(f"{one['external_id']}: checkpoint {one['id']} is not what it says it is: {place}")
    return found


async def _open_texts(made: Fleet) -> list[str]:
    """Columns, and files of the servers and processes, in which words of messages can be read."""
    found = [*await columns(made.urls, _TEXT)]
    files = await asyncio.to_thread(lambda: [path for path in made.folder.rglob("*") if path.is_file()])
    found += [str(path) for path in files if _TEXT.encode() in await asyncio.to_thread(path.read_bytes)]
    return [f"a text can be read in {place}" for place in found]


async def run(place: Path, kills: int, seed: int) -> Figures:
    """A whole run on servers of its own."""
    async with (
        scripted_llm(narrate) as llm,
        fleet(place / "data", llm) as made,
        made.client() as client,
    ):
        return await play(made, Traffic(client, CHATS, seed), kills, seed)


@click.command()
@click.option("--kills", default=200, help="How many kills in all.")
@click.option("--seed", default=1, help="Decides who is killed, and when.")
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), default="chaos.json", help="Where the figures go."
)
def main(kills: int, seed: int, json_path: Path) -> None:
    """Kills -9 while fifty chats go on, and tells what came of it."""
    place = reachable_folder("precis-chaos-")
    figures = asyncio.run(run(place, kills, seed))
    json_path.write_text(json.dumps(asdict(figures), indent=2) + "\n")
    click.echo(json.dumps(asdict(figures) | {"faults": figures.faults[:_SHOWN]}, indent=2))
    if not figures.good:
        sys.exit(f"The fleet's data and logs are kept in {place}.")
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
