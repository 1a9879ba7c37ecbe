"""Open WebUI's REST interface, as far as the installer and `precis reconcile` need it.

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
"""The two kinds of plugins, as Open WebUI's routes name them."""

_SECONDS = 60.0  # saving a function runs it, and the first list of models waits for every provider
_NOT_FOUND = "We could not find what you're looking for"  # the detail of a 401, in all versions

_EVERYBODY: Json = {"principal_type": "user", "principal_id": "*", "permission": "read"}


class RequestRefused(OpenWebUIError):
    """Open WebUI refused a request; `status` and `detail` are those of its answer."""

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
    """A stored function; `everywhere` says that it is switched on for all models."""

    id: str
    type: str
    name: str
    meta: Json
    active: bool
    everywhere: bool

    @property
    def title(self) -> str:
        """The title in its first lines."""
        return _title(self.meta)


@dataclass(frozen=True, slots=True)
class Tool:
    """A stored workspace tool; `grants` say who may use it: a user, a group or `*`."""

    id: str
    name: str
    meta: Json
    source: str
    grants: list[Json]

    @property
    def title(self) -> str:
        """The title in its first lines."""
        return _title(self.meta)

    @property
    def private(self) -> bool:
        """Whether only its owner and admins may use it."""
        return not any(one["permission"] == "read" for one in self.grants)


def _title(meta: Json) -> str:
    return str((meta.get("manifest") or {}).get("title") or "")


