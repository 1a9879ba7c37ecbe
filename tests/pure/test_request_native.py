"""The nodes of a request: which requests begin alike, and what an id is made of."""

import json
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.processes.intake import RawMessage, parse_messages
from service.request import native
from service.request.native import Node
from service.storage import codec
from service.transcript import Native, Stored, read_text, unfold_messages
from service.transcript.native import TOOL_IMAGES
from tests.builders import Capture, Hook, capture, scenarios
from tests.effort import examples


def path_of(messages: Sequence[Native], begin: int = 0, end: int | None = None) -> list[Node]:
    prints = [native.hash_message(one) for one in messages]
    return native.cut_path(messages, prints, begin, len(messages) if end is None else end)


def ids_of(messages: Sequence[Native]) -> list[str]:
    return [node.id for node in path_of(messages)]


# ---- recorded requests: what the host has not changed is found again

# By capture, hook and the place of the question whose path is another one than before.
REALLY_CHANGED = {
    ("e2_edit_in_place", "017_request", 2): "an answer was edited in place",
    ("o_replace_messages", "047_request", 3): "a filter replaces the history",
    ("o_replace_messages", "051_request", 7): "a filter replaces the history",
    ("o_replace_messages", "051_request", 11): "a filter replaces the history",
}


def requests(recorded: Capture) -> list[Hook]:
    """What a filter sees before the model is asked: the hook `request`, and `inlet` where there is no such hook."""
    kind = "request" if recorded.of("request") else "inlet"
    return recorded.of(kind)


def prefixes(recorded: Capture, hook: Hook) -> Iterator[tuple[object, int, str]]:
    """Of each question of a request: what the host says stands above it, its place, and the id of the node above."""
    messages = hook.messages
    prints = [native.hash_message(one) for one in messages]
    outline = native.outline_request(messages, prints, guided=bool(hook.metadata.get("regeneration_message_id")))
    rows = recorded.path(hook.chat_id, hook.metadata.get("user_message_id"))
    asked = [place for place, row in enumerate(rows) if row["role"] == "user"]
    ends = [place for place in range(len(messages)) if messages[place]["role"] == "user" and prints[place]]
    ends = [place for place in ends if outline.head < place <= outline.newest]
    for back, end in enumerate(reversed(ends), 1):
        nodes = native.cut_path(messages, prints, outline.head, end)
        if not nodes:
            continue
        if back <= len(asked):
            above: object = tuple(row["id"] for row in rows[: asked[-back]])
        else:
            above = tuple(read_text(one) for one in messages[outline.head : end] if one["role"] == "user")
        yield (hook.chat_id, above), end, nodes[-1].id


def test_a_recorded_request_begins_as_the_one_before_unless_its_host_changed_that() -> None:
    expected, changed = 0, set()
    for name in scenarios():
        recorded = capture(name)
        seen: dict[object, set[str]] = {}
        for hook in requests(recorded):
            for above, place, found in list(prefixes(recorded, hook)):
                if above in seen:
                    expected += 1
                    if found not in seen[above]:
                        changed.add((name, hook.name, place))
                seen.setdefault(above, set()).add(found)

    assert expected == 167
    assert changed == set(REALLY_CHANGED)


# ---- what an id is made of

CALL = {"id": "c", "type": "function", "function": {"name": "query", "arguments": '{"q": 1}'}}
ASKED: Native = {"role": "user", "content": "Which pump?"}
CALLED: Native = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
RESULT: Native = {"role": "tool", "tool_call_id": "c", "content": "P-7"}
SAID: Native = {"role": "assistant", "content": "Pump P-7."}
TALK = [ASKED, CALLED, RESULT, SAID]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
PARTS = [{"type": "text", "text": "Which pump?"}, PICTURE, {"type": "image_url"}]
TAG = '<attached_files>\n<file type="file" url="9" name="a.pdf"/>\n</attached_files>\n\n'
EMPTY: Native = {"role": "assistant", "content": ""}
IMAGES: Native = {"role": "user", "content": [{"type": "text", "text": f"{TOOL_IMAGES} Look."}, PICTURE]}


def _of_call(**changed: str) -> Native:
    return CALLED | {"tool_calls": [CALL | {"function": CALL["function"] | changed}]}  # type: ignore[operator]


