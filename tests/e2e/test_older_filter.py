"""A service of this version with the filter of 0.2.0, which asks on an older wire and decides more by itself.

The rows are rows of other files, played through that filter.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from filter_stub import precis_filter
from tests.e2e import test_cap as cap
from tests.e2e import test_chat_tree as chat_tree
from tests.e2e.rig import Rig, source
from tests.e2e.tab import Tab
from tests.e2e.versions import HERE

OLDER = HERE / "filters" / "precis_filter_0_2_0.py"


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def older_filter(rig: Rig) -> AsyncIterator[None]:
    """The filter of 0.2.0 in the place of this one, and this one back."""
    await rig.replace_filter(await asyncio.to_thread(OLDER.read_text, "utf-8"))
    yield
    await rig.replace_filter(source(precis_filter))


async def test_a_long_chat_gets_its_summary_and_its_replies_are_ingested(rig: Rig, tab: Tab) -> None:
    await chat_tree.test_the_next_turn_carries_the_summary_and_the_tail(rig, tab)
    await rig.settled(tab)


async def test_a_question_edited_in_place_above_the_boundary_is_in_the_next_summary(rig: Rig, tab: Tab) -> None:
    await chat_tree.test_a_question_edited_in_place_above_the_boundary_is_in_the_next_summary(rig, tab)


async def test_while_the_first_summary_is_being_written_an_interim_one_serves(rig: Rig, tab: Tab) -> None:
    await cap.test_while_the_first_summary_is_being_written_an_interim_one_serves(rig, tab)
