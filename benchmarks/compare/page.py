"""docs/comparison.md, whole, from what a run found. No figure on it is written by hand.

In: the object that a run writes. Out: the page and its plot.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only, no window; before pyplot is imported

from matplotlib import pyplot

Json = dict[str, Any]
_WAITED = 1.5  # seconds; the summariser thinks for two
_HEADS = (
    "",
    "alive, mean of turns",
    "last turn",
    "alive or found",
    "constraints",
    "tool values that nobody used",
    "tool values alive or found",
    "malformed",
    "branch leaks",
    "stale edits",
    "over the window",
    "turns that waited",
    "summariser calls",
    "tokens that it read for each of the chat",
    "begins like the request before",
)
_HEADS_BY_WINDOW = (
    "",
    "window",
    "turns",
    "alive, mean of turns",
    "begins like the request before",
    "with the same summary",
    "with a new one",
    "new ones",
    "tokens read for each of the chat",
)
_PAGE = """\
# Beside Open WebUI's own compaction

Open WebUI's own compaction is one switch. Both differ in this:

| | Open WebUI's | Precis |
|---|---|---|
| another service with a copy of the texts | no | yes |
| when a summary is written | before the answer | after it |
| tool calls | left out at the start of a turn | listed, with the values that were used |
| the summarising request | all compacted text in one prompt | sized to the summariser's window |
| an edited message below the boundary | not noticed | the summary is not used |
| a bad summary | stored | repaired once, then written by code |
| shows a summary, lets you correct it | no | yes |

The same scripted conversation of {turns} turns, with a native tool in every third, went through a real Open WebUI
{version}, with a window of {window:,} tokens. `./scripts/compare` writes this page:

{table}

![Alive by turn](images/comparison.png)

{items} items are planted, by kind: {kinds}.

- An item is **alive** in a turn if its words stand in the first request of that turn, outside the newest message. Of a
  corrected value only the correction counts.
- An item is **found** if [recall](howto/recall.md) gives it in two calls, in the last turn.
- Both have the same scripted summariser. It knows what is worth keeping, invents nothing and thinks for two seconds.
- A turn **waited** if the model was asked more than {waited} s after the user sent.
- One question is replaced by another (a branch). Later, an early message is edited, and a model reads all below it
  again. A request with the old question is a **branch leak**; one with the old message is a **stale edit**.

## What a cache keeps, and what summaries cost

The shares say how much of a request [begins like the one before](adr/0019-requests-begin-alike.md). The conversation
is the same, but without edits and without Open WebUI's own tools, which take 7,000 tokens.

{by_window}

These are single runs, so a point more or less says nothing. They do not show how a real summariser chooses.
"""


def write(found: Json, folder: Path) -> None:
    """The page and its plot, into the folder of documents."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    _draw(found, folder / "images" / "comparison.png")
    (folder / "comparison.md").write_text(text(found), encoding="utf-8")


def text(found: Json) -> str:
    """The page."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in found["kinds"].items())
    return _PAGE.format(
        turns=found["turns"],
        version=found["version"],
        window=found["window"],
        table=table(found),
        by_window=table_by_window(found),
        items=sum(found["kinds"].values()),
        kinds=kinds,
        waited=_WAITED,
    )


def table(found: Json) -> str:
    """The table of the whole comparison: one column for each variant."""
    columns = [_HEADS, *map(_row, found["variants"])]
    return _markdown(zip(*columns, strict=True))


def table_by_window(found: Json) -> str:
    """The table of what a cache keeps and what summaries cost."""
    return _markdown([_HEADS_BY_WINDOW, *map(_row_by_window, found["by_window"])])


def _markdown(rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, whose first row has the heads."""
    heads, *lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    rule = "|---" * (heads.count(" | ") + 1) + "|"
    return "\n".join([heads, rule, *lines])


def _row(one: Json) -> Sequence[object]:
    alive, held = one["alive"][-1]
    found = one["found"]
    return (
        one["name"],
        _mean_alive(one),
        f"{_said(alive)} of {_said(held)}",
        "–" if found is None else f"{_said(alive) + _said(found)} of {_said(held)}",
        f"{alive.count('constraint')} of {held.count('constraint')}",
        f"{alive.count('tool')} of {held.count('tool')}",
        "–" if found is None else f"{alive.count('tool') + found.count('tool')} of {held.count('tool')}",
        one["malformed"],
        one["leaks"],
        one["stale"],
        one["over"],
        sum(wait > _WAITED for wait in one["waits"]),
        one["calls"],
        _cost(one),
        _mean_share(one["beginnings"]),
    )


def _row_by_window(one: Json) -> Sequence[object]:
    beginnings = one["beginnings"]
    new = [found for found in beginnings if found["is_new"]]
    return (
        one["name"],
        f"{one['window']:,}",
        len(one["alive"]),
        _mean_alive(one),
        _mean_share(beginnings),
        _mean_share([found for found in beginnings if not found["is_new"]]),
        _mean_share(new),
        len(new),
        _cost(one),
    )


def _mean_alive(one: Json) -> str:
    shares = [share for share in map(_share, one["alive"]) if share is not None]
    return f"{sum(shares) / max(len(shares), 1):.1%}"


def _cost(one: Json) -> str:
    return f"{one['read'] / max(one['chat'], 1):.2f}"


def _mean_share(found: Sequence[Json]) -> str:
    """The mean share of requests that begins like the one before."""
    return f"{sum(one['share'] for one in found) / len(found):.0%}" if found else "–"


def _said(kinds: Sequence[str]) -> int:
    return len(kinds) - kinds.count("tool")


def _share(turn: Sequence[Sequence[str]]) -> float | None:
    alive, held = turn
    return _said(alive) / _said(held) if _said(held) else None


def _draw(found: Json, path: Path) -> None:
    shown, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    for one in found["variants"]:
        shares = [100 * share if (share := _share(turn)) is not None else float("nan") for turn in one["alive"]]
        style = "--" if one["own"] else "-"
        axes.plot(range(1, len(shares) + 1), shares, label=one["name"], linestyle=style)
    axes.set(xlabel="turn", ylabel="alive of what was said, %", ylim=(0, 102))
    axes.legend(fontsize="small")
    shown.savefig(path, dpi=100)
    pyplot.close(shown)
