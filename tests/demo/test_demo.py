"""The bundled recording is what Open WebUI saw, and the demonstration keeps what the README promises."""

import gzip
import hashlib
import json

import pytest

from service.cli.demo import play_demo
from service.cli.running import run_embedded_worker
from service.demo.host import list_path
from service.demo.play import PACKED
from service.transcript import unfold_messages


def test_the_recorded_rows_unfold_to_the_native_lists_that_open_webui_built() -> None:
    recorded = json.loads(gzip.decompress(PACKED.read_bytes()))
    assert len(recorded["inlets"]) > 60
    for inlet in recorded["inlets"]:
        native = unfold_messages(list_path(recorded["rows"], inlet["user_message_id"]))
        packed = json.dumps(native, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert hashlib.sha256(packed.encode()).hexdigest() == inlet["sha256"]


@pytest.mark.slow
async def test_the_demonstration_stays_below_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    turns = await play_demo(run_embedded_worker)
    assert max(turn.would_send for turn in turns) > 131_072
    assert max(turn.sent for turn in turns) < 100_000
    assert "\n[End of summary: " in turns[-1].summary
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("turn 65") and "Summarised" in line for line in lines)
    assert max(len(line) for line in lines if line.startswith("turn")) <= 80
