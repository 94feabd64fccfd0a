"""``didyma fuzz --memory``: a campaign on memory plans."""

from __future__ import annotations

from didyma.commands import common
from didyma.commands.fuzz import bar, chosen_seed, cores
from didyma.fuzz.allocator import campaign
from didyma.refimpl.errors import DidymaError
from didyma.show.campaign import memory_campaign


def fuzz(
    seconds: float,
    engines: common.Engines,
    seed: int | None,
    jobs: int | None,
    stop_after: int,
    json: bool,
) -> int:
    """Run a campaign and print what it saw; a signal ends it early with what was found so far."""
    if engines:
        raise DidymaError(
            "bad-option", f"--engine {engines[0]}", got="an engine",
            want="none: plans are run by the interpreter of programs",
        )  # fmt: skip
    workers = jobs or cores()
    plan = campaign.Plan(seconds, None, chosen_seed(seed), workers, stop_after=stop_after)
    with bar(seconds) as shown:

        def progress(r: campaign.Result) -> None:
            found = f", {len(r.findings)} findings" if r.findings else ""
            shown(r.seconds, f"{r.schedules} schedules{found}")

        result = campaign.run(plan, progress)
    return common.ended(result, memory_campaign, json, ran=bool(result.schedules))
