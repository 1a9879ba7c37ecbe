"""What operators do to keys over REST."""

import httpx
import pytest

from service.storage import keys
from tests.conftest import Service
from tests.service.problems import is_problem
from tests.service.talk import Json, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def audited(service: Service) -> list[tuple[str, Json]]:
    found = await rows(service.runtime, "select action, details from audit order by id")
    return [(one.action, one.details) for one in found]


async def test_a_key_is_told_once_opens_what_it_is_for_and_is_revoked(service: Service) -> None:
    made = await service.as_operator.post("/v1/keys", json={"scope": "filter", "name": "my webui"})
    assert made.status_code == 201
    assert made.headers["Cache-Control"] == "no-store"
    told = made.json()
    assert told["key"].startswith(f"{told['prefix']}")
    headers = {"Authorization": f"Bearer {told['key']}"}
    async with httpx.AsyncClient(base_url=service.url, headers=headers) as http:
        assert (await http.get("/v1/filter")).json()["tenant"] == "default"

    listed = await service.as_operator.get("/v1/keys")
    assert told["key"] not in listed.text
    (row_of_it,) = [one for one in listed.json()["keys"] if one["id"] == told["id"]]
    assert (row_of_it["name"], row_of_it["scope"], row_of_it["revoked_at"]) == ("my webui", "filter", None)
    told_of_it = {"id", "scope", "name", "prefix", "created_at", "revoked_at", "expires_at"}
    assert set(row_of_it) == told_of_it | {"last_used_at", "last_filter", "tenant", "tenant_name", "seconds_left"}

    assert (await service.as_operator.delete(f"/v1/keys/{told['id']}")).status_code == 204
    is_problem(await service.as_operator.delete(f"/v1/keys/{told['id']}"), 404)
    async with service.runtime.database.engine.connect() as connection:
        assert await keys.find(connection, told["key"]) is None
    assert await audited(service) == [
        ("key.create", {"key": told["id"], "scope": "filter", "name": "my webui"}),
        ("key.revoke", {"key": told["id"], "name": "my webui"}),
    ]
