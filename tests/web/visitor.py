"""An operator who has the pages without scripts: gets a page, and sends its forms as a browser would."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

import httpx

from tests.conftest import Service

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@dataclass
class Form:
    """A form of a page, with what its fields hold."""

    method: str
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)


class _Reader(HTMLParser):
    """What of a page a visitor needs: forms, links, and the text that is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.seen: list[str] = []
        self._option = False
        self._area: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        match tag:
            case "form":
                self.forms.append(Form(given.get("method", "get"), given["action"]))
            case "input" if given.get("type") != "checkbox":
                self.forms[-1].fields.append((given["name"], given.get("value", "")))
            case "select":
                self.forms[-1].fields.append((given["name"], ""))
            case "option" if "selected" in given:
                self._option = True
            case "textarea":
                self._area = given["name"]
                self.forms[-1].fields.append((given["name"], ""))
            case "a":
                self.links.append(given["href"])
            case "script":
                self.scripts.append(given.get("src", "inline"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = None
        elif tag == "option":
            self._option = False

    def handle_data(self, data: str) -> None:
        if self._area:
            name, before = self.forms[-1].fields.pop()
            self.forms[-1].fields.append((name, before + data))
        elif self._option:
            # Without a `value`, the text is it.
            name, _ = self.forms[-1].fields.pop()
            self.forms[-1].fields.append((name, data.strip()))
        self.seen.append(data)


class Page:
    """An answer, as somebody reads it."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.status = response.status_code
        self.html = response.text
        reader = _Reader()
        reader.feed(self.html)
        reader.close()
        self.forms, self.links, self.scripts = reader.forms, reader.links, reader.scripts
        self.text = " ".join(" ".join(reader.seen).split())

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

    async def send(self, form: Form, *more: tuple[str, str], without: str = "") -> Page:
        """A form as it stands, with more fields, or `without` one."""
        fields = [one for one in form.fields if one[0] != without and one[0] not in dict(more)]
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
