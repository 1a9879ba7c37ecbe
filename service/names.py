"""Names and bounds that commands, REST and pages share.

It imports nothing, because the help of a command has them and needs nothing else.
"""

from typing import Final, Literal, get_args

FIRST_TENANT: Final = "default"

KeyScope = Literal["filter", "events", "operator:read", "operator"]
"""The use of a key."""

State = Literal["working", "due", "waiting", "dead"]
"""The state of a chat's work.

`due`: nobody works on it yet. `waiting`: it is due later, after a failure or because it is new.
`dead`: given up until a retry.
"""

STATES: tuple[State, ...] = get_args(State)

ChatState = Literal["working", "due", "waiting", "dead", "idle"]
"""The state of a chat: that of its work, or `idle` without any."""

RequestOutcome = Literal["compressed", "truncated_with_summary", "truncated", "unchanged"]
"""The outcomes of a turn's requests."""

MOST_DAYS: Final = 3650
"""Until a key expires."""

MONTH: Final = 30
"""Days of sums that are shown by default."""

MOST_STATS_DAYS: Final = 1000
"""Days of sums that are read at a time: more would keep other requests waiting."""

MOST_MISSING: Final = 20
"""Percent of the chats that a reconciliation deletes, unless it is told otherwise."""
