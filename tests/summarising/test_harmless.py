"""What people order, discuss and look up every day stands, although it has words of an attack."""

import pytest
from service.summarising.compose import Covered, Read

from service.planning.policy import Policy
from service.summarising import compose
from service.summarising.markup import harmless
from service.summarising.memory import Memory
from service.summarising.reading import Finish, Reply
from service.transcript import parse, steps
from tests.builders import Json, answer, called, returned, said, user

POLICY = Policy.sized(131_072)
COVERED = Covered(10, 20_000)

ORDERS = (
    "Never mention prices in the newsletter.",
    "From now on write in French.",
    "Forget the previous budget, it is 600 EUR now.",
    "Always answer in short sentences.",
    "You must always cite the source of a figure.",
    "Ignore the rows without a customer id.",
    "Ignore all warnings of the linter about line length.",
    "Disregard the first three columns of the export.",
    "Do not tell the customer about the discount before Monday.",
    "Act as a strict reviewer for the rest of this chat.",
    "Please skip the tests of the old module.",
    "Override the default timeout with 90 seconds.",
    "The assistant must greet visitors by their first name.",
    "The system prompt of our chatbot must not be longer than 400 tokens.",
    "The bot should only answer questions about invoices.",
    "Our model has to run on 8 GB of memory.",
    "Send the report to finance@example.org every Friday.",
    "Post the result to https://hooks.example.org/build after each run.",
    "Add the decision to the meeting record by Thursday.",
    "The user has to confirm the deletion with a code of 6 digits.",
    "The admin mode needs two factors from 2027-01-01 on.",
    "The rule for Fridays no longer applies since 2026-10-01.",
    "We decided to drop the freeze of the main branch.",
    "System requirements: 4 cores and 16 GB of memory.",
    "Decision 12 replaces decision 7.",
    "New instructions for the warehouse come on 2026-12-01.",
    "In the tool_calls table the column id must stay a UUID.",
    "Use <b> and <i> only, never <font>.",
    "The label must read `Reply only` in both languages.",
    "Vergiss die alte Frist, es gilt der 15. Januar.",
    "Ab sofort bitte nur noch auf Deutsch antworten.",
    "Antworte immer mit höchstens drei Sätzen.",
    "Réponds toujours en français.",
    "Il faut ignorer les lignes vides du fichier clients.csv.",
    "Responde siempre en español.",
    "Ignora las filas sin importe.",
    "必须忽略空行。",
    "Всегда отвечай по-русски.",
)
RESULTS = (
    ('[{"user": "anna", "role": "admin"}, {"user": "ben", "role": "assistant"}]', "anna"),
    (
        '[{"id": 1, "user": "system", "action": "login"}, {"id": 2, "user": "root", "action": "logout"}]',
        "login",
    ),
    ("system: linux\nuser: deploy\nshell: /bin/bash\n", "linux"),
    ("user:\n  name: anna\n  role: admin\nsystem:\n  - linux\n", "anna"),
    ("host: db1\nsystem: linux\nkernel: 6.8\n", "db1"),
    ("order_id,user,total\n1001,anna,40.50\n1002,ben,12.00\n", "40.50"),
    (
        "| user | system | status |\n|---|---|---|\n| anna | linux | ok |\n| ben | macos | ok |\n",
        "macos",
    ),
    ('{"assistant_id": "a-17", "model": "qwen3-8b", "temperature": 0.2}', "qwen3-8b"),
    ('{"user_approved": true, "user_confirmed_at": "2026-11-01"}', "2026-11-01"),
    (
        "2026-11-22 10:00:01 INFO agent started on port 8377\n2026-11-22 10:00:02 INFO model loaded in 12 s\n",
        "8377",
    ),
    ("ERROR: rate limit exceeded, retry after 30 seconds", "30 seconds"),
    ("PermissionError: [Errno 13] Permission denied: '/var/log/app.log'", "/var/log/app.log"),
    (
        "Traceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'previous_rule'",
        "previous_rule",
    ),
    ("warning: unused variable `rule` in src/policy.rs:41", "src/policy.rs:41"),
    ("constraint fk_orders_customer of table orders: 3 rows violate it", "fk_orders_customer"),
    (
        "The review says: rename `ignore_errors` to `skip_errors` and drop the second argument.",
        "skip_errors",
    ),
    ("git checkout main && git pull: 14 files changed, 220 insertions", "14 files"),
    ("Your order 4711 has been sent to Kim Weber and arrives on 2026-12-03.", "4711"),
    ("Subject: invoice 88\nPlease pay 120.00 EUR by 2026-12-15.", "120.00"),
    ("To use the API, send a POST request with a JSON body.", "POST"),
    ("Instructions for assembly: 12 steps, 4 screws M5x20.", "M5x20"),
    ("3 of 5 decisions were approved by the board", "approved by the board"),
    ("The deadline was moved to 2026-12-24.", "2026-12-24"),
    ("Die Anweisung wurde am 12.11.2026 ausgeführt.", "12.11.2026"),
    ("توقعات الطقس: مشمس، 21 درجة", "21"),
    ("می\u200cخواهم ۳ بلیت", "می\u200cخواهم"),
    ("👩\u200d💻 joined the channel", "👩\u200d💻"),
    ("SGVsbG8gd29ybGQsIHRoaXMgaXMgYSBwbGFpbiB0ZXh0Lg==", "SGVsbG8gd29ybGQs"),
    ("Москва: +3 °C, облачно", "облачно"),
    ("Model: Volvo V60, mileage 42,000", "Volvo V60"),
    ("Agent: Maria Lopez, phone 555-1234", "555-1234"),
    ("You must now restart the server.", "restart the server"),
    ("The user has confirmed the delivery address.", "confirmed the delivery address"),
    ("bot, crawler, spider", "crawler"),
    ("Add the new address to the customer record.", "customer record"),
    ("Architecture: x86_64\nCPU(s): 16\nVendor ID: Example\nModel name: Example 9\n", "x86_64"),
    ("Only admins may delete a project. Ask the owner first.", "Only admins may delete"),
    ("Ignore this mail if you did not ask for a new password.", "Ignore this mail"),
    ("The assistant manager approved the vacation of J. Weber.", "assistant manager"),
)
ANSWERS = (
    "Send the invoice of 4,200 EUR to the accounting office by 2026-12-01.",
    "The system prompt has 400 tokens, the user prompt 1,200.",
    "Always run the migration 0012 before the release.",
)
"""What an assistant says with a value in it."""


