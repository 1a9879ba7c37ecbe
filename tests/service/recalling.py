"""Looking something up as a model does whose request was prepared."""

import httpx

from tests.service.talk import Json, Talk


async def post(talk: Talk, state: Json, **question: object) -> httpx.Response:
    """The answer to a question of a model; `state` is of its turn, or of the answer to the turn's request."""
    return await talk.client.post("/v1/recall", json={"state": state.get("state", state), **question})


async def recall(talk: Talk, state: Json, **question: object) -> Json:
    response = await post(talk, state, **question)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer
