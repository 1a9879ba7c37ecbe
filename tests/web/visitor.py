"""An operator who has the pages without scripts: gets a page, and sends its forms as a browser would."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

import httpx
import lxml.html

from tests.conftest import Service

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@dataclass
class Form:
    """A form of a page, with what its fields hold."""

    method: str
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)


class Page:
    """An answer, as somebody reads it."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.status = response.status_code
        self.html = response.text

    @cached_property
    def _tree(self) -> Any:
        return lxml.html.fromstring(self.html or "<p></p>")

    @cached_property
    def forms(self) -> list[Form]:
        """Its forms, as they would be sent."""
        return [
            Form(one.get("method", "get"), one.get("action"), [(name, str(value)) for name, value in one.form_values()])
            for one in self._tree.forms
        ]

    @cached_property
    def links(self) -> list[str]:
        return [one.get("href") for one in self._tree.iter("a")]

    @cached_property
    def scripts(self) -> list[str]:
        return [one.get("src", "inline") for one in self._tree.iter("script")]

    @cached_property
    def labels(self) -> list[list[str]]:
        """The elements in each label: one beside the field would begin a new line."""
        return [[part.tag for part in one] for one in self._tree.iter("label")]

    @cached_property
    def text(self) -> str:
        """What is seen, with single spaces."""
        return " ".join(" ".join(self._tree.itertext(with_tail=True)).split())

    @property
    def leads_to(self) -> str:
        """Where the browser is sent."""
        return str(self.response.headers.get("location", ""))

    def form(self, action: str, **fields: str) -> Form:
        """The form that goes to `action` and has these fields."""
        for one in self.forms:
            if one.action == action and fields.items() <= dict(one.fields).items():
                return one
        raise AssertionError(f"no form to {action} with {fields} among {[one.action for one in self.forms]}")

    def posts(self) -> set[str]:
        """Where its forms that change something go."""
        return {one.action for one in self.forms if one.method == "post"}


class Visitor:
    """Somebody with a browser."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, **more: object) -> Page:
        return Page(await self.client.get(path, **more))  # type: ignore[arg-type]

    async def post(self, path: str, fields: list[tuple[str, str]], **headers: str) -> Page:
        """A form's fields, sent by a page of the service unless `headers` say otherwise."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = await self.client.post(path, content=urlencode(fields), headers=kind | (given or SAME_ORIGIN))
        return Page(sent)

    async def send(self, form: Form, *more: tuple[str, str]) -> Page:
        """A form as it stands, with more fields."""
        fields = [one for one in form.fields if one[0] not in dict(more)]
        return await self.post(form.action, [*fields, *more])

    async def sign_in(self, key: str, back: str = "/jobs") -> Page:
        return await self.post("/sign-in", [("key", key), ("back", back)])


@asynccontextmanager
async def visiting(service: Service, key: str = "", address: str = "127.0.0.1") -> AsyncIterator[Visitor]:
    """A visitor from an address of this machine, signed in if there is a `key`."""
    transport = httpx.AsyncHTTPTransport(local_address=address)
    async with httpx.AsyncClient(base_url=service.url, transport=transport, timeout=120) as client:
        visitor = Visitor(client)
        if key:
            assert (await visitor.sign_in(key)).status == 303
        yield visitor