def told(*stored: Json) -> compose.Candidate:
    """What becomes of these messages when a model says nothing that helps."""
    reads = [Read(step) for one in stored for step in steps(parse(one))]
    material = compose.gather(Memory(), reads, POLICY)
    return compose.compose(material, Reply("## Current state\n- Work goes on.", Finish.STOP), POLICY, COVERED)


@pytest.mark.parametrize("sentence", ORDERS)
def test_what_a_user_orders_stands(sentence: str) -> None:
    release = "Let us go on with the release."
    summary = told(user(f"{release} {sentence}"), answer(said("Understood."))).rendered.summary
    assert harmless(sentence) in summary


@pytest.mark.parametrize("sentence", ANSWERS)
def test_what_an_assistant_says_stands(sentence: str) -> None:
    assert sentence in told(user("What is next?"), answer(said(sentence))).rendered.summary


@pytest.mark.parametrize(("result", "shown"), RESULTS)
def test_a_harmless_result_is_shown_in_the_ledger(result: str, shown: str) -> None:
    calls = (called("c1", "lookup"), returned("c1", result), said("Done."))
    assert shown in told(user("Look it up."), answer(*calls)).rendered.summary


@pytest.mark.parametrize(
    "line",
    [
        "The system prompt of the bot was shortened to two paragraphs.",
        "The bot greets visitors and only answers questions about invoices.",
        "The user wants the prompt to say that prices are never mentioned.",
        "The prompt tells the bot to ignore questions about other vendors.",
    ],
)
def test_a_prompt_that_a_user_works_on_can_be_told_of(line: str) -> None:
    talk = (
        "I am developing the system prompt of our chatbot, in two paragraphs instead of five, so please shorten it. "
        "The bot greets visitors by name and only answers questions about invoices. The prompt must say that prices "
        "are never mentioned to visitors, and it tells the bot to ignore questions about other vendors."
    )
    reads = [Read(step) for one in (user(talk), answer(said("Done, it was shortened."))) for step in steps(parse(one))]
    candidate = compose.compose(
        compose.gather(Memory(), reads, POLICY),
        Reply(f"## Current state\n- {line}", Finish.STOP),
        POLICY,
        COVERED,
    )
    assert f"- {line}" in candidate.rendered.summary.splitlines()


def test_orders_that_follow_a_pasted_text_stand() -> None:
    candidate = told(
        user("Here is the mail:\n\nDear all, the party is on 2026-12-18 at 18:00.", "u1"),
        answer(said("A party."), identity="a1"),
        user("Right. Never invite the whole company.", "u2"),
    )
    assert "Never invite the whole company." in candidate.rendered.summary


def test_a_list_that_the_user_announces_is_the_users_own() -> None:
    rules = ("Never deploy on Fridays.", "Always answer in French.", "Use tables for all figures.")
    listed = f"Here are my rules:\n- {rules[0]}\n- {rules[1]}\nThe format:\n- {rules[2]}"
    summary = told(user(listed)).rendered.summary
    assert all(rule in summary for rule in rules)
