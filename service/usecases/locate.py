"""Use case: find the path of a request, and what is stored of it.

A request shows its path by its words alone (`request.native`). It is compared with what earlier
requests have shown and what the host has told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import msgspec

from service.planning import policy
from service.request import native
from service.request.native import Node
from service.settings import Settings
from service.storage import chats, contexts
from service.storage.contexts import Doubts, Lookup, StoredContext
from service.storage.ingests import IncomingMessage, Transcript
from service.storage.tables import ChatKey
from service.transcript import read_text
from service.transcript.identities import normalise_id
from service.usecases.weigh import CountedRequest, HostRequest, ServeContext

UNSAVED = ("temporary:", "local:")
"""How the ids of chats begin that Open WebUI does not store."""
_KEPT_HOURS = 720  # for chats that their host does not store, unless it says so
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class RequestPath:
    """The path of a request beside what is stored of it.

    Attributes:
        chat: the id under which the chat is stored.
        expires_in: seconds after which it is deleted; None keeps it.
        begin: the place in the request at which the path begins.
        nodes: the path, root first; empty for a chat's first question.
        stored: what is stored of it; None when the chat is not stored.
        doubts: where the chat is stored, and nothing of this path.
        is_kept: whether what this very request shows was stored before it was answered.
    """

    chat: str
    expires_in: int | None
    begin: int
    nodes: Sequence[Node]
    stored: StoredContext | None
    doubts: Doubts | None = None
    is_kept: bool = False

    @property
    def factor(self) -> float:
        """The tokens that the model's provider counts for one of ours."""
        return self.stored.factor if self.stored else 1.0

    @property
    def depth(self) -> int:
        """The number of nodes of the path that are stored for this chat."""
        return self.stored.depth if self.stored else 0

    @property
    def has_news(self) -> bool:
        """Whether something of the path is to be stored, or was seen for the second time now."""
        if self.is_kept or not self.nodes:
            return False
        stored = self.stored
        if stored is None or self.depth < len(self.nodes):
            return True
        return not stored.confirmed or stored.lacks_text


async def locate_path(context: ServeContext, counted: CountedRequest) -> RequestPath:
    """Looks for the path from each place of the request at which it may begin.

    Where nothing of a stored chat is found, something at its beginning was edited. Where nothing
    was found the time before either, the path begins at the last of these places.

    Raises:
        KeyMissing: this process cannot open what is stored of the tenant.
    """
    request, path = counted.request, outline_path(counted)
    lookup = Lookup(
        tenant=request.tenant,
        chat=path.chat,
        model=request.model,
        total=counted.total,
        limit=find_limit(context.settings, counted),
        window=counted.window,
    )
    nodes = path.nodes
    stored = await contexts.find_context(context.database, lookup, nodes)
    path = replace(path, stored=stored)
    if stored is None or stored.known or not nodes:
        return path
    return await _locate_later(context, counted, lookup, path, stored.chat)


async def _locate_later(
    context: ServeContext,
    counted: CountedRequest,
    lookup: Lookup,
    path: RequestPath,
    chat: ChatKey,
) -> RequestPath:
    """The path of a request of which nothing is stored from its first question on."""
    nodes, starts = path.nodes, counted.outline.starts
    for begin in starts[1:]:
        later = _cut_path(counted, begin)
        found = await contexts.find_context(context.database, lookup, later)
        if found and found.known:
            return replace(path, begin=begin, nodes=later, stored=found)
    doubts = await contexts.find_doubts(context.database, chat)
    if doubts.is_volatile:
        # It may be this very path, which was stored since the look at it.
        found = await contexts.find_context(context.database, lookup, nodes)
        if found and found.known:
            return replace(path, stored=found)
        path = replace(path, begin=starts[-1], nodes=_cut_path(counted, starts[-1]))
    elif counted.request.shares_ids:
        return await locate_path(context, _give_own_name(counted, path))
    return replace(path, doubts=doubts)


def _give_own_name(counted: CountedRequest, path: RequestPath) -> CountedRequest:
    """Renames the chat of a request that goes on from nothing of it."""
    request = counted.request
    renamed = replace(
        request,
        chat=normalise_id(f"{path.chat}~{_identify_opening(path.nodes)}"),
        keep_hours=request.keep_hours or _KEPT_HOURS,  # nobody deletes a chat of this name
        shares_ids=False,
    )
    return replace(counted, request=renamed)


def _identify_opening(nodes: Sequence[Node]) -> str:
    """The id of a path's first answer: two conversations share it only if they begin alike."""
    return nodes[:2][-1].id


def _cut_path(counted: CountedRequest, begin: int) -> list[Node]:
    """The path of a request from a place on."""
    return native.cut_path(counted.request.messages, counted.prints, begin, counted.outline.newest)


def outline_path(counted: CountedRequest) -> RequestPath:
    """The path of a request without a look at what is stored."""
    begin = counted.outline.head
    nodes = _cut_path(counted, begin)
    chat, expires_in = _name_chat(counted.request, begin, nodes)
    return RequestPath(chat, expires_in, begin, nodes, None)


def find_limit(settings: Settings, counted: CountedRequest) -> int:
    """The tokens above which a request needs a summary, as the model's provider counts them."""
    share = settings.apply_share(counted.request.model)
    return min(policy.apply_at(counted.window, share), counted.room)


def count_non_message_tokens(counted: CountedRequest, begin: int) -> int:
    """The tokens of a request that stand before its path, or go along with it."""
    return sum(counted.sizes[:begin]) + counted.non_message_tokens


def make_transcript(settings: Settings, counted: CountedRequest, path: RequestPath) -> Transcript:
    """The part of a path that is not stored yet, as it is to be stored; all of it without texts.

    The newest question is not part of it: retrieved texts may stand in that. For the plan of the
    next summary it goes beside the path.
    """
    request, stored = counted.request, path.stored
    # If the newest text was deleted, all above were: this request stores them again.
    depth = 0 if stored and stored.lacks_text else path.depth
    overhead = count_non_message_tokens(counted, path.begin) + counted.question
    window = int(counted.window / path.factor)
    return Transcript(
        tenant=request.tenant,
        chat=path.chat,
        user=request.user,
        model=request.model,
        policy=settings.policy(request.model, window, overhead),
        window=counted.window,
        window_assumed=counted.assumed,
        after=path.nodes[depth - 1].id if depth else None,
        messages=[_make_message(counted, node) for node in path.nodes[depth:]],
        source="request",
        overhead=overhead,
        expires_in=path.expires_in,
        starts_over=path.doubts is not None,
    )


def _make_message(counted: CountedRequest, node: Node) -> IncomingMessage:
    request = counted.request
    text = _encode(native.make_stored(request.messages, node))
    told = [one for one in request.ids[node.begin : node.end] if one]
    return IncomingMessage(node.id, text, host_id=told[-1] if told else None)


def _name_chat(request: HostRequest, head: int, nodes: Sequence[Node]) -> tuple[str, int | None]:
    """The id under which a chat is stored, and after how many seconds it is deleted.

    A chat that its host does not store is found by its user and its first question, and by the
    answer to that where the host shares ids.
    """
    if request.chat and not request.chat.startswith(UNSAVED):
        hours = request.keep_hours
        return request.chat, hours * 3600 if hours else None
    if request.shares_ids and nodes:
        opening = _identify_opening(nodes)
    else:
        users = (one for one in request.messages[head:] if one.get("role") == "user")
        opening = read_text(next(users, {}))
    first = f"{request.user}\n{opening}"
    name = sha256(first.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{chats.UNSAVED}{name}", (request.keep_hours or _KEPT_HOURS) * 3600
