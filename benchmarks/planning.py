"""Digesting and planning a path, in process: both have to be linear in its length.

Everything of the path is uncovered, so the plan has the most to do.

    python -m benchmarks.planning
"""

import random

from benchmarks import stage
from benchmarks.conversation import Message, grown, turns
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Call, best, interleaved
from service.planning.plan import PathMessage, plan
from service.planning.policy import Policy

ROUNDS = 300, 100  # all, and with --quick
_WINDOW = 16_384
_SIZE = 300  # tokens of each message


async def measure(quick: bool) -> Report:
    """The whole benchmark. Ten short paths take about as long as a long one, so neighbours disturb both alike."""
    variants = {"10 paths of 200 messages": _digests_and_plans(200, 10), "2,000 messages": _digests_and_plans(2000, 1)}
    medians = await interleaved(variants, rounds=ROUNDS[quick], calls=1)
    long, short = best(medians, "2,000 messages"), best(medians, "10 paths of 200 messages") / 10
    figures = [
        Figure("plan_2000_over_200", "digesting and planning 2,000 ÷ 200 messages", long / short, 12),
        Figure("plan_2000_ms", "digesting and planning 2,000 messages, milliseconds", long / 1000, 50),
    ]
    return timed("Planning", figures, medians)


def _digests_and_plans(length: int, times: int) -> Call:
    path = list(grown(random.Random(length), sizes=turns(length // 2, 20, 20)))
    policy = Policy.sized(_WINDOW)
    handed = stage.ingesting(1, "chat", policy, None, path, served=None)

    async def work() -> None:
        for _ in range(times):
            stage.check_chain(handed)
            assert plan(_weighed(path), [], policy).chunks

    return work


def _weighed(path: list[Message]) -> list[PathMessage]:
    return [PathMessage(one.id, one.role, one.digest, _SIZE, (_SIZE,)) for one in path]


if __name__ == "__main__":
    command(measure)
