"""The stricter way to send a summary: users' own chosen words to the system, all else as a record of a user."""

from itertools import pairwise

from filter_stub.precis_filter import NOTED
from tests.builders import Json
from tests.e2e.model import plain
from tests.e2e.precis import FACT, keep_facts
from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import SUMMARY, well_formed


def keep_rules(messages: list[Json]) -> str:
    """A summariser that takes every fact for a constraint, whoever said it."""
    return keep_facts(messages).replace("Facts and values", "Constraints and preferences")


async def test_as_a_record_a_summary_has_the_weight_of_a_user_but_for_users_own_chosen_words(
    rig: Rig, tab: Tab
) -> None:
    await rig.valves(summary_role="record")
    before, rig.summariser.default = rig.summariser.default, keep_rules
    try:
        path = await rig.long_chat(tab)
        await tab.send(asked := question())
    finally:
        rig.summariser.default = before

    sent = rig.model.received[-1].messages
    well_formed(sent)
    system = "\n".join(plain(one["content"]) for one in sent if one["role"] == "system")
    record, noted, *tail = [one for one in sent if one["role"] != "system"]
    assert record["role"] == "user"
    assert SUMMARY.fullmatch(plain(record["content"]))
    assert (noted["role"], plain(noted["content"])) == ("assistant", NOTED)
    assert plain(tail[-1]["content"]) == asked
    assert not SUMMARY.search(system)

    said_by_users = {fact for one in path if one["role"] == "user" for fact in FACT.findall(plain(one["content"]))}
    rules = set(FACT.findall(system))
    assert rules
    assert rules <= said_by_users
    turns = [one["role"] for one in sent if one["role"] in ("user", "assistant") and not one.get("tool_calls")]
    assert all(one != other for one, other in pairwise(turns)), "a template that wants alternation takes it"
