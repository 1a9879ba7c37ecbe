"""A real nginx, as docs/howto/tls.md has it, before a service: whose address counts, how large a body may be."""

import re
import shutil
import signal
import ssl
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from service.api import limits
from service.embedded import process
from service.embedded.port import HOST, on_port
from service.settings import Settings
from service.storage import keys
from tests.conftest import Service, serving
from tests.service.problems import is_problem
from tests.tls.authority import Authority
from tests.web.visitor import SAME_ORIGIN

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "tls.md"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/opt/homebrew/bin")
# Each is another client: all of 127/8 is this machine, on Linux.
ONE, OTHER = "127.0.0.21", "127.0.0.22"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="needs nginx (Debian: apt-get install nginx-light)"),
]


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits' clock stands still, nobody is held back, and a client may have three wrong keys."""
    monkeypatch.setattr(limits, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(limits, "_HELD_BACK", 0.0)
    monkeypatch.setattr(limits, "_MOST_WRONG_KEYS", 3)
    monkeypatch.setattr(limits, "_MOST_OPEN_REQUESTS", 50)


@dataclass(frozen=True)
class Proxied:
    """A service, and where the nginx before it answers."""

    service: Service
    url: str
    trusted: ssl.SSLContext

    def client(self, address: str, *, past: bool = False) -> httpx.AsyncClient:
        """A client of this address, through the proxy or past it."""
        transport = httpx.AsyncHTTPTransport(local_address=address, verify=self.trusted)
        return httpx.AsyncClient(base_url=self.service.url if past else self.url, transport=transport, timeout=120)


@pytest_asyncio.fixture(loop_scope="function")
async def proxied(settings: Settings) -> AsyncIterator[Proxied]:
    assert NGINX
    folder = Path(tempfile.mkdtemp(prefix="precis-nginx-"))
    authority = Authority(folder, "authority")
    signed = authority.signed("localhost")
    program = process.Program("nginx", Path(NGINX), None, ((signal.SIGQUIT, 10.0), (signal.SIGTERM, 5.0)))
    try:
        async with serving(settings) as service:

            async def start(port: int) -> tuple[process.Server, int]:
                told = {
                    "server 127.0.0.1:8377;": f"server {urlsplit(service.url).netloc};",
                    "listen 443 ssl;": f"listen {HOST}:{port} ssl;",
                    "/etc/ssl/precis.pem": str(signed.certificate),
                    "/etc/ssl/precis.key": str(signed.key),
                    "/var/log/nginx/precis.log": str(folder / "access.log"),
                }
                configuration(folder, told)
                server = await process.start(
                    program, ("-p", folder, "-c", "nginx.conf", "-e", "error.log"), folder / "nginx.log"
                )
                await server.until_ready(lambda: answers(port, authority), port)
                return server, port

            server, port = await on_port(None, start)
            try:
                yield Proxied(service, f"https://localhost:{port}", trusting(authority))
            finally:
                await server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def configuration(folder: Path, told: dict[str, str]) -> None:
    """The documented file for these servers, with nothing written elsewhere."""
    found = re.search(r"^```nginx\n(.*?)^```", HOWTO.read_text(), re.DOTALL | re.MULTILINE)
    assert found
    text = found[1]
    for documented, ours in told.items():
        assert documented in text
        text = text.replace(documented, ours)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nevents {{}}\nhttp {{\n{temporary}{text}}}\n"
    )


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.certificate)


async def answers(port: int, authority: Authority) -> bool:
    async with httpx.AsyncClient(verify=trusting(authority)) as http:
        try:
            return (await http.get(f"https://localhost:{port}/livez")).status_code == 200
        except httpx.TransportError:
            return False


async def wrong(client: httpx.AsyncClient, forged: str = "") -> int:
    headers = {"Authorization": "Bearer wrong"} | ({"X-Forwarded-For": forged} if forged else {})
    return (await client.get("/v1/chats", headers=headers)).status_code


async def test_limits_count_each_client_behind_the_proxy_by_its_own_address(proxied: Proxied) -> None:
    async with proxied.client(ONE) as one, proxied.client(OTHER) as other:
        # The fourth is the one in a second that is looked at all the same.
        assert [await wrong(one) for _ in range(6)] == [401] * 4 + [429] * 2
        assert await wrong(other) == 401


async def test_an_address_that_a_client_invents_counts_neither_through_the_proxy_nor_past_it(proxied: Proxied) -> None:
    async with proxied.client(ONE) as through, proxied.client(OTHER, past=True) as past:
        for client in (through, past):
            assert [await wrong(client, f"9.9.9.{number}") for number in range(6)] == [401] * 4 + [429] * 2
        # Nor is it somebody else's who is locked out by it.
        for forged in ("127.0.0.23", "9.9.9.9, 127.0.0.23"):
            assert await wrong(past, forged) == 429
    async with proxied.client("127.0.0.23") as third:
        assert await wrong(third) == 401


async def test_a_key_for_some_networks_is_taken_from_these_only(proxied: Proxied) -> None:
    async with proxied.service.runtime.database.engine.begin() as connection:
        key = await keys.create(connection, "default", "operator", "bound", networks=[f"{ONE}/32"])
    headers = {"Authorization": f"Bearer {key}"}
    async with proxied.client(ONE) as one, proxied.client(OTHER) as other, proxied.client(OTHER, past=True) as past:
        assert (await one.get("/v1/chats", headers=headers)).status_code == 200
        for client in (other, past):
            for forged in ({}, {"X-Forwarded-For": ONE}):
                is_problem(await client.get("/v1/chats", headers=headers | forged), 403)


async def test_bodies_pass_up_to_the_limit_of_the_service(proxied: Proxied) -> None:
    headers = {"Authorization": f"Bearer {proxied.service.filter_key}", "Content-Type": "application/json"}
    where = "/v1/chats/chat-1/transcript"
    async with proxied.client(ONE) as client:
        passed = await client.put(where, content=b'"' + b"a" * (8 * 2**20 - 2) + b'"', headers=headers)
        is_problem(passed, 422)
        refused = await client.put(where, content=b"a" * (8 * 2**20 + 1), headers=headers)
        assert refused.status_code == 413
        assert "nginx" in refused.text


async def test_pages_are_signed_in_to_by_https_and_metrics_stay_inside(proxied: Proxied) -> None:
    async with proxied.client(ONE) as client:
        begun = await client.post("/sign-in", data={"key": proxied.service.operator_key}, headers=SAME_ORIGIN)
        assert begun.status_code == 303
        assert begun.headers["set-cookie"].startswith("__Host-precis=")
        assert "Secure" in begun.headers["set-cookie"]
        assert (await client.get("/chats")).status_code == 200
        assert (await client.get("/metrics")).status_code == 404
