"""Open WebUI's REST interface, as far as the installer and `precis reconcile` need it.

Answers are JSON, or an error that says what to do.

Routes and answers are those of 0.9.6, 0.10.2, 0.11.4 and 0.12.4, read in
`main.py`, `utils/chat.py` and `routers/{auths,functions,models,tools}.py`.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

import httpx

from service.errors import OpenWebUIError

Json = dict[str, Any]
AnyJson = Any
PluginKind = Literal["functions", "tools"]
"""What Open WebUI runs, as its routes call it."""

_SECONDS = 60.0  # saving a function runs it, and the first list of models waits for every provider
_OTHERWISE = (
    "for an account without a password of its own (LDAP, single sign-on), give an API key instead"
)

_NOT_FOUND = "We could not find what you're looking for"  # the detail of a 401, in all versions

_EVERYBODY: Json = {"principal_type": "user", "principal_id": "*", "permission": "read"}


class RequestRefused(OpenWebUIError):
    """Open WebUI refused a request; `status` and `detail` are its own."""

    def __init__(self, what: str, status: int, detail: str) -> None:
        super().__init__(f"Open WebUI refuses {what} with {status}: {detail}")
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Login:
    """An admin's account."""

    email: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A function as it is stored; `everywhere` says that it works on all models."""

    id: str
    type: str
    name: str
    meta: Json
    active: bool
    everywhere: bool

    @property
    def title(self) -> str:
        """As its first lines have it."""
        return _title(self.meta)


@dataclass(frozen=True, slots=True)
class Tool:
    """A workspace tool as it is stored; `grants` say who may use it: a user, a group or `*`."""

    id: str
    name: str
    meta: Json
    source: str
    grants: list[Json]

    @property
    def title(self) -> str:
        """As its first lines have it."""
        return _title(self.meta)

    @property
    def private(self) -> bool:
        """Whether only its owner and admins may use it."""
        return not any(one["permission"] == "read" for one in self.grants)


def _title(meta: Json) -> str:
    return str((meta.get("manifest") or {}).get("title") or "")


class OpenWebUI:
    """One Open WebUI, signed in as an admin. `tools_off` says that it runs no tools."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http = http
        self.url = url
        self.version: tuple[int, ...] = ()
        self.tools_off = False

    async def ask(self, method: str, path: str, body: Json | None = None, **query: str) -> AnyJson:
        """The answer to a request.

        Raises:
            OpenWebUIError: nobody answers, or not Open WebUI; `RequestRefused` when it says no.
        """
        try:
            answer = await self._http.request(method, self.url + path, json=body, params=query)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OpenWebUIError(
                f"{self.url} does not answer: {str(error) or repr(error)}. Is --url right?"
            ) from error
        if answer.is_redirect:
            raise OpenWebUIError(
                f"{self.url} redirects to {answer.headers['location']}; pass that address to --url"
            )
        try:
            content = answer.json()
        except ValueError:
            raise OpenWebUIError(
                f"{self.url}{path} answers {answer.status_code}, but not as Open WebUI does."
                " Is --url right?"
            ) from None
        if answer.is_error:
            detail = content.get("detail") if isinstance(content, dict) else None
            raise RequestRefused(f"{method} {path}", answer.status_code, str(detail or content))
        return content

    async def sign_in(self, who: Login | str | None) -> None:
        """Signs in with an account, a key or a session's token; None for one without accounts.

        Raises:
            OpenWebUIError: it did not work, or the account is no admin's.
        """
        version = await self.ask("GET", "/api/version")
        self.version = tuple(
            int(number) for number in re.findall(r"\d+", str(version.get("version")))[:3]
        )
        if not isinstance(who, str):
            who = await self._token(who)
        self._http.headers["Authorization"] = f"Bearer {who}"
        try:
            await self.ask("GET", "/api/v1/functions/list")
        except RequestRefused as refused:
            raise OpenWebUIError(
                f"Open WebUI rejected this as an admin's key: {refused.detail}."
                " Pass a key of an admin, and enable API keys in Open WebUI's admin settings"
            ) from refused
        features = (await self.ask("GET", "/api/config"))["features"]
        if not features.get("enable_functions", features.get("enable_plugins", True)):
            raise OpenWebUIError(
                "functions are switched off in Open WebUI: start it without ENABLE_FUNCTIONS=false"
                " (and without ENABLE_PLUGINS=false)"
            )
        self.tools_off = not features.get("enable_tools", True)

    async def _token(self, login: Login | None) -> str:
        features = (await self.ask("GET", "/api/config"))["features"]
        if not features.get("auth", True):
            login = Login("admin@localhost", "admin")  # what it signs everybody in as
        if login is None:
            raise OpenWebUIError(
                "pass --email of an admin of Open WebUI, or --api-key with an admin's API key"
            )
        try:
            session = await self.ask(
                "POST", "/api/v1/auths/signin", {"email": login.email, "password": login.password}
            )
        except RequestRefused as refused:
            repair = (
                "wait three minutes"
                if refused.status == httpx.codes.TOO_MANY_REQUESTS
                else _OTHERWISE
            )
            raise OpenWebUIError(
                f"sign-in as {login.email} failed: {refused.detail}; {repair}"
            ) from refused
        if not session.get("token"):
            raise OpenWebUIError(
                f"sign-in as {login.email} wants a second factor: give an API key instead"
            )
        if session.get("role") != "admin":
            raise OpenWebUIError(
                f"{login.email} is no admin of this Open WebUI, but {session.get('role')!r}"
            )
        return str(session["token"])

    async def whoami(self) -> str:
        """The id of the admin who is signed in."""
        return str((await self.ask("GET", "/api/v1/auths/"))["id"])

    async def shows_all_chats(self) -> bool:
        """Whether it says that admins may read everybody's chats."""
        features = (await self.ask("GET", "/api/config"))["features"]
        return bool(features.get("enable_admin_chat_access"))

    async def owner_of(self, chat: str) -> str | None:
        """Whose chat it is; None when Open WebUI shows none of this id to this admin.

        Raises:
            OpenWebUIError: any other answer.
        """
        try:
            record = await self.ask("GET", f"/api/v1/chats/{quote(chat, safe='')}")
        except RequestRefused as refused:
            if refused.status in (401, 404) and refused.detail.startswith(_NOT_FOUND):
                return None
            raise
        if not isinstance(record, dict) or not record.get("user_id"):
            raise OpenWebUIError(f"{self.url} does not say whose chat {chat} is")
        return str(record["user_id"])

    async def functions(self) -> dict[str, Function]:
        """All functions by id."""
        return {
            one["id"]: Function(
                one["id"],
                one["type"],
                one["name"],
                one.get("meta") or {},
                one["is_active"],
                one["is_global"],
            )
            for one in await self.ask("GET", "/api/v1/functions/list")
        }

    async def source(self, function: str) -> str:
        """A function's text."""
        return str((await self.ask("GET", f"/api/v1/functions/id/{function}"))["content"])

    async def valves(self, function: str) -> Json:
        """What an admin has set; what was never set is not in it."""
        return await self.ask("GET", f"/api/v1/functions/id/{function}/valves") or {}

    async def create(self, function: str, name: str, description: str, source: str) -> None:
        """Makes a function, switched off and on no model."""
        await self.ask(
            "POST", "/api/v1/functions/create", _form(function, name, description, source)
        )

    async def update(self, function: Function, source: str) -> None:
        """Replaces a function's text; its name, its valves and whether it is on stay."""
        body = {"id": function.id, "name": function.name, "content": source, "meta": function.meta}
        await self.ask("POST", f"/api/v1/functions/id/{function.id}/update", body)

    async def delete(self, identity: str, kind: PluginKind = "functions") -> None:
        """Deletes a function or a tool with its valves."""
        await self.ask("DELETE", f"/api/v1/{kind}/id/{identity}/delete")

    async def tool(self, identity: str) -> Tool | None:
        """A workspace tool, if there is one of this id."""
        try:
            record = await self.ask("GET", f"/api/v1/tools/id/{identity}")
        except RequestRefused as refused:
            if refused.status in (401, 404):
                return None
            raise
        # Another admin is not shown the text with BYPASS_ADMIN_ACCESS_CONTROL=false, since 0.11.
        source = str(record.get("content") or "")
        meta, grants = record.get("meta") or {}, record["access_grants"]
        return Tool(record["id"], record["name"], meta, source, grants)

    async def create_tool(self, identity: str, name: str, description: str, source: str) -> None:
        """Makes a tool that everybody may use."""
        form = _form(identity, name, description, source)
        await self.ask("POST", "/api/v1/tools/create", form | {"access_grants": [_EVERYBODY]})

    async def update_tool(self, tool: Tool, source: str) -> None:
        """Replaces a tool's text; its name and who may use it stay."""
        body = {"id": tool.id, "name": tool.name, "content": source, "meta": tool.meta}
        grants = {"access_grants": tool.grants}
        await self.ask("POST", f"/api/v1/tools/id/{tool.id}/update", body | grants)

    async def share_tool(self, tool: Tool) -> None:
        """Lets everybody use a tool."""
        grants = {"access_grants": [*tool.grants, _EVERYBODY]}
        await self.ask("POST", f"/api/v1/tools/id/{tool.id}/access/update", grants)

    async def toggle(self, function: str, what: str = "") -> None:
        """Switches a function on or off, whichever it is not, or with `/global` on all models."""
        await self.ask("POST", f"/api/v1/functions/id/{function}/toggle{what}")

    async def set_valves(self, function: str, valves: Json) -> None:
        """Replaces all valves."""
        await self.ask("POST", f"/api/v1/functions/id/{function}/valves/update", valves)

    async def models(self) -> list[Json]:
        """The models, as a chat offers them."""
        # `refresh`: what Open WebUI remembers of them is read again.
        listed = await self.ask("GET", "/api/models", refresh="true")
        return list(listed.get("data") or [])

    async def outlet(self, model: str, more: Json) -> Json:
        """Sends two messages through the outlets of a model's filters; no model is asked.

        Returns:
            What the filters return.

        Open WebUI keeps `POST /api/chat/completed` for clients; the page does not use it.
        """
        messages = [
            {"id": "precis-1", "role": "user", "content": "?"},
            {"id": "precis", "role": "assistant", "content": "!"},
        ]
        body = {
            "model": model,
            "messages": messages,
            "id": "precis",
            "chat_id": "",
            "session_id": "",
            **more,
        }
        answer: Json = await self.ask("POST", "/api/chat/completed", body)
        return answer


def _form(identity: str, name: str, description: str, source: str) -> Json:
    """What makes a function or a tool."""
    meta = {"description": description, "manifest": {}}
    return {"id": identity, "name": name, "content": source, "meta": meta}


@asynccontextmanager
async def signed_in(url: str, who: Login | str | None) -> AsyncIterator[OpenWebUI]:
    """The Open WebUI at an address, as an admin."""
    async with httpx.AsyncClient(timeout=_SECONDS) as http:
        webui = OpenWebUI(http, url.rstrip("/"))
        await webui.sign_in(who)
        yield webui
