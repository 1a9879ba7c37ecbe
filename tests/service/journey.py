"""A tenant's way through all that there is, beside another tenant.

`journey` takes tenant A through every route of the service and every function of the storage; B stands still meanwhile.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx

from service.clients.openwebui import sign_in
from service.storage import checkpoints, keys, messages, work
from service.storage.checkpoints import NewCheckpoint
from service.storage.keys import Operator
from service.storage.tables import metadata
from service.summarising.memory import Memory
from service.usecases.compress import compress
from service.usecases.reconcile import reconcile
from service.usecases.retain import remove_expired, remove_old
from service.usecases.rotate import rotate_keys
from tests.conftest import Service, execute
from tests.fakes.openwebui_api import TOKEN, openwebui_api
from tests.fakes.scripted_llm import Fail, Say
from tests.service.events import fingerprints
from tests.service.harness import Harness
from tests.service.talk import Talk, prose
from tests.web.visitor import visiting

# A key is looked up by its hash, before anybody knows whose it is.
TABLES = [table.name for table in metadata.sorted_tables if "tenant_id" in table.c and table.name != "api_keys"]


@dataclass
class Tenant:
    """One Open WebUI; its name is in all that is its own, but in the messages."""

    name: str
    service: Service
    filter: httpx.AsyncClient
    operator: httpx.AsyncClient
    events: httpx.AsyncClient
    talk: Talk
    answers: list[httpx.Response] = field(default_factory=list)

    async def ask(self, method: str, where: str = "", **more: Any) -> httpx.Response:
        return await self.operator.request(method, f"/v1/chats{where}", **more)

    async def identity(self) -> int:
        async with self.service.runtime.database.engine.connect() as connection:
            found = await keys.find_tenant(connection, self.name)
        assert found
        return found

    async def rows(self) -> dict[str, list[str]]:
        """All that is its own, as text. Not through the service's connections: those are listened to."""
        connection = await asyncpg.connect(self.service.runtime.urls.database.replace("+asyncpg", ""))
        query = "select t::text from {} t where tenant_id = (select id from tenants where name = $1) order by 1"
        try:
            return {name: [row[0] for row in await connection.fetch(query.format(name), self.name)] for name in TABLES}
        finally:
            await connection.close()

    async def put_off(self, until: str) -> None:
        """Its due work is due at `until`, an SQL term."""
        whose = f"tenant_id = (select id from tenants where name = '{self.name}')"
        for column in ("due_at", "code_at"):
            change = f"update chats set {column} = {until} where {whose} and {column} is not null"
            await execute(self.service.runtime.urls.database, change)

    async def work(self, harness: Harness, calls: int | None = None) -> None:
        """All work that is due; what the model writes has the tenant's name. After so many `calls` it fails."""
        await self.put_off("now()")
        harness.llm.default = told = Say(f"## State\n- Story of {self.name}.")
        if calls:
            harness.llm.script(*[told] * calls, Fail(400))
        worker_context = harness.worker_context()
        while await compress(worker_context):
            pass


async def settle(tenant: Tenant, harness: Harness) -> str:
    """Rows in every table: checkpoints, work that failed and is due tomorrow. Returns the leaf."""
    talk = tenant.talk
    assert (await tenant.events.post("/v1/events", json={"type": "chat.deleted", "chat_id": "gone"})).status_code == 202
    leaf = talk.turns(20)
    await talk.ingest(leaf)
    await tenant.work(harness)
    deepest = (await tenant.ask("GET", "/chat-1")).json()["checkpoints"][-1]["id"]
    await tenant.ask("POST", "/chat-1/reset", json={"keep": deepest})
    leaf = talk.add("long", talk.add("q", leaf), "assistant", prose(9000, "long"))
    leaf = talk.turns(6, leaf=leaf)
    await talk.ingest(leaf)
    await tenant.work(harness, calls=4)
    await tenant.put_off("now() + interval '1 day'")
    return leaf


async def leave_prompt(tenant: Tenant, harness: Harness) -> None:
    """A window that was shown, and a prompt for a model of its host that nobody has taken; its work is due tomorrow."""
    serving = tenant.service.app.state.serving
    await serving.windows.note(await tenant.identity(), f"small model of {tenant.name}", 4096)
    whose = f"where name = '{tenant.name}'"
    await execute(tenant.service.runtime.urls.database, f"update tenants set summariser = 'chat' {whose}")
    await tenant.put_off("now()")
    worker_context = harness.worker_context("extractive")
    while await compress(worker_context):
        pass
    await tenant.put_off("now() + interval '1 day'")


