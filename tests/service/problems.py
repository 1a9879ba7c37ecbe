"""What a refusal looks like, and a chat of three turns that may be refused."""

import httpx

from tests.conftest import Service
from tests.service.talk import Json, Talk

LEAF = "a4"
COMPRESS = "/v1/compress"
TURNS = "/v1/turns"


def three_turns(service: Service) -> Talk:
    """A chat with the leaf `LEAF`."""
    made = Talk(service.as_filter)
    made.turns(3)
    return made


def is_problem(response: httpx.Response, *statuses: int) -> Json:
    """A problem of RFC 9457, in words, and bounded."""
    assert response.status_code in statuses, response.text[:500]
    assert response.headers["content-type"] == "application/problem+json"
    problem: Json = response.json()
    assert problem["type"].startswith("urn:precis:problem:")
    assert problem["title"]
    assert problem["status"] == response.status_code
    assert problem["detail"]
    assert len(response.content) < 8000
    return problem
