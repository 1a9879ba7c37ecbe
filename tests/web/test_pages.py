"""What the pages show, what their forms do, and what of it the audit log notes."""

import hashlib
import re
from pathlib import Path

import pytest

import service as package
from service.text.characters import escape_hidden
from service.web.page import HEADERS
from tests.conftest import Service
from tests.service.grown import summarised
from tests.service.talk import Json, Talk, long_chat, row, rows, run_sql
from tests.web.visitor import Page, Visitor, visiting

pytestmark = pytest.mark.asyncio(loop_scope="module")

HTMX = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
"""SHA-256 of `dist/htmx.min.js` in the package htmx.org 4.0.1."""
STATIC = Path(package.__file__).parent / "web" / "static"
ODD = [
    "what?a#b&c=d;e+f 50%25",
    "чат-日本語-🐟",
    '"><img src=x onerror=alert(1)><script>alert(1)',
    "\u202egnihton",
    "a%2Fb/find",
]


async def audited(service: Service) -> list[tuple[str, str | None, Json]]:
    """What the operator of these tests did since signing in, oldest first."""
    found = await rows(service.runtime, "select actor, action, chat, details from audit order by id")
    assert {one.actor for one in found} == {f"{service.operator_key[:14]}… test"} or not found
    return [(one.action, one.chat, one.details) for one in found if one.action != "session.begin"]


async def with_summaries(service: Service, talk: Talk, count: int = 2) -> tuple[str, list[int]]:
    """A chat with so many checkpoints; returns its leaf and their ids, oldest first."""
    leaf = await summarised(service, talk, least=count)
    return leaf, [one.id for one in await rows(service.runtime, "select id from checkpoints order by id")]


async def fill(service: Service, count: int) -> None:
    """Chats `filled-1` to `filled-<count>` of ten users, each a second older than the one before."""
    await run_sql(
        service.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, updated_at, leaf_tokens)"
        " select 1, 'filled-' || n, 'user-' || n % 10, 'model-' || n % 2, 8192,"
        " now() - n * interval '1 second', n % 7 from generate_series(1, :count) n",
        count=count,
    )


def ids(page: Page) -> list[str]:
    """The chats of a list, in its order."""
    return re.findall(r'<th scope="row"><a class="id" href="/chats/[^"]+">([^<]+)</a>', page.html)


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def every_page(visitor: Visitor, checkpoint: int) -> dict[str, Page]:
    """All pages, and errors of the service's own words, by their addresses."""
    chat = "/chats/chat-1"
    fixed = ("/", "/stats", "/chats", "/jobs", "/people", "/people/user-1", "/audit", "/docs")
    of_chat = (chat, f"{chat}/find", f"{chat}/checkpoints/{checkpoint}", f"{chat}/checkpoints/999")
    pages = {path: await visitor.get(path, headers=BROWSER) for path in (*fixed, *of_chat, "/nothing")}
    pages["/sign-in"] = await visitor.sign_in("precis_op_wrong")
    return pages


