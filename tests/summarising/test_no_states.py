"""What is no state does not become one: copies of the prompt, and words of a summariser about itself or its task."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources

import pytest

from service.summarising import gate, prompt, summarise
from service.summarising.gate import SourceEvidence
from service.summarising.memory import Kind, Memory, Pin
from service.summarising.prompt import Prompt
from service.summarising.summarise import Material, StepRead
from service.summarising.wordings import LANGUAGES
from tests.pure.talks import ROOMY, said, written

RESULT = "\n".join(f"{number},pump {number},{number * 7}" for number in range(60))
CHAT = [
    said("Move the invoices of the old system to the archive. The budget must never exceed 500 EUR.\n" * 4),
    said("I look for the invoices in the old system, and then I move them.", "assistant", "m2", RESULT),
    said("Fine. Who pays for the archive? The office in Oslo has not answered yet.\n" * 6, identity="m3"),
    said("Nora pays for it, and she waits for the invoices.\n" * 8, "assistant", "m4"),
]
MEMORY = Memory(
    state=("## Goal", "The invoices of the old system move to the archive."),
    pins=(Pin(1, Kind.RULE, "The budget must never exceed 500 EUR.", "m0", utterance="1.2"),),
    heard=2,
    told=2,
)


def material(language: str = "en", memory: Memory = MEMORY) -> Material:
    read = summarise.gather(memory, [StepRead(step) for step in CHAT], ROOMY)
    return replace(read, reading=replace(read.reading, language=language))


# ---- parrots

PARROTS: dict[str, Callable[[Prompt], str]] = {
    "the first 1,000 characters": lambda one: f"{one.system}\n{one.user}"[:1000],
    "the first 3,000 characters": lambda one: f"{one.system}\n{one.user}"[:3000],
    "the first 6,000 characters": lambda one: f"{one.system}\n{one.user}"[:6000],
    "all of it": lambda one: f"{one.system}\n{one.user}",
    "what it is told": lambda one: one.system,
    "what it is shown": lambda one: one.user,
    "the end": lambda one: one.user[-2000:],
    "what was said, without the fence": lambda one: "\n".join(one.user.split("===")[-3].splitlines()[1:]),
    "the numbered sentences": lambda one: "\n".join(line for line in one.user.splitlines() if line.startswith("[")),
    "a state below what it is told": lambda one: f"{one.system}\n## Goal\nMove the invoices.",
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("parrot", PARROTS)
def test_a_copy_of_the_prompt_is_refused(parrot: str, language: str) -> None:
    read = material(language)
    candidate = written(read, PARROTS[parrot](prompt.build(read.reading)))
    assert (candidate.verdict.outcome, candidate.verdict.kinds) == ("rejected", ("copy",))
    assert (candidate.memory.state, candidate.memory.pins) == (MEMORY.state, MEMORY.pins)


def test_what_the_chat_says_without_our_marks_may_be_repeated_and_so_may_the_last_state() -> None:
    lines = [*MEMORY.state, "## Result, as it stands", *RESULT.splitlines(), "## Said", CHAT[3].text.splitlines()[0]]
    candidate = written(material(), "\n".join(lines))
    assert candidate.verdict.outcome == "accepted"
    assert candidate.memory.state == tuple(lines)


# ---- a summariser that speaks of itself

MARKS = tomllib.loads(resources.files("service.summarising").joinpath("gate.toml").read_text("utf-8"))
OF_ITSELF = {language: [mark["example"] for mark in MARKS[f"of_itself_{language}"]] for language in LANGUAGES}
PLACES = ("{}", "## Note\n{}", "- {}", "rules: 1.1\n{}")


def in_language(language: str, covered: Sequence[str] = ()) -> Material:
    return replace(material(language), language=language, sources=tuple(covered))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reply_that_speaks_of_itself_is_refused_in_each_language(language: str, place: str) -> None:
    for words in OF_ITSELF[language]:
        candidate = written(in_language(language), place.format(words))
        assert candidate.verdict.outcome == "rejected", words
        assert candidate.verdict.kinds[0] in ("of_itself", "refusal"), words
        assert candidate.memory.pins == MEMORY.pins


def test_such_a_line_beside_a_state_is_cut_and_told() -> None:
    state = "## Goal\n" + "The invoices of the old system move to the archive, and Nora pays for it.\n" * 2
    state += "## Open\n" + "The office in Oslo has not answered yet, and nobody knows who pays for the archive. " * 10
    candidate = written(material(), f"{OF_ITSELF['en'][0]}\n{state}")
    assert candidate.memory.state[0] == "## Goal"
    assert candidate.verdict.outcome == "trimmed"
    assert [one.line for one in candidate.verdict.dropped] == [OF_ITSELF["en"][0]]


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "Nora asked the assistant to follow the instructions; it refused."),
        ("en", "The user wrote: “I will not follow it, you want to manipulate me.”"),
        ("en", "- Summary of the report: I. Pumps, II. Valves."),
        ("de", "Der Nutzer meint, das Protokoll sei falsch und die Anweisung unklar."),
        ("fr", "L'utilisateur veut le résumé de la conversation avec Nora."),
        ("es", "El usuario confirme el registro; sigue las instrucciones de su médico."),
        ("it", "I record dei clienti sono conformi alle istruzioni."),
        ("ru", "Пользователь просил протокол собрания и указания для жильцов."),
        ("zh", "我们的会议记录由用户整理。"),
        ("ja", "私立学校の記録は復元できません。"),
    ],
)
def test_what_is_said_of_others_is_no_word_of_the_summariser(language: str, line: str) -> None:
    kept, dropped, _ = gate.verify_state([line], SourceEvidence([line.replace("“", "").replace("”", "")], language))
    assert (kept, dropped) == ((line,), ())
    alone = gate.verify_state([line], SourceEvidence([], language)).dropped
    assert not [one for one in alone if "itself" in one.reason]


def test_a_draft_in_the_first_person_that_the_chat_has_stands() -> None:
    draft = "I ask you to follow these instructions, and to send me the record of our conversation."
    assert gate.verify_state([draft], SourceEvidence([f"Write this: {draft}"], "en")).kept == (draft,)
