"""Whatever users do to the trees of their chats, a request shows each part of its branch once: as it is, or summarised.

Hypothesis writes the scripts. `TEST_WALKS=700` tries so many of them, each time others, and `-s` tells of how many
requests they were made.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest_asyncio
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from service.embedded.urls import Urls
from service.settings import load
from service.transcript import Native
from tests.conftest import Service, serving
from tests.effort import examples
from tests.fakes.scripted_llm import scripted_llm
from tests.filter.chat import filter_of, no_log
from tests.filter.world import FILTERS, WINDOWS, Setting, World, echo

PHASES = [Phase.generate]  # to make a script shorter would take hours
WALKS = int(os.environ.get("TEST_WALKS", "0"))


@asynccontextmanager
async def run_echoing(urls: Urls) -> AsyncIterator[Service]:
    async with scripted_llm(default=echo) as llm:
        told = load(
            database_url=urls.database,
            redis_url=urls.redis,
            window=8192,
            summariser="openai",
            summariser_url=llm.openai_url,
            summariser_model="echo",
            summariser_window=16_384,
        )
        async with serving(told) as started:
            yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echoing(service: Service) -> AsyncIterator[Service]:
    async with run_echoing(service.runtime.urls) as started:
        yield started


KINDS = st.sampled_from(
    ["plain", "plain", "tools", "photo", "thinking", "failed", "stopped", "old", "image", "document"]
)
PLACES = st.integers(0, 40)
SIZES = st.sampled_from([20, 300, 300, 900, 4000])
STEPS = st.one_of(  # methods of World
    st.tuples(st.just("send"), KINDS, SIZES, st.sampled_from([0, 0, 0, 1, 5])),
    st.tuples(st.just("send"), KINDS, SIZES, st.sampled_from([0, 0, 0, 1, 5])),
    st.just(("send_to_two_models",)),
    st.tuples(st.just("send_while_away"), SIZES),
    st.tuples(st.just("regenerate"), KINDS, st.sampled_from(["", "told", "untold"])),
    st.tuples(st.just("edit_and_resend"), PLACES, KINDS),
    st.tuples(st.just("edit_in_place"), PLACES),
    st.tuples(st.just("delete"), PLACES),
    st.just(("go_on",)),
    st.tuples(st.just("switch_branch"), PLACES),
    st.tuples(st.just("switch_chat"), PLACES),
    st.tuples(st.just("switch_model"), st.sampled_from(WINDOWS)),
    st.tuples(st.just("switch_tools"), st.sampled_from([0.0, 0.15, 0.75])),
    st.tuples(st.just("fork"), st.integers(0, 1)),
    st.just(("restart",)),
    st.just(("work",)),
)
SETTINGS = st.builds(
    Setting,
    factor=st.sampled_from([0, 1.0, 1.1]),
    other=st.sampled_from(["", "", "", *FILTERS]),
    changing=st.booleans(),
    kind=st.sampled_from(["saved", "saved", "saved", "temporary", "api"]),
    waits=st.booleans(),
)


async def play(
    service: Service,
    setting: Setting,
    steps: list[tuple[Any, ...]],
    turns: int,
    openwebui: Callable[..., list[Native]] | None = None,
) -> World:
    async with filter_of(service.url, service.filter_key, temporary_hours=1) as loaded:
        world = World(service, loaded, setting, openwebui=openwebui)
        with world.working():
            await world.begin(turns, 350)
            await world.send()
            await world.work()
            for action, *told in steps:
                await getattr(world, action)(*told)
            await world.work()
            await world.send()
        return world


walks = settings(
    max_examples=WALKS or examples(30),
    deadline=None,
    derandomize=not WALKS,
    database=None,
    phases=PHASES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
scripts = given(setting=SETTINGS, turns=st.sampled_from([9, 12, 20, 3]), steps=st.lists(STEPS, min_size=6, max_size=18))
TRIED = {"walks": 0, "requests": 0, "with a summary": 0}


@walks
@scripts
async def test_every_request_shows_its_whole_branch_and_nothing_else(
    echoing: Service, setting: Setting, turns: int, steps: list[tuple[Any, ...]]
) -> None:
    with no_log():
        world = await play(echoing, setting, steps, turns)
    event(f"{len(set(world.served))} summaries")
    for name, number in zip(TRIED, (1, world.requests, len(world.served)), strict=True):
        TRIED[name] += number
    sys.stdout.write(f"{TRIED}\n")