async def test_every_page_its_errors_and_its_files_have_the_strict_headers(
    service: Service, visitor: Visitor, talk: Talk
) -> None:
    _, made = await with_summaries(service, talk)
    found = await every_page(visitor, made[-1])
    found["/static/precis.css"] = await visitor.get("/static/precis.css")
    found["forged"] = await visitor.post("/jobs/retry", [], Sec_Fetch_Site="cross-site")
    async with visiting(service) as stranger:
        found["stranger"] = await stranger.get("/chats")
        found["form to sign in"] = await stranger.get("/sign-in")
    for path, page in found.items():
        headers = dict(page.response.headers)
        expected = {name.lower(): value for name, value in HEADERS.items()}
        if path.startswith("/static"):
            expected["cache-control"] = "public, max-age=31536000, immutable"
        assert headers.items() >= expected.items(), path
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        if page.html.startswith("<!doctype"):
            assert "style=" not in page.html, path
            assert not re.search(r"\son\w+=", page.html), path
            assert all(one.startswith("/static/") for one in page.scripts), path


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/chats/unknown", 404, "There is no chat 'unknown'."),
        ("/chats/chat-1/checkpoints/999", 404, "has no checkpoint 999"),
        ("/chats/chat-1/checkpoints/99999999999999999999", 422, "expected shape"),
        ("/people/nobody", 404, "Nothing is stored of user 'nobody'"),
    ],
)
async def test_what_is_not_there_or_makes_no_sense_is_a_page_with_the_reason(
    service: Service, visitor: Visitor, path: str, status: int, said: str
) -> None:
    await long_chat(service.as_filter)
    page = await visitor.get(path)
    assert page.status == status
    assert said in page.text
    assert page.html.startswith("<!doctype html>")
    assert "Traceback" not in page.html


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/static/nothing.css", 404), ("/sign-out", 405)])
async def test_an_address_that_has_no_page_is_a_page_for_a_browser_and_a_problem_for_a_program(
    visitor: Visitor, path: str, status: int
) -> None:
    page = await visitor.get(path, headers=BROWSER)
    program = await visitor.get(path)

    assert page.status == program.status == status
    assert page.html.startswith("<!doctype html>")
    assert dict(page.response.headers).items() >= {name.lower(): value for name, value in HEADERS.items()}.items()
    assert "/" in page.links
    said = program.response.json()
    assert program.response.headers["content-type"] == "application/problem+json"
    assert said["detail"].replace("`", "").lower() in page.text.lower()
    assert page.response.headers.get("allow") == program.response.headers.get("allow")


async def test_below_v1_an_unknown_address_is_a_problem_for_everybody(visitor: Visitor) -> None:
    answer = (await visitor.get("/v1/nothing", headers=BROWSER)).response
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "/docs" in answer.json()["detail"]


async def test_no_page_shows_markdown_and_each_label_stands_in_one_line(
    service: Service, visitor: Visitor, talk: Talk
) -> None:
    _, made = await with_summaries(service, talk)
    late = "due_at = now() - interval '1 hour', last_error = 'set `PRECIS_MODELS`'"
    await run_sql(service.runtime, f"update chats set {late}")

    pages = await every_page(visitor, made[-1])

    for path, page in pages.items():
        assert "`" not in page.text, path
        assert all(len(elements) <= 1 for elements in page.labels), path
    for path in ("/", "/chats", "/jobs", "/chats/chat-1", "/chats/chat-1/checkpoints/999", "/sign-in", "/docs"):
        assert "<code>" in pages[path].html, path
    docs = pages["/docs"].html
    assert "<li>A <code>filter</code> key lets a host " in docs
    assert not re.search(r"<p>\s*- ", docs)


async def test_a_state_of_work_has_one_name_wherever_it_is_counted(service: Service, visitor: Visitor) -> None:
    await fill(service, 10)
    states = {
        "due": "due_at = now()",
        "waiting": "due_at = now() + interval '1 hour'",
        "working": "due_at = now(), lease_until = now() + interval '1 hour'",
        "dead": "dead_at = now()",
    }
    for number, (state, values) in enumerate(states.items(), 1):
        which = f"id in (select id from chats where due_at is null and dead_at is null limit {number})"
        await run_sql(service.runtime, f"update chats set {values} where {which}")

        for path in ("/", "/jobs"):
            assert re.search(rf"\b{number} {state}\b", (await visitor.get(path)).text), (path, state)
        assert len(ids(await visitor.get(f"/jobs?state={state}"))) == number


async def test_the_page_of_tokens_has_a_row_for_each_day_and_model(service: Service, visitor: Visitor) -> None:
    counted = "insert into sums select 1, (now() at time zone 'utc')::date, 'model-' || n, 1000 * n, 0, n"
    await run_sql(service.runtime, f"{counted} from generate_series(1, 2) n")

    text = " ".join((await visitor.get("/stats")).text.split())

    assert re.search(r"model-2 2,000 0 2 20\d\d-\d\d-\d\d model-1 1,000 0 1 All 3,000 0 3", text)


