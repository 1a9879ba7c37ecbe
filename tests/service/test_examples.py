"""The examples of `/openapi.json`, sent as they are."""

import httpx
import pytest

from service.api.litellm import PATH as DOOR
from tests.conftest import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_examples_of_the_api_run_and_are_shown(service: Service) -> None:
    async with httpx.AsyncClient(base_url=service.url) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
        page = (await client.get("/docs")).text
    bodies = {path: methods.get("post", {}).get("requestBody", {}) for path, methods in paths.items()}
    media = {path: body["content"]["application/json"] for path, body in bodies.items() if body}
    examples = {path: one["example"] for path, one in media.items() if "example" in one}
    assert set(examples) == {"/v1/compress", "/v1/turns", "/v1/prompts/next", DOOR}

    fitted = await service.as_filter.post("/v1/compress", json=examples["/v1/compress"])
    stored = await service.as_filter.post("/v1/turns", json=examples["/v1/turns"])

    asked = await service.as_filter.post("/v1/prompts/next", json=examples["/v1/prompts/next"])
    assert (fitted.status_code, stored.status_code, asked.status_code) == (200, 202, 200)
    passed = await service.as_filter.post(DOOR, json=examples[DOOR])
    assert passed.json() == {"action": "NONE"}
    assert (fitted.json()["status"], fitted.json()["messages"]) == ("not_needed", None)
    assert page.count("How many pumps does cellar 7 have?") == 3
