"""A request as a host sends it to a model, cut into the nodes that are stored. Pure.

A node is what is stored as one message: a question, or an answer with all of its calls and results.
Its id is the hash of all words from the path's first message to it. So a node that is found was
said just so, word for word, with everything above it, in whatever chat and by whatever host.

A request begins with system messages, which are no part of the path, and neither are its newest
question and what follows that: retrieved texts may stand in them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from service.transcript import Native, Stored, calls_of, text_of
from service.transcript.native import TOOL_IMAGES

ROOT = ""
"""The node above the first one of a path."""
_SYSTEM = ("system", "developer")
_ANSWER = ("assistant", "tool")
# Open WebUI names a question's files in front of it; in which requests, depends on its settings.
_FILES = re.compile(r"<attached_files>\n(?:<file [^\n]*/>\n)*</attached_files>\n\n")
_STORED = ("role", "content", "tool_calls", "tool_call_id")
_FILE = re.compile(r"<file\b([^<>]*+)>")
_ATTRIBUTE = re.compile(r'([\w-]++)="([^"]*+)"')
_OF_A_FILE = ("name", "content_type")
_NAME = 200  # characters
_DIGEST = 16  # bytes
_TEXT, _CALL, _RESULT = b"1", b"2", b"3"  # what a fingerprint is of, in front of each
_STARTS = 3  # questions at which the path of a request may begin


class Node(NamedTuple):
    """One node of a path.

    Attributes:
        id: 32 hexadecimal digits of BLAKE2 of the path down to here.
        role: `user`, `assistant`, or whatever else a host put between them.
        begin: the place of its first message in the request.
        end: the place behind its last message.
    """

    id: str
    role: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Outline:
    """Where the parts of a request stand.

    Attributes:
        head: how many system messages it begins with.
        newest: the place of the newest question; the number of messages if there is none. In a
            guided regeneration it is the question that is answered once more.
        starts: the places at which its path may begin: behind the head, and at the second and the
            third question, because another filter may put something new in front in each turn.
    """

    head: int
    newest: int
    starts: tuple[int, ...]


def outline(
    messages: Sequence[Native], prints: Sequence[bytes], *, guided: bool = False
) -> Outline:
    """Looks for the parts of a request; `guided`: its newest question is an instruction."""
    head = 0
    while head < len(messages) and messages[head].get("role") in _SYSTEM:
        head += 1
    questions = _questions_in(messages, prints)
    back = 2 if guided and len(questions) > 1 else 1
    newest = questions[-back] if questions else len(messages)
    later = [place for place in questions[1:_STARTS] if head < place < newest]
    return Outline(head, newest, (head, *later))


def _questions_in(messages: Sequence[Native], prints: Sequence[bytes]) -> list[int]:
    """The places of what users have written."""
    users = [place for place, one in enumerate(messages) if one.get("role") == "user"]
    return [place for place in users if prints[place]]


def fingerprint(message: Native) -> bytes:
    """Hashes what a message says: its text with the call that it answers, then each of its calls.

    Pictures and reasoning are left out, because hosts do not send them in every request. Empty for
    what nobody said: an answer without words and calls, and the images of tools.
    """
    role, words = message.get("role"), _words(message)
    if role == "user" and words.startswith(TOOL_IMAGES):
        return b""
    calls = calls_of(message) if message.get("tool_calls") else []
    found = b""
    if words or role != "assistant":
        kind = _RESULT if role == "tool" else _TEXT
        # With the length of the words, because they may have any character.
        head = f"{role}\x1f{len(words)}\x1f"
        found = kind + _digest(head, words, str(message.get("tool_call_id") or ""))
    for name, call in calls:
        found += _CALL + _digest(f"{(name, call.get('name'), call.get('arguments'))}")
    return found


def _digest(*parts: str) -> bytes:
    """The hash of texts in a row, of which one may be large: they are not joined."""
    digest = blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass"))
    return digest.digest()


def path(
    messages: Sequence[Native], prints: Sequence[bytes], begin: int, end: int, above: str = ROOT
) -> list[Node]:
    """Cuts messages[begin:end] into nodes, root first.

    Args:
        messages: the request.
        prints: `fingerprint` of each of its messages.
        begin: where the path begins.
        end: where it ends.
        above: the id of the node that it goes on from.
    """
    nodes: list[Node] = []
    for role, first, last in _groups(messages, prints, begin, end):
        own = _own_prints(prints, first, last)
        line = f"{above}\x1e{role}\x1e".encode() + own
        above = blake2b(line, digest_size=_DIGEST).hexdigest()
        nodes.append(Node(above, role, first, last))
    return nodes


def words_of(prints: Sequence[bytes], node: Node) -> str:
    """The hash of a node's own words, wherever they stand."""
    own = _own_prints(prints, node.begin, node.end)
    return blake2b(own, digest_size=_DIGEST).hexdigest()


