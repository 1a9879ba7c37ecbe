"""A database as operators have it: a page of chats and more, dead work, a chat to correct, and a hostile one."""

from dataclasses import dataclass

import httpx

from service.storage.codec import pack_text
from service.usecases.compress import compress
from service.web.words import segment
from tests.builders import called, returned, said
from tests.conftest import Service
from tests.fakes.scripted_llm import Say, scripted_llm
from tests.service.harness import Harness
from tests.service.talk import Talk, prose, run_sql

PUMPS = "8f2e41c0-51d7-4c0a-a6f5-2f9d3b7c6e10"
HOSTILE = (
    '<script>window.hit = 1; fetch("https://evil.example/")</script>"><img src=x onerror="window.hit=2">'
    "'-alert(1)-'{{7*7}}${7*7}\u202egnp.exe\u2066 [a](javascript:alert(2)) <a href=javascript:alert(3)>x</a>"
    "<style>*{display:none}</style><form action=//evil.example><base href=//evil.example>&lt;b&gt;</textarea>"
    '<div hx-get="//evil.example" hx-trigger="load" hx-on:load="window.hit=3"></div>'
)
# An id is a part of the address: 200 characters at most, no control characters, no slash.
HOSTILE_ID = '"><img src=x onerror="window.hit=4">{{7*7}}\u202e%2e%2e?a#b&c=<script>hit=5'
_QUESTIONS = (
    "Which pumps of hall 3 are due for an inspection this week?",
    "P-7 is loud again. What did the last three reports say about its vibration?",
    "Which bearing did we order for it, and when does it arrive?",
    "Please keep all figures in mm/s, not in inches.",
    "Compare its temperature with that of P-5 since Monday.",
    "Who signed the last inspection of P-9?",
    "We decided to swap P-7 for the spare one on Thursday. Note that.",
    "What has to be ordered before the shutdown on 14 March?",
)
_STATE = "\n".join(
    (
        "## Goal",
        "- Hall 3 runs until the shutdown on 14 March without an unplanned stop.",
        "## State",
        "- P-7 is above its limit since Monday; the spare pump is ready.",
        "- The reports on P-5 and P-9 show nothing unusual.",
        "## Open questions",
        "- Whether the bearing of P-7 arrives before Thursday.",
    )
)

_DEAD = """
    insert into chats (tenant_id, external_id, user_id, model, window_tokens, attempts, dead_at, last_error)
    select 1, 'dead-' || n + 100, 'anna', 'llama3.3:70b', 131072, 5, now() - interval '2 hours',
           'the summariser answered HTTP 500' from generate_series(1, 60) n
"""


@dataclass(frozen=True)
class Filled:
    """The newest checkpoints of the chats to look at, and the path of the hostile chat's page."""

    pumps: int
    hostile: int
    hostile_at: str


async def fill(service: Service) -> Filled:
    """Fills an empty service."""
    async with scripted_llm(Say(_STATE)) as llm, httpx.AsyncClient() as http:
        harness = Harness(service, Talk(service.as_filter), llm, http)
        talk = Talk(service.as_filter, PUMPS, model="llama3.3:70b", user="anna")
        pumps = await _grown(harness, talk, _QUESTIONS)
        for fork in (9, 13):
            # Somebody went back, and asked on from there.
            branch = talk.turns(3, tokens=300, leaf=f"{PUMPS[:4]}-a{fork}", prefix=f"{fork}-")
            await talk.ingest(branch)
        await talk.ingest(f"{PUMPS[:4]}-a15")
        await _work(harness)
        llm.default = Say(f"## Goal\n- {HOSTILE}\n## State\n- {HOSTILE}")
        asked = tuple(f"{HOSTILE} Number {number}." for number in range(8))
        hostile = await _grown(harness, Talk(service.as_filter, "hostile", user=HOSTILE_ID, model=HOSTILE[:200]), asked)
    pinned = {"state": f"## Goal\n- {HOSTILE}", "rules": [HOSTILE]}
    patched = await service.as_operator.patch(f"/v1/chats/hostile/checkpoints/{hostile}", json=pinned)
    hostile = patched.json()["checkpoint"]["id"]
    await run_sql(
        service.runtime,
        "update chats set external_id = :id, last_error = :text, dead_at = now(), due_at = null, attempts = 5"
        " where external_id = 'hostile'",
        id=HOSTILE_ID,
        text=f"{HOSTILE}\x1b[31m\x07",
    )
    whose = "chat_id = (select id from chats where external_id = :id)"
    await run_sql(
        service.runtime, f"update runs set reason = :text where {whose}", id=HOSTILE_ID, text=pack_text(HOSTILE)
    )
    await run_sql(service.runtime, "update audit set chat = :id where chat = 'hostile'", id=HOSTILE_ID)
    await run_sql(service.runtime, _DEAD)
    return Filled(pumps, hostile, f"/chats/{segment(HOSTILE_ID)}")


async def _grown(harness: Harness, talk: Talk, questions: tuple[str, ...]) -> int:
    """A chat with questions, answers and calls of tools, summarised; returns its newest checkpoint."""
    leaf: str | None = None
    for number in range(16):
        question = questions[number % len(questions)]
        leaf = talk.add(f"{talk.chat[:4]}-q{number}", leaf, content=question)
        call = [
            called(f"c{number}", "pump_report", f'{{"pump": "P-{number % 9 + 1}"}}'),
            returned(f"c{number}", question),
        ]
        answer = said(prose(500, f"a{number}"))
        leaf = talk.add(f"{talk.chat[:4]}-a{number}", leaf, "assistant", "-", output=[*call, answer])
    assert leaf
    await talk.ingest(leaf)
    await _work(harness)
    made = (await harness.service.as_operator.get(f"/v1/chats/{talk.chat}")).json()["checkpoints"]
    newest: int = made[-1]["id"]
    return newest


async def _work(harness: Harness) -> None:
    while await compress(harness.worker_context(summariser_model="qwen3:8b")):
        pass
