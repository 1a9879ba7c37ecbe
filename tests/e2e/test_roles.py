"""How a summary is sent: as a record with the weight of a user, and a line of the assistant."""

from itertools import pairwise

from filter_stub.precis_filter import NOTED
from tests.e2e.model import plain
from tests.e2e.rig import Rig, question
from tests.e2e.tab import Tab
from tests.e2e.view import SUMMARY, well_formed


async def test_a_summary_has_the_weight_of_a_user(rig: Rig, tab: Tab) -> None:
    await rig.long_chat(tab)
    await tab.send(asked := question())

    sent = rig.model.received[-1].messages
    well_formed(sent)
    system = "\n".join(plain(one["content"]) for one in sent if one["role"] == "system")
    record, noted, *tail = [one for one in sent if one["role"] != "system"]
    assert record["role"] == "user"
    assert SUMMARY.fullmatch(plain(record["content"]))
    assert (noted["role"], plain(noted["content"])) == ("assistant", NOTED)
    assert plain(tail[-1]["content"]) == asked
    assert not SUMMARY.search(system)
    turns = [one["role"] for one in sent if one["role"] in ("user", "assistant") and not one.get("tool_calls")]
    assert all(one != other for one, other in pairwise(turns)), "a template that wants alternation takes it"
