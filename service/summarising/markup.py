"""Makes any text harmless by its form, whoever wrote it. Pure, linear.

What stands in a summary must not open another part of the prompt, imitate our own marks, load an
image or offer a link. No word is judged: tokens, tags, links and marks are known by their shape,
and numbers, names and paths inside ordinary text stay as they are.

`make_harmless` is for every line that is shown; `quote_marks` for words of others, before our own
marks are put beside them. Cut a text before, not after: it might lose a code mark.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from service.text import characters
from service.text.plain import drop_hidden

_GONE = "[…]"
_SIGNS = re.compile(r"[<\[`#=＜［\\]|\]\(|://|www\.", re.IGNORECASE)
_MOST_PASSES = 4  # what is taken out may leave a mark behind that was none; two passes are usual

_LONGEST_TAG = 400  # characters between `<` and `>`
_BEGINS_TAG = re.compile(r"<(?=[a-z/!?|])", re.IGNORECASE)

_DEFINITION = re.compile(r"\A(?P<label>[ \t>*+-]{0,12}\[[^\[\]\n]{1,200}\]):(?!:)")

# Tokens of chat templates. With blanks or signs in it, `<| f |>` are operators, `[|1; 2|]` an
# array.
_TOKEN = re.compile(r"<\|[^\s<>]{0,60}\|>|\[\|[a-z_/ -]{0,40}\|\]", re.IGNORECASE)
_ARRAY = re.compile(r"\[(?P<items>\|[^\n\[\]]{0,40}\|)\]")
_ROLES = "system|user|assistant|human|developer|model|tool|inst|sys"
_BRACKETED = re.compile(
    rf"\[(?P<name>/[A-Z_]{{3,40}}|[A-Z]{{1,30}}(?:_[A-Z]{{1,30}}){{1,4}}|(?i:{_ROLES})|[BE]OS)\]"
)
_ROLE_MARK = re.compile(rf"\[(?P<name>/?(?:{_ROLES}|[BE]OS))\]", re.IGNORECASE)
_ROLE_TAG = re.compile(rf"<(?P<tag>/?(?:{_ROLES})(?:\s[^<>\n]{{0,100}})?)>", re.IGNORECASE)
# A role and what it says; `system: linux` is none.
_ROLE = re.compile(
    r"\A(?P<marks>[\s>*#-]{0,12})(?P<role>(?:system|user|assistant|human|developer)\s?:)"
    r"(?=\*{0,2}\s+[^\s:]+\s+[^\s:]+|\s*\Z)",
    re.IGNORECASE,
)
_LINE_MARKS = re.compile(
    r"\A[ \t]*+(?:>[ \t]*+|(?:[-*+•]|\d{1,3}[.)]|#{1,6})[ \t]++)*+(?:#{1,6}\Z)?"
)
_HEADING = re.compile(r"#{1,6}[ \t]*+")
_FENCE = re.compile(
    r"(?<!=)={3,}+\s{0,4}(?:[0-9a-f]{6,64}|end|begin|record|messages)\b(?:\s{0,4}={3,}+)?|\A={3,}+"
)

# Our own wording, which only we write.
_OURS = re.compile(
    r"\[(?=\s{0,4}(?:previous\s{1,4}conversation|end\s{1,4}of\s{1,4}summary))", re.IGNORECASE
)
_ROW = re.compile(
    r"(?<![\w“])(?P<row>P\d{1,6}[^\S\n]{1,4}(?:rule|quotation))(?=\s{0,4}:)", re.IGNORECASE
)
_CODE_MARKS = re.compile(r"`{2,}")
_ESCAPED_MARK = re.compile(r"\\(?=`)")
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,30}://|www\.(?=[\w-]))[^\s<>‹›\"“”「」`、。，；（）]++", re.IGNORECASE
)
_BEHIND_ADDRESS = ".,:;!?)]}*_'’"


@lru_cache(maxsize=4096)  # the same line is weighed, fitted and shown
def make_harmless(text: str) -> str:
    """Writes a text on one line, without what a prompt or a page takes for more than words.

    Applied again it changes nothing; the line is at most one and a half times as long as the text.
    """
    line = " ".join(drop_hidden(text).split())
    if not _SIGNS.search(line):
        return line
    for _ in range(_MOST_PASSES):
        shown = _pair_code_marks(" ".join(_replace_marks(_replace_tokens(line)).split()))
        if shown == line:
            break
        line = shown
    return line


@lru_cache(maxsize=4096)  # the same words are measured beside others, several times
def quote_marks(text: str) -> str:
    """Quotes what only we put before or beside somebody's words."""
    return _ROLE.sub(r"\g<marks>“\g<role>”", _ROW.sub(r"“\g<row>”", text))


