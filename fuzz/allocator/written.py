"""Cases of memory planning that are written down: programs without memory, and traces, as text.

Seeds give cases of every kind, and only a few of those that matter to one condition of a planner.
Such a case is written by hand, kept in the distilled corpus, and judged as drawn ones are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from random import Random
from typing import Any

from didyma.codegen.emit import wrapper
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.memory import peak, planner, trace
from didyma.codegen.memory.arena import Problem, solve
from didyma.codegen.memory.plan import plan
from didyma.fuzz.allocator import definitions, domains, judge, replays, tapes, wrappers
from didyma.fuzz.allocator.domains import JudgedCase
from didyma.fuzz.allocator.judge import Verdict
from didyma.fuzz.allocator.kernels import movers
from didyma.fuzz.chooser import Chooser
from didyma.fuzz.counters import Counters, of_lines, of_texts
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Allocate, Copy, Launch, Program, Wait
from didyma.refimpl.ir.text import parse_program, show

TRACE = "id,"  # what traces begin with
REFUSED = ("over-capacity", "search-limit")
SEEDS = 100  # of values, among which changed cases are


@dataclass(frozen=True, slots=True)
class Written:
    """A program without memory or a trace, as text, and how it is to be planned.

    Values, and sizes between the ends of their ranges, are those of the ``seed``.  With ``calls``
    calls are recorded and repeated, too.
    """

    text: str
    planner: str
    seed: int = 0
    eager: bool = False
    capacity: int | None = None
    calls: bool = False

    @property
    def facts(self) -> Mapping[str, Any]:
        """Everything but the text, as JSON has it."""
        found = {"planner": self.planner, "written": self.seed, "eager": self.eager}
        return found | {"capacity": self.capacity, "calls": self.calls}


def of(text: str, facts: Mapping[str, Any]) -> Written:
    """Return the case of a text and of facts that ``Written.facts`` gave."""
    return Written(
        text, str(facts["planner"]), int(facts["written"]), bool(facts["eager"]),
        facts["capacity"], bool(facts["calls"]),
    )  # fmt: skip


def near(w: Written, c: Chooser) -> Written:
    """Return a case by another planner, with other values, or that leaves out what it may."""
    some = domains.QUICK if w.text.startswith(TRACE) else domains.PLANNERS_OF_PROGRAMS
    name = c.pick((w.planner, *some, "didyma"))
    return replace(w, planner=name, seed=c.below(SEEDS), eager=bool(c.below(2)))


def judged(w: Written) -> JudgedCase:
    """Judge a case as drawn ones are, and count what its plan takes."""
    if w.text.startswith(TRACE):
        return _trace(trace.parse(w.text, capacity=w.capacity), w)
    bare = parse_program(w.text)
    try:
        planned = _plan(bare, w, w.capacity)
    except DidymaError as e:
        return JudgedCase("program", w.seed, w.planner, tuple(_refused(bare, w, e)))
    found = tuple(islice(_program(bare, planned, w), 1))
    plans = {"plans": "\n".join(map(show, _plans(bare)))}
    counted = {**_counters(planned), **of_texts(plans)}
    return JudgedCase("program", w.seed, w.planner, found, counted)


def _plans(bare: Program) -> Iterator[Program]:
    """Yield the plans of a program by each quick planner, eager ones and others."""
    moved = movers(bare)
    for name, eager in product(domains.QUICK, (False, True)):
        yield plan(bare, planner(name), None, moved, eager=eager)


def _trace(p: Problem, w: Written) -> JudgedCase:
    """Judge the placement of a trace, or that none is found; ``canonical`` finds any of a few."""
    found = tuple(domains.placed(p, w.planner, w.seed))
    counters: Counters = {}
    try:
        found_at = solve(p, w.planner)
        names = dict.fromkeys((w.planner, *domains.QUICK)) if p.capacity is None else (w.planner,)
        offsets = {f"offsets by {name}": str(solve(p, name).offsets.tolist()) for name in names}
        counters = {"peak": found_at.peak, **of_texts(offsets)}
    except DidymaError as e:
        few = p.count <= definitions.FEW and w.planner == "canonical"
        least = definitions.least_peak(p) if few else None
        if p.capacity is None or (least is not None and least <= p.capacity):
            found += (Verdict("planner", f"{e.code}: {e}; the least peak is {least}"),)
    return JudgedCase("trace", w.seed, w.planner, found, counters)


def _plan(bare: Program, w: Written, capacity: int | None) -> Program:
    return plan(bare, planner(w.planner), capacity, movers(bare), eager=w.eager)


def _refused(bare: Program, w: Written, e: DidymaError) -> Iterator[Verdict]:
    """Yield that a plan is refused though one without a capacity is within it."""
    most = peak(_plan(bare, w, None), {v.name: v.lo for v in bare.dims})
    if w.capacity is None or e.code not in REFUSED or most <= w.capacity:
        yield Verdict("planner", f"{e.code}: {e}; without a capacity it takes {most}")


def _program(bare: Program, planned: Program, w: Written) -> Iterator[Verdict]:
    most = peak(planned, {v.name: v.lo for v in bare.dims})
    if w.capacity is not None and most > w.capacity:
        yield Verdict("planner", f"the plan takes {most} bytes, of {w.capacity}")
    yield from judge.laws(bare, planned)
    if not w.eager:
        yield from judge.frugal(bare, planned, planner(w.planner))
    for env in judge.bindings(bare.dims, Random(w.seed)):
        yield from judge.static(planned, env)
        found = judge.run(bare, planned, env, w.seed, wrapped=True)
        if w.capacity is None or peak(planned, env) <= w.capacity:
            yield from found
        elif not any("memory is within" in v.message for v in found):
            yield Verdict("run", f"it runs with {peak(planned, env)} bytes, of {w.capacity}")
    if w.calls:
        yield from (Verdict("replay of calls", wrong) for wrong in _repeated(bare, planned, w.seed))


def _counters(planned: Program) -> Counters:
    """Count the lines of a plan, its peak at the ends of all ranges, and what its wrapper says."""
    kinds = Counter(type(x).__name__ for p in (planned, *planned.functions) for x in walk(p.lines))
    lines = {"launches": Launch, "copies": Copy, "allocations": Allocate, "waits": Wait}
    ends = {"least": [v.lo for v in planned.dims], "most": [v.hi for v in planned.dims]}
    names = [v.name for v in planned.dims]
    peaks = {
        f"{k} peak": peak(planned, dict(zip(names, at, strict=True))) for k, at in ends.items()
    }
    text = wrappers.text_of(planned)
    said = of_texts(
        {"wrapper": wrapper.emit(planned, text), "JSON": program_json(planned, text, {})}
    )
    every = {**of_lines(planned), **said}
    return {name: kinds[kind.__name__] for name, kind in lines.items()} | peaks | every


def _repeated(bare: Program, planned: Program, seed: int) -> Iterator[str]:
    envs = judge.bindings(bare.dims, Random(seed))[-2:]
    yield from replays.judged(bare, planned, envs, seed)
    try:
        yield from tapes.judged(bare, planned, envs, seed)
    except EngineMissing:
        return  # what runs tapes is compiled, which an engine may do without