async def _prompts(a: Tenant, harness: Harness) -> None:
    """A model of A's host fails once, and writes then; at last code alone writes."""
    next_ = {"chat": "chat-1"}
    for answer in ({"status": 503, "body": "away"}, {"status": 200, "body": "nothing"}):
        await a.ask("POST", "/chat-1/reset")
        await leave_prompt(a, harness)
        prompt = (await a.filter.post("/v1/prompts/next", json=next_)).json()["prompt"]
        assert prompt["form"]["model"] == "model of tenant-a"
        handed_in = await a.filter.post(f"/v1/prompts/{prompt['id']}/reply", json=answer)
        assert handed_in.status_code == 202
        assert not (await a.filter.post("/v1/prompts/next", json=next_)).json()["prompt"]
        await a.put_off("now()")
        await compress(harness.worker_context("extractive"))
    assert "openwebui:model of tenant-a" in [
        one["name"] for one in (await a.operator.get("/v1/status")).json()["endpoints"]
    ]
    async with a.service.runtime.database.engine.begin() as connection:
        await keys.choose_summariser(connection, a.name, "")


async def journey(a: Tenant, b: Tenant, leaf: str, harness: Harness, still: Callable[[], Awaitable[None]]) -> None:
    """A uses all that there is; `still` is called after each step."""
    theirs = (await b.ask("GET", "/chat-1")).json()["checkpoints"][-1]["id"]
    own = (await a.ask("GET", "/chat-1")).json()["checkpoints"][-1]["id"]

    told = (await a.filter.get("/v1/filter")).json()
    assert told["tenant"] == "tenant-a"
    assert [one["chat_id"] for one in (await a.ask("GET")).json()["chats"]] == ["chat-1"]
    assert (await a.ask("GET", "/chat-1")).json()["chat"]["user_id"] == "user of tenant-a"
    assert (await a.ask("GET", f"/chat-1/checkpoints/{own}")).json()["summary"]
    assert (await a.talk.ask(leaf))["summary"].count("Story of tenant-a") == 1
    assert (await a.ask("GET", f"/chat-1/checkpoints/{theirs}")).status_code == 404
    assert (await a.ask("POST", "/chat-1/reset", json={"keep": theirs})).status_code == 404
    said = {"state": "Story of tenant-a, corrected.", "rules": ["Peace."]}
    assert (await a.ask("PATCH", f"/chat-1/checkpoints/{theirs}", json=said)).status_code == 404
    corrected = await a.ask("PATCH", f"/chat-1/checkpoints/{own}", json=said)
    assert corrected.json()["checkpoint"]["kind"] == "corrected"
    await a.put_off("now() + interval '1 day'")
    await a.talk.ingest(leaf, served=theirs)
    await still()
    asked = {"state": (await a.talk.ask(leaf))["state"], "ref": "M1"}
    assert (await a.filter.post("/v1/recall", json=asked)).json()["status"] == "found"
    assert (await a.ask("GET", "/chat-1/find", params={"query": "pump"})).json()["status"] == "found"
    await _requests(a)
    await still()
    view = {"user_id": a.talk.user, "message_id": leaf}
    assert "Story of tenant&#45;a" in (await a.filter.post("/v1/chats/chat-1/view", json=view)).json()["text"]
    for user, status in ((b.talk.user, 404), (a.talk.user, 200)):
        wish = {"user_id": user, "left_alone": True}
        assert (await a.filter.post("/v1/chats/chat-1/left-alone", json=wish)).status_code == status
    assert not (await a.ask("POST", "/chat-1/resume")).json()["left_alone"]
    await a.put_off("now() + interval '1 day'")
    await a.service.runtime.counting.store()
    assert (await a.operator.get("/v1/stats")).json()["total"]["tokens_read"] > 0
    await _pages(a, own, theirs)
    await still()

    await _fork(a, leaf)
    await still()
    await _people(a, b, leaf)
    await _prompts(a, harness)
    await a.work(harness)
    await still()
    await rotate_keys(a.service.runtime.database, lambda _: None)
    await still()

    await a.talk.ingest(a.talk.turns(3, leaf=list(a.talk.rows)[4], prefix="branch-"))
    a.talk.edit(list(a.talk.rows)[30], "Something else.")
    await a.talk.ingest(leaf)
    await a.work(harness)
    await still()

    await _grow_old(a)
    await still()
    await a.ask("POST", "/chat-1/reset")
    assert (await a.operator.post("/v1/jobs/chat-1/retry")).status_code == 204
    await a.work(harness)
    await a.talk.ingest(leaf)
    await a.work(harness)
    await still()

    assert (await a.ask("POST", "/chat-1/reset")).status_code == 202
    assert (await a.talk.ask(leaf))["status"] == "pending"
    await still()
    await _by_hand(a)
    await a.work(harness)
    await still()

    await execute(
        a.service.runtime.urls.database,
        f"update chats set due_at = null, dead_at = now() where tenant_id = {await a.identity()}",
    )
    assert [job["state"] for job in (await a.operator.get("/v1/jobs")).json()["jobs"]] == ["dead"]
    assert (await a.operator.get("/v1/status")).json()["queue"]["dead"] == 1
    assert {one["chat"] for one in (await a.operator.get("/v1/audit")).json()["changes"]} == {"chat-1", None}
    assert (await a.operator.post("/v1/jobs/retry")).json()["chats"] == 1
    for _ in range(2):  # the second round finds nothing to do
        assert (await a.operator.post("/v1/jobs/chat-1/retry")).status_code == 204
        await a.work(harness)
    await still()
    made = (await a.operator.post("/v1/keys", json={"scope": "filter", "name": "key of tenant-a"})).json()
    keys_of_b = [one["id"] for one in (await b.operator.get("/v1/keys")).json()["keys"]]
    assert made["id"] not in keys_of_b
    assert not set(keys_of_b) & {one["id"] for one in (await a.operator.get("/v1/keys")).json()["keys"]}
    assert (await a.operator.delete(f"/v1/keys/{keys_of_b[0]}")).status_code == 404
    assert (await a.operator.delete(f"/v1/keys/{made['id']}")).status_code == 204
    await a.service.runtime.counting.store()
    await still()

    for happened in (
        {"type": "chat.updated", "chat_id": "chat-1", "fingerprints": fingerprints(a.talk)},
        {"type": "chat.updated", "chat_id": "chat-1", "fingerprints": {leaf: "edited"}},
        {"type": "folder.deleted", "user_id": a.talk.user, "left": ["chat-1"]},
        {"type": "chat.deleted_all", "user_id": b.talk.user},
        {"type": "user.deleted", "user_id": b.talk.user},
    ):
        assert (await a.events.post("/v1/events", json=happened)).status_code == 202
        await still()

    assert (await a.ask("DELETE", "/chat-1")).status_code == 204
    gone = await a.talk.ask(leaf)
    assert (gone["status"], gone["whole"]) == ("pending", True)
    await a.service.stored()
    assert (await a.ask("DELETE", "/chat-1")).status_code == 204, "that request has shown it again"
    assert (await a.ask("GET")).json()["chats"] == []
    await still()