def quote_code(line: str) -> str:
    """Removes tokens and tags of roles, and our own marks, from a line of code.

    Blanks, links and all other tags stay, because code is read exactly.
    """
    if not _SIGNS.search(line):
        return line
    bare = _replace_spans(line, _TOKEN, _GONE)
    bare = _replace_spans(bare, _ROLE_MARK, r"(\g<name>)")
    bare = _replace_spans(bare, _ROLE_TAG, r"‹\g<tag>›")
    return _OURS.sub("(", bare)


def _replace_tokens(text: str) -> str:
    """Replaces tokens of any width, and the angle brackets of all that looks like a tag."""
    bare = _replace_spans(text, _TOKEN, _GONE)
    bare = _replace_spans(bare, _ARRAY, r"‹\g<items>›")
    bare = _replace_spans(bare, _BRACKETED, r"(\g<name>)")
    shown = list(bare)
    closing = -1
    narrow = characters.narrow(bare)
    for opening in _BEGINS_TAG.finditer(narrow):
        begin = opening.start()
        if closing < begin:
            closing = narrow.find(">", begin)
            if closing < 0:
                break
        if closing - begin > _LONGEST_TAG:
            continue
        shown[begin], shown[closing] = "‹", "›"
    return "".join(shown)


def _replace_spans(text: str, pattern: re.Pattern[str], by: str) -> str:
    """Replaces what a pattern finds in the plainest form of a text."""
    narrow = characters.narrow(text)
    kept: list[str] = []
    position = 0
    for found in pattern.finditer(narrow):
        kept += [text[position : found.start()], found.expand(by)]
        position = found.end()
    return "".join([*kept, text[position:]])


def _replace_marks(line: str) -> str:
    """Removes headings, fences of prompts, links, and our own wording."""
    bare = _LINE_MARKS.sub(lambda marks: _HEADING.sub("", marks[0]), line)
    bare = _FENCE.sub(_GONE, _OURS.sub("(", bare))
    # With a blank between its parts it is no link and no image any more.
    bare = bare.replace("](", "] (").replace("![", "! [")
    return _DEFINITION.sub(r"\g<label> :", bare)


def _pair_code_marks(line: str) -> str:
    """Puts the code marks of a line in pairs, and each address inside such a pair."""
    line = _ESCAPED_MARK.sub(r"\\ ", _CODE_MARKS.sub("`", line))
    if "://" not in line and "www." not in line.casefold() and "`" not in line:
        return line
    parts = line.split("`")
    if len(parts) % 2 == 0:  # the last mark has no other
        last = parts.pop()
        parts[-1] = f"{parts[-1]}'{last}"
    return _ESCAPED_MARK.sub(r"\\ ", "`".join(_code_addresses(parts)))


def _code_addresses(parts: list[str]) -> Iterator[str]:
    """Yields the parts of a line between code marks, with addresses outside of code marked."""
    last = len(parts) - 1
    for place, part in enumerate(parts):
        if place % 2:
            # Code stays as it is, and so does an address in it.
            yield part
            continue
        coded = _ADDRESS.sub(_code_address, part)
        before = " " if place and coded.startswith("`") else ""
        after = " " if place < last and coded.endswith("`") else ""
        yield f"{before}{coded}{after}"


def _code_address(address: re.Match[str]) -> str:
    """Puts code marks around an address, without the signs behind it."""
    bare = address[0].rstrip(_BEHIND_ADDRESS)
    return f"`{bare}`{address[0][len(bare) :]}"
