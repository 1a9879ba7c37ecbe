"""A chat's tree as rows of a table: what each branch shares, has alone, and is covered of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.storage.messages import Place


@dataclass(frozen=True, slots=True)
class Band:
    """One branch.

    Attributes:
        leaf: its newest message.
        messages: from the root to the leaf.
        tokens: of them.
        begins: how many of them are on a band above already.
        covered: how many of them the deepest summary covers.
        checkpoint: that summary's id; None for none.
        boundaries: how many messages each checkpoint on the branch covers, by its id.
    """

    leaf: str
    messages: int
    tokens: int
    begins: int
    covered: int
    checkpoint: int | None
    boundaries: Mapping[int, int]


def bands(
    places: Sequence[Place], covers: Mapping[int, int], ancestors: Mapping[int, Sequence[int]]
) -> list[Band]:
    """The branches of a chat, the longest first; each message is drawn on one band.

    `places` are all messages, the deepest first; `covers` is how many messages each checkpoint
    covers, and `ancestors` what it grew from.
    """
    by_id = {place.message_id: place for place in places}
    parents = {place.parent_id for place in places}
    leaves = [place for place in places if place.message_id not in parents]
    drawn: set[str] = set()
    branches = []
    for leaf in leaves:
        begins = _walk_up(leaf, by_id, drawn)
        checkpoint = leaf.checkpoint_id
        line = [*ancestors.get(checkpoint, ()), checkpoint] if checkpoint else []
        branches.append(
            Band(
                leaf=leaf.message_id,
                messages=leaf.depth,
                tokens=leaf.path_tokens,
                begins=begins,
                covered=covers.get(checkpoint, 0) if checkpoint else 0,
                checkpoint=checkpoint,
                boundaries={one: covers[one] for one in line if one in covers},
            )
        )
    return branches


def _walk_up(leaf: Place, by_id: Mapping[str, Place], drawn: set[str]) -> int:
    """Marks what is drawn with this leaf; returns how many messages above it were before."""
    at: Place | None = leaf
    while at is not None:
        if at.message_id in drawn:
            return at.depth
        drawn.add(at.message_id)
        at = by_id.get(at.parent_id) if at.parent_id else None
    return 0
