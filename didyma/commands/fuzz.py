"""``didyma fuzz``: a campaign on the domains of ``didyma.fuzz.domains.registry``."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from didyma.checking import ENGINES
from didyma.codegen.options import Options
from didyma.codegen.runtime import disk
from didyma.commands import common
from didyma.fuzz import campaign, distilled, shares
from didyma.fuzz.domains import registry
from didyma.fuzz.domains.domain import Domain
from didyma.fuzz.lines import must_be_possible
from didyma.fuzz.records import record
from didyma.fuzz.result import Result
from didyma.fuzz.seeds import fresh_seed
from didyma.fuzz.steering import meter
from didyma.refimpl.cores import cores
from didyma.refimpl.errors import DidymaError
from didyma.show import campaign as show
from didyma.show import coverage_page


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked of a campaign; ``case`` is the index of the only case to judge."""

    seconds: float
    engines: common.Engines
    domains: tuple[str, ...]
    shares: tuple[str, ...]
    seed: int | None
    case: int | None
    wishes: str | None
    jobs: int | None
    options: Options
    findings: Path
    stop_after: int
    timeout: float
    coverage: bool
    html: Path | None
    lines: bool


def fuzz(asked: Request, json: bool) -> int:
    """Run a campaign and print what it saw; a signal ends it early with what was found so far.

    Errors: ``unknown-domain``, ``bad-option`` for shares that cannot be kept, for an engine where
    no domain needs one, and for a case without its domain or seed; those of the engines; and
    ``unwritable``.
    """
    entries = [registry.entry(name) for name in asked.domains or registry.DOMAINS]
    needed = not all(e.alone for e in entries)
    if asked.engines and not needed:
        raise DidymaError(
            "bad-option", f"--engine {asked.engines[0]}", got="an engine",
            want=f"none: nothing of {', '.join(e.name for e in entries)} runs on an engine",
        )  # fmt: skip
    wanted = asked.engines or ENGINES
    if needed:
        common.require(wanted, asked.options)
    domains = registry.make(registry.Setup(wanted, asked.options), asked.domains)
    fixed = _shares(asked.shares, [d.name for d in domains])
    if asked.case is not None and (len(domains) != 1 or asked.seed is None):
        raise DidymaError(
            "bad-option", f"--case {asked.case}", got="a case without its one domain, or its seed",
            want="--domain NAME --seed SEED --case INDEX",
        )  # fmt: skip
    if asked.wishes is not None and asked.case is None:
        raise DidymaError(
            "bad-option", f"--wishes {asked.wishes}", got="wishes without a case",
            want="--case INDEX --wishes WISHES, as the file of a finding has them",
        )  # fmt: skip
    wishes = None if asked.wishes is None else _wishes(asked.wishes, domains[0])
    if asked.html is not None:
        disk.must_take_file(asked.html)
    if asked.lines:
        must_be_possible()
    disk.must_take_files(asked.findings)
    plan = campaign.Plan(
        domains,
        asked.seconds if asked.case is None else None,
        seed=chosen_seed(asked.seed),
        first=asked.case or 0,
        count=None if asked.case is None else asked.case + 1,
        jobs=(asked.jobs or cores()) if asked.case is None else 1,
        hang_seconds=asked.timeout,
        stop_after=asked.stop_after,
        findings=asked.findings,
        shares=fixed,
        lines=asked.lines,
        metered=asked.case is None,
        wishes=wishes,
        kept=asked.case is None,
    )
    result = run(plan)
    each = asked.coverage or asked.lines or asked.html is not None
    seen = record(result, domains, each=each)
    if asked.html is not None:
        disk.write_file(asked.html, coverage_page.page(seen))
    return common.ended(result, seen, show.campaign, json, ran=bool(result.cases))


def _shares(given: Sequence[str], names: Sequence[str]) -> Mapping[str, float]:
    """Return the shares of items ``NAME=PERCENT``; DidymaError ``bad-option``."""
    fixed: dict[str, float] = {}
    for item in given:
        name, _, percent = item.partition("=")
        try:
            fixed[name] = float(percent) / 100
        except ValueError:
            fixed[name] = 0.0
        if not shares.possible(names, fixed):
            raise DidymaError(
                "bad-option", f"--share {item}", got=item,
                want="NAME=PERCENT of a domain that is judged, above 0; together at most 100, and "
                "100 where every domain has a share",
                help=f"judged are {', '.join(names)}",
            )  # fmt: skip
    return fixed


def _wishes(words: str, domain: Domain[Any]) -> tuple[meter.Wish, ...]:
    """Read wishes of a domain; DidymaError ``bad-option``."""
    wishes = meter.parse(words)
    if distilled.known(wishes, domain.name):
        return wishes
    for wish in wishes:
        if wish not in domain.wanted():
            raise DidymaError(
                "bad-option", f"--wishes {words}", got=meter.text([wish]),
                want=f"wishes of {domain.name}, as the file of a finding has them",
            )  # fmt: skip
    return wishes


def run(plan: campaign.Plan) -> Result:
    """Run a campaign behind a progress bar."""
    with bar(plan.seconds or 0.0) as shown:

        def progress(r: Result) -> None:
            found = f", {len(r.groups)} groups of findings" if r.groups else ""
            shown(r.seconds, f"{r.cases:,} cases, {r.keys:,} keys covered{found}")

        return campaign.run(plan, progress)


def chosen_seed(seed: int | None) -> int:
    """Return the seed given, or a fresh one; say which on stderr, as the campaign may be killed."""
    chosen = fresh_seed() if seed is None else seed
    print(f"seed {chosen}", file=sys.stderr, flush=True)
    return chosen


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
