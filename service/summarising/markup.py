"""Makes any text harmless by its form, whoever wrote it and whatever it says. Pure, linear.

What stands in a system message must not open another part of the prompt, imitate our own marks,
load an image or offer a link. No word is judged: tokens, tags, links and marks are known by their
shape, and numbers, names and paths inside ordinary text stay as they are.

`harmless` is for every line that is shown; `unmarked` for words of others, before our own marks are
put beside them. Cut a text before, not after: it might lose the code mark behind an address.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from service.text import characters
from service.text.plain import plain

_GONE = "[…]"
_SIGNS = re.compile(r"[<\[`#=＜［\\]|\]\(|://|www\.|not\s+instructions", re.IGNORECASE)
_MOST_PASSES = 4  # what is taken out may leave a mark behind that was none; two passes are usual

_COMMENT, _COMMENT_END = "<!--", "-->"
_QUOTED = r"\"[^\"<>]{0,2000}\"|'[^'<>]{0,2000}'|[^\s\"'<>`]{1,2000}"
_ATTRIBUTE = rf"\s{{1,20}}[\w:@.-]{{1,60}}(?:\s?=\s?(?:{_QUOTED}))?"
_ELEMENT = re.compile(
    rf"<(?P<name>[a-z][\w:-]{{0,40}}+)(?P<attributes>(?:{_ATTRIBUTE}){{0,30}})\s?/?>", re.IGNORECASE
)
_CLOSING = re.compile(r"</(?P<name>[a-z][\w:-]{0,40}+)\s?>", re.IGNORECASE)
_LONGEST_TAG = 400  # characters between `<` and `>`
_BEGINS_TAG = re.compile(r"<(?=[a-z/!?|])", re.IGNORECASE)

_IMAGE = re.compile(r"!\[(?P<words>[^\[\]\n]{0,300})\]\([^()\n]{0,2000}\)")
_LINK = re.compile(r"(?<![\w\])])\[(?P<words>[^\[\]\n]{1,300})\]\((?P<target>[^()\n]{0,2000})\)")
_HOST = re.compile(
    r"\A\s?<?(?:[a-z][a-z0-9+.-]{0,30}:)?//(?:[^/?#@\s]{0,200}@)?(?P<host>[\w.-]{1,250})",
    re.IGNORECASE,
)
_PATH = re.compile(r"[\w./#-]{1,200}+")
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
    r"\[(?=\s{0,4}(?:previous\s{1,4}conversation|conversation\s{1,4}summary"
    r"|end\s{1,4}of\s{1,4}summary|tool\s{1,4}calls?\s{1,4}from"
    r"|what\s{1,4}the\s{1,4}user\s{1,4}decided))",
    re.IGNORECASE,
)
_NOTE = re.compile(r"information,\s{1,4}not\s{1,4}instructions", re.IGNORECASE)
_AMENDMENT = re.compile(r"\((?P<word>\s{0,4}later)(?=\s{0,4}[:,])", re.IGNORECASE)
_ROW = re.compile(
    r"(?<![\w“])(?P<row>P\d{1,6}[^\S\n]{1,4}"
    r"(?:constraint|decision|preference|goal|value|fact|file))(?=\s{0,4}:)",
    re.IGNORECASE,
)
_CODE_MARKS = re.compile(r"`{2,}")
_ESCAPED_MARK = re.compile(r"\\(?=`)")
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,30}://|www\.(?=[\w-]))[^\s<>‹›\"“”「」`、。，；（）]++", re.IGNORECASE
)
_BEHIND_ADDRESS = ".,:;!?)]}*_'’"


@lru_cache(maxsize=4096)  # the same line is weighed, fitted and shown
def harmless(text: str) -> str:
    """`text` on one line, without what a prompt or a page would take for more than words.

    Applied again it changes nothing; it is never longer than one and a half times the text.
    """
    line = " ".join(plain(text).split())
    if not _SIGNS.search(line):
        return line
    for _ in range(_MOST_PASSES):
        shown = _passed(line)
        if shown == line:
            break
        line = shown
    return line


@lru_cache(maxsize=4096)  # the same words are measured beside others, several times
def unmarked(text: str) -> str:
    """`text` without what only we put before or beside somebody's words."""
    bare = _AMENDMENT.sub(r"(“\g<word>”", _ROW.sub(r"“\g<row>”", text))
    return _ROLE.sub(r"\g<marks>“\g<role>”", bare)


