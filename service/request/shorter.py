"""Makes one message shorter, or adds a note to it. Pure; no message is changed in place."""

from collections.abc import Callable
from typing import Any

from service.transcript import Native, read_text
from service.transcript.parts import count_part_tokens

SHORTENED = "\n[… {} characters were left out here: they do not fit into the model's window …]\n"
NO_FILE = "[A picture or file was left out here: it does not fit into the model's window.]"
_MARK_TOKENS = 25  # of either mark, about
_NOTHING = "…"  # Some providers refuse an empty text.
_TRIES = 4  # times that a text is cut and counted, until it has nearly the tokens that it may have


def is_system(message: Native) -> bool:
    """Whether a message is a system prompt."""
    return message.get("role") in ("system", "developer")


def cut_middle(message: Native, text_tokens: int, most: int, count: Callable[[str], int]) -> Native:
    """The message without the middle of its text, which keeps at most `most` tokens.

    Args:
        message: the message.
        text_tokens: tokens of its text.
        most: tokens that the text may keep.
        count: counts the tokens of a text.
    """
    text = read_text(message)
    keep = len(text) * (most - _MARK_TOKENS) // text_tokens
    best, best_size = _NOTHING, 0
    for _ in range(_TRIES):
        if not 0 < keep < len(text):
            break
        shorter = _keep_both_ends(text, keep)
        size = count(shorter)
        if best_size < size < most:
            best, best_size = shorter, size
        if most * 9 // 10 <= size < most:
            break
        keep = keep * most * 97 // (size * 100)
    others = list_other_parts(message)
    content = [{"type": "text", "text": best}, *others] if others else best
    return {**message, "content": content}


def _keep_both_ends(text: str, keep: int) -> str:
    """The beginning and the end of a text, together `keep` characters.

    Open WebUI's list of attached files, which stands in front, stays whole.
    """
    listed, end, body = text.partition("</attached_files>\n\n")
    head = listed + end
    if len(head) > keep // 2:  # There is no such list, or it is nearly all of the text.
        head, body = "", text
    keep -= len(head)
    last = keep // 3
    first = keep - last
    mark = SHORTENED.format(len(body) - keep)
    return head + body[:first] + mark + body[len(body) - last :]


def list_other_parts(message: Native) -> list[dict[str, Any]]:
    """The parts of a message that are no text, such as pictures and files."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and part.get("type") != "text"]


def replace_files(message: Native, missing: int) -> Native:
    """The message with marks in place of pictures and files, until `missing` tokens are saved."""
    whole = message.get("content")
    if not isinstance(whole, list):
        return message
    mark = {"type": "text", "text": NO_FILE}
    content = []
    for part in whole:
        price = count_part_tokens(part) if isinstance(part, dict) else 0
        if missing > 0 and price > _MARK_TOKENS:
            missing -= price - _MARK_TOKENS
            part = mark
        content.append(part)
    return {**message, "content": content} if content != whole else message


def append_note(message: Native, note: str) -> Native:
    """The message with a note at the end of its text."""
    content = message.get("content")
    if isinstance(content, list):
        added: Any = [*content, {"type": "text", "text": f"\n\n{note}"}]
    else:
        added = f"{content or ''}\n\n{note}"
    return {**message, "content": added}