def _own_prints(prints: Sequence[bytes], first: int, last: int) -> bytes:
    """The fingerprints of a node, where calls that no text parts stand in front of their results.

    Versions of Open WebUI differ in how many of an answer's calls they put into one message.
    """
    joined = b"".join(prints[first:last])
    if last - first == 1:
        return joined
    size = 1 + _DIGEST
    parts = [joined[place : place + size] for place in range(0, len(joined), size)]
    texts = accumulate(part.startswith(_TEXT) for part in parts)
    ordered = sorted(zip(texts, parts, strict=True), key=lambda one: (one[0], one[1][:1]))
    return b"".join(part for _, part in ordered)


def stored_of(messages: Sequence[Native], node: Node) -> Stored:
    """A node as it is stored: without pictures and without its host's own fields."""
    own = messages[node.begin : node.end]
    if node.role == "assistant":
        said = [one for one in own if one.get("role") in _ANSWER]
        if len(said) == 1 and not said[0].get("tool_calls"):
            # Older versions of Open WebUI write calls and results of tools into the text.
            return {"role": node.role, "content": text_of(said[0])}
        native = [{key: one[key] for key in _STORED if one.get(key)} for one in said]
        return {"role": node.role, "native": native}
    return {"role": node.role, "content": _words(own[0]), "files": files_of(own[0])}


def _groups(
    messages: Sequence[Native], prints: Sequence[bytes], begin: int, end: int
) -> Iterator[tuple[str, int, int]]:
    """The role, the first place and the place behind the last one of each node."""
    answer: int | None = None
    for place in range(begin, end):
        role = messages[place].get("role")
        if role in _ANSWER or not prints[place]:
            if answer is None and prints[place]:
                answer = place
            continue
        if answer is not None:
            yield "assistant", answer, place
            answer = None
        yield str(role), place, place + 1
    if answer is not None:
        yield "assistant", answer, end


def _words(message: Native) -> str:
    """The text of a message without Open WebUI's list of attached files."""
    content = message.get("content")
    text = content if isinstance(content, str) else text_of(message)
    files = _FILES.match(text) if message.get("role") == "user" else None
    return text[files.end() :] if files else text


def files_of(message: Native) -> list[dict[str, str]]:
    """The kinds and names of what stands in a message beside its text, or is listed in front."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    listed = [dict(_ATTRIBUTE.findall(one)) for one in _FILE.findall(_tag_of(message))]
    found = []
    for part in [*parts, *listed]:
        if isinstance(part, dict) and part.get("type") != "text":
            named = {key: str(part[key])[:_NAME] for key in _OF_A_FILE if part.get(key)}
            found.append(named | {"type": str(part.get("type"))[:_NAME].removesuffix("_url")})
    return found


def _tag_of(message: Native) -> str:
    """Open WebUI's list of attached files in front of a text; empty where there is none."""
    tag = _FILES.match(text_of(message))
    return tag[0] if tag else ""
