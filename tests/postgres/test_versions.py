"""Which PostgreSQL is refused."""

import pytest

from service.errors import ConfigurationError
from service.runtime import Urls
from service.storage import database


async def test_a_database_older_than_the_oldest_tested_one_is_refused(
    urls: Urls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "OLDEST", 99)

    with pytest.raises(ConfigurationError, match=r"is PostgreSQL \d\d: Precis needs PostgreSQL 99 or newer"):
        await database.migrate(urls.database)
    with pytest.raises(ConfigurationError, match=r"Precis needs PostgreSQL 99 or newer"):
        async with database.connect(urls.database):
            pass
