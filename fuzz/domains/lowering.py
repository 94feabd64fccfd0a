"""The domain of lowering: the loops and kernels of graphs, run by the loop interpreter.

No pass, plan, text or engine is judged, and the graph alone is the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Scheduled, compile
from didyma.codegen.rules import schedules
from didyma.codegen.schedule.dispatch import points
from didyma.codegen.schedule.recipes.point import Point, show_all
from didyma.fuzz import traits
from didyma.fuzz.chooser import Chooser, Dice
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome, Shrinker
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.graphs import Case
from didyma.fuzz.keys import DECISION, EXAMINED, MATTERED
from didyma.fuzz.mattered import Examiner
from didyma.fuzz.steering.draw import SCHEDULES
from didyma.fuzz.steering.draw import draw as around
from didyma.fuzz.steering.primitives import cut
from didyma.fuzz.steering.wishes import INTERPRETED
from didyma.oracle import lanes
from didyma.oracle.kernels import run_primfuncs
from didyma.oracle.primitives import PrimitiveBars, judge_primitives
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Finding
from didyma.oracle.ring import PrimitivePayloads
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Contract

IN_RING = 2  # one graph in so many is compared in the ring, too
SOUGHT = 4  # one in so many is drawn for a schedule
CHOICES = "kernels.choices"  # the option that says how functions are scheduled
MOST_POINTS = 512  # of a function, among which one is drawn
# Recipes of pieces.
_OF = {"once": "looped", "swept": "sweep", "odd": "rows", "chained": "chain"}
SALT = 1 << 32  # of seeds, so that other graphs are drawn than those that are judged whole


@dataclass(frozen=True, slots=True)
class Lowering(Domain[Case]):
    """Random graphs, of which the loops and kernels are judged."""

    options: Options = field(default_factory=Options)

    @property
    def name(self) -> str:
        """``lowering``."""
        return "lowering"

    @property
    def floor(self) -> float:
        """Loops are judged with whole graphs, too, but a third as many in a second."""
        return 0.2

    def draw(self, seed: int, index: int) -> Case:
        """Return the graph of a campaign's seed and an index.

        Half of all are a piece whose kernels may be scheduled in many ways, and scheduled in any
        that recipes allow.  One in ``SOUGHT`` has a piece that asks for a schedule that is rare
        otherwise; of three such, two are scheduled in some way by the same recipe, too.  Of the
        others fusion divides every other one.  Half of those with symbols have sizes that are
        nearly the least.
        """
        salted = seed + SALT
        c, turn, recipe = Dice((salted << 64) + index), index // SOUGHT, ""
        match index % SOUGHT:
            case 0:
                case, pointed = self._graphs.draw(salted, index), False
                case = cut(case, c) if turn % 2 else case
            case 2:
                wish, lap = INTERPRETED[turn % len(INTERPRETED)], turn // len(INTERPRETED)
                case, pointed = self._graphs.draw_wished(salted, index, (wish,)), lap % 3 > 0
                recipe = _OF.get(wish[-1], "")
            case _:
                case, pointed = around(salted, index, SCHEDULES), True
        case = _small(case, c) if c.chance(2) else case
        return _pointed(case, self.options, c, recipe) if pointed else case

    @property
    def _graphs(self) -> Graphs:
        return Graphs((), self.options)

    def judge(self) -> Judge[Case]:
        """Return the judge."""
        return partial(self.outcome, examiner=Examiner())

    def outcome(self, case: Case, examiner: Examiner | None = None) -> Outcome:
        """Lower and schedule a graph, and judge the loops and kernels of each Primitive.

        Of a graph that is scheduled in any way, loops are judged only where kernels are wrong.
        """
        size, pointed = len(case.module.entry.nodes), CHOICES in dict(case.changes)
        heard = dict[str, list[str]]()

        def hear(decision: str, value: str) -> None:
            heard.setdefault(decision, []).append(value)

        try:
            made = compile(case.module, case.options(self.options), until="schedule", heard=hear)
        except Exception as e:
            finding = Finding("schedule", "while compiling", "error", f"{type(e).__name__}: {e}")
            return Outcome((finding,), traits.of_error(e), size)
        try:
            levels = [_judged(made, case, "kernel").level()]
            if not pointed or levels[0].findings:
                levels.insert(0, _judged(made, case, "loop").level())
        except DidymaError as e:
            if e.code != "dim-out-of-range":
                raise
            return Outcome(size=size)  # the reference refuses these inputs
        findings = [f for level in levels for f in level.findings]
        blamed = made.kernels.get(findings[0].where, ()) if findings else ()
        for name, value in schedules(made):
            hear(name, value)
        covered = [*_keys(made), *((DECISION, name) for name in heard)]
        if examiner is not None and not findings and not pointed:
            covered += examiner.keys(case, case.inputs(), made, heard)
        return Outcome(
            tuple(findings),
            frozenset[str]().union(*map(traits.of_kernel, blamed)),
            size,
            sum(level.checked for level in levels),
            sum(level.total for level in levels),
            tuple(dict.fromkeys(covered)),
            ring_checked=sum(level.ring_checked for level in levels),
            ring_total=sum(level.ring_total for level in levels),
        )

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[Case]]]:
        """Return what makes graphs smaller."""
        return self._graphs.shrinkers(finding)

    def size(self, case: Case) -> tuple[int, ...]:
        """Return the number of nodes, and of the elements of the inputs."""
        return self._graphs.size(case)

    def text(self, case: Case, found: Outcome, message: str, seed: int) -> str:
        """Return the file that ``didyma replay`` reads."""
        return self._graphs.text(case, found, message, seed)

    def replay(self, case: Case, file: str) -> str:
        """Return the command that replays a file."""
        return self._graphs.replay(case, file)

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how many kernels of each schedule there were."""
        kinds = {k: n for k, n in covered.items() if k[0] not in (DECISION, EXAMINED, MATTERED)}
        return {"schedules": dict(_counted(kinds)), "keys": len(kinds)}


