"""The query parameters of routes, the same for REST and the pages.

A parameter that a route does not have is refused: a filter that is misspelt would list all.
"""

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field, model_validator

from service.api.wire import Id
from service.names import MONTH, MOST_STATS_DAYS, ChatState, State
from service.storage.chats import ChatFilters
from service.usecases.inspection import CURSOR


class _Parameters(BaseModel, extra="forbid"):
    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, given: dict[str, Any]) -> dict[str, Any]:
        # A form sends all of its fields, and those that nobody filled in as empty texts.
        return {name: value for name, value in given.items() if value not in ("", [""])}


class _ListParameters(_Parameters):
    limit: int = Field(50, ge=1, le=200)


class ChatParameters(_ListParameters):
    """The parameters of a list of chats."""

    cursor: str = Field("", pattern=CURSOR, description="`next` of the previous page.")
    user: Id | None = Field(None, description="Only chats of this user, by Open WebUI's id.")
    state: ChatState | None = Field(
        None, description="Only chats whose work is in this state; `idle` has none."
    )
    begins: Id | None = Field(None, description="Only chats whose id begins so.")

    @property
    def filters(self) -> ChatFilters:
        """The conditions on the chats."""
        return ChatFilters(self.user, self.state, self.begins)


class JobParameters(_ListParameters):
    """The parameters of a list of jobs."""

    state: list[State] = Field(
        [], description="Only jobs in this state; may be given several times."
    )
    cursor: int = Field(0, ge=0, lt=2**63, description="`next` of the previous page.")


class ChangeParameters(_ListParameters):
    """The parameters of a list of changes."""

    chat: Id | None = Field(None, description="Only changes of this chat.")
    actor: Id | None = Field(
        None, description="Only changes by this actor, exactly as the list names it."
    )
    cursor: int | None = Field(None, ge=1, lt=2**63, description="`next` of the previous page.")


class UserParameters(_ListParameters):
    """The parameters of a list of users."""

    begins: Id | None = Field(None, description="Only users whose id begins so.")
    cursor: Id | None = Field(None, description="`next` of the previous page.")


class DeletionParameters(_Parameters):
    """The parameters of the deletion of a chat."""

    for_good: bool = Field(
        default=False, description="Store nothing of this chat for a day, if it goes on."
    )


class StatsParameters(_Parameters):
    """The parameters of the sums of tokens."""

    days: int = Field(
        MONTH, ge=1, le=MOST_STATS_DAYS, description="How many days, with today; in UTC."
    )


class FindParameters(_Parameters):
    """The parameters of a look-up."""

    query: str = Field("", max_length=2000, description="Words to look for.")
    ref: str = Field("", max_length=300, description="What to read: `T12`, `M34` or `12.3`.")
    line: int = Field(
        1, ge=1, le=2**31, description="Where to begin to read; of `query`, which result."
    )
    grep: str = Field(
        "", max_length=300, description="Only lines with these words, and two around."
    )
    max_tokens: int = Field(2000, ge=200, le=8000, description="Most tokens of the answer.")


ChatQuery = Annotated[ChatParameters, Query()]
JobQuery = Annotated[JobParameters, Query()]
ChangeQuery = Annotated[ChangeParameters, Query()]
UserQuery = Annotated[UserParameters, Query()]
DeletionQuery = Annotated[DeletionParameters, Query()]
StatsQuery = Annotated[StatsParameters, Query()]
FindQuery = Annotated[FindParameters, Query()]
