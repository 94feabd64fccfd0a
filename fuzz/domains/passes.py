"""The domain of graph passes: small graphs around rewrite rules, rewritten and compared.

Every pass runs alone on the graph, and all of them one after another; what they make must compute
what the graph computes, and so must graphs that are padded to larger sizes.  Nothing is
lowered or run, so many graphs are judged in little time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from didyma.codegen.options import Options
from didyma.codegen.passes.fuse import fuse
from didyma.codegen.passes.running import block_runs
from didyma.codegen.passes.simplify import simplify
from didyma.codegen.pipeline import Fused, compile
from didyma.fuzz import census, counters, padding, replay
from didyma.fuzz.chooser import Dice
from didyma.fuzz.domains.domain import Domain, Key, Outcome, Shrinker
from didyma.fuzz.graphs import Case
from didyma.fuzz.keys import DECISION, of_graph
from didyma.fuzz.mattered import Examiner
from didyma.fuzz.minimise.graph import shrink, shrink_to_constants
from didyma.fuzz.minimise.options import shrink_options
from didyma.fuzz.minimise.sizes import shrink_sizes
from didyma.fuzz.minimise.values import shrink_values
from didyma.fuzz.steering.draw import EACH, REWRITES, draw
from didyma.fuzz.steering.meter import Wish
from didyma.fuzz.steering.near import near_miss
from didyma.fuzz.steering.wishes import SCHEDULED, WANTED
from didyma.oracle.report import Finding
from didyma.oracle.stages import judge_passes
from didyma.oracle.subject import Subject
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import show

_FIXED = ("graph.simplify", "graph.level", "memory.planner")  # options that no case changes
SALT = 1 << 32  # of seeds, so that what is changed does not depend on what is drawn
IN_RING = 4  # one case in so many is judged in the ring, which takes as long again
PADDED = "pad a size"  # the name of the decision
_ALONE: tuple[tuple[str, Callable[[Module, Options], Module]], ...] = (
    ("simplify", simplify),
    ("runs", block_runs),
    ("fuse", fuse),
)


@dataclass(frozen=True, slots=True)
class Passes(Domain[Case]):
    """Graphs drawn around rewrite rules, whose graph passes are judged and nothing else."""

    options: Options = field(default_factory=Options)

    @property
    def name(self) -> str:
        """The domain's name."""
        return "passes"

    @property
    def floor(self) -> float:
        """A fifth of a campaign: rules about two particular ops are many."""
        return 0.2

    @property
    def free(self) -> int:
        """Half of the graphs are near misses, which nobody wishes for."""
        return 2

    @property
    def usual(self) -> bool:
        """Whether no option of the user changes what is counted."""
        return self.options == Options()

    def draw(self, seed: int, index: int) -> Case:
        """Return the graph of a campaign's seed and an index: every second is a near miss."""
        if index % self.free:
            return self._near(seed, index)
        return _fixed(draw(seed, index, REWRITES))

    def wanted(self) -> Mapping[Wish, Key]:
        """Return what graphs can be asked to have, but for decisions that no pass makes."""
        return {wish: key for wish, key in WANTED.items() if wish not in SCHEDULED}

    def draw_wished(self, seed: int, index: int, wishes: Sequence[Wish]) -> Case:
        """Return the graph of a seed and an index that has some pieces; without any a near miss."""
        return _fixed(draw(seed, index, REWRITES, wishes)) if wishes else self._near(seed, index)

    def _near(self, seed: int, index: int) -> Case:
        """Return a graph near one of a single piece in which passes decided something."""
        case = _fixed(draw(seed, index, EACH))
        return near_miss(case, Dice(((seed + SALT) << 64) + index), self.options)

    def judge(self) -> PassJudge:
        """Return the judge."""
        return PassJudge(self.options)

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[Case]]]:
        """Return what leaves out options and makes graphs, sizes and values smaller."""
        del finding
        return (
            (0.2, shrink_options), (0.65, shrink), (0.75, shrink_to_constants),
            (0.85, shrink_sizes), (1.0, shrink_values),
        )  # fmt: skip

    def size(self, case: Case) -> tuple[int, ...]:
        """Return the number of nodes of all functions, and of the elements of the inputs."""
        return sum(len(f.nodes) for f in case.module.functions), case.elements()

    def text(self, case: Case, found: Outcome, message: str, seed: int) -> str:
        """Return the file that ``didyma replay`` reads."""
        finding = next(iter(found.findings), None)
        recorded = replay.Recorded(
            case.module, case.seeds, dict(case.env), (), case.options(self.options),
            dict(case.given), campaign_seed=seed, finding=finding, traits=found.traits,
        )  # fmt: skip
        return replay.text(recorded, message)

    def replay(self, case: Case, file: str) -> str:
        """Return the command that replays a file."""
        del case
        return f"didyma replay {file}" if file else ""

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how often each decision was made."""
        return {"decisions": {k[1]: n for k, n in sorted(covered.items()) if k[0] == DECISION}}


def _fixed(case: Case) -> Case:
    """Return a case without options that no case changes, whose runs of short axes go in blocks."""
    changes = tuple((k, v) for k, v in case.changes if k not in _FIXED)
    if all(name != "graph.long_run" for name, _ in changes):
        changes = (*changes, ("graph.long_run", 8))
    return replace(case, changes=changes)


@dataclass(frozen=True, slots=True)
class PassJudge:
    """Runs and judges the graph passes of cases, under options."""

    options: Options
    examiner: Examiner = field(default_factory=Examiner)

    def __call__(self, case: Case) -> Outcome:
        """Judge every pass alone, and all of them in order."""
        heard, hear = counters.listener()
        options = case.options(self.options)
        try:
            last = "fuse" if options.graph.fuse else "separate"
            made = compile(case.module, options, until=last, heard=hear)
            alone = tuple(_each_alone(made, options))
            passes = (*alone, *made.passes)
        except Exception as e:
            finding = Finding("passes", "while rewriting", "error", f"{type(e).__name__}: {e}")
            return Outcome((finding,), size=len(case.module.entry.nodes))
        program = Program("none", (), (), (), (), (), ())
        subject = Subject(case.module, passes, made.fused, {}, {}, program)
        in_ring, inputs = sum(case.seeds) % IN_RING == 0, case.inputs()
        level = judge_passes(subject, inputs, in_ring=in_ring)
        many, findings = level.comparisons, level.findings
        decided = dict(heard)
        if not findings and (behind := padding.judged(case, inputs)) is not None:
            many, findings = (*many, *behind.comparisons), behind.findings
            decided[PADDED] = [padding.NAME]
        rest: Mapping[str, int] = {} if findings else census.counted(case, made, self.options)
        texts = {name: show(m) for name, m in alone}
        if case.counted and (larger := padding.text(case)):
            texts["padded"] = larger
        covered = [*of_graph(case.module), *((DECISION, name) for name in heard)]
        if not findings:
            covered += self.examiner.keys(case, inputs, made, heard)
        return Outcome(
            tuple(findings),
            frozenset(),
            len(case.module.entry.nodes),
            sum(c.checked for c in many),
            sum(c.total for c in many),
            tuple(covered),
            counters={
                **counters.of_graph(made.fused, dict(case.env)),
                **counters.of_decisions(decided),
                **counters.of_texts(texts),
                **rest,
            },
        )


def _each_alone(made: Fused, options: Options) -> Iterator[tuple[str, Module]]:
    """Yield what each pass makes of a graph without calls, where all together did not try that."""
    (_, plain), (second, _), *_ = made.passes
    for name, rewrite in _ALONE:
        if name != second and (alone := rewrite(plain, options)) is not plain:
            yield f"{name} alone", alone
