"""Slips that nobody had seen: how many a campaign of a minute finds, each of them alone.

``python -m tests.mutants.held_out FILE`` reads slips from a file of TOML: tables ``[[slip]]`` with
a ``name``, a ``file`` of codegen, and the text ``old`` in it, once, that becomes ``new``.  A
campaign of so much processor time without any of them notes which of its cases execute the changed
statement of each slip, and where ``when`` is true there if the slip has such an expression: only
these can show it.  An expression that names what is not bound there is refused.  They are judged
again with the slip alone, in the order of the campaign, and the slip is killed at the time at which
the campaign had come to the first with a finding.  So a set takes minutes where a campaign for each
slip would take an hour.

What a slip changes while modules are imported is seen only where it is at module level.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import itertools
import json
import pickle
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any
from unittest import mock

import typer

from tests.mutants.faults import Fault
from tests.mutants.forking import Ended, Say, forked, limit_cpu
from tests.mutants.marking import statement
from tests.mutants.mutant import Mutant
from tests.mutants.named import target
from tests.mutants.planting import Planter, compiles, import_all

HANG = 20.0  # seconds of processor time beside
SLOWER = 4  # times what a case took without a slip, which none takes that does not hang
_NAME = "__slip_executed__"
_UNBOUND = "__slip_unbound__"


@dataclass(frozen=True, slots=True)
class Case:
    """A case of the campaign: of a domain, when it had been judged, and the slips it executes.

    It ``took`` so many seconds.  ``wrong`` is what was found without any slip, which ought to be
    nothing.
    """

    domain: str
    index: int
    wishes: Any
    at: float
    took: float
    slips: frozenset[int]
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Unbound:
    """A slip whose ``when`` names what is not bound at its statement, and what Python says."""

    name: str
    when: str
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a slip: killed ``at`` a second of the campaign by ``how``, or not at all.

    ``met`` are the cases that execute it, of which ``judged`` were judged again.
    """

    name: str
    group: str
    met: int
    judged: int
    at: float | None
    how: str


def slips(file: Path) -> Iterator[tuple[Mutant, str]]:
    """Yield the slips of a file, and the expression that says when each matters.

    Those whose text is not there once are told and left out.
    """
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["slip"]:
        found = target(Fault(row["name"], row["file"], row["old"], row["new"], ()))
        if found.mutant is None or not compiles(found.mutant):
            print(f"{row['name']}: {found.stale or 'it does not compile'}")
        else:
            yield found.mutant, row.get("when", "True")


@dataclass(frozen=True, slots=True)
class _Clock:
    """A clock that goes as this process computes, so that other processes cost a campaign nothing.

    So kept cases take as large a share of a campaign's time as they do on an idle machine.
    """

    def monotonic(self) -> float:
        """Return seconds of processor time."""
        return time.process_time()


@dataclass(frozen=True, slots=True)
class Hunt:
    """A campaign of some domains, by a seed, for so much processor time in seconds."""

    seed: int
    seconds: float
    names: tuple[str, ...]

    def domains(self) -> tuple[Any, ...]:
        """Return the domains, of modules that may have been imported again."""
        registry = importlib.import_module("didyma.fuzz.domains.registry")
        return tuple(registry.make(registry.Setup(("host", "simt")), self.names))


def record(many: Sequence[tuple[Mutant, str]], planter: Planter, hunt: Hunt, say: Say) -> None:
    """Run a campaign in this process, with marks in place of slips, and say each of its cases."""
    executed = set[int]()
    for file, some in itertools.groupby(sorted(enumerate(many), key=_file), key=_file):
        marked = list(some)
        source = marked[0][1][0].source
        tree = ast.parse(source)
        for number, (m, when) in marked:
            old = source[m.site.start : m.site.end]
            body, at = statement(tree, source, m.site.end - len(old.lstrip()))
            if not body:
                executed.add(number)  # at module level: every case counts
                continue
            call = ast.Call(ast.Name(_NAME, ast.Load()), [ast.Constant(number)], [])
            test = ast.parse(when, mode="eval").body
            told = ast.Call(ast.Name(_UNBOUND, ast.Load()), [ast.Constant(number)], [])
            caught = ast.ExceptHandler(ast.Name("NameError", ast.Load()), None, [ast.Expr(told)])
            tried = ast.Try([ast.If(test, [ast.Expr(call)], [])], [caught], [], [])
            mark = ast.copy_location(tried, body[at])
            body.insert(at, ast.fix_missing_locations(mark))
        planter.change(file, source, tree)
    always = frozenset(executed)
    unbound = dict[int, str]()
    setattr(builtins, _NAME, executed.add)

    def note(number: int) -> None:
        unbound[number] = str(sys.exc_info()[1])

    setattr(builtins, _UNBOUND, note)
    from didyma.fuzz import campaign, worker
    from didyma.fuzz.executor import InlineExecutor

    drawn = worker.Opened.drawn
    start = time.process_time()

    def noted(self: Any, at_seed: int, index: int, wishes: Any) -> Any:
        executed.clear()
        began = time.process_time()
        case, outcome = drawn(self, at_seed, index, wishes)
        ended = time.process_time()
        for number, message in unbound.items():
            say(Unbound(many[number][0].site.scope, many[number][1], message))
            raise SystemExit(2)
        wrong = str(outcome.findings[0]) if outcome.findings else ""
        name, at, took = self.domain.name, ended - start, ended - began
        say(Case(name, index, wishes, at, took, always | executed, wrong))
        return case, outcome

    plan = campaign.Plan(
        hunt.domains(), hunt.seconds, seed=hunt.seed, shrink_seconds=0.0, kept=True
    )
    with (
        mock.patch.object(worker.Opened, "drawn", noted),
        mock.patch.object(campaign, "time", _Clock()),
    ):
        campaign.run(plan, executor=InlineExecutor())


