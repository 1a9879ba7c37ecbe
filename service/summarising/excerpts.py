"""Steps → excerpts: the text that a summariser reads, calls and results together. Pure."""

from collections.abc import Iterable, Iterator

from service import tokens
from service.summarising.reading import Excerpt
from service.summarising.wording import line
from service.transcript import Step

_NAME = 200  # characters of a file's name


def excerpts(reads: Iterable[tuple[Step, int, int]]) -> Iterator[Excerpt]:
    """The excerpts of (step, piece, pieces), in order; `piece` counts from 0.

    A step that is read in pieces names its calls in every piece, so that no result is read without its call.
    """
    for step, piece, pieces in reads:
        if pieces == 1:
            yield from _whole(step)
            continue
        text = "\n\n".join(f"[{one.label}]\n{one.text}" for one in _whole(step))
        called = "".join(f", continues {c.call.name} {tokens.cut(c.call.arguments, 60)}" for c in step.calls)
        label = f"{step.role}, piece {piece + 1} of {pieces}{called if piece else ''}"
        yield Excerpt(label, tokens.pieces(text, pieces)[piece])


def _whole(step: Step) -> Iterator[Excerpt]:
    attached = "".join(
        f"\n[attached {'image' if a.image else 'file'}: {line(a.name, _NAME)}]" for a in step.attachments
    )
    if step.text or attached:
        yield Excerpt(step.role, (tokens.without_data(step.text) + attached).strip())
    for call in step.calls:
        yield Excerpt("tool call", f"{call.call.name} {call.call.arguments}")
        images = f"\n[{len(call.result.images)} images]" if call.result.images else ""
        yield Excerpt("tool result", tokens.without_data(call.result.text) + images)