async def test_the_latest_work_of_a_chat_is_that_which_did_something(service: Service, visitor: Visitor) -> None:
    await fill(service, 1)
    rounds = "select tenant_id, id, 1, :outcome, :calls from chats, generate_series(1, :count)"
    for outcome, calls, count in (("done", 3, 1), ("nothing to do", 2, 1), ("nothing to do", 0, 30)):
        await run_sql(
            service.runtime,
            f"insert into runs (tenant_id, chat_id, seq, outcome, calls) {rounds}",
            outcome=outcome,
            calls=calls,
            count=count,
        )

    page = await visitor.get("/chats/filled-1")

    assert re.findall(r'<td><span class="state [^"]+">([^<]+)</span></td>\s*<td class="why">', page.html) == [
        "nothing to do",
        "done",
    ]


async def test_an_error_within_a_page_is_only_its_sentence(visitor: Visitor) -> None:
    page = await visitor.get("/chats?state=tired&part=true", headers={"HX-Request": "true"})
    assert page.html.startswith('<p class="wrong" role="alert">')


async def test_the_script_from_elsewhere_is_the_published_one_and_its_licence_is_said() -> None:
    assert hashlib.sha256((STATIC / "htmx.min.js").read_bytes()).hexdigest() == HTMX
    assert "htmx.org 4.0.1" in (STATIC / "README.md").read_text()
    assert "0BSD" in (STATIC / "README.md").read_text()


@pytest.mark.parametrize("chat", ODD)
async def test_a_chat_and_a_user_with_odd_ids_have_their_pages_and_actions(
    service: Service, visitor: Visitor, chat: str
) -> None:
    await run_sql(
        service.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, last_error, dead_at)"
        " values (1, :chat, :chat, :chat, 8192, :chat, now())",
        chat=chat,
    )
    await run_sql(service.runtime, "insert into chat_authors select tenant_id, id, user_id from chats")
    listed, people = await visitor.get("/chats"), await visitor.get("/people")
    (link,) = [one for one in listed.links if one.startswith("/chats/")]
    (user,) = [one for one in people.links if one.startswith("/people/")]
    assert (await visitor.get("/people", params={"begins": chat})).links.count(user) == 1

    page, person = await visitor.get(link), await visitor.get(user)

    for one in (page, person):
        assert one.status == 200
        assert " ".join(escape_hidden(chat).split()) in one.text
    for one in (listed, people, page, person):
        assert "\u202e" not in one.html, "it would turn what stands around it"
        assert "<script>alert" not in one.html
        assert "<img" not in one.html
        assert all(address.startswith(("/", "#main")) for address in one.links), "no link leads elsewhere"
    of_user = next(one for one in page.links if one.startswith("/chats?user="))
    assert len([one for one in (await visitor.get(of_user)).links if one.startswith("/chats/")]) == 1
    retried = await visitor.send(page.form(f"{link}/retry"))
    assert "The work is due now." in (await visitor.get(retried.leads_to)).text
    assert (await audited(service))[-1][:2] == ("job.retry", chat)
    history = next(one for one in page.links if one.startswith("/audit?chat="))
    assert "job.retry" in (await visitor.get(history)).text
    deleted = await visitor.send(page.form(f"{link}/delete"))
    assert deleted.leads_to.startswith("/chats")
    assert not await rows(service.runtime, "select 1 from chats")
    assert "Nothing is stored of user" in (await visitor.send(person.form(f"{user}/erase"))).text


