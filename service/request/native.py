"""Cuts a request, as a host sends it to a model, into the nodes that are stored. Pure.

A node is a question, or an answer with all of its calls and results. Its id is the hash of all
words from the path's first message down to it. So equal ids mean equal words, everything above
included, in whatever chat and by whatever host.

The system messages at the beginning of a request are no part of its path. Neither are its newest
question and the messages after it, because retrieved texts may stand in them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

from service.transcript import Native, Stored, list_calls, read_text
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
_FILE_FIELDS = ("name", "content_type")
_LONGEST_NAME = 200  # characters
_DIGEST = 16  # bytes
_TEXT, _CALL, _RESULT = b"1", b"2", b"3"  # the kind of a fingerprint, in front of each
_STARTS = 3  # questions at which the path of a request may begin


class Node(NamedTuple):
    """One node of a path."""

    #: 32 hexadecimal digits of BLAKE2 of the path down to here.
    id: str
    #: `user`, `assistant`, or whatever else a host put between them.
    role: str
    #: Place of its first message in the request.
    begin: int
    #: Place behind its last message.
    end: int


@dataclass(frozen=True, slots=True)
class Outline:
    """The places of a request's parts."""

    #: Number of system messages at its beginning.
    head: int
    #: Place of the newest question; the number of messages if there is none. In a guided
    #: regeneration it is the question that is answered once more.
    newest: int
    #: Places at which its path may begin: behind the head, and at the second and the third
    #: question, because another filter may put something new in front in each turn.
    starts: tuple[int, ...]


def outline_request(
    messages: Sequence[Native], prints: Sequence[bytes], *, guided: bool = False
) -> Outline:
    """Finds the parts of a request. If it is `guided`, its newest question is an instruction."""
    head = 0
    while head < len(messages) and messages[head].get("role") in _SYSTEM:
        head += 1
    questions = _find_questions(messages, prints)
    back = 2 if guided and len(questions) > 1 else 1
    newest = questions[-back] if questions else len(messages)
    later_starts = [place for place in questions[1:_STARTS] if place < newest]
    return Outline(head, newest, (head, *later_starts))


def _find_questions(messages: Sequence[Native], prints: Sequence[bytes]) -> list[int]:
    """The places of the messages that users have written."""
    places: list[int] = []
    for place, message in enumerate(messages):
        if message.get("role") == "user" and prints[place]:
            places.append(place)
    return places


def hash_message(message: Native) -> bytes:
    """The hash of a message's text with the call that it answers, then of each of its calls.

    Pictures and reasoning are left out, because hosts do not send them in every request. It is
    empty for a message that nobody said: an answer without words and calls, and images of tools.
    """
    role, words = message.get("role"), _read_words(message)
    if role == "user" and words.startswith(TOOL_IMAGES):
        return b""
    hashed = b""
    if words or role != "assistant":
        kind = _RESULT if role == "tool" else _TEXT
        # With the length of the words, because they may have any character.
        head = f"{role}\x1f{len(words)}\x1f"
        hashed = kind + _hash_texts(head, words, str(message.get("tool_call_id") or ""))
    for call_id, function in list_calls(message):
        call = (call_id, function.get("name"), function.get("arguments"))
        hashed += _CALL + _hash_texts(f"{call}")
    return hashed


def _hash_texts(*parts: str) -> bytes:
    """The hash of texts in a row. They are not joined, because one may be large."""
    digest = blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass"))
    return digest.digest()


def cut_path(
    messages: Sequence[Native], prints: Sequence[bytes], begin: int, end: int, above: str = ROOT
) -> list[Node]:
    """Cuts messages[begin:end] into nodes, root first.

    Args:
        messages: the request.
        prints: `hash_message` of each of its messages.
        begin: place of the path's first message.
        end: place behind its last message.
        above: id of the node that the path continues.
    """
    nodes: list[Node] = []
    for role, first, last in _group_messages(messages, prints, begin, end):
        head = f"{above}\x1e{role}\x1e".encode()
        own_prints = _join_prints(prints, first, last)
        above = blake2b(head + own_prints, digest_size=_DIGEST).hexdigest()
        nodes.append(Node(above, role, first, last))
    return nodes


def _join_prints(prints: Sequence[bytes], first: int, last: int) -> bytes:
    """The fingerprints of a node, in an order that no version of Open WebUI changes.

    Versions differ in how many of an answer's calls they put into one message. So all calls between
    two texts stand in front of their results.
    """
    joined = b"".join(prints[first:last])
    if last - first == 1:
        return joined
    size = 1 + _DIGEST
    parts = [joined[place : place + size] for place in range(0, len(joined), size)]
    texts_before = accumulate(part.startswith(_TEXT) for part in parts)
    numbered = zip(texts_before, parts, strict=True)
    ordered = sorted(numbered, key=lambda pair: (pair[0], pair[1][:1]))
    return b"".join(part for _, part in ordered)


def make_stored(messages: Sequence[Native], node: Node) -> Stored:
    """A node as it is stored: without pictures and without its host's own fields."""
    own = messages[node.begin : node.end]
    if node.role == "assistant":
        answer = [message for message in own if message.get("role") in _ANSWER]
        if len(answer) == 1 and not answer[0].get("tool_calls"):
            # Older versions of Open WebUI write calls and results of tools into the text.
            return {"role": node.role, "content": read_text(answer[0])}
        native: list[Native] = []
        for message in answer:
            native.append({key: message[key] for key in _STORED if message.get(key)})
        return {"role": node.role, "native": native}
    return {"role": node.role, "content": _read_words(own[0]), "files": list_files(own[0])}


def _group_messages(
    messages: Sequence[Native], prints: Sequence[bytes], begin: int, end: int
) -> Iterator[tuple[str, int, int]]:
    """Yields the role, the first place and the place behind the last one of each node."""
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


def _read_words(message: Native) -> str:
    """The text of a message without Open WebUI's list of attached files."""
    text = read_text(message)
    is_question = message.get("role") == "user"
    return text.removeprefix(_find_file_list(text)) if is_question else text


def list_files(message: Native) -> list[dict[str, str]]:
    """The kinds and names of a message's parts beside its text, and of files listed in front."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    tags = _FILE.findall(_find_file_list(read_text(message)))
    listed = [dict(_ATTRIBUTE.findall(tag)) for tag in tags]
    files: list[dict[str, str]] = []
    for part in [*parts, *listed]:
        if not isinstance(part, dict) or part.get("type") == "text":
            continue
        file = {key: str(part[key])[:_LONGEST_NAME] for key in _FILE_FIELDS if part.get(key)}
        kind = str(part.get("type"))[:_LONGEST_NAME]
        files.append(file | {"type": kind.removesuffix("_url")})
    return files


def _find_file_list(text: str) -> str:
    """Open WebUI's list of attached files in front of a text; empty where there is none."""
    tag = _FILES.match(text)
    return tag[0] if tag else ""
