"""The bundled recording is what Open WebUI saw, and the demonstration keeps what the README promises."""

import hashlib
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from service.cli.demo import demonstrate
from service.cli.running import embedded_worker
from service.demo.host import path
from service.demo.play import recording
from service.transcript import unfold


def test_the_recorded_rows_unfold_to_the_native_lists_that_open_webui_built() -> None:
    told = recording()
    assert len(told.native_hashes) > 60
    for user_message, expected in told.native_hashes.items():
        native = unfold(path(told.rows, user_message))
        packed = json.dumps(native, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert hashlib.sha256(packed.encode()).hexdigest() == expected, user_message


@pytest.mark.slow
async def test_the_demonstration_stays_below_the_window_and_asks_no_llm_while_a_user_waits(tmp_path: Path) -> None:
    shown = io.StringIO()
    await demonstrate(embedded_worker, Console(file=shown, width=80), tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["conversation_tokens"] > 120_000
    assert figures["max_would_send_tokens"] > 131_072
    assert figures["max_sent_tokens"] < 100_000
    assert figures["llm_calls_on_request_path"] == 0
    assert figures["summariser_tokens_read"] == 0, "the built-in summariser asks no model"
    assert figures["checkpoints"] > 0
    assert "Summaries by extractive" in shown.getvalue()
    assert figures["summary"].endswith("[End of summary - recent messages follow]")
    lines = shown.getvalue().splitlines()
    assert "[End of summary - recent messages follow]" in lines
    assert max(map(len, lines)) <= 80
    assert len(lines) < figures["turns"] + 40
