"""What a round of work does with stored texts before a summariser reads them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.policy import Policy
from service.storage import codec
from service.summarising import compose
from service.summarising.compose import Material, Read
from service.summarising.memory import Memory
from service.transcript import parse, steps


@dataclass(frozen=True, slots=True)
class Part:
    """Step `step` of a message, or piece `piece` of `pieces` of it."""

    message: str
    step: int
    piece: int
    pieces: int


def gathered(
    packed: Mapping[str, bytes],
    parts: Sequence[Part],
    memory: Memory,
    policy: Policy,
    place: tuple[int, int],
    mask: bool,
) -> tuple[Material, int]:
    """What a summariser reads next, and how many hidden marker lines its messages have.

    Args:
        packed: the stored bodies by message id.
        parts: what of them is read, in order.
        memory: of the checkpoint that this grows from.
        policy: the budgets.
        place: which part of how many of one long turn it is.
        mask: whether secrets are masked.
    """
    messages = {identity: parse(codec.unpack(body)) for identity, body in packed.items()}
    cut = {identity: steps(message) for identity, message in messages.items()}
    reads = [
        Read(cut[one.message][one.step], one.piece, one.pieces)
        for one in parts
        if one.step < len(cut[one.message])  # a note in the place of a text has one step
    ]
    part, of = place
    material = compose.gather(memory, reads, policy, part=part, parts=of, mask=mask)
    return material, sum(len(message.markers) for message in messages.values())