async def _fork(a: Tenant, leaf: str) -> None:
    """A fork adopts, is served, and expires."""
    fork = Talk(a.filter, "fork", dict(a.talk.rows), user=a.talk.user, model=a.talk.model)
    for _ in ("before", "after"):
        assert (await fork.ask(leaf, seconds=8))["summary"].count("Story of tenant-a") == 1
        await fork.ingest(leaf, expires_in=60)
    await a.service.runtime.counting.store()  # or it might hold the chat, which is then left for later
    whose = f"external_id = 'fork' and tenant_id = {await a.identity()}"
    await execute(a.service.runtime.urls.database, f"update chats set expires_at = now() where {whose}")
    assert await remove_expired(a.service.runtime.database.engine) == 1


async def _people(a: Tenant, b: Tenant, leaf: str) -> None:
    """A guest clones a chat, and writes in another; what is stored of both is looked at, and the guest erased."""
    guest = "guest of tenant-a"
    clone = Talk(a.filter, "clone", dict(a.talk.rows), user=guest, model=a.talk.model)
    await clone.ingest(clone.turns(1, leaf=leaf, prefix="clone-"))
    shared = Talk(a.filter, "shared", user=a.talk.user, model=a.talk.model)
    begun = shared.turns(1, prefix="shared-")
    await shared.ingest(begun)
    theirs = Talk(a.filter, "shared", dict(shared.rows), user=guest, model=a.talk.model)
    mixed = theirs.turns(1, leaf=begun, prefix="guest-")
    await theirs.ingest(mixed, after=begun)
    view = {"user_id": guest, "message_id": mixed}
    assert (await a.filter.post("/v1/chats/shared/view", json=view)).status_code == 200
    await a.talk.ingest(leaf)
    first, second = (a.talk.user, guest)
    assert [one["user_id"] for one in (await a.operator.get("/v1/users")).json()["users"]] == [second, first]
    shown = (await a.operator.get(f"/v1/users/{first}")).json()
    assert (shown["chats"], shown["shared_chats"]) == (["chat-1", "shared"], ["clone"])
    assert (await b.operator.get(f"/v1/users/{first}")).status_code == 404
    async with openwebui_api() as webui, sign_in(webui.url, TOKEN) as admin:
        webui.features["enable_admin_chat_access"] = True
        webui.chats = {"chat-1": first, "shared": first}
        who = Operator(await a.identity(), "operator of tenant-a")
        found = await reconcile(a.service.runtime.database.engine, admin, who, most=100, dry=True)
    assert (found.asked, found.missing) == (3, ["clone"])
    assert (await a.operator.get(f"/v1/users/{guest}")).json()["shared_chats"] == ["shared"]
    assert (await a.operator.delete(f"/v1/users/{guest}")).status_code == 204


