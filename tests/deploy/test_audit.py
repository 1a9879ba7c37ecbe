"""`scripts/audit` says how many packages were looked up, and never takes silence for safety."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit"
LOOKED_UP = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited: b (1)"}
VULNERABLE = {"name": "c", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}


def audit(
    folder: Path, found: list[dict[str, Any]] | None, status: int, *options: str
) -> subprocess.CompletedProcess[str]:
    """The script with a pip-audit that finds this; None: it fails before it has found out anything."""
    for name in ("scripts", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    answer = "" if found is None else json.dumps({"dependencies": found, "fixes": []})
    (folder / "answer.json").write_text(answer)
    program = folder / ".venv/bin/pip-audit"
    program.write_text(
        "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ $1 = --output ] && cp answer.json $2; shift; done\n"
        f"[ {status} = 1 ] || echo No known vulnerabilities found >&2\nexit {status}\n"
    )
    program.chmod(0o755)
    shutil.copy(SCRIPT, folder / "scripts")
    return subprocess.run([folder / "scripts/audit", *options], capture_output=True, text=True, check=False, timeout=60)


ALL_LOOKED_UP = [LOOKED_UP, LOOKED_UP]


@pytest.mark.parametrize(
    ("found", "status", "code", "code_if_complete", "said"),
    [
        (ALL_LOOKED_UP, 0, 0, 0, "2 of 2 packages were looked up"),
        ([LOOKED_UP, SKIPPED], 0, 0, 1, "1 of 2 packages were looked up"),
        ([SKIPPED, SKIPPED], 0, 0, 1, "0 of 2 packages were looked up"),
        (None, 1, 0, 1, "0 of 0 packages were looked up"),
        ([VULNERABLE, SKIPPED], 1, 1, 1, "PYSEC-1"),
    ],
)
def test_it_fails_for_a_vulnerability_and_where_all_are_asked_for_also_for_packages_that_were_not_looked_up(
    tmp_path: Path, found: list[dict[str, Any]] | None, status: int, code: int, code_if_complete: int, said: str
) -> None:
    usual = audit(tmp_path / "usual", found, status)
    complete = audit(tmp_path / "complete", found, status, "--complete")

    assert (usual.returncode, complete.returncode) == (code, code_if_complete)
    for done in (usual, complete):
        assert said in done.stdout + done.stderr
        assert "No known vulnerabilities" not in done.stdout + done.stderr
        assert ("could not be looked up" in done.stderr) is (found is None or (found[1] == SKIPPED and status == 0))
