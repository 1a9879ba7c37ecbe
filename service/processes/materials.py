"""From stored texts to the material that a summariser reads. Pure."""

from collections.abc import Mapping, Sequence

from service.planning.plan import PlannedRead
from service.planning.policy import Policy
from service.storage import codec
from service.summarising import summarise
from service.summarising.memory import Memory
from service.summarising.summarise import Material, StepRead
from service.transcript import Step, parse, split_steps


def gather_material(
    packed: Mapping[str, bytes],
    ids: Mapping[int, str],
    planned: Sequence[PlannedRead],
    memory: Memory,
    policy: Policy,
    part_of: tuple[int, int],
    mask: bool,
) -> Material:
    """Gathers the material that a summariser reads next.

    Args:
        packed: the stored bodies by message id.
        ids: of those messages, by their place in the path.
        planned: what of them is read, in order.
        memory: of the checkpoint that this grows from.
        policy: the budgets.
        part_of: which part of how many of one long turn it is.
        mask: whether secrets are masked.
    """
    messages = {
        identity: parse(codec.unpack(body) | {"id": identity}) for identity, body in packed.items()
    }
    cut = {place: split_steps(messages[identity]) for place, identity in ids.items()}
    part, parts = part_of
    reads = _find_steps(planned, cut)
    return summarise.gather(memory, reads, policy, part=part, parts=parts, mask=mask)


def _find_steps(
    planned: Sequence[PlannedRead], cut: Mapping[int, Sequence[Step]]
) -> list[StepRead]:
    """The planned reads, with the steps themselves."""
    reads: list[StepRead] = []
    for one in planned:
        at = one.position
        found = cut[at.message]
        # A note in the place of a text has one step, whatever the text had when it was weighed.
        if at.step < len(found):
            reads.append(StepRead(found[at.step], at.piece, one.pieces))
    return reads