async def _grow_old(a: Tenant) -> None:
    """Of what is as old as this, retention keeps nothing but the chat and what leads to it."""
    whose = f"where tenant_id = {await a.identity()}"
    times = [("messages", "created_at"), ("checkpoints", "created_at"), ("checkpoints", "retired_at")]
    times.append(("runs", "started_at"))
    made_old = [f"update {table} set {at} = {at} - interval '1 year' {whose}" for table, at in times]
    idle = f"update chats set due_at = null, updated_at = updated_at - interval '1 year' {whose}"
    await execute(a.service.runtime.urls.database, idle, *made_old)
    settings = a.service.runtime.settings.model_copy(update={"keep_chats": 3650})
    removed = await remove_old(a.service.runtime.database.engine, settings)
    assert min(removed.bodies, removed.checkpoints, removed.runs) > 0


async def _by_hand(a: Tenant) -> None:
    """What only happens when calls take long, or when a worker publishes what is there already."""
    engine = a.service.runtime.database.engine
    async with engine.begin() as connection:
        assert await work.count_waiting(connection, 5) == 1
        lease = await work.claim_work(connection, "by hand", None, 4)
    assert lease
    assert lease.chat.tenant == await a.identity()
    async with engine.begin() as connection:
        assert await work.renew_lease(connection, lease)
        assert not await work.yields_to_others(connection, lease)
        path = await messages.load_path(connection, lease.chat, lease.leaves[0])
        texts = [await checkpoints.pack_texts(engine, lease.chat, 0, Memory(), "summary") for _ in range(2)]
        fresh = [NewCheckpoint(0, path[5], "llm", packed, 1, 8192, "by hand", "1") for packed in texts]
        first, again = [await checkpoints.publish_checkpoint(connection, lease, one) for one in fresh]
        assert first
        assert again == first + 1, "another version"
        await work.give_back(connection, lease, None, 0)


async def _requests(a: Tenant) -> None:
    """Requests alone show a chat, whose user goes back to an earlier message of it."""
    shown = Talk(a.filter, "shown", user=a.talk.user, model=a.talk.model)
    above = shown.turns(1, prefix="shown-")
    for leaf in (shown.turns(1, leaf=above, prefix="first-"), shown.turns(1, leaf=above, prefix="second-")):
        await shown.ask(leaf)
        await a.service.stored()
    whose = f"tenant_id = {await a.identity()}"
    await execute(a.service.runtime.urls.database, f"delete from chats where external_id = 'shown' and {whose}")


async def _pages(a: Tenant, own: int, theirs: int) -> None:
    key = a.operator.headers["Authorization"].removeprefix("Bearer ")
    async with visiting(a.service, key) as visitor:
        at = "/chats/chat-1"
        person = quote(f"/people/{a.talk.user}")
        paths = ("/", "/stats", "/jobs", "/people", "/audit", "/chats", f"{at}/find?query=pump", person, at)
        shown = [await visitor.get(path) for path in (*paths, f"{at}/checkpoints/{own}")]
        assert {one.status for one in shown} == {200}
        assert "Story of tenant-a" in shown[-1].html
        assert not any("tenant-b" in one.html for one in shown)
        form = shown[-2].form(f"{at}/reset")
        hidden = [await visitor.get(f"{at}/checkpoints/{theirs}")]
        state = ("state", "Tenant A's.")
        hidden.append(await visitor.post(f"{at}/checkpoints/{theirs}/correct", [*form.fields, state]))
        hidden.append(await visitor.send(form, ("keep", str(theirs))))
        hidden.append(await visitor.get("/people/user of tenant-b"))
        hidden.append(await visitor.post("/people/user of tenant-b/erase", form.fields))
        assert {one.status for one in hidden} == {404}
        await visitor.send((await visitor.get("/")).form("/sign-out"))
