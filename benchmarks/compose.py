"""What one summary costs in computing: reading 8,000 new tokens and composing them with what was kept before.

By code alone, and with a reply of a model that points at sentences; and that twice the text takes about twice as long.
"""

import random

from benchmarks import pointing
from benchmarks.conversation import prose
from benchmarks.played import here
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Call, best, interleaved
from service.planning.policy import Policy
from service.summarising import prompt, summarise
from service.summarising.memory import Memory
from service.summarising.reading import Finish, Reply
from service.summarising.summarise import Covered, Read
from service.transcript import Step, parse, steps

ROUNDS = 40, 8  # all, and with --quick
_SIZE = 8_000  # tokens
_TURN = 40, 360  # tokens of a question and of an answer


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    variants = {
        "by code": _composed(_SIZE, pointing_at_all=False),
        "by code, twice the text": _composed(2 * _SIZE, pointing_at_all=False),
        "with a reply": _composed(_SIZE, pointing_at_all=True),
    }
    medians = await interleaved(variants, rounds=ROUNDS[quick], calls=1)
    code, twice = best(medians, "by code"), best(medians, "by code, twice the text")
    figures = [
        Figure("compose_8000_ms", "reading and composing 8,000 tokens by code, milliseconds", code / 1000, 40),
        Figure(
            "compose_reply_8000_ms",
            "the same with a reply that points at every sentence of the users, milliseconds",
            best(medians, "with a reply") / 1000,
            80,
        ),
        Figure("compose_16000_over_8000", "16,000 ÷ 8,000 tokens", twice / code, 3),
    ]
    return timed("One summary", figures, medians)


def _composed(size: int, *, pointing_at_all: bool) -> Call:
    """One round on top of an earlier one of the same size."""
    rng = random.Random(size)
    policy, covered = Policy.sized(16_384), Covered(100, 4 * size, None)
    earlier, new = ([Read(step) for step in _talk(rng, size)] for _ in range(2))
    known = summarise.by_rule(summarise.gather(Memory(), earlier, policy), policy, covered).memory

    async def work() -> None:
        material = summarise.gather(known, new, policy)
        if not pointing_at_all:
            await here(summarise.by_rule, material, policy, covered)
            return
        numbers = [number for number, _ in pointing.sentences(prompt.build(material.reading).user)]
        reply = Reply(pointing.reply({"Goal": ["Go on."]}, quotations=numbers), Finish.STOP)
        await here(summarise.compose, material, reply, policy, covered)

    return work


def _talk(rng: random.Random, size: int) -> list[Step]:
    said = []
    for number in range(size // sum(_TURN)):
        for role, length in zip(("user", "assistant"), _TURN, strict=True):
            message = {"id": f"{role}-{number}", "role": role, "content": prose(rng, length)}
            said += steps(parse(message))
    return said


if __name__ == "__main__":
    command(measure)
