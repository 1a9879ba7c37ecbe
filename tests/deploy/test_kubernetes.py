"""`deploy/kubernetes` as kubectl builds it: what Kubernetes' schemas, an operator and Precis ask of it.

No cluster is needed. KEDA's own kinds have no schema here: their names, references and the query are checked instead.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service import __version__
from service.api.bodies import BODIES
from service.cli import app
from service.processes import pool
from service.runtime import Runtime
from service.settings import PREFIX, Settings
from service.storage import jobs
from tests.service.talk import run_sql

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
HOWTO = (ROOT / "docs" / "howto" / "kubernetes.md").read_text(encoding="utf-8")
BUILDS = ("base", "overlays/hpa", "overlays/keda")
OLDEST, NEWEST = "1.32", "1.37"
OURS = ("migrate", "api", "worker")

Resource = dict[str, Any]


@cache
def built(name: str) -> list[Resource]:
    kubectl = Path(sys.executable).with_name("kubectl")
    finished = subprocess.run([kubectl, "kustomize", FOLDER / name], capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr, "a warning, such as of a field that is deprecated"
    return list(yaml.safe_load_all(finished.stdout))


def of_kind(kind: str, build: str = "base") -> dict[str, Resource]:
    """Resources of this kind by name."""
    return {one["metadata"]["name"]: one for one in built(build) if one["kind"] == kind}


def container(name: str) -> Resource:
    everything = of_kind("Deployment") | of_kind("Job")
    (found,) = everything[f"precis-{name}"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def mebibytes(amount: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", amount).groups()  # type: ignore[union-attr]
    return int(number) * {"Mi": 1, "Gi": 1024}[unit]


@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("build", BUILDS)
def test_every_resource_follows_the_schema_of_its_kind(build: str, version: str) -> None:
    for resource in built(build):
        if not resource["apiVersion"].startswith("keda.sh/"):
            kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("name", OURS)
def test_the_commands_are_commands_of_precis_in_an_image_of_this_version(name: str) -> None:
    words = container(name)["args"]

    app.commands[words[0]].make_context(words[0], words[1:])
    assert container(name)["image"].endswith(f"/precis:{__version__}")


@pytest.mark.parametrize("name", OURS)
def test_secrets_are_files_that_the_settings_name(name: str) -> None:
    """No resource holds a secret, and no variable: a process's variables are shown by `kubectl describe`."""
    (settings,) = of_kind("ConfigMap").values()
    (mount,) = (one for one in container(name)["volumeMounts"] if one["name"] == "secrets")
    named = {one.removeprefix(PREFIX).removesuffix("_FILE").lower() for one in settings["data"]}

    assert not of_kind("Secret")
    assert "env" not in container(name)
    assert container(name)["envFrom"] == [{"configMapRef": {"name": settings["metadata"]["name"]}}]
    assert named - {"key"} <= set(Settings.model_fields)
    for variable, value in settings["data"].items():
        assert variable.endswith("_FILE") is ("URL" in variable or "KEY" in variable)
        if variable.endswith("_FILE"):
            assert Path(value).parent == Path(mount["mountPath"])
            assert f"--from-file={Path(value).name}" in HOWTO


@pytest.mark.parametrize("name", ["api", "worker"])
def test_the_largest_text_processes_and_bodies_fit_into_the_memory(name: str) -> None:
    """Else the kernel ends the pod where Precis would have stopped one piece of work."""
    largest = pool.PROCESSES * pool.MEMORY // 2**20
    body = Settings.model_fields["max_body_bytes"].default
    bodies = 12 * BODIES * body // 2**20 if name == "api" else 0
    usual = pool.PROCESSES * 250
    amounts = container(name)["resources"]

    assert mebibytes(amounts["limits"]["memory"]) >= largest + bodies + 250
    assert mebibytes(amounts["requests"]["memory"]) >= usual + 200


def due_trigger() -> Resource:
    (trigger,) = of_kind("ScaledObject", "overlays/keda")["precis-worker"]["spec"]["triggers"]
    assert isinstance(trigger, dict)
    return trigger


def test_workers_follow_the_work_that_one_of_them_takes_at_a_time() -> None:
    trigger = due_trigger()
    access = of_kind("TriggerAuthentication", "overlays/keda")[trigger["authenticationRef"]["name"]]
    (secret,) = access["spec"]["secretTargetRef"]

    assert trigger["metadata"]["targetQueryValue"] == str(Settings.model_fields["worker_jobs"].default)
    assert secret == {"parameter": "connection", "name": "precis", "key": "database-url"}


async def test_the_query_counts_what_is_due_and_what_is_worked_on(runtime: Runtime) -> None:
    """As `precis status` counts: debounced, dead and idle chats need no worker."""
    soon, past = "now() + interval '1 minute'", "now() - interval '1 minute'"
    states = {
        "idle": ("null", "null", "null"),
        "due": (past, "null", "null"),
        "waiting": (soon, "null", "null"),
        "worked on": (past, soon, "null"),
        "put off while worked on": (soon, soon, "null"),
        "left by a worker": (past, past, "null"),
        "dead": (past, "null", past),
    }
    values = ", ".join(
        f"((select id from tenants), '{name}', 'user', 'model', 1000, {due}, {lease}, {dead})"
        for name, (due, lease, dead) in states.items()
    )
    await run_sql(runtime, "insert into tenants (name) values ('one')")
    await run_sql(
        runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, due_at, lease_until, dead_at)"
        f" values {values}",
    )

    counted = await jobs.count_jobs(runtime.database.reads, None)

    assert await runtime.database.reads.fetchval(due_trigger()["metadata"]["query"]) == 4
    assert counted.due + counted.working == 4
