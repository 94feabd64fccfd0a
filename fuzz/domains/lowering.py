"""The domain of lowering: the loops and kernels of graphs, run by the loop interpreter.

No pass, plan, text or engine is judged, and the graph alone is the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np

from didyma.codegen.options import Options
from didyma.codegen.pipeline import Scheduled, compile
from didyma.codegen.rules import schedules
from didyma.codegen.schedule.dispatch import points
from didyma.codegen.schedule.recipes.point import parse_all
from didyma.fuzz import blocks, census, choices, counters, traits
from didyma.fuzz.chooser import Chooser, Dice
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome, Shrinker
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.domains.ways import CHOICES, Wanted, compiled, plain, pointed, resized
from didyma.fuzz.graphs import Case
from didyma.fuzz.keys import DECISION, EXAMINED, MATTERED
from didyma.fuzz.mattered import Examiner
from didyma.fuzz.steering.draw import NOTHING, SCHEDULES, whole
from didyma.fuzz.steering.draw import draw as around
from didyma.fuzz.steering.near import near
from didyma.fuzz.steering.places import BEST, TERMS
from didyma.fuzz.steering.primitives import cut
from didyma.fuzz.steering.rows import ANNOUNCED
from didyma.fuzz.steering.wishes import INTERPRETED
from didyma.oracle import lanes
from didyma.oracle.kernels import run_primfuncs
from didyma.oracle.primitives import PrimitiveBars, judge_primitives
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Finding
from didyma.oracle.ring import PrimitivePayloads
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.target import CPU, PORTABLE, SM_80, SM_90A
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Contract

CHOSEN = 2  # of one graph in so many, points near those of a recipe are tried
IN_RING = 2  # one graph in so many is compared in the ring, too
EACH = 8  # one case in so many is as a compile schedules it
WAYS = 4  # cases in a row of one graph, scheduled in other ways
APART = ("graph.fuse", "graph.level")  # options by which each op has a kernel of its own
LET_APART = 8  # one graph in so many keeps them where it is to be scheduled in many ways
WHOLE = 4  # one of these in so many is a function that no fusion makes
NEAR = 2  # one of these in so many differs in one place from what is drawn
SOUGHT = 3  # one graph in so many is drawn for a schedule
# How pieces are to be scheduled.
_OF: Mapping[str, Wanted] = MappingProxyType(
    {
        "once": lambda p: p.table.get("online", p.recipe == "looped") > 0,
        "swept": lambda p: p.recipe == "sweep",
        "odd": lambda p: p.recipe == "rows",
        "picked": lambda p: p.recipe == "rows",
        "chained": lambda p: p.recipe == "chain",
        BEST: lambda p: p.recipe == "champion",
        TERMS: lambda p: p.recipe == "split" and p.table["parts"] > 1,
        ANNOUNCED: lambda p: (
            p.recipe == "rows" and 0 < p.table.get("ahead", 0) * p.table["groups"] <= 2
        ),
    }
)
TARGETS = (PORTABLE.name, PORTABLE.name, SM_90A.name, CPU.name, PORTABLE.name, SM_80.name)
MOST = 1 << 18  # threads of a kernel that is scheduled in any way
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
        """Schedules are many, and a whole graph is judged in one way alone."""
        return 0.3

    @property
    def usual(self) -> bool:
        """Whether no option of the user changes what is counted."""
        return self.options == Options()

    def draw(self, seed: int, index: int) -> Case:
        """Return the graph of a campaign's seed and an index.

        One in ``EACH`` is as a compile schedules it: divided by fusion or at random, or with a
        piece that asks for a schedule that is rare otherwise.  Of the others each has the graph of
        the one before it, scheduled in another way that recipes allow, most with other sizes, or a
        new graph: what schedules are about, or a rare piece, which is mostly scheduled by its
        recipe.
        """
        salted, lap = seed + SALT, index // WAYS
        c = Dice((salted << 64) + index)
        if index % EACH == 0:
            return self._usual(salted, lap, c)
        wanted = None
        if lap % SOUGHT:
            case = around(salted, lap, SCHEDULES)
            if lap % NEAR == 0:
                case = near(case, (), Dice((salted << 64) + lap)) or case
            case = replace(case, changes=(("target", TARGETS[lap % len(TARGETS)]), *case.changes))
        else:
            turn, at = divmod(lap // SOUGHT, len(INTERPRETED))
            wish = INTERPRETED[at]
            case = around(salted, lap, NOTHING, (wish,))
            case = whole(case) if turn % WHOLE == WHOLE - 1 else case
            wanted = None if c.chance(4) else _OF.get(wish[-1])
        fused = tuple(x for x in case.changes if x[0] not in APART or lap % LET_APART == 0)
        return pointed(resized(replace(case, changes=fused), c), self.options, c, wanted)

    def _usual(self, seed: int, lap: int, c: Chooser) -> Case:
        """Return a graph whose functions are scheduled as a compile does."""
        turn, kind = divmod(lap // (EACH // WAYS), 3)
        if kind == 2:
            wish = INTERPRETED[turn % len(INTERPRETED)]
            return around(seed, lap, NOTHING, (wish,))
        case = self._graphs.draw(seed, lap)
        case = cut(case, c) if kind else case
        return resized(case, c) if c.chance(2) else case

    @property
    def _graphs(self) -> Graphs:
        return Graphs((), self.options)

    def judge(self) -> Judge[Case]:
        """Return the judge."""
        return partial(self.outcome, memory=Memory())

    def outcome(self, case: Case, memory: Memory | None = None) -> Outcome:
        """Lower and schedule a graph, and judge the loops and kernels of each Primitive.

        Loops are judged only where kernels are wrong: right kernels come of right loops.
        """
        size, is_pointed = len(case.module.entry.nodes), CHOICES in dict(case.changes)
        heard, hear = counters.listener()
        memory, env = memory or Memory(), dict(case.env)
        try:
            if is_pointed:
                made, before = compiled(case, self.options)
                for pair in before:
                    hear(*pair)
            else:
                made = compile(
                    case.module, case.options(self.options), until="schedule", heard=hear
                )
        except Exception as e:
            finding = Finding("schedule", "while compiling", "error", f"{type(e).__name__}: {e}")
            return Outcome((finding,), traits.of_error(e), size)
        every = [k for ks in made.kernels.values() for k in ks]
        if is_pointed and any(counters.threads(k, env) > MOST for k in every):
            return Outcome(size=size)  # few schedules need so many, and others are judged meanwhile
        try:
            levels = [_judged(made, case, "kernel", memory).level()]
            if levels[0].findings:
                levels.insert(0, _judged(made, case, "loop", memory).level())
        except DidymaError as e:
            if e.code != "dim-out-of-range":
                raise
            return Outcome(size=size)  # the reference refuses these inputs
        findings = [f for level in levels for f in level.findings]
        if is_pointed and not findings:
            taken = parse_all(str(dict(case.changes)[CHOICES]))
            said = blocks.wrong(made, plain(case, self.options), taken)
            findings += (Finding("schedule", "block", "room", w) for w in islice(said, 1))
        if not is_pointed and not findings and sum(case.seeds) % CHOSEN == 0:
            chosen = choices.wrong(made.loops, case.options(self.options), Random(sum(case.seeds)))
            findings += (Finding("schedule", "choices", "point", w) for w in islice(chosen, 1))
        blamed = made.kernels.get(findings[0].where, ()) if findings else ()
        for name, value in schedules(made):
            hear(name, value)
        covered = [*_keys(made), *((DECISION, name) for name in heard)]
        counted = dict(counters.of_kernels(every, env))
        if not findings:
            counted |= census.counted(case, made, self.options)
        if not findings and not is_pointed:
            covered += memory.examiner.keys(case, case.inputs(), made, heard)
            options = case.options(self.options)
            ways = [(loop, [*points(loop, options)]) for loop in made.loops.values()]
            texts = (text for loop, every in ways for text in choices.made(loop, options, every))
            counted |= counters.of_ways(sum(len(every) for _, every in ways))
            counted |= counters.of_texts({"ways": "\n".join(texts)})
        return Outcome(
            tuple(findings),
            frozenset[str]().union(*map(traits.of_kernel, blamed)),
            size,
            sum(level.checked for level in levels),
            sum(level.total for level in levels),
            tuple(dict.fromkeys(covered)),
            ring_checked=sum(level.ring_checked for level in levels),
            ring_total=sum(level.ring_total for level in levels),
            counters={**counted, **counters.of_decisions(heard)},
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


@dataclass(slots=True)
class Memory:
    """What a judge keeps: decisions that it examined, and what the last graph's results may be."""

    examiner: Examiner = field(default_factory=Examiner)
    last: tuple[PrimitiveBars, PrimitivePayloads] | None = None

    def of(self, fused: Module) -> tuple[PrimitiveBars, PrimitivePayloads]:
        """Return the bars and the payloads of a fused module, those of the last one again."""
        if self.last is None or self.last[0].fused is not fused:
            contract = Contract()
            self.last = PrimitiveBars(fused, contract), PrimitivePayloads(fused, contract)
        return self.last


def _judged(made: Scheduled, case: Case, name: str, memory: Memory) -> Recorder:
    """Judge each Primitive's loops as lowered (``loop``), or as scheduled (``kernel``)."""
    level, (bars, payloads) = Recorder(name), memory.of(made.fused)
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
