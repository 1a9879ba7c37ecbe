"""The pages `/docs` and `/redoc`, which load nothing from elsewhere: they work without internet.

Their scripts are those of the package fastapi-offline, of which nothing else is used.
"""

import importlib.util
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from service.errors import ConfigurationError

_ASSETS = "/docs/assets"
_PACKAGE = "fastapi_offline"

# What these pages load is our own, but their scripts set styles and start workers of their own.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' {scripts}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src blob:",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_INLINE = re.compile("<script>(.*?)</script>", re.DOTALL)

router = APIRouter(include_in_schema=False)


def install(app: FastAPI) -> None:
    """Adds the pages and their assets to `app`.

    Raises:
        ConfigurationError: the package with the assets is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "the package fastapi-offline is not installed: pip install fastapi-offline"
        )
    app.mount(_ASSETS, StaticFiles(directory=Path(spec.origin).parent / "static"))
    app.include_router(router)


@router.get("/docs")
async def docs() -> HTMLResponse:
    """The API, to read and to try."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Precis: API",
        swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{_ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{_ASSETS}/favicon.png",
    )
    return _guarded(page)


@router.get("/redoc")
async def redoc() -> HTMLResponse:
    """The API, to read."""
    page = get_redoc_html(
        openapi_url="openapi.json",
        title="Precis: API",
        redoc_js_url=f"{_ASSETS}/redoc.standalone.js",
        redoc_favicon_url=f"{_ASSETS}/favicon.png",
        with_google_fonts=False,
    )
    return _guarded(page)


def _guarded(page: HTMLResponse) -> HTMLResponse:
    """A page that runs no scripts but our own files and those that are in it now."""
    inline = _INLINE.findall(bytes(page.body).decode())
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in inline]
    scripts = " ".join(f"'sha256-{one}'" for one in hashes)
    page.headers["Content-Security-Policy"] = _POLICY.format(scripts=scripts)
    page.headers["Referrer-Policy"] = "same-origin"
    return page