class OpenWebUI:
    """An Open WebUI, with an admin signed in. `tools_off` says that it runs no tools."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http = http
        self.url = url
        self.version: tuple[int, ...] = ()
        self.tools_off = False

    async def ask(self, method: str, path: str, body: Json | None = None, **query: str) -> AnyJson:
        """Sends a request and returns the JSON of its answer.

        Raises:
            RequestRefused: Open WebUI answers with an error.
            OpenWebUIError: nothing answers, or something that is not Open WebUI.
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
                f"{self.url}{path} answers {answer.status_code} without JSON, so it is not Open"
                " WebUI. Is --url right?"
            ) from None
        if answer.is_error:
            detail = content.get("detail") if isinstance(content, dict) else None
            raise RequestRefused(f"{method} {path}", answer.status_code, str(detail or content))
        return content

    async def sign_in(self, who: Login | str | None) -> None:
        """Signs in with an account, an API key or a session's token.

        An Open WebUI without accounts takes None.

        Raises:
            OpenWebUIError: sign-in failed, or the account is not an admin's.
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
                f"Open WebUI rejected the API key: {refused.detail}."
                " Pass an admin's key, and enable API keys in Open WebUI's admin settings"
            ) from refused
        features = (await self.ask("GET", "/api/config"))["features"]
        if not features.get("enable_functions", features.get("enable_plugins", True)):
            raise OpenWebUIError(
                "functions are switched off in Open WebUI: start it without ENABLE_FUNCTIONS=false"
                " and ENABLE_PLUGINS=false"
            )
        self.tools_off = not features.get("enable_tools", True)

    async def _token(self, login: Login | None) -> str:
        features = (await self.ask("GET", "/api/config"))["features"]
        if not features.get("auth", True):
            login = Login("admin@localhost", "admin")  # the account that everybody shares
        if login is None:
            raise OpenWebUIError(
                "pass --email of an Open WebUI admin, or --api-key with an admin's API key"
            )
        try:
            session = await self.ask(
                "POST", "/api/v1/auths/signin", {"email": login.email, "password": login.password}
            )
        except RequestRefused as refused:
            repair = "use an API key for an account without a password (LDAP, single sign-on)"
            if refused.status == httpx.codes.TOO_MANY_REQUESTS:
                repair = "wait three minutes"
            raise OpenWebUIError(
                f"sign-in as {login.email} failed: {refused.detail}; {repair}"
            ) from refused
        if not session.get("token"):
            raise OpenWebUIError(
                f"sign-in as {login.email} needs a second factor: use an API key instead"
            )
        if session.get("role") != "admin":
            raise OpenWebUIError(
                f"{login.email} has the role {session.get('role')!r} in Open WebUI: use an admin's"
                " account"
            )
        return str(session["token"])

    async def whoami(self) -> str:
        """The id of the admin who has signed in."""
        return str((await self.ask("GET", "/api/v1/auths/"))["id"])

    async def shows_all_chats(self) -> bool:
        """Whether admins may read everybody's chats in this Open WebUI."""
        features = (await self.ask("GET", "/api/config"))["features"]
        return bool(features.get("enable_admin_chat_access"))

    async def owner_of(self, chat: str) -> str | None:
        """The id of a chat's user; None if Open WebUI shows this admin no chat of this id.

        Raises:
            OpenWebUIError: the answer says neither.
        """
        try:
            record = await self.ask("GET", f"/api/v1/chats/{quote(chat, safe='')}")
        except RequestRefused as refused:
            if refused.status in (401, 404) and refused.detail.startswith(_NOT_FOUND):
                return None
            raise
        if not isinstance(record, dict) or not record.get("user_id"):
            raise OpenWebUIError(f"{self.url} does not report the user of chat {chat}")
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
        """The valves that an admin has set."""
        return await self.ask("GET", f"/api/v1/functions/id/{function}/valves") or {}

    async def create(self, function: str, name: str, description: str, source: str) -> None:
        """Creates a function, switched off and on no model."""
        await self.ask(
            "POST", "/api/v1/functions/create", _form(function, name, description, source)
        )

    async def update(self, function: Function, source: str) -> None:
        """Replaces a function's text, and nothing else of it."""
        body = {"id": function.id, "name": function.name, "content": source, "meta": function.meta}
        await self.ask("POST", f"/api/v1/functions/id/{function.id}/update", body)

    async def delete(self, identity: str, kind: PluginKind = "functions") -> None:
        """Deletes a function or a tool with its valves."""
        await self.ask("DELETE", f"/api/v1/{kind}/id/{identity}/delete")

    async def tool(self, identity: str) -> Tool | None:
        """The workspace tool of this id, or None."""
        try:
            record = await self.ask("GET", f"/api/v1/tools/id/{identity}")
        except RequestRefused as refused:
            if refused.status in (401, 404):
                return None
            raise
        # Since 0.11, BYPASS_ADMIN_ACCESS_CONTROL=false hides the text from other admins.
        source = str(record.get("content") or "")
        meta, grants = record.get("meta") or {}, record["access_grants"]
        return Tool(record["id"], record["name"], meta, source, grants)

    async def create_tool(self, identity: str, name: str, description: str, source: str) -> None:
        """Creates a tool that everybody may use."""
        form = _form(identity, name, description, source)
        await self.ask("POST", "/api/v1/tools/create", form | {"access_grants": [_EVERYBODY]})

    async def update_tool(self, tool: Tool, source: str) -> None:
        """Replaces a tool's text, and nothing else of it."""
        body = {"id": tool.id, "name": tool.name, "content": source, "meta": tool.meta}
        grants = {"access_grants": tool.grants}
        await self.ask("POST", f"/api/v1/tools/id/{tool.id}/update", body | grants)

    async def share_tool(self, tool: Tool) -> None:
        """Lets everybody use a tool."""
        grants = {"access_grants": [*tool.grants, _EVERYBODY]}
        await self.ask("POST", f"/api/v1/tools/id/{tool.id}/access/update", grants)

    async def toggle(self, function: str, what: str = "") -> None:
        """Switches a function on if it is off, and off if it is on; `/global` for all models."""
        await self.ask("POST", f"/api/v1/functions/id/{function}/toggle{what}")

    async def set_valves(self, function: str, valves: Json) -> None:
        """Replaces all valves."""
        await self.ask("POST", f"/api/v1/functions/id/{function}/valves/update", valves)

    async def models(self) -> list[Json]:
        """The models that a chat offers."""
        # `refresh` empties Open WebUI's cache of models.
        listed = await self.ask("GET", "/api/models", refresh="true")
        return list(listed.get("data") or [])

    async def outlet(self, model: str, more: Json) -> Json:
        """Sends two messages through the outlets of a model's filters, and returns the result.

        No model is called. Open WebUI keeps `POST /api/chat/completed` for clients; its page does
        not use it.
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
    """The body that creates a function or a tool."""
    meta = {"description": description, "manifest": {}}
    return {"id": identity, "name": name, "content": source, "meta": meta}


@asynccontextmanager
async def sign_in(url: str, who: Login | str | None) -> AsyncIterator[OpenWebUI]:
    """The Open WebUI at an address, with an admin signed in."""
    async with httpx.AsyncClient(timeout=_SECONDS) as http:
        webui = OpenWebUI(http, url.rstrip("/"))
        await webui.sign_in(who)
        yield webui
