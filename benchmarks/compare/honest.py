"""The summariser that both ask: it knows what is worth keeping, invents nothing, and writes so many tokens at most.

To Open WebUI's prompt it answers with copied sentences, to the prompt of Precis with their numbers.
"""

from collections.abc import Sequence

from benchmarks import pointing
from benchmarks.compare.scenario import Item, flat
from service.text import tokens

_RANKS = ("constraint", "decision", "preference", "value", "detail")
_KINDS = {"detail": "fact"}
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
        lines, room = [], self._limit
        for item in known:
            line = f"- {item.text}"
            if (cost := tokens.count(line) + 1) <= room:
                room -= cost
                lines.append(line)
        return self._counted(prompt, "\n".join(lines) or "- Nothing was decided so far.")

    def pointed(self, system: str, prompt: str) -> str:
        """Numbers of the sentences of a prompt."""
        sentences = [(number, flat(text)) for number, text in pointing.sentences(prompt)]
        entries = [(number, flat(text)) for number, text in pointing.entries(prompt)]
        keeps: dict[str, list[str]] = {}
        replaced: list[tuple[int, str]] = []
        room = self._limit - 60  # what stands around the numbers
        for item in self._items:
            number = next((one for one, text in sentences if item.text in text), None)
            if number is None or room < 6:
                continue
            room -= 6
            keeps.setdefault(_KINDS.get(item.kind, item.kind), []).append(number)
            olds = [one for one in self._items if one.until == item.turn and any(key in item.keys for key in one.keys)]
            replaced += [(place, number) for place, text in entries for old in olds if old.text in text]
        narrative = {"Goal": ["Plan the refit of the halls."], "Current state": ["The plan is talked through."]}
        return self._counted(system + prompt, pointing.reply(narrative, keeps, replaced))

    def _holding(self, text: str) -> list[Item]:
        found = [item for item in self._items if item.text in text]
        said = {(item.turn, key) for item in found for key in item.keys}
        return [item for item in found if item.until is None or not any((item.until, key) in said for key in item.keys)]

    def _counted(self, prompt: str, answer: str) -> str:
        self.calls += 1
        self.read += tokens.count(prompt)
        self.wrote += tokens.count(answer)
        return answer
