from tests.conftest import Service


async def test_ready(service: Service) -> None:
    answer = await service.as_filter.get("/readyz")
    assert answer.status_code == 200, answer.text
