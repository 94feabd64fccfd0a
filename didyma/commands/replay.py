"""``didyma replay``: a finding judged again."""

from __future__ import annotations

from pathlib import Path

from didyma.commands import common
from didyma.commands.judge import Task, guarded, tell
from didyma.fuzz import replay as findings


def replay(file: Path, engines: common.Engines, timeout: float, json: bool) -> int:
    """Judge a finding again."""
    r = findings.load(file)
    wanted = engines or r.engines
    common.require(wanted)
    common.options(r.options.planner)
    task = Task(r.module, r.env, r.seeds, wanted, r.options, given=r.given)
    return tell(guarded(task, timeout), json)
