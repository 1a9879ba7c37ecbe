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


@pytest.mark.parametrize("options", [(), ("--complete",)])
def test_when_all_packages_were_looked_up_it_passes(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = audit(tmp_path, [LOOKED_UP, LOOKED_UP], 0, *options)

    assert (done.returncode, "2 of 2 packages were looked up" in done.stdout) == (0, True)


@pytest.mark.parametrize(("found", "status"), [([LOOKED_UP, SKIPPED], 0), ([SKIPPED, SKIPPED], 0), (None, 1)])
def test_packages_that_were_not_looked_up_are_counted_and_fail_where_all_are_asked_for(
    tmp_path: Path, found: list[dict[str, Any]] | None, status: int
) -> None:
    done = audit(tmp_path / "usual", found, status)
    complete = audit(tmp_path / "complete", found, status, "--complete")

    assert (done.returncode, complete.returncode) == (0, 1)
    known = found or []
    for one in (done, complete):
        assert f"{known.count(LOOKED_UP)} of {len(known)} packages were looked up" in one.stdout
        assert "could not be looked up" in one.stderr
        assert "No known vulnerabilities" not in one.stdout + one.stderr


@pytest.mark.parametrize("options", [(), ("--complete",)])
def test_a_vulnerability_fails_though_others_were_not_looked_up(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = audit(tmp_path, [VULNERABLE, SKIPPED], 1, *options)

    assert (done.returncode, "PYSEC-1" in done.stderr) == (1, True)
