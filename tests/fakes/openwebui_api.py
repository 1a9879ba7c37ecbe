"""The part of Open WebUI's REST interface that the installer and `precis reconcile` use, on loopback.

For what a real one cannot be asked.

    async with openwebui_api() as webui:
        webui.refuse["POST", "/api/v1/functions/create"] = 400, "it does not load"
        ...  # point the installer at webui.url

Functions and tools are kept as text, none is run: the outlet asks the service with the valves `service_url` and
`api_key`, as the filter does. The real thing is driven by `tests/e2e/test_installer.py`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from service.api.server import open_listener, run_server
from tests.builders import Json

EMAIL, PASSWORD, TOKEN = "admin@example.org", "a-password", "a-session"
ADMIN = "the-admin"
NOT_FOUND = "We could not find what you're looking for :/"


@dataclass
class OpenWebUIApi:
    """What it has and what it says. `refuse` answers a route with an error; `writes` are the requests that change."""

    url: str = ""
    version: str = "0.12.4"
    features: Json = field(default_factory=lambda: {"auth": True})
    models: list[str] = field(default_factory=lambda: ["model-1", "model-2"])
    chats: dict[str, str] = field(default_factory=dict)  # users by chat
    functions: dict[str, Json] = field(default_factory=dict)
    tools: dict[str, Json] = field(default_factory=dict)
    valves: dict[str, Json] = field(default_factory=dict)
    outlet: Json | None = None
    refuse: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, body: Json, authorised: bool) -> object:
        """The answer to everything but the outlet; None is 401."""
        match method, path.removeprefix("/api/").removeprefix("v1/").split("/"):
            case "GET", ["version"]:
                return {"version": self.version}
            case "GET", ["config"]:
                return {"features": self.features}
            case "POST", ["auths", "signin"]:
                known = (body["email"], body["password"]) == (EMAIL, PASSWORD)
                return {"token": TOKEN, "role": "admin"} if known else None
            case _ if not authorised:
                return None
            case "GET", ["auths", _]:
                return {"id": ADMIN, "role": "admin"}
            case "GET", ["chats", name]:
                return {"id": name, "user_id": self.chats[name], "chat": {}} if name in self.chats else None
            case "GET", ["models"]:
                return {"data": [{"id": one} for one in self.models]}
            case _, ["functions" | "tools" as what, *where]:
                return self._stored(what, method, where, body)
        return None

    def _stored(self, what: str, method: str, where: list[str], body: Json) -> object:
        """What is asked of functions or tools."""
        stored = self.tools if what == "tools" else self.functions
        if method != "GET":
            self.writes.append("/".join((method, *where)))
        match where:
            case ["list"]:
                return list(stored.values())
            case ["create"]:
                stored[body["id"]] = _made(what, body)
                return True
            case ["id", name]:
                return stored.get(name)
            case ["id", name, *action]:
                return self._done(stored, name, action, body)
        return None

    def _done(self, stored: dict[str, Json], name: str, action: list[str], body: Json) -> object:
        match action:
            case ["valves"]:
                return self.valves.get(name, {})
            case ["valves", "update"]:
                self.valves[name] = body
            case ["update"]:
                stored[name] |= {"name": body["name"], "content": body["content"], "meta": _with_manifest(body)}
            case ["access", "update"]:
                stored[name] |= body
            case ["delete"]:
                del stored[name]
            case ["toggle", *everywhere]:
                which = "is_global" if everywhere else "is_active"
                stored[name][which] = not stored[name][which]
        return True

    async def checked(self, body: Json) -> Json:
        """What the outlet of the filter makes of a body."""
        if self.outlet is not None or not self.functions.get("precis", {}).get("is_active"):
            return self.outlet or body
        valves = self.valves["precis"]
        headers = {"Authorization": f"Bearer {valves['api_key']}"}
        async with httpx.AsyncClient() as http:
            try:
                answer = await http.get(f"{valves['service_url']}/v1/filter", headers=headers)
            except httpx.TransportError as error:
                return body | {"precis_check": {"error": repr(error)}}
        said: Json = answer.json()
        return body | {
            "precis_check": said if answer.is_success else {"error": f"the service says {answer.status_code}"}
        }


def _made(what: str, body: Json) -> Json:
    made = {name: body[name] for name in ("id", "name", "content")} | {"meta": _with_manifest(body)}
    if what == "tools":
        return made | {"access_grants": body.get("access_grants", [])}  # of nobody but the owner
    kind = next(one for one in ("event", "action", "filter") if f"class {one.capitalize()}" in body["content"])
    return made | {"type": kind, "is_active": False, "is_global": False}


def _with_manifest(body: Json) -> Json:
    title = body["content"].partition("title: ")[2].partition("\n")[0]
    return {**body["meta"], "manifest": {"title": title}}


@asynccontextmanager
async def openwebui_api() -> AsyncIterator[OpenWebUIApi]:
    """Serves until the block ends."""
    webui, app, listener = OpenWebUIApi(), FastAPI(), open_listener("127.0.0.1", 0)
    app.state.runtime = None

    @app.api_route("/{path:path}", methods=["GET", "POST", "DELETE"])
    async def any_route(request: Request) -> Response:
        path = request.url.path
        if refused := webui.refuse.get((request.method, path)):
            return JSONResponse({"detail": refused[1]}, refused[0])
        body = await request.json() if request.method == "POST" and await request.body() else {}
        authorised = request.headers.get("authorization") == f"Bearer {TOKEN}"
        if path == "/api/chat/completed" and authorised:
            return JSONResponse(await webui.checked(body))
        answer = webui.answer(request.method, path, body, authorised)
        detail = NOT_FOUND if authorised and path.startswith("/api/v1/chats/") else "not for you"
        return JSONResponse({"detail": detail}, 401) if answer is None else JSONResponse(answer)

    async with run_server(app, listener):
        webui.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield webui
