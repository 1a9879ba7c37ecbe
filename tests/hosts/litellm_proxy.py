"""A real LiteLLM proxy on loopback with the guardrail of `docs/howto/litellm.md`, exactly as the page has it.

    async with litellm(folder, provider_url, precis_url, key, seconds=1) as url:
        await http.post(f"{url}/v1/messages", json={"model": "claude-x", ...})

The provider answers for all three wires: `gpt-x` on chat completions and responses, `claude-x` on messages.
`litellm.txt` is `uv pip compile` of litellm and what its proxy imports; its own extra names packages that the registry
does not have.
"""

import contextlib
import re
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import yaml

from service.embedded.process import HOST, Program, find_free_port, run_server
from tests.e2e.versions import prepare_environment, uv

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "litellm.md"
REQUIREMENTS = Path(__file__).with_name("litellm.txt")
ADDRESS, KEY, TIMEOUT = "http://127.0.0.1:8377", "precis_fi_…", "timeout: 1 "
MASTER_KEY = "sk-not-a-secret-of-tests-1"
BOOT = 200.0  # seconds, on two busy cores
_ENV = Program("litellm", Path(shutil.which("env") or "/usr/bin/env"), None, signal.SIGTERM)


def installed() -> Path:
    """Return the environment of the proxy, after installing it if need be."""
    return prepare_environment("litellm", [REQUIREMENTS], _install)


def _install(python: Path) -> None:
    uv("pip", "install", "--python", python, "-r", REQUIREMENTS)


def _configure(provider: str, precis: str, key: str, seconds: int) -> str:
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    guardrails = blocks[0]
    assert ADDRESS in guardrails
    assert KEY in guardrails
    assert TIMEOUT in guardrails
    chat = {"model": "openai/gpt-x", "api_base": f"{provider}/v1", "api_key": "not-a-secret"}
    claude = {"model": "anthropic/claude-x", "api_base": provider, "api_key": "not-a-secret"}
    models = [{"model_name": "gpt-x", "litellm_params": chat}, {"model_name": "claude-x", "litellm_params": claude}]
    ours = guardrails.replace(ADDRESS, precis).replace(KEY, key).replace(TIMEOUT, f"timeout: {seconds} ")
    return yaml.safe_dump({"model_list": models}) + ours


@contextlib.asynccontextmanager
async def litellm(folder: Path, provider: str, precis: str, key: str, seconds: int) -> AsyncIterator[str]:
    """Runs the proxy until the block ends, and yields its address. It waits `seconds` for Precis."""
    configuration = folder / "config.yaml"
    configuration.write_text(_configure(provider, precis, key, seconds), encoding="utf-8")
    port = find_free_port()
    settings = {"LITELLM_MASTER_KEY": MASTER_KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    variables = [f"{name}={value}" for name, value in settings.items()]
    binary = installed() / "bin" / "litellm"
    command: list[str | Path] = [*variables, binary, "--config", configuration, "--host", HOST, "--port", str(port)]
    url = f"http://{HOST}:{port}"

    async def answers() -> bool:
        async with httpx.AsyncClient(trust_env=False) as http:
            with contextlib.suppress(httpx.HTTPError):
                return (await http.get(f"{url}/health/liveliness")).is_success
        return False

    async with run_server(_ENV, command, folder / "litellm.log", answers, patience=BOOT):
        yield url