@pytest.mark.parametrize(
    ("messages", "is_same"),
    [
        pytest.param([ASKED | {"content": PARTS}, CALLED, RESULT, SAID], True, id="pictures"),
        pytest.param([ASKED, CALLED | {"reasoning_content": "h"}, RESULT, SAID | {"reasoning": "h"}], True, id="think"),
        pytest.param([ASKED | {"content": TAG + "Which pump?"}, CALLED, RESULT, SAID], True, id="attached files"),
        pytest.param([EMPTY, ASKED, EMPTY, CALLED, RESULT, SAID, EMPTY], True, id="empty answers"),
        pytest.param([ASKED, CALLED, RESULT, IMAGES, SAID], True, id="images of tools"),
        pytest.param([ASKED | {"timestamp": 7}, CALLED, RESULT | {"name": "query"}, SAID], True, id="own fields"),
        pytest.param([ASKED | {"content": "Which pump? "}, CALLED, RESULT, SAID], False, id="a space"),
        pytest.param([ASKED | {"role": "system"}, CALLED, RESULT, SAID], False, id="a role"),
        pytest.param([ASKED, SAID], False, id="no call"),
        pytest.param([ASKED, _of_call(name="other"), RESULT, SAID], False, id="the name of a call"),
        pytest.param([ASKED, _of_call(arguments='{"q": 2}'), RESULT, SAID], False, id="the arguments of a call"),
        pytest.param([ASKED, CALLED, RESULT | {"content": "P-8"}, SAID], False, id="a result"),
        pytest.param([ASKED, CALLED, RESULT | {"tool_call_id": "d"}, SAID], False, id="the call of a result"),
        pytest.param([ASKED, CALLED, RESULT, SAID, SAID], False, id="a text twice"),
        pytest.param([ASKED, CALLED, SAID, RESULT], False, id="the order"),
        pytest.param([ASKED, CALLED, RESULT, ASKED, SAID], False, id="a question in between"),
        pytest.param([ASKED, CALLED, RESULT, ASKED | {"content": [PICTURE]}, SAID], False, id="only a picture"),
        pytest.param([ASKED, CALLED, RESULT, IMAGES | {"role": "assistant"}, SAID], False, id="words about images"),
        pytest.param([ASKED | {"content": f"Which pump?\n{TAG}"}, CALLED, RESULT, SAID], False, id="a tag behind"),
        pytest.param([ASKED, CALLED, RESULT, SAID | {"content": f"{TAG}Pump P-7."}], False, id="a tag in an answer"),
        pytest.param([SAID, ASKED, CALLED, RESULT, SAID], False, id="something above"),
    ],
)
def test_an_id_is_made_of_what_is_said_and_of_nothing_that_hosts_add(messages: list[Native], is_same: bool) -> None:
    assert (ids_of(messages)[-1] == ids_of(TALK)[-1]) is is_same
    assert not is_same or len(ids_of(messages)) == 2


def test_how_many_calls_stand_in_one_message_is_no_part_of_an_id() -> None:
    """Open WebUI 0.11 puts all calls into one that no text parts; 0.12 has a message for each."""
    second = CALL | {"id": "d"}
    called: Native = {"role": "assistant", "content": "", "tool_calls": [second]}
    result = RESULT | {"tool_call_id": "d"}
    one_by_one = [ASKED, CALLED, RESULT, called, result, SAID]
    together = [ASKED, CALLED | {"tool_calls": [CALL, second]}, RESULT, result, SAID]

    assert ids_of(together) == ids_of(one_by_one)


@pytest.mark.parametrize("rest", ["what does that mean?", "\n<b>1</b></attached_files>\n\nWhich pump?"])
def test_a_question_that_only_begins_like_a_list_of_files_is_read_whole(rest: str) -> None:
    asked: list[Native] = [{"role": "user", "content": f"<attached_files>{rest}"}]

    assert ids_of(asked) != ids_of([ASKED])
    assert ids_of(asked) != ids_of([{"role": "user", "content": "<attached_files>"}])
    assert native.make_stored(asked, path_of(asked)[0])["content"] == asked[0]["content"]


# ---- generated requests

