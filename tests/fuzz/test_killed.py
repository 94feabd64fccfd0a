"""What a campaign has found is on disk at once, whatever ends it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from didyma.fuzz import replay

SECONDS = 120.0  # a campaign must have started by then, however busy the machine


def test_a_finding_outlasts_a_campaign_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "findings"
    campaign = subprocess.Popen([sys.executable, "-m", "tests.fuzz.killed", str(folder)])
    try:
        end = time.monotonic() + SECONDS
        while not _smaller(folder) and time.monotonic() < end:
            assert campaign.poll() is None
            time.sleep(0.05)
    finally:
        campaign.send_signal(signal.SIGKILL)
        campaign.wait()
    found = [replay.load(path) for path in folder.glob("*.dym")]
    assert found, "the finding, while it was made smaller"
    assert all(r.finding is not None and r.traits == {"add"} for r in found)
    assert any(r.options.memory.planner_name == "none" for r in found), "the smallest so far"


def _smaller(folder: Path) -> bool:
    """Return whether the finding is there without a planner; a larger one may vanish meanwhile."""
    for path in folder.glob("*.dym"):
        with suppress(FileNotFoundError):
            if '"planner": "none"' in path.read_text(encoding="utf-8"):
                return True
    return False