async def test_a_chat_is_called_by_its_title_and_its_user_by_their_name(visitor: Visitor, talk: Talk) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    await talk.ingest(talk.turns(2), title=f"Pumps {hostile}", user_name=f"Ann {hostile}")

    pages = [await visitor.get(path) for path in ("/chats", "/chats/chat-1", "/people")]

    for page in pages:
        for name, identity in (("Pumps", "chat-1"), ("Ann", talk.user)):
            is_shown = name == "Ann" or page is not pages[2]
            assert (f"{name} <script>alert(1)</script>\\u202e" in page.text) is is_shown
            assert (identity in page.text) is is_shown
        assert "inline" not in page.scripts
        assert "\u202e" not in page.html
    assert pages[1].html.count("<h1>Pumps") == 1


@pytest.mark.parametrize(
    ("page", "form", "said", "action"),
    [
        ("/jobs", "/jobs/retry", "0 dead", "job.retry"),
        ("/chats/filled-1", "/chats/filled-1/retry", "The work is due now.", "job.retry"),
        ("/chats/filled-2", "/chats/filled-2/resume", "This chat is summarised again.", "chat.resume"),
    ],
)
async def test_a_button_does_what_it_says_and_is_noted(
    service: Service, visitor: Visitor, page: str, form: str, said: str, action: str
) -> None:
    await fill(service, 2)
    await run_sql(service.runtime, "update chats set dead_at = now(), left_alone_at = now()")

    done = await visitor.send((await visitor.get(page)).form(form))

    assert said in (await visitor.get(done.leads_to)).text
    assert [noted[0] for noted in await audited(service)] == [action]


async def test_reset_deletes_all_checkpoints_and_keep_only_this_all_behind_one(
    service: Service, visitor: Visitor, talk: Talk
) -> None:
    _, made = await with_summaries(service, talk, 3)
    page = await visitor.get("/chats/chat-1")

    kept = await visitor.send(page.form("/chats/chat-1/reset", keep=str(made[0])))

    assert "deleted, and the chat is summarised again" in (await visitor.get(kept.leads_to)).text
    assert [one.id for one in await rows(service.runtime, "select id from checkpoints")] == made[:1]
    (whole,) = [one for one in page.forms if one.action.endswith("/reset") and "keep" not in dict(one.fields)]
    await visitor.send(whole)
    assert not await rows(service.runtime, "select 1 from checkpoints")
    assert (await row(service.runtime, "select due_at <= now() as due from chats")).due
    assert await audited(service) == [
        ("chat.reset", "chat-1", {"dropped": len(made) - 1, "kept": made[0]}),
        ("chat.reset", "chat-1", {"dropped": 1, "kept": None}),
    ]


@pytest.mark.parametrize("keep", ["", "1x", "-1", "9" * 30, "²"])
async def test_what_to_keep_is_a_checkpoint_or_nothing_is_deleted(
    service: Service, visitor: Visitor, talk: Talk, keep: str
) -> None:
    _, made = await with_summaries(service, talk)
    form = (await visitor.get("/chats/chat-1")).form("/chats/chat-1/reset")

    assert (await visitor.send(form, ("keep", keep))).status in (404, 422)

    assert len(await rows(service.runtime, "select id from checkpoints")) == len(made)


async def correction(service: Service, visitor: Visitor, talk: Talk) -> tuple[int, Page, str]:
    """The newest checkpoint of a new chat, the page with its texts, and where its form goes."""
    _, made = await with_summaries(service, talk)
    page = await visitor.get(f"/chats/chat-1/checkpoints/{made[-1]}")
    return made[-1], page, f"/chats/chat-1/checkpoints/{made[-1]}/correct"