def _small(case: Case, c: Chooser) -> Case:
    """Return a case whose sizes are the least or next to it: there is less of all than usual."""
    least = {v.name: (v.lo, min(v.lo + 1, v.hi)) for v in case.module.dims}
    env = tuple((name, min(value, c.pick(least[name]))) for name, value in case.env)
    return replace(case, env=env)


def _pointed(case: Case, options: Options, c: Chooser, recipe: str = "") -> Case:
    """Return a case whose functions are scheduled in one of the ways that their recipes allow.

    Only those by ``recipe``, if one is named: others stay as a compile schedules them.
    """
    chosen = case.options(options)
    try:
        made = compile(case.module, chosen, until="lower")
        ways = {name: _ways(points(loop, chosen), recipe) for name, loop in made.loops.items()}
        found = {name: c.pick(some) for name, some in ways.items() if some}
    except Exception:
        return case  # judged as it is, it shows what is wrong
    text = (CHOICES, show_all(found))
    return replace(case, changes=(*case.changes, text)) if found else case


def _ways(every: Iterator[tuple[Point, ...]], recipe: str) -> list[tuple[Point, ...]]:
    """Return the ways by a recipe, in one pass where that is a choice; or the first of all."""
    if not recipe:
        return [*islice(every, MOST_POINTS)]
    return [w for w in every if any(p.recipe == recipe and p.table.get("online", 1) for p in w)]


def _judged(made: Scheduled, case: Case, name: str) -> Recorder:
    """Judge each Primitive's loops as lowered (``loop``), or as scheduled (``kernel``)."""
    contract, level = Contract(), Recorder(name)
    bars, payloads = PrimitiveBars(made.fused, contract), PrimitivePayloads(made.fused, contract)
    in_ring = sum(case.seeds) % IN_RING == 0
    launch = partial(lanes.run, arithmetic=scalar_ring) if in_ring else lanes.run

    def programs(function: str) -> Sequence[Kernel]:
        return made.kernels[function] if name == "kernel" else (made.loops[function],)

    def run(function: str, args: Sequence[Array], env: Mapping[str, int]) -> Sequence[Array]:
        types = made.fused.function(function).result_types()
        loop = made.loops[function]
        return run_primfuncs(programs(function), loop, args, env, types, launch, in_ring=in_ring)

    with np.errstate(all="ignore"):  # NaN and infinity are results here, not accidents
        env = dict(case.env)
        judge_primitives(level, bars, case.inputs(), env, run, programs, payloads=payloads)
    return level


def _keys(made: Scheduled) -> Iterator[Key]:
    """Yield each kernel's schedule, and that with each op of its function."""
    for f in made.fused.functions:
        for k in made.kernels.get(f.name, ()):
            schedule = str(k.attrs and dict(k.attrs).get("schedule", "")) or "none"
            yield (schedule,)
            for n in f.nodes:
                yield schedule, n.op, str(n.types[0].dtype)


def _counted(covered: Mapping[Key, int]) -> Iterator[tuple[str, int]]:
    return ((k[0], n) for k, n in sorted(covered.items()) if len(k) == 1)
