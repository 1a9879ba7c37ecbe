"""Dependencies of routes: the runtime, the caller's key, the chat."""

from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer
from fastapi.telemetry import TelemetryConfig
from pydantic import BeforeValidator

from service.api.callers import authenticate, get_runtime
from service.api.wire import Id
from service.names import KeyScope
from service.runtime import Runtime
from service.storage import keys
from service.storage.keys import Operator

# FastAPI's own spans and logs hold errors' messages and validated bodies, which are chats; whoever
# starts the service under OpenTelemetry's agent would send them.
WITHOUT_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}

# All of them are asynchronous: FastAPI runs other dependencies in a thread, which costs more than
# the hot read.


async def _provide_runtime(request: Request) -> Runtime:
    return get_runtime(request)


KEY_SCHEME = "API key"
"""The security scheme's name on the OpenAPI page."""
# Only for that page and its button *Authorize*: `authenticate` reads the header.
_bearer = HTTPBearer(
    scheme_name=KEY_SCHEME,
    description="A key from `precis keys create`; its scope decides which routes it opens.",
    auto_error=False,
)
_Described = Annotated[object, Security(_bearer)]


def _require_key(scope: KeyScope) -> Callable[..., Awaitable[keys.Key]]:
    async def key(request: Request, _: _Described) -> keys.Key:
        return await authenticate(request, scope)

    return key


async def _require_operator(request: Request, _: _Described) -> Operator:
    # The method decides, so that nobody who may only look can reach a route that changes something.
    is_look = request.method in ("GET", "HEAD")
    return (await authenticate(request, "operator:read" if is_look else "operator")).by


RuntimeDep = Annotated[Runtime, Depends(_provide_runtime)]
FilterKey = Annotated[keys.Key, Depends(_require_key("filter"))]
EventsKey = Annotated[keys.Key, Depends(_require_key("events"))]
OperatorDep = Annotated[Operator, Depends(_require_operator)]
"""Who may look, and with the scope `operator` change something too."""
KeeperKey = Annotated[keys.Key, Depends(_require_key("operator"))]
"""A key that may see and change keys, whatever the method."""
ChatId = Annotated[Id, BeforeValidator(unquote), Path(description="Open WebUI's chat id.")]
"""The server leaves `%` and `/` of a part of the path as they were sent (`app`)."""