def _file(numbered: tuple[int, tuple[Mutant, str]]) -> str:
    return numbered[1][0].file


def _cases(
    many: Sequence[tuple[Mutant, str]], planter: Planter, hunt: Hunt, keep: Path | None
) -> list[Case]:
    """Return the cases of a campaign, those that a file keeps if it does."""
    key = hunt, [(m.id, when) for m, when in many]
    if keep is not None and keep.exists():
        known, cases = pickle.loads(keep.read_bytes())
        if known == key:
            return list(cases)
    (ended,) = forked([0], lambda _, say: record(many, planter, hunt, say), 1)
    if ended.said and isinstance(bad := ended.said[-1], Unbound):
        raise typer.BadParameter(
            f"slip {bad.name!r}: {bad.message} in `when = {bad.when!r}`; name what is bound there"
        )
    if ended.how:
        raise RuntimeError(f"the campaign ended by {ended.how}")
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.write_bytes(pickle.dumps((key, ended.said)))
    return ended.said


def judge(
    m: Mutant,
    cases: Sequence[Case],
    planter: Planter,
    hunt: Hunt,
    number: int,
    say: Say,
) -> None:
    """Judge with one slip the cases that execute it; say each of them, and the first finding."""
    planter.plant(m)
    worker = importlib.import_module("didyma.fuzz.worker")
    domains = {d.name: d for d in hunt.domains()}
    opened = dict[str, Any]()
    start = time.process_time()
    for c in cases:
        if c.wrong or number not in c.slips or time.process_time() - start > hunt.seconds:
            continue
        say((c.at, ""))
        limit_cpu(HANG + SLOWER * c.took)
        if c.domain not in opened:
            opened[c.domain] = worker.Opened(domains[c.domain])
        _, outcome = opened[c.domain].drawn(hunt.seed, c.index, c.wishes)
        limit_cpu(0.0)
        if outcome.findings:
            say((c.at, f"{c.domain}: {outcome.findings[0]}"[:300]))
            return


def verdict(m: Mutant, met: int, ended: Ended[Any]) -> Verdict:
    """Return what became of a slip, from what the child that judged it said, and how it ended."""
    *_, (at, how) = ended.said or [(0.0, "")]
    how = how or ended.how
    judged = sum(not found for _, found in ended.said)
    return Verdict(m.site.scope, m.file.split("/")[1], met, judged, at if how else None, how)


def table(found: Sequence[Verdict]) -> Iterator[str]:
    """Yield a table of how many slips of each folder were killed, and when."""
    yield "| group | slips | killed | share | median |"
    yield "|---|---:|---:|---:|---:|"
    groups = dict.fromkeys(v.group for v in sorted(found, key=lambda v: v.group))
    for name in (*groups, "all"):
        some = [v for v in found if name in (v.group, "all")]
        times = [v.at for v in some if v.at is not None]
        when = f"{median(times):.1f} s" if times else ""
        share = f"{100 * len(times) / len(some):.0f} %"
        yield f"| {name} | {len(some)} | {len(times)} | {share} | {when} |"


def main(
    file: Path,
    seed: int = 11,
    seconds: Annotated[float, typer.Option(help="Processor time of the campaign.")] = 60.0,
    only: Annotated[str, typer.Option(help="Slips with this in their name or file.")] = "",
    domain: Annotated[
        list[str] | None, typer.Option(help="A domain; all if none is given.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="A file that keeps the campaign.")] = None,
    jobs: int = 1,
) -> None:
    """Hunt for held-out slips by the cases of one campaign."""
    sys.setrecursionlimit(10_000)
    many = list(slips(file))
    hunt = Hunt(seed, seconds, tuple(domain or ()))
    import_all()
    hunt.domains()
    planter = Planter()
    cases = _cases(many, planter, hunt, keep)
    print(f"{len(cases)} cases in {cases[-1].at:.1f} s of processor time", flush=True)
    if wrong := [c for c in cases if c.wrong]:
        c = wrong[0]
        print(f"{len(wrong)} are wrong without a slip, first {c.domain} {c.index}: {c.wrong}")
    found = list[Verdict]()

    def hunted(number: int, say: Say) -> None:
        judge(many[number][0], cases, planter, hunt, number, say)

    wanted = [i for i, (m, _) in enumerate(many) if only in m.site.scope or only in m.file]
    for done in forked(wanted, hunted, jobs):
        met = sum(done.work in c.slips for c in cases)
        found.append(verdict(many[done.work][0], met, done))
        v = found[-1]
        print(json.dumps([v.name, v.group, v.met, v.judged, v.at, v.how]), flush=True)
    print("\n".join(table(found) if found else ()))


if __name__ == "__main__":
    typer.run(main)
