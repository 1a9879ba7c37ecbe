"""Removes what shows nothing from a text. Pure.

Invisible characters can carry orders that no person sees, and that no comparison of words finds.
"""

import re

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,40}[ -/]{0,8}[@-~]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")
# Alone, a joiner is a letter in some scripts and a selector belongs to a picture; together, or
# between letters of other scripts, they only break words.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
_JOINERS = ("\u200c", "\u200d")
_PICTURE = ("\ufe0e", "\ufe0f", "\ufe0f\u200d")
_LAST_PLAIN = "\u052f"  # of the Latin, Greek and Cyrillic letters, which have no joiners
_BACKWARDS = re.compile("\u202e([^\u202c\u202d\u2069\n]*)")


def drop_hidden(text: str) -> str:
    """Removes terminal colours and characters that show nothing; line breaks stay."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub("\ufffd", show_visible(text))


def show_visible(text: str) -> str:
    """Removes characters that show nothing, and turns round what is written backwards."""
    if text.isascii():
        return text
    forwards = _BACKWARDS.sub(lambda match: match[1][::-1], text)
    return _UNSEEN.sub(_keep_needed, forwards)


def _keep_needed(run: re.Match[str]) -> str:
    """Keeps a run of invisible characters only if its neighbours need it."""
    before = run.string[run.start() - 1] if run.start() else ""
    after = run.string[run.end() : run.end() + 1]
    if run[0] in _JOINERS:
        return run[0] if before > _LAST_PLAIN and after > _LAST_PLAIN else ""
    # A selector or joiner of pictures stands behind a sign, never behind a letter or a blank.
    behind_a_sign = bool(before) and not before.isalpha() and not before.isspace()
    return run[0] if run[0] in _PICTURE and behind_a_sign else ""
