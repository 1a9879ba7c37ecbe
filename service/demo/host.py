"""A fake of the part of Open WebUI that a filter uses: chats, loading of a filter, hooks.

It keeps rows as Open WebUI's table has them, builds the native list as Open WebUI 0.12.4 does
(`transcript.unfold_messages`, tested against recordings), and calls the real filter file. Used by
the demonstration and by the tests.
"""

import copy
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from service.transcript import Native, Stored, unfold_messages

FILTER = Path(__file__).parents[2] / "filter_stub" / "precis_filter.py"

Rows = dict[str, Stored]


@dataclass
class Host:
    """Open WebUI's chats, and what a filter did with them.

    Attributes:
        chats: by id, each a tree of rows by message id.
        titles: of the chats, by id.
        statuses: the status lines that were emitted.
        version: of Open WebUI.
    """

    chats: dict[str, Rows] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    statuses: list[str] = field(default_factory=list)
    version: str = "0.12.4"

    async def emit(self, event: dict[str, Any]) -> None:
        """Open WebUI's event emitter; keeps the status lines."""
        self.statuses.append(event["data"]["description"])

    async def get_messages_map_by_chat_id(self, chat_id: str) -> Rows | None:
        """`Chats.get_messages_map_by_chat_id`: all rows of a chat, every branch."""
        # As from a database: what a filter does to its rows must not change ours.
        return copy.deepcopy(self.chats.get(chat_id))

    async def get_chat_title_by_id(self, chat_id: str) -> str | None:
        """`Chats.get_chat_title_by_id`."""
        return self.titles.get(chat_id)

    async def get_tool_by_id(self, _name: str) -> None:
        """`Tools.get_tool_by_id`: none is installed."""

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Makes `from open_webui.models.chats import Chats` and the like import this host."""
        inner = ("env", "models", "models.chats", "models.tools")
        names = ("open_webui", *(f"open_webui.{name}" for name in inner))
        modules = {name: ModuleType(name) for name in names}
        for ours in modules.values():
            vars(ours).update(VERSION=self.version, Chats=self, Tools=self)
        with replace_modules(modules):
            yield


@contextmanager
def replace_modules(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Puts these modules in the place of those of their names."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        # A real Open WebUI may be installed beside: its modules are put back.
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def load_filter(url: str, key: str, **valves: object) -> Any:  # noqa: ANN401 - of no known class
    """The filter as Open WebUI loads it: the file executed in a new module, then its valves set."""
    module = ModuleType("function_precis")
    # As Open WebUI does with the text of a function; this one is ours.
    exec(compile(FILTER.read_text(), str(FILTER), "exec"), module.__dict__)  # noqa: S102
    loaded = module.__dict__["Filter"]()
    loaded.valves = loaded.Valves(service_url=url, api_key=key, **valves)
    return loaded


async def pass_hooks(loaded: Any, body: dict[str, Any], **given: object) -> None:  # noqa: ANN401
    """Passes a request through both hooks, in their order, before the model is called."""
    assert await loaded.inlet(body, **given) is body
    assert await loaded.request(body, **given) is body


def list_path(rows: Mapping[str, Stored], leaf: str) -> list[Stored]:
    """The rows from the root to `leaf`."""
    found: list[Stored] = []
    here: str | None = leaf
    while here is not None:
        found.append(rows[here])
        here = rows[here].get("parentId")
    return found[::-1]


def make_inlet_body(
    rows: Mapping[str, Stored], user_message: str, *, chat: str, model: str, system: str = ""
) -> dict[str, Any]:
    """The body that `inlet` gets for the turn that this user message opens."""
    first: list[Native] = [{"role": "system", "content": system}] if system else []
    metadata = {"user_id": "user-1", "chat_id": chat, "regeneration_message_id": None}
    return {
        "stream": True,
        "model": model,
        "metadata": metadata,
        "messages": [*first, *unfold_messages(list_path(rows, user_message))],
    }


def make_outlet_body(
    rows: Mapping[str, Stored], answer: str, *, chat: str, model: str
) -> dict[str, Any]:
    """The body that `outlet` gets after this answer: the whole branch, folded, with ids."""
    messages = [_make_outlet_message(row) for row in list_path(rows, answer)]
    return {"model": model, "messages": messages, "chat_id": chat, "id": answer, "filter_ids": []}


def _make_outlet_message(row: Stored) -> Stored:
    message = {name: row.get(name) for name in ("id", "role", "content", "timestamp")}
    for key in ("output", "usage"):
        if row.get(key):
            message[key] = copy.deepcopy(row[key])  # a filter may change what it gets
    return message
