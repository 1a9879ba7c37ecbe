"""The summariser that both ask: it knows what is worth keeping, invents nothing, and writes so many tokens at most.

To Open WebUI's prompt it answers with copied sentences. To the prompt of Precis it names rules by their numbers, and
copies what holds of the rest into the state; what finds no room there it quotes, by its number.
"""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks import pointing
from benchmarks.compare.scenario import Item, flat
from service.text import tokens

_RANKS = ("constraint", "decision", "preference", "value", "detail")
_RULES = ("constraint", "preference")
_KEPT = "### Recent Messages Kept In Context:"  # in Open WebUI's prompt: what stays anyway


class Honest:
    """What it read and wrote is counted."""

    def __init__(self, items: Sequence[Item], limit: int) -> None:
        said = [item for item in items if item.kind != "tool"]
        # The weightiest first, and of equals the newest: the order in which there is room.
        self._items = sorted(said, key=lambda item: (_RANKS.index(item.kind), -item.turn))
        self._limit = limit
        self.calls = self.read = self.wrote = 0

    def copied(self, prompt: str) -> str:
        """Sentences of a prompt, as they stand there."""
        known = self._holding(flat(prompt.partition(_KEPT)[0]))
        lines = [f"- {item.text}" for item in self._fitting(known, self._limit)]
        return self._counted(prompt, "\n".join(lines) or "- Nothing was decided so far.")

    def pointed(self, system: str, prompt: str) -> str:
        """Rules and a state for a prompt, and the numbers of what the state has no room for."""
        sentences = [(number, flat(text)) for number, text in pointing.sentences(prompt)]
        numbers = {item.text: number for item in self._items for number, text in sentences if item.text in text}
        known = self._holding(flat(prompt))
        rules = [numbers[item.text] for item in known if item.kind in _RULES and item.text in numbers]
        rest = [item for item in known if item.kind not in _RULES]
        told = self._fitting(rest, self._limit - 6 * len(rules) - 60)  # what stands around it
        quoted = [numbers[item.text] for item in rest if item not in told and item.text in numbers]
        state = {"Goal": ["Plan the refit of the halls."], "What holds": [item.text for item in told]}
        return self._counted(system + prompt, pointing.reply(state, rules, quoted, self._replaced(prompt, numbers)))

    def _replaced(self, prompt: str, numbers: Mapping[str, str]) -> Iterator[tuple[int, str]]:
        """The entries that a sentence of the prompt corrects, with its number."""
        entries = [(place, flat(text)) for place, text in pointing.entries(prompt)]
        for new in self._items:
            for old in self._items:
                corrects = old.until == new.turn and any(key in new.keys for key in old.keys)
                if corrects and new.text in numbers:
                    yield from ((place, numbers[new.text]) for place, text in entries if old.text in text)

    def _fitting(self, items: Sequence[Item], room: int) -> list[Item]:
        """Those that so many tokens have room for, the weightiest first."""
        fitting = []
        for item in items:
            cost = tokens.count(f"- {item.text}") + 1
            if cost <= room:
                room -= cost
                fitting.append(item)
        return fitting

    def _holding(self, text: str) -> list[Item]:
        found = [item for item in self._items if item.text in text]
        said = {(item.turn, key) for item in found for key in item.keys}
        return [item for item in found if item.until is None or not any((item.until, key) in said for key in item.keys)]

    def _counted(self, prompt: str, answer: str) -> str:
        self.calls += 1
        self.read += tokens.count(prompt)
        self.wrote += tokens.count(answer)
        return answer
