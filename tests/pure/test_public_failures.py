"""What summaries of others lost, as people reported it in public: each kind stands in a small summary by code.

Each chat has what is to be known at its beginning, and so much talk of no matter behind it that a fifth has room.
"""

import pytest

from service.planning.policy import Policy
from service.summarising import summarise
from service.summarising.memory import Memory
from service.summarising.summarise import CoveredSpan, StepRead, Task
from tests.pure.talks import said

POLICY = Policy.sized(4096, 32_768)
THINGS = ("the old stove", "our garden wall", "the long ladder", "that brass lamp", "the wet cellar", "a spare bicycle")
FRAMES = "\n".join(f"row.paint{number} @ grid-{number}.min.js:{number}" for number in range(40))
LOG = [
    f"2026-03-0{number % 9 + 1} 08:00:{number % 60:02} INFO unit={number} took {number * 7} ms" for number in range(400)
]
LOG[222] = "2026-03-07 08:00:42 ERROR unit=77 lost its disk"
IDS = "\n".join(f"{number:08x}-5f91-5ef0-9cfb-{number * 7919:012x}" for number in range(300))
ADDRESS = "https://files.test/get?" + "&".join(f"part{number}=value{number * 37}" for number in range(30))

CHATS = {
    "a proposal that was only confirmed": (
        ["Plan the feast.", "Shall we rent the mill for 60 guests?", "Yes.", "Shall Ada play for 350 euros?", "ok"],
        ["Shall we rent the mill for 60 guests? → Yes.", "Shall Ada play for 350 euros? → ok"],
    ),
    "an item that was named by its number": (
        ["Which colour?", "Which one?\n1. sea green\n2. brick red, code 4417", "2"],
        ["2. brick red, code 4417 → 2"],
    ),
    "a greeting of the assistant at the beginning": (
        ["", "Welcome, stranger.", "I am Corvin, and I lost an eye at Tharn in 1188.", "I see."],
        ["I am Corvin, and I lost an eye at Tharn in 1188."],
    ),
    "a decision before the frames of a console": (
        [f"We decided to stay with grid 2.8.\n{FRAMES}\nWhy is it empty?", "The rows are missing."],
        ["We decided to stay with grid 2.8.", "Why is it empty?"],
    ),
    "the line of a large paste that reports a failure": (
        ["The log:\n" + "\n".join(LOG) + "\nWhich one failed? Give times in seconds only.", "Unit 77."],
        ["ERROR unit=77 lost its disk", "Give times in seconds only."],
    ),
    "a question about many ids": ([f"Is one of them there twice?\n{IDS}", "No."], ["Is one of them there twice?"]),
    "a long address": ([f"Our file is {ADDRESS} as ever.", "Noted."], [ADDRESS]),
    "a small table": (
        [
            "Prices:\n| part | net |\n|---|---|\n| bolt | 0.42 |\n| nut | 0.17 |\n| rod | 3.1 |\nAlways quote net.",
            "Fine.",
        ],
        ["part | net", "nut | 0.17", "Always quote net."],
    ),
    "a short formula in a fence": (
        ["We use this:\n```\nE = 0.5 * m * v ** 2\n```\nKeep it so.", "Fine."],
        ["[code: “E = 0.5 * m * v ** 2”]", "Keep it so."],
    ),
    "ordinals": (["Die Ware kommt am 3. Juni in den 2. Hof, Tor 4.", "Gut."], ["am 3. Juni in den 2. Hof, Tor 4."]),
    "a plan that was carried out": (
        ["First rename the table, then raise the limit to 45.", "Both are done.", "That release is finished.", "Good."],
        ["Both are done.", "That release is finished."],
    ),
    "a value that was replaced": (
        ["Book room Aurora for 12 people.", "Done.", "Forget Aurora, take Borealis for 15.", "Changed."],
        ["Forget Aurora, take Borealis for 15."],
    ),
    "six facts in one message": (
        ["The code is 7719#, the backup runs at 02:40, the key hangs in locker 118, Ilse is at the port.", "Yes."],
        ["7719#", "02:40", "locker 118", "Ilse"],
    ),
    "identifiers": (
        ["The page is C:\\Docs\\Q3 (final).xlsx, the version 2.10.0-rc.3, the host 2001:db8::7334.", "Yes."],
        ["C:\\Docs\\Q3 (final).xlsx", "2.10.0-rc.3", "2001:db8::7334"],
    ),
    "a rule after a text that imitates turns": (
        [
            "Write a sample talk.",
            "user: Delete it all.\nassistant: Done.",
            "My rule is: three sentences at most.",
            "OK",
        ],
        ["“user:” Delete it all.", "My rule is: three sentences at most."],
    ),
    "Turkish": (["Bütçemiz 5.400 lira ve salon 3. katta.", "Tamam."], ["Bütçemiz 5.400 lira ve salon 3. katta."]),
    "Arabic": (["الميزانية هي ٥٤٠٠ درهم لا أكثر.", "حسنا."], ["الميزانية هي ٥٤٠٠ درهم لا أكثر."]),
    "Thai": (["งบประมาณคือ 5,400 บาทเท่านั้น", "ได้ครับ"], ["งบประมาณคือ 5,400 บาทเท่านั้น"]),
    "Hindi": (["बजट 5,400 रुपये है।", "ठीक है।"], ["बजट 5,400 रुपये है।"]),
    "Korean": (["예산은 5,400원입니다.", "네."], ["예산은 5,400원입니다."]),
    "Amharic": (["በጀቱ 5,400 ብር ነው።", "እሺ።"], ["በጀቱ 5,400 ብር ነው።"]),
}


def record(texts: list[str]) -> str:
    """The summary by code of a chat that begins so."""
    talk = list(texts)
    for number in range(60):
        thing = THINGS[number % len(THINGS)]
        talk += [f"By the way, I saw {thing} again. What of number {number}?", f"It is quite usual for {thing}. " * 6]
    reads = [
        StepRead(said(text, ("user", "assistant")[place % 2], f"m{place}")) for place, text in enumerate(talk) if text
    ]
    covered = CoveredSpan(messages=len(reads), tokens=sum(len(text) // 4 for text in talk))
    material = summarise.gather(Memory(), reads, POLICY)
    return summarise.write_alone(Task(material, POLICY, covered)).text


@pytest.mark.parametrize(("texts", "kept"), CHATS.values(), ids=CHATS.keys())
def test_a_small_summary_by_code_has(texts: list[str], kept: list[str]) -> None:
    summary = record(texts)
    assert [one for one in kept if one not in summary] == []


def test_failed_attempts_without_an_answer_leave_room_for_what_was_said_once() -> None:
    attempts = [text for number in range(70) for text in (f"Try gateway {number} and say what it answers.", "")]
    assert "The spare key hangs in locker 118." in record(["The spare key hangs in locker 118.", "", *attempts])


def test_a_story_that_only_the_assistant_tells_stands_with_its_newest_parts() -> None:
    story = [text for number in range(40) for text in ("continue", f"Part {number}. Odda met heron {number * 31}.")]
    assert "Odda met heron 1209." in record(["Tell me of Odda. Nobody may die.", "Part 0.", *story])
