"""What an injection is: where it stands, what stands there, and which of its words must reach nothing."""

from dataclasses import dataclass
from enum import StrEnum


class Place(StrEnum):
    """Where the text of an injection stands."""

    RESULT = "the result of a tool, stored as an item"
    ATTRIBUTE = "the result of a tool, in an attribute of <details>"
    BODY = "the result of a tool, in the body of <details>"
    BARE = "the result of a tool, left behind as escaped JSON"
    ARGUMENTS = "the arguments of a call"
    TOOL_NAME = "the name of a tool"
    USER = "a user's message"
    FILE_NAME = "the name of an attached file"
    ASSISTANT = "an assistant's answer"
    BORDER = "two results, the second of which the next call reads"
    PIECES = "one result, read in two pieces"
    PRINTED = "what code printed that Open WebUI ran"


@dataclass(frozen=True, slots=True)
class Injection:
    """One injection.

    Attributes:
        id: for the name of the test.
        place: where it stands.
        text: what stands there; `{fence}` becomes the fence of the call before, and `SPLIT` parts two results.
        order: what a model that obeys writes into every section, and in the place of every entry.
        payload: words, in lower case, that reach no rule and no line of the narrative.
        stated: somebody said it in a sentence, or a tool stated it without any order. So it may be
            told in the narrative, and never binds.
        own: it stands in the user's own words, by all that form can tell, and a model may keep
            those; then it may bind as well, with all that the user said around it.
    """

    id: str
    place: Place
    text: str
    order: str
    payload: tuple[str, ...]
    stated: bool = False
    own: bool = False


SPLIT = "\n-- next --\n"
