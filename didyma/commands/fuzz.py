"""``didyma fuzz``: a campaign on random graphs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from didyma.commands import common
from didyma.fuzz import campaign, disk
from didyma.fuzz.domains.graphs import record, teams
from didyma.fuzz.result import Result
from didyma.fuzz.seeds import fresh_seed
from didyma.show import campaign as show


def fuzz(
    seconds: float,
    engines: common.Engines,
    seed: int | None,
    jobs: int | None,
    planner: str,
    findings: Path,
    stop_after: int,
    timeout: float,
    coverage: bool,
    json: bool,
) -> int:
    """Run a campaign and print what it saw; a signal ends it early with what was found so far."""
    wanted = engines or ("simt", "host")
    common.require(wanted)
    disk.must_take_files(findings)
    plan = campaign.Plan(
        teams(wanted, jobs or cores(), common.options(planner)),
        seconds,
        seed=chosen_seed(seed),
        hang_seconds=timeout,
        stop_after=stop_after,
        findings=findings,
    )
    result = run(plan, "programs", lambda r: f", {len(r.covered)} pairs")
    seen = record(result, each=coverage)
    return common.ended(result, seen, show.campaign, json, ran=bool(result.all.cases))


def run(plan: campaign.Plan, cases: str, more: Callable[[Result], str] = lambda _: "") -> Result:
    """Run a campaign behind a progress bar, which counts cases under their name."""
    with bar(plan.seconds or 0.0) as shown:

        def progress(r: Result) -> None:
            found = f", {len(r.groups)} groups of findings" if r.groups else ""
            shown(r.seconds, f"{r.all.cases} {cases}{more(r)}{found}")

        return campaign.run(plan, progress)


def chosen_seed(seed: int | None) -> int:
    """Return the seed given, or a fresh one; say which on stderr, as the campaign may be killed."""
    chosen = fresh_seed() if seed is None else seed
    print(f"seed {chosen}", file=sys.stderr, flush=True)
    return chosen


def cores() -> int:
    """Return how many processors this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Shown(Protocol):
    """Shows how far a campaign is."""

    def __call__(self, seconds: float, text: str) -> None:
        """Show the seconds that it has run, and a text."""
        ...


@contextmanager
def bar(seconds: float) -> Generator[Shown, None, None]:
    """Show a progress bar of so many seconds on stderr."""
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    err = Console(stderr=True)
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("starting", total=seconds)

        def shown(seconds: float, text: str) -> None:
            progress.update(task, completed=seconds, description=text)

        yield shown