async def newest(service: Service) -> Json:
    last = await row(service.runtime, "select max(id) as id from checkpoints")
    found: Json = (await service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{last.id}")).json()
    return found


async def test_a_correction_is_a_new_version_with_what_was_written(
    service: Service, visitor: Visitor, talk: Talk
) -> None:
    old, page, action = await correction(service, visitor, talk)
    said = (await newest(service))["talk"]
    forgotten = [one["number"] for one in said[:2]]
    fields = [
        ("state", "## State\r\n- Pump <b>P-7</b> & others.\r\n- Second line."),
        ("rules", "Peace.\r\n\r\n"),
        *[("forget", number) for number in forgotten],
    ]

    done = await visitor.get((await visitor.send(page.form(action), *fields)).leads_to)

    assert "This checkpoint serves" in done.text
    made = await newest(service)
    assert made["checkpoint"]["kind"] == "corrected"
    assert made["checkpoint"]["serving"]
    assert made["state"] == "## State\n- Pump <b>P-7</b> & others.\n- Second line."
    assert [(one["kind"], one["text"]) for one in made["pins"] if one["replaced_by"] is None] == [("rule", "Peace.")]
    assert [one["number"] for one in made["talk"]] == [one["number"] for one in said[2:]]
    noted = await audited(service)
    assert ("checkpoint.correct", "chat-1", {"checkpoint": old, "made": made["checkpoint"]["id"]}) in noted


async def test_a_correction_without_a_change_keeps_every_part(service: Service, visitor: Visitor, talk: Talk) -> None:
    _, page, action = await correction(service, visitor, talk)
    before = await newest(service)

    assert (await visitor.send(page.form(action))).status == 303

    after = await newest(service)
    assert after["checkpoint"]["kind"] == "corrected"
    for part in ("state", "pins", "talk", "ledger"):
        assert after[part] == before[part], part


@pytest.mark.parametrize(
    ("field", "value", "status", "said"),
    [
        ("rules", "Peace.\n" + "x" * 2001, 422, "/rules/1"),
        ("forget", "no number", 422, "no sentence"),
    ],
)
async def test_a_correction_that_makes_no_sense_stores_nothing(
    service: Service, visitor: Visitor, talk: Talk, field: str, value: str, status: int, said: str
) -> None:
    _, page, action = await correction(service, visitor, talk)
    before = len(await rows(service.runtime, "select 1 from checkpoints"))

    refused = await visitor.send(page.form(action), (field, value))

    assert refused.status == status
    assert said in refused.text
    assert len(await rows(service.runtime, "select 1 from checkpoints")) == before


async def test_the_texts_stand_behind_a_step_that_is_noted(service: Service, visitor: Visitor, talk: Talk) -> None:
    _, made = await with_summaries(service, talk)
    shown = (await service.as_operator.get(f"/v1/chats/chat-1/checkpoints/{made[-1]}")).json()
    await run_sql(service.runtime, "delete from audit")
    line = max(shown["summary"].splitlines(), key=len)
    at = f"/chats/chat-1/checkpoints/{made[-1]}"

    before = [await visitor.get(path) for path in ("/chats", "/chats/chat-1", "/jobs", "/audit")]
    assert not await rows(service.runtime, "select 1 from audit where action = 'summary.read'")
    text = await visitor.get(at)

    assert line in text.text
    assert all(line not in one.text for one in before)
    assert await audited(service) == [("summary.read", "chat-1", {"checkpoint": made[-1]})]


async def test_words_are_found_in_a_chat_and_messages_read_which_is_noted(service: Service, visitor: Visitor) -> None:
    await long_chat(service.as_filter)
    form = (await visitor.get("/chats/chat-1/find")).form("/chats/chat-1/find")
    assert await audited(service) == [], "the empty form shows nothing"

    found = await visitor.get(form.action, params={**dict(form.fields), "query": "showed bar"})

    reference = next(one for one in found.links if "?ref=" in one)
    read = await visitor.get(reference)
    assert "Reading" in found.text
    assert "showed" in read.text
    missing = await visitor.get(form.action, params={"ref": "M9999"})
    assert missing.status == 200
    assert await audited(service) == [
        ("chat.recall", "chat-1", {"mode": "search", "status": "found"}),
        ("chat.recall", "chat-1", {"mode": "read", "status": "found"}),
        ("chat.recall", "chat-1", {"mode": "read", "status": "nothing"}),
    ]
