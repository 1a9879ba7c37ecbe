"""Use case: count what a request costs. What nobody has counted yet is counted now.

Counts are kept by what a message says (`request.account`), so of the next request only what is new
is counted. What takes too long is estimated, high enough that no request becomes too large by it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta

from service.errors import PrecisError, format_trace
from service.planning import policy
from service.processes import Texts
from service.processes.intake import Hash, Id
from service.request import account, native
from service.request.account import Counts
from service.request.native import Outline
from service.settings import Settings
from service.storage import database
from service.storage.database import Database
from service.transcript import Native
from service.usecases.uploads import UploadQueue
from service.usecases.windows import Windows

_SMALL = 2**16  # bytes; counting so many takes some 20 ms
_SHARE, _LEAST = 0.5, 0.3  # of the time that a request may wait, and seconds, for counting
_MOST_BACKGROUND = 200  # counts and stores that go on after their answers

# Two of them together are stored in 32 bits.
_Count = Annotated[int, Meta(ge=0, le=2**29)]
_Window = Annotated[int, Meta(ge=policy.LEAST_WINDOW, le=2**31 - 1)]
_Factor = Annotated[float, Meta(ge=policy.LEAST_FACTOR, le=policy.MOST_FACTOR)]
_Words = Annotated[str, Meta(max_length=1000)]
_RowId = Annotated[int, Meta(ge=0, le=2**62)]
_Seconds = Annotated[int, Meta(ge=1, le=10 * 366 * 24 * 3600)]

log = structlog.get_logger(__name__)


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """The service's note of a turn. Its host gives it back, and need not understand it.

    Attributes:
        chat, user, model: as they are stored.
        window, assumed: the model's window, and whether nobody told it.
        factor: what the model's provider counts for one of our tokens.
        above: the id of the node above the newest question; None for a chat's first question.
        beside: tokens of the request beside its path and its newest question.
        question: tokens of the newest question, with all that was added to it.
        files: kinds and names of what is attached to it.
        counted: tokens of the request that was sent last; 0 where they are not all counted.
        calls: how many calls of the model were prepared in this turn.
        served: the checkpoint in the request, 0 for none.
        first_left_out: how many were missing in the turn's first request. Later ones begin as that.
        summarised: what the user was told of the summary in it.
        cut: what the user was told of what is missing that no summary covers.
        first_cut: what was told of the first request.
        compacted: whether the host compacts the chat itself.
        expires_in: seconds after which the chat is deleted; None keeps it.
    """

    # A host could send anything, so each field has the limits of what we write into it.
    chat: Id
    user: Id
    model: Id
    window: _Window
    assumed: bool = False
    factor: _Factor = 1.0
    above: Hash | None = None
    beside: _Count = 0
    question: _Count = 0
    files: Annotated[list[dict[str, _Words]], Meta(max_length=200)] = []
    counted: _Count = 0
    calls: _Count = 0
    served: _RowId = 0
    first_left_out: _Count = 0
    summarised: _Words = ""
    cut: _Words = ""
    first_cut: _Words = ""
    compacted: bool = False
    expires_in: _Seconds | None = None


@dataclass(frozen=True, slots=True)
class HostRequest:
    """A request that is going to a model, as its host built it.

    Attributes:
        messages: the native list.
        ids: what the host calls each of them; empty where it does not say so.
        window_sizes: sizes that somebody gives for the window, the most trusted first.
        answer_tokens: tokens that are asked for the answer; 0 where nobody says so.
        non_message_text: specifications of tools, a system prompt that stands in no message.
        guided: whether the newest question is the instruction of a regeneration.
        recall: whether the model may look things up.
        wait_seconds: seconds that the request may wait.
        keep_hours: for how long the chat is kept; None for the usual time.
        state: of the turn, in its later calls.
        shares_ids: whether several conversations of the host may come under one chat id, as those
            of a session's sub-agents do, or without one. Their messages tell them apart.
    """

    tenant: int
    chat: str
    user: str
    model: str
    messages: Sequence[Native]
    ids: Sequence[str | None]
    window_sizes: Sequence[int]
    answer_tokens: int
    non_message_text: str
    guided: bool
    recall: bool
    wait_seconds: float
    keep_hours: int | None
    state: State | None
    shares_ids: bool


@dataclass(frozen=True, slots=True)
class ServeContext:
    """The resources of a process with which requests are served.

    Attributes:
        uploads: orders uploads.
        windows: of the models.
        wake: wakes a worker, in so many seconds.
    """

    database: Database
    texts: Texts
    counts: Counts
    settings: Settings
    uploads: UploadQueue
    windows: Windows
    wake: Callable[[str, float], Awaitable[object]]
    # Counts and stores that go on after their requests were answered.
    _background: set["asyncio.Task[None]"] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Starts work that may go on after its request was answered."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def store_later(self, work: Coroutine[Any, Any, object]) -> None:
        """Stores something in the background, unless too much goes on there."""
        if len(self._background) >= _MOST_BACKGROUND:
            # Nothing is lost: the next request shows it again.
            log.warning("compress.not_stored", why="too much is being stored")
            work.close()
            return
        self.start(_store_quietly(work))

    async def end(self) -> None:
        """Ends the work in the background."""
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _store_quietly(work: Coroutine[Any, Any, object]) -> None:
    """Stores something; its request was answered, so nobody else would hear of an error."""
    try:
        await work
    except database.FAILURES as error:
        log.warning("compress.not_stored", why=type(error).__name__)
    except Exception as error:
        log.error("compress.not_stored", exception=format_trace(error))


@dataclass(frozen=True, slots=True)
class CountedRequest:
    """A request with its counts.

    Attributes:
        request: what came.
        outline: where its parts stand.
        prints: the fingerprint of each message.
        sizes: the tokens of each message, by our own count.
        non_message_tokens: the tokens of what goes along and is no message.
        is_counted: whether all of it was counted: nothing is estimated, and no picture is in it.
        window: the model's window in tokens, as its provider counts.
        assumed: whether nobody told the window.
        deadline: until when it may wait, on the monotonic clock.
    """

    request: HostRequest
    outline: Outline
    prints: Sequence[bytes]
    sizes: Sequence[int]
    non_message_tokens: int
    is_counted: bool
    window: int
    assumed: bool
    deadline: float

    @property
    def total(self) -> int:
        """The tokens of the whole request as it came, by our own count."""
        return sum(self.sizes) + self.non_message_tokens

    @property
    def room(self) -> int:
        """The tokens that it may have beside its answer, as the provider counts them."""
        return policy.find_request_room(
            self.window, self.request.answer_tokens, self.non_message_tokens
        )

    @property
    def question(self) -> int:
        """The tokens of the newest question, with whatever follows it."""
        return sum(self.sizes[self.outline.newest :])

    @property
    def seconds_left(self) -> float:
        """The seconds that it may still wait."""
        return self.deadline - time.monotonic()


async def count_request(context: ServeContext, request: HostRequest) -> CountedRequest:
    """Counts a request, or estimates what cannot be counted in time."""
    deadline = time.monotonic() + request.wait_seconds
    prints = [native.hash_message(message) for message in request.messages]
    beside: Native = {"content": request.non_message_text}
    sizes, is_counted = await count_messages(
        context,
        [*request.messages, beside],
        [*prints, b""],
        max(request.wait_seconds * _SHARE, _LEAST),
    )
    # No count by text holds for a picture, which only a message of parts may have.
    has_parts = any(isinstance(message.get("content"), list) for message in request.messages)
    window = await context.windows.find(request.tenant, request.model, request.window_sizes)
    return CountedRequest(
        request=request,
        outline=native.outline_request(request.messages, prints, guided=request.guided),
        prints=prints,
        sizes=sizes[:-1],
        non_message_tokens=sizes[-1] if request.non_message_text else 0,
        is_counted=is_counted and not has_parts,
        window=window.tokens,
        assumed=window.assumed,
        deadline=deadline,
    )


async def count_messages(
    context: ServeContext, messages: Sequence[Native], prints: Sequence[bytes], seconds: float
) -> tuple[list[int], bool]:
    """The tokens of each message, and whether all of them were counted.

    Args:
        context: with the counts that are known.
        messages: native messages.
        prints: the fingerprint of each; empty where there is none.
        seconds: how long counting may take.
    """
    keys = [
        account.make_count_key(one, print_) for one, print_ in zip(messages, prints, strict=True)
    ]
    sizes = context.counts.find(keys)
    new = {key: one for key, one, size in zip(keys, messages, sizes, strict=True) if size is None}
    if new:
        await _count_within(context, new, seconds)
        sizes = context.counts.find(keys)
    every = [
        account.estimate_most_tokens(message) if size is None else size
        for message, size in zip(messages, sizes, strict=True)
    ]
    return every, None not in sizes


async def _count_within(context: ServeContext, new: Mapping[bytes, Native], seconds: float) -> None:
    """Counts messages by their keys, as many as there is time for.

    It goes on then, so that the next request need not count them again.
    """
    counting = context.start(_count_new(context, new))
    await asyncio.wait([counting], timeout=seconds)
    if counting.done():
        counting.result()  # raises what is no fault of a text


async def _count_new(context: ServeContext, new: Mapping[bytes, Native]) -> None:
    """Counts messages, and keeps their counts.

    The newest go first, and soon: a summary often stands for the older ones.
    """
    keys, packed = list(new), [msgspec.json.encode(message) for message in new.values()]
    sizes = accumulate(len(message) for message in reversed(packed))
    newest = len(packed) - sum(size <= _SMALL for size in sizes)
    counts = await asyncio.to_thread(account.count_all, packed[newest:])
    context.counts.add(dict(zip(keys[newest:], counts, strict=True)))
    if newest == 0:
        return
    try:
        counts = await context.texts.run(account.count_all, packed[:newest])
    except PrecisError as error:
        size = sum(map(len, packed[:newest]))
        log.warning("compress.not_counted", bytes=size, why=type(error).__name__)
        return
    context.counts.add(dict(zip(keys[:newest], counts, strict=True)))