WORDS = st.sampled_from(["", "a", "ab", "\x1f", "a\x1f", "\x1fa", "\x1ea", "[]", "None", "\ud800"])
CALLS = st.lists(
    st.fixed_dictionaries({"id": WORDS, "function": st.fixed_dictionaries({"name": WORDS, "arguments": WORDS})}),
    max_size=2,
)
MESSAGES = st.one_of(
    st.fixed_dictionaries({"role": st.just("user"), "content": WORDS}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": WORDS}, optional={"tool_calls": CALLS}),
    st.fixed_dictionaries({"role": st.just("tool"), "content": WORDS, "tool_call_id": WORDS}),
    st.fixed_dictionaries({"role": st.just("system"), "content": WORDS}),
)
CHATS = st.lists(MESSAGES, max_size=6)


def what_counts(messages: Sequence[Native]) -> str:
    """All that is said in a list without pictures and tags, message by message."""
    said = [one for one in messages if one["role"] != "assistant" or one["content"] or one.get("tool_calls")]
    names = "role", "content", "tool_call_id", "tool_calls"
    return repr([[one.get(name) or "" for name in names] for one in said])


def _result(text: str, call: str) -> list[Native]:
    return [{"role": "tool", "content": text, "tool_call_id": call}]


@given(CHATS, CHATS)
@example(_result("a\x1fb", ""), _result("a", "b\x1f"))
@settings(max_examples=examples(400))
def test_two_conversations_never_have_the_same_id(one: list[Native], other: list[Native]) -> None:
    mine, theirs = ids_of(one), ids_of(other)
    if what_counts(one) == what_counts(other):
        assert mine == theirs
    elif mine and theirs:
        assert mine[-1] != theirs[-1]


@given(CHATS)
@settings(max_examples=examples(200))
def test_nodes_are_a_path_each_of_which_begins_where_no_other_one_is(messages: list[Native]) -> None:
    nodes = path_of(messages)

    places = [place for node in nodes for place in (node.begin, node.end)]
    assert places == sorted(places)
    assert len({node.id for node in nodes}) == len(nodes)
    for number, node in enumerate(nodes):
        assert ids_of(messages[: node.end]) == [one.id for one in nodes[: number + 1]]


@given(CHATS, st.booleans())
@settings(max_examples=examples(300))
def test_the_newest_question_and_what_follows_it_is_no_part_of_a_path(messages: list[Native], guided: bool) -> None:
    prints = [native.hash_message(one) for one in messages]
    found = native.outline_request(messages, prints, guided=guided)

    questions = [place for place, one in enumerate(messages) if one["role"] == "user" and prints[place]]
    answered = questions[-2:-1] if guided and len(questions) > 1 else questions[-1:]
    assert found.newest == (answered[0] if answered else len(messages))
    assert all(one["role"] == "system" for one in messages[: found.head])
    assert found.starts[0] == found.head
    assert list(found.starts) == sorted(set(found.starts))
    assert all(messages[place]["role"] == "user" and place < found.newest for place in found.starts[1:])
    for begin in found.starts:
        assert all(node.end <= found.newest for node in native.cut_path(messages, prints, begin, found.newest))


# ---- stored and back


def again(messages: list[Native]) -> list[Native]:
    """What the model would be sent for what is stored of each node."""
    made: list[Native] = []
    for node in path_of(messages):
        packed = msgspec.json.encode(native.make_stored(messages, node))
        (weighed,) = parse_messages([RawMessage(packed)], mask_secrets=False)
        stored: Stored = codec.unpack(weighed.body)
        made += unfold_messages([stored])
    return made


IDS = st.sampled_from(["c1", "c2", "call-abc"])
PLAIN = st.sampled_from(
    ["Yes.", "Look at P-7.", "Zwei Zeilen\n\nhier", "<details>no fold</details>", "7", "  indented"]
)


@st.composite
def answers(draw: st.DrawFn) -> list[Native]:
    """An answer as Open WebUI sends it: some calls, each with its result, and a text."""
    messages: list[Native] = []
    for _ in range(draw(st.integers(0, 2))):
        ids = draw(st.lists(IDS, min_size=1, max_size=2, unique=True))
        calls = [
            {"id": one, "type": "function", "function": {"name": "query", "arguments": json.dumps({"q": draw(PLAIN)})}}
            for one in ids
        ]
        messages.append({"role": "assistant", "content": draw(PLAIN | st.just("")), "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": one, "content": draw(PLAIN | st.just(""))} for one in ids]
    if not messages or draw(st.booleans()):
        messages.append({"role": "assistant", "content": draw(PLAIN)})
    return messages


@st.composite
def talks(draw: st.DrawFn) -> list[Native]:
    """A list as Open WebUI sends it, without system messages."""
    messages: list[Native] = []
    for _ in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": draw(PLAIN)})
        messages += draw(answers())
    return messages


@given(talks())
@settings(max_examples=examples(200))
def test_what_is_stored_of_a_node_has_its_id_again(messages: list[Native]) -> None:
    assert ids_of(again(messages)) == ids_of(messages)


@pytest.mark.parametrize("scenario", scenarios())
def test_what_is_stored_of_a_recorded_request_has_the_same_ids_again(scenario: str) -> None:
    for hook in requests(capture(scenario)):
        prints = [native.hash_message(one) for one in hook.messages]
        outline = native.outline_request(hook.messages, prints)
        messages = hook.messages[outline.head : outline.newest]  # what may be stored
        assert ids_of(again(messages)) == ids_of(messages), hook.name
