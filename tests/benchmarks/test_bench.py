"""The benchmarks' own machinery: rounds, and made paths."""

import random

from benchmarks.conversation import grown, turns
from benchmarks.rounds import best, interleaved
from service.transcript import digest


async def test_every_round_calls_every_variant_and_the_fastest_round_counts() -> None:
    calls: list[str] = []

    async def one() -> None:
        calls.append("one")

    async def other() -> None:
        calls.append("other")

    medians = await interleaved({"one": one, "other": other}, rounds=3, calls=5)
    assert {name: len(values) for name, values in medians.items()} == {"one": 3, "other": 3}
    assert calls.count("one") == calls.count("other") == 4 * 5  # one round warms up
    assert best({"one": [3.0, 1.0, 2.0]}, "one") == 1.0


def test_made_paths_carry_the_digests_that_the_service_checks() -> None:
    above = ""
    path = list(grown(random.Random(1), sizes=turns(3, 20, 40)))
    assert [one.role for one in path] == ["user", "assistant"] * 3
    for one in path:
        above = digest(above, one.id, one.fingerprint)
        assert one.digest == above
