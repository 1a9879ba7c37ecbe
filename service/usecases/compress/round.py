"""One round of work on one chat, as it begins: what is stored, and what the work goes on from."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from service.planning.plan import Checkpoint, PathMessage, deepest
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
        made: the deepest checkpoint that it goes on from.
        instead_of: interim checkpoints, whose place is taken by what is published as deep as they
            are.
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
    policy = claim.context.settings.policy(lease.model, lease.window, lease.overhead)
    async with claim.engine.connect() as connection:
        rows = await messages.path(connection, claim.chat, lease.leaf) if lease.leaf else []
        path = [_planned(row) for row in rows]
        pointed_to = {row.checkpoint_id or 0 for row in rows}
        settled, interim = await checkpoints.along(connection, claim.chat, pointed_to)
    return Round(claim, policy, rows, deepest(path, settled), interim)


def _planned(row: MessageRow) -> PathMessage:
    return PathMessage(row.message_id, row.role, row.digest, row.tokens, tuple(row.step_tokens))
