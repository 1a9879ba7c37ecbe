"""One round of work on one chat, as it begins: what is stored, and what the work goes on from."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from service.planning.plan import Checkpoint, PathMessage, deepest, is_poorer
from service.planning.policy import Policy
from service.storage import checkpoints, messages
from service.storage.messages import MessageRow
from service.storage.tenancy import ChatKey
from service.summarising.reading import Summariser
from service.usecases.compress.lease import Claim


@dataclass(frozen=True, slots=True)
class Round:
    """One round of work on one chat.

    Attributes:
        claim: on the chat.
        policy: the chat's budgets.
        rows: the path, root to leaf.
        made: the deepest checkpoint that it goes on from: one that was written for a window like
            the chat's, because one for a smaller window has lost what this one has room for.
        instead_of: checkpoints whose place is taken by what is published: interim ones that are not
            deeper, and those for a smaller window.
        has_served: whether code has made an interim summary in this round.
    """

    claim: Claim
    policy: Policy
    rows: Sequence[MessageRow]
    made: Checkpoint | None = None
    instead_of: Sequence[Checkpoint] = ()
    has_served: bool = False

    @property
    def path(self) -> list[PathMessage]:
        """The path as it is planned on."""
        return [_planned(row) for row in self.rows]

    @property
    def confirmed_path(self) -> list[PathMessage]:
        """What a second request, or the host, has confirmed of it: no model reads anything else."""
        return [_planned(row) for row in self.rows if row.confirmed]

    @property
    def settled(self) -> list[Checkpoint]:
        """What it goes on from, as planning takes it."""
        return [self.made] if self.made else []

    @property
    def summariser(self) -> Summariser | None:
        """Who is asked in this round; None when code writes alone."""
        lease = self.claim.lease
        return None if lease.fallback else self.claim.context.summariser_of(lease.model)

    @property
    def chat(self) -> ChatKey:
        """The chat."""
        return self.claim.chat

    def tail(self, boundary: MessageRow) -> int:
        """Tokens of what follows a boundary, at most half of a request: the rest is covered yet."""
        return min(
            self.rows[-1].path_tokens - boundary.path_tokens, self.policy.request_tokens // 2
        )

    @property
    def engine(self) -> AsyncEngine:
        """The database."""
        return self.claim.engine


async def begin(claim: Claim) -> Round:
    """Reads what is stored of the chat."""
    lease = claim.lease
    # Everything here is in our own tokens, of which the window holds fewer than its provider's.
    window = int(lease.window / lease.usage_factor)
    policy = claim.context.settings.policy(lease.model, window, lease.overhead)
    async with claim.engine.connect() as connection:
        rows = await messages.path(connection, claim.chat, lease.leaf) if lease.leaf else []
        path = [_planned(row) for row in rows]
        pointed_to = {row.checkpoint_id or 0 for row in rows}
        settled, interim = await checkpoints.along(connection, claim.chat, pointed_to)
    poorer = [one for one in settled if is_poorer(one.window, lease.window)]
    alike = [one for one in settled if one not in poorer]
    return Round(claim, policy, rows, deepest(path, alike), [*interim, *poorer])


def _planned(row: MessageRow) -> PathMessage:
    return PathMessage(row.message_id, row.role, row.tokens, tuple(row.step_tokens))