def quoted(line: str) -> str:
    """A line of a quotation as it stands, but for tokens and tags of roles, and our own marks.

    For what is read exactly, such as code: blanks, links and all other tags stay.
    """
    if not _SIGNS.search(line):
        return line
    bare = _spans_replaced(line, _TOKEN, _GONE)
    bare = _spans_replaced(bare, _ROLE_MARK, r"(\g<name>)")
    bare = _spans_replaced(bare, _ROLE_TAG, r"‹\g<tag>›")
    return _OURS.sub("(", bare)


def _passed(line: str) -> str:
    bare = _without_tags(_without_comments(line))
    bare = _without_tokens(_without_links(bare))
    return _coded(" ".join(_without_marks(bare).split()))


def _without_comments(text: str) -> str:
    """What stands in a comment is not shown either."""
    kept: list[str] = []
    position = 0
    while (begin := text.find(_COMMENT, position)) >= 0:
        end = text.find(_COMMENT_END, begin + len(_COMMENT))
        if end < 0:
            break
        kept.append(text[position:begin])
        position = end + len(_COMMENT_END)
    return "".join([*kept, text[position:]])


def _without_tags(text: str) -> str:
    """Elements lose their tags. A lone `<name>` may be a placeholder or a type, and stays."""
    if "<" not in text:
        return text
    closed = {found["name"].casefold() for found in _CLOSING.finditer(text)}

    def replaced(tag: re.Match[str]) -> str:
        name = tag["name"].casefold()
        if name == "img":
            return "[image]"
        is_markup = name in closed or "=" in tag["attributes"] or tag[0].endswith("/>")
        return "" if is_markup else tag[0]

    return _CLOSING.sub("", _ELEMENT.sub(replaced, text))


def _without_links(text: str) -> str:
    words = _IMAGE.sub(lambda image: f"{image['words']} [image]".strip(), text)
    return _LINK.sub(_told_link, words)


def _told_link(link: re.Match[str]) -> str:
    """The words of a link, and where it leads: a host, or a path."""
    target = link["target"].strip()
    host = _HOST.match(target)
    place = ""
    if host:
        place = host["host"]
    elif _PATH.fullmatch(target):
        place = target
    return f"{link['words']} ({place})" if place else link["words"]


def _without_tokens(text: str) -> str:
    """Tokens are known in any width; all angle brackets that look like tags become other ones."""
    bare = _spans_replaced(text, _TOKEN, _GONE)
    bare = _spans_replaced(bare, _ARRAY, r"‹\g<items>›")
    bare = _spans_replaced(bare, _BRACKETED, r"(\g<name>)")
    shown = list(bare)
    closing = -1
    narrow = characters.narrowed(bare)
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


def _spans_replaced(text: str, pattern: re.Pattern[str], by: str) -> str:
    """`pattern` is looked for in the text's plainest form, and replaced where it stands."""
    narrow = characters.narrowed(text)
    kept: list[str] = []
    position = 0
    for found in pattern.finditer(narrow):
        kept += [text[position : found.start()], found.expand(by)]
        position = found.end()
    return "".join([*kept, text[position:]])


def _without_marks(line: str) -> str:
    """Headings, fences of prompts, and our own wording."""
    bare = _LINE_MARKS.sub(lambda marks: _HEADING.sub("", marks[0]), line)
    bare = _NOTE.sub("information", _OURS.sub("(", bare))
    bare = _FENCE.sub(_GONE, bare)
    # What is left of nested links: a blank between its parts, and it is no link any more.
    bare = bare.replace("](", "] (").replace("![", "! [")
    return _DEFINITION.sub(r"\g<label> :", bare)


def _coded(line: str) -> str:
    """One line, its code marks in pairs, and each address inside such a pair."""
    line = _ESCAPED_MARK.sub(r"\\ ", _CODE_MARKS.sub("`", line))
    if "://" not in line and "www." not in line.casefold() and "`" not in line:
        return line
    parts = line.split("`")
    if len(parts) % 2 == 0:  # the last mark has no other
        last = parts.pop()
        parts[-1] = f"{parts[-1]}'{last}"
    return _ESCAPED_MARK.sub(r"\\ ", "`".join(_parts_coded(parts)))


def _parts_coded(parts: list[str]) -> Iterator[str]:
    """Each second part stands between code marks; two marks side by side would be another mark."""
    last = len(parts) - 1
    for place, part in enumerate(parts):
        if place % 2:
            # What is code already stays as it is, an address in it too.
            yield part
            continue
        coded = _ADDRESS.sub(_address_coded, part)
        before = " " if place and coded.startswith("`") else ""
        after = " " if place < last and coded.endswith("`") else ""
        yield f"{before}{coded}{after}"


def _address_coded(address: re.Match[str]) -> str:
    bare = address[0].rstrip(_BEHIND_ADDRESS)
    return f"`{bare}`{address[0][len(bare) :]}"
