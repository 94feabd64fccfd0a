"""``didyma fuzz --memory``: a campaign on memory plans."""

from __future__ import annotations

from didyma.commands import common
from didyma.commands.fuzz import chosen_seed, cores, run
from didyma.fuzz import campaign
from didyma.fuzz.domains.plans import HANG_SECONDS, Plans, record
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
    plan = campaign.Plan(
        (Plans(),) * (jobs or cores()),
        seconds,
        seed=chosen_seed(seed),
        hang_seconds=HANG_SECONDS,
        stop_after=stop_after,
    )
    result = run(plan, "schedules")
    seen = record(result)
    return common.ended(result, seen, memory_campaign, json, ran=bool(result.all.cases))
