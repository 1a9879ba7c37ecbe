"""Alerts and dashboard ask for metrics that there are, with labels and values that they have; promtool takes them."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from service import metrics
from service.app import create_app
from service.metrics import QueueFigures
from service.settings import load

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "monitor.md"
ALERTS = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
STATES = {"working": 1, "due": 1, "waiting": 1, "dead": 1, "waiting_for_model": 1}
BREAKERS = {"closed": 1, "open": 0, "half-open": 0}
QUEUE = QueueFigures(STATES, 1.0, BREAKERS, schema_at_head=True)
ROUTES = create_app(load()).openapi()["paths"]
# Labels that Prometheus itself adds, or that only some requests make.
ADDED = {"job", "instance"}


def scraped() -> str:
    """A whole page, with a value of each label that has none at the start."""
    metrics.count_request("GET", "/v1/chats", 200, 0.1)
    metrics.GATE_REJECTIONS.labels("empty").inc()
    return (metrics.render_process() + metrics.render_fleet(QUEUE, worker_alive=True)).decode()


@cache
def declared() -> dict[str, dict[str, set[str]]]:
    """Sample → label → its values."""
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(scraped()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


EXPRESSIONS = {
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    },
    **{rule["alert"]: rule["expr"] for rule in RULES},
}
"""By the title of what shows it."""


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_every_metric_that_is_asked_for_is_declared_with_these_labels_and_values(title: str) -> None:
    known = declared()
    metric = r"\b((?:precis|process)_\w+)(?:\{([^{}]*(?:\{\w+\}[^{}]*)*)\})?"
    found = re.findall(metric, EXPRESSIONS[title])
    assert found, "an expression asks for a metric of ours"
    for name, matchers in found:
        assert name in known, name
        for label, how, told in re.findall(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"', matchers):
            if label in ADDED or label == "status":  # of requests, which no test makes all
                assert label in ADDED or label in known[name]
                continue
            if label == "route":
                assert told in ROUTES
                continue
            wanted = told.split("|") if how == "=~" else [told]
            assert set(wanted) <= known[name][label], (name, label)
    for grouped in re.findall(r"\bby \(([^)]*)\)", EXPRESSIONS[title]):
        labels = {label.strip() for label in grouped.split(",")} - ADDED
        assert all(labels <= known[name].keys() for name, _ in found)


def test_no_metric_is_left_out_of_the_page_and_the_page_invents_none() -> None:
    page = PAGE.read_text(encoding="utf-8")
    families = {line.split()[2] for line in scraped().splitlines() if line.startswith("# TYPE precis_")}

    named = set(re.findall(r"^\| `(precis_\w+)`", page, re.MULTILINE))

    assert named == families
    assert set(re.findall(r"^\| `(Precis\w+)`", page, re.MULTILINE)) == {rule["alert"] for rule in RULES}


# A program of Debian's that no wheel has. Metrics, labels and values are checked above without it.
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (apt-get install prometheus)")
def test_promtool_takes_the_alerts_and_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    grafanas = {"$__rate_interval": "5m", "$job": "precis"}
    rules = []
    for number, expression in enumerate(EXPRESSIONS.values()):
        for name, value in grafanas.items():
            expression = expression.replace(name, value)
        rules.append({"record": f"panel_{number}", "expr": expression})
    made = tmp_path / "rules.yml"
    made.write_text(yaml.safe_dump({"groups": [*ALERTS["groups"], {"name": "dashboard", "rules": rules}]}))

    ended = subprocess.run(["promtool", "check", "rules", made], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
