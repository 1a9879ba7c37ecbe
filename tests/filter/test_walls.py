"""To whom the functions in Open WebUI send key and texts: no proxy of the environment, nobody on the way."""

from types import ModuleType

import httpx
import pytest

from filter_stub import precis_events, precis_filter, precis_recall

each = pytest.mark.parametrize("module", [precis_filter, precis_events, precis_recall], ids=lambda one: one.__name__)
INSIDE = [
    "https://precis.example.org",
    "http://127.0.0.1:8377",
    "http://localhost:8377",
    "http://[::1]:8377",
    "http://10.1.2.3",
    "http://192.168.1.7:80/x",
    "http://172.17.0.1",
    "http://[fd00::7]:8377",
    "http://api:8377",
    "http://precis.chat.svc.cluster.local:8377",
    "http://host.docker.internal:8377",
]
OUTSIDE = [
    "http://precis.example.org",
    "http://8.8.8.8:8377",
    "http://[2001:4860:4860::8888]",
    "HTTP://precis.example.org:8377",
    "http://localhost.example.org",
    "http://10.1.2.3.example.org",
]


@each
@pytest.mark.parametrize("url", INSIDE)
def test_https_and_what_is_inside_is_sent_to(module: ModuleType, url: str) -> None:
    assert module.is_private(url)


@each
@pytest.mark.parametrize("url", OUTSIDE)
def test_a_public_address_without_https_is_not(module: ModuleType, url: str) -> None:
    assert not module.is_private(url)


async def test_the_filter_sends_nothing_to_a_public_address_unless_the_valve_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={})

    monkeypatch.setattr(precis_filter, "client", lambda _: httpx.AsyncClient(transport=httpx.MockTransport(answer)))
    loaded = precis_filter.Filter()
    loaded.valves = loaded.Valves(service_url="http://precis.example.org", api_key="key")
    for _ in range(5):
        with pytest.raises(ConnectionError, match="valve insecure"):
            await loaded._send("GET", "filter", None, 1.0)
    assert sent == []

    loaded.valves = loaded.Valves(service_url="http://precis.example.org", api_key="key", insecure=True)
    await loaded._send("GET", "filter", None, 1.0)
    assert len(sent) == 1


@each
async def test_the_proxy_of_the_environment_is_used_only_if_the_valve_says_so(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for wanted in (False, True):
        async with module.client(wanted) as http:
            for url in ("http://precis", "https://precis"):
                chosen = http._transport_for_url(httpx.URL(url))
                assert (chosen is not http._transport) == wanted, url
