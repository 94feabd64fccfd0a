"""``didyma fuzz``: a campaign on random graphs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from didyma.commands import common
from didyma.fuzz import campaign, disk
from didyma.show import campaign as show


def fuzz(
    seconds: float,
    engines: common.Engines,
    seed: int,
    jobs: int | None,
    planner: str,
    findings: Path,
    stop_after: int,
    timeout: float,
    json: bool,
) -> int:
    """Run a campaign and print what it saw; Ctrl-C ends it early with what was found so far."""
    wanted = engines or ("simt", "host")
    common.require(wanted)
    disk.must_take_files(findings)
    plan = campaign.Plan(
        seconds,
        campaign.teams(wanted, jobs or cores()),
        seed,
        common.options(planner),
        hang_seconds=timeout,
        stop_after=stop_after,
        findings=findings,
    )
    result = _with_bar(plan)
    return common.ended(result, show.campaign, json, ran=bool(result.all.programs))


def cores() -> int:
    """Return how many processors this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _with_bar(plan: campaign.Plan) -> campaign.Result:
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=plan.seconds)

        def show_progress(r: campaign.Result) -> None:
            found = f", {len(r.findings)} findings" if r.findings else ""
            text = f"{r.all.programs} programs, {len(r.covered)} pairs{found}"
            bar.update(task, completed=r.seconds, description=text)

        return campaign.run(plan, show_progress)
