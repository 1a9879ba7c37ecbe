"""What a process finds amiss at its start stands in the status, and stops nothing."""

from service.settings import Settings
from tests.conftest import serving


async def test_what_is_amiss_with_the_settings_stands_in_the_status(settings: Settings) -> None:
    told = settings.model_copy(update={"summariser_url": "http://127.0.0.1:1/v1"})
    async with serving(told) as service:
        (warning,) = (await service.as_operator.get("/v1/status")).json()["warnings"]
        assert "PRECIS_SUMMARISER is extractive" in warning
        ready = await service.as_operator.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["warnings"] == "1: see `precis status`"
