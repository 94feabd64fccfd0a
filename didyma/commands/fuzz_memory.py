"""``didyma fuzz --memory``: a campaign on memory plans."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from didyma.commands import common
from didyma.commands.fuzz import cores
from didyma.fuzz.allocator import campaign
from didyma.refimpl.errors import DidymaError
from didyma.show.campaign import memory_campaign


def fuzz(
    seconds: float,
    engines: common.Engines,
    seed: int,
    jobs: int | None,
    stop_after: int,
    json: bool,
) -> int:
    """Run a campaign and print what it saw; Ctrl-C ends it early with what was found so far."""
    if engines:
        raise DidymaError(
            "bad-option", f"--engine {engines[0]}", got="an engine",
            want="none: plans are run by the interpreter of programs",
        )  # fmt: skip
    plan = campaign.Plan(seconds, None, seed, jobs or cores(), stop_after=stop_after)
    result = _with_bar(plan)
    return common.ended(result, memory_campaign, json, ran=bool(result.schedules))


def _with_bar(plan: campaign.Plan) -> campaign.Result:
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=plan.seconds)

        def show_progress(r: campaign.Result) -> None:
            found = f", {len(r.findings)} findings" if r.findings else ""
            bar.update(task, completed=r.seconds, description=f"{r.schedules} schedules{found}")

        return campaign.run(plan, show_progress)
