"""As which user the embedded servers run."""

import os
from pathlib import Path

from service.embedded.account import account_for
from tests.embedded.folders import AS_ROOT


def test_a_folder_first_used_by_an_ordinary_user_stays_with_that_user(tmp_path: Path) -> None:
    user = 12_345 if AS_ROOT else os.geteuid()
    os.chown(tmp_path, user, -1)

    account = account_for(tmp_path)

    runs_as = account.uid if account else os.geteuid()
    assert runs_as == user
