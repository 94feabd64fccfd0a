"""The domain of random graphs: every level and some engines judge each of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from didyma.codegen import rules
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.devices import across
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import (
    alone,
    at_run,
    calls_again,
    census,
    counters,
    coverage,
    layouts,
    levels,
    replay,
    strides,
    traits,
)
from didyma.fuzz.builder import CONTROLLED
from didyma.fuzz.chooser import Dice
from didyma.fuzz.domains.domain import Domain, Key, Outcome, Shrinker
from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.keys import DECISION, ENGINE
from didyma.fuzz.levels import Failed
from didyma.fuzz.mattered import Examiner
from didyma.fuzz.minimise.dtypes import shrink_dtypes
from didyma.fuzz.minimise.graph import cut_out, shrink, shrink_to_constants
from didyma.fuzz.minimise.options import shrink_options
from didyma.fuzz.minimise.sizes import shrink_sizes
from didyma.fuzz.minimise.values import shrink_values
from didyma.fuzz.refusals import refused
from didyma.fuzz.steering.draw import draw as drawn_around
from didyma.fuzz.steering.meter import Wish
from didyma.fuzz.steering.near import near
from didyma.fuzz.steering.primitives import cut
from didyma.fuzz.steering.wishes import WANTED
from didyma.oracle.report import Finding, Report
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array

CALLED_AGAIN = 3  # one graph in so many is called again, with other sizes
LAID = 4  # one in so many is called with inputs that lie in other layouts
ALONE = 8  # one in so many is called as a module that stands alone
SIZE_AGAIN = 12  # of an axis in a call after the first, at most
CUT = 0.1  # of the graphs drawn around what compilers do: their Primitive functions are drawn
NEAR = 0.25  # of these graphs, those that differ in one place from what is drawn
STREAMED = 8  # of so many graphs, one has several streams
CONTROL_STREAMED = 4  # and of so many that have branches, loops or calls
DISPATCHED = 17  # of so many graphs, one has several kernels for each loop nest
STRIDED = 10  # of so many graphs, one declares strides of inputs
TEMPLATED = 2  # of so many graphs with products, one asks templates for their kernels
TEMPLATES = ("tiled_attention", "tiled_gemm", "fma_gemm", "depthwise_conv")  # for any target
PRODUCTS = frozenset(("matmul", "conv"))
SLOW = frozenset(("simt",))  # it parses the text in Python
SLOW_EVERY = 4  # one graph in so many is judged on slow engines, unless there are no others
RING_EVERY = 15  # so that programs a minute hardly change; coprime to ``STREAMED``

EngineChoice: TypeAlias = str | Engine  # the name of an engine, or the engine itself


@dataclass(frozen=True, slots=True)
class Graphs(Domain[Case]):
    """Random graphs, judged at every level and on engines given by name or as objects.

    One graph in ``controlled`` may have control flow: 1 gives the domain of control flow.  One in
    ``ring_every`` is judged in the ring as well, none if that is 0.
    """

    engines: tuple[EngineChoice, ...]
    options: Options = field(default_factory=Options)
    controlled: int = CONTROLLED
    ring_every: int = RING_EVERY

    @property
    def engine_names(self) -> tuple[str, ...]:
        """The engines by name."""
        return tuple(e if isinstance(e, str) else e.name for e in self.engines)

    @property
    def name(self) -> str:
        """``graphs``, or ``control`` where each graph may have control flow."""
        return "control" if self.controlled == 1 else "graphs"

    @property
    def floor(self) -> float:
        """They alone are judged at every level and as a whole."""
        return 0.35

    @property
    def usual(self) -> bool:
        """Whether no option of the user changes what is counted."""
        return self.options == Options()

    def draw(self, seed: int, index: int) -> Case:
        """Return the graph of a campaign's seed and an index.

        Three in four are drawn around what compilers do, the others decoded from random bytes.  The
        launches of one in ``STREAMED`` are spread over two or three streams, and of one in
        ``CONTROL_STREAMED`` of those with control flow.  One in ``DISPATCHED`` has two or three
        kernels for each loop nest, which are all judged.
        """
        chance = random.Random((seed << 64) + index)
        if self.controlled == 1 or chance.random() < 0.25:
            case = decode(chance.randbytes(BYTES), self.controlled)
        else:
            case = _around(chance, seed, index, ())
        return self._finished(case, index)

    def wanted(self) -> Mapping[Wish, Key]:
        """Return what graphs can be asked to have; nothing of the domain of control flow."""
        return WANTED if self.controlled != 1 else {}

    def draw_wished(self, seed: int, index: int, wishes: Sequence[Wish]) -> Case:
        """Return the graph of a seed and an index that has some pieces.

        Without any it is decoded from random bytes.
        """
        chance = random.Random((seed << 64) + index)
        if wishes:
            return self._finished(_around(chance, seed, index, wishes), index)
        return self._finished(decode(chance.randbytes(BYTES), self.controlled), index)

    def _finished(self, case: Case, index: int) -> Case:
        """Say how a graph is judged beside the usual.

        Decide also whether it has streams, variants and inputs with strides.
        """
        ring = self.ring_every > 0 and index % self.ring_every == 0
        again, laid = index % CALLED_AGAIN == 1, index % LAID == 2
        quick = not ring and index // CALLED_AGAIN % SLOW_EVERY > 0
        case = replace(case, ring=ring, again=again, laid=laid, quick=quick)
        case = replace(case, alone=index % ALONE == 3)
        if index % STRIDED == STRIDED - 1:
            case = strides.declared(case, random.Random(index))
        one_in = CONTROL_STREAMED if len(case.module.functions) > 1 else STREAMED
        changes = list(case.changes)
        if index % one_in == one_in - 1:
            changes.append(("kernels.streams", 2 + index // STREAMED % 2))
        if index % DISPATCHED == DISPATCHED - 1:
            changes.append(("kernels.variants", 2 + index // DISPATCHED % 2))
        has_products = any(n.op in PRODUCTS for f in case.module.functions for n in f.nodes)
        if has_products and index % TEMPLATED == 0:
            changes.append(("kernels.codegens", TEMPLATES))
        return replace(case, changes=tuple(changes))

    def judge(self) -> GraphJudge:
        """Start the engines; ``unknown-engine`` or EngineMissing if one cannot run here."""
        chosen = [engine(e) if isinstance(e, str) else e for e in self.engines]
        return GraphJudge(chosen, self.options)

    def failure(self, case: Case, kind: str, message: str) -> Finding:
        """Return a finding at the last engine, which is the likeliest to end a process."""
        del case
        return Finding((self.name, *self.engine_names)[-1], "process", kind, message)

    def without_engines(self) -> Graphs | None:
        """Return the domain whose kernels and programs run in interpreters alone."""
        return replace(self, engines=()) if self.engines else None

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[Case]]]:
        """Return what leaves out passes and options, then makes graphs, types and values smaller.

        Nodes are not made inputs of their values where a process died: computing these may be what
        ended it.
        """
        cut = () if finding.where == "process" else ((0.5, cut_out),)
        return (
            (0.2, shrink_options), *cut, (0.7, shrink), (0.75, shrink_to_constants),
            (0.85, shrink_sizes), (0.9, shrink_dtypes),
            (1.0, shrink_values),
        )  # fmt: skip

    def size(self, case: Case) -> tuple[int, ...]:
        """Return the number of nodes of all functions, and of the elements of the inputs."""
        return sum(len(f.nodes) for f in case.module.functions), case.elements()

    def text(self, case: Case, found: Outcome, message: str, seed: int) -> str:
        """Return the file that ``didyma replay`` reads."""
        finding = next(iter(found.findings), None)
        recorded = replay.Recorded(
            case.module, case.seeds, dict(case.env), self.engine_names, case.options(self.options),
            dict(case.given), campaign_seed=seed, finding=finding, traits=found.traits,
        )  # fmt: skip
        return replay.text(recorded, message)

    def replay(self, case: Case, file: str) -> str:
        """Return the command that replays a file."""
        del case
        return f"didyma replay {file}" if file else ""

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how many ops, pairs of op and dtype, neighbours and decisions were covered."""
        return coverage.summary(covered)


def _around(chance: random.Random, seed: int, index: int, wishes: Sequence[Wish]) -> Case:
    """Return a graph drawn around what compilers do, sometimes cut into Primitive functions.

    Some differ in one place from what is drawn: they are near misses of what compilers look for.
    One drawn for wishes stays whole: what it is to cover stands in its entry.
    """
    case = drawn_around(seed, index, wishes=wishes)
    if chance.random() < NEAR:
        case = near(case, (), Dice(chance.getrandbits(64))) or case
    if wishes or chance.random() >= CUT:
        return case
    return cut(case, Dice(chance.getrandbits(64)))


class GraphJudge:
    """The levels and engines of one process; a module judged twice in a row is compiled once."""

    def __init__(self, engines: Sequence[Engine], options: Options) -> None:
        self.engines = engines
        self.options = options
        self._last: tuple[Module, Options, Compiled | Failed] | None = None
        self._heard: dict[str, list[str]] = {}  # decisions of the last compile, and their values
        self._examiner = Examiner()

    def __call__(self, case: Case) -> Outcome:
        """Judge every level."""
        made, inputs, counted = self._compiled(case), case.inputs(), dict[str, int]()
        chosen = [e for e in self.engines if not case.quick or e.name not in SLOW] or self.engines
        covered: list[Key] = [*coverage.keys(case, inputs), *((ENGINE, e.name) for e in chosen)]
        if isinstance(made, Failed):
            report = made.report()
        else:
            report = levels.judged(made, inputs, chosen, details=False, ring=case.ring)
            report = self._called_again(report, made, case, inputs)
            report = self._laid(report, made, case, inputs)
            report = self._alone(report, made, case, inputs)
            places = {name: list(values) for name, values in self._heard.items()}
            for name, value in rules.places(made):
                places.setdefault(name, []).append(value)
            covered += ((DECISION, name) for name in places)
            counted |= counters.of_kernels(made.program.kernels, dict(case.env))
            counted |= counters.of_decisions(places)
            if not report.findings:
                counted |= census.counted(case, made, self.options)
                covered += self._examiner.keys(case, inputs, made, places)
        findings = tuple(report.findings)
        return Outcome(
            findings,
            self._traits(case, findings[0], made) if findings else frozenset(),
            len(case.module.entry.nodes),
            sum(level.checked for level in report.levels),
            sum(level.total for level in report.levels),
            tuple(covered),
            ring_checked=sum(level.ring_checked for level in report.levels),
            ring_total=sum(level.ring_total for level in report.levels),
            counters=counted,
        )

    def _host(self, made: Compiled) -> Engine | None:
        """Return ``host`` if it is among the engines, with memory for each device of a program."""
        found = (e for e in self.engines if e.name == "host")
        return next((across(e, made.program) for e in found), None)

    def _called_again(
        self, report: Report, made: Compiled, case: Case, inputs: Sequence[Array]
    ) -> Report:
        """Add the level of more calls, on ``host``, to a report without findings."""
        host = self._host(made)
        if not (case.again and host) or report.findings or report.refusals:
            return report
        calls = [inputs, *(resized.inputs() for resized in _resized(case))]
        load, entry = partial(levels.runner, made, host), case.module.entry
        wrong = refused(entry.params, inputs)
        level = calls_again.judged(entry.results, calls, host, load, wrong)
        return replace(report, levels=(*report.levels, level))

    def _laid(self, report: Report, made: Compiled, case: Case, inputs: Sequence[Array]) -> Report:
        """Add the level of inputs in other layouts, on ``host``, to a report without findings."""
        host = self._host(made)
        if not (case.laid and host) or report.findings or report.refusals:
            return report
        level = layouts.judged(made, case.options(self.options), inputs, case.seeds, host)
        return replace(report, levels=(*report.levels, level))

    def _alone(self, report: Report, made: Compiled, case: Case, inputs: Sequence[Array]) -> Report:
        """Add the level of a module that stands alone to a report without findings."""
        host = self._host(made)
        if not (case.alone and host) or report.findings or report.refusals:
            return report
        others = [c for resized in _resized(case) for c in (resized, _reseeded(resized))]
        calls = [inputs, *(c.inputs() for c in (_reseeded(case), *others, case))]
        level = alone.judged(made, calls, host)
        return replace(report, levels=(*report.levels, level))

    def _compiled(self, case: Case) -> Compiled | Failed:
        m, options = case.module, case.options(self.options)
        if self._last is None or self._last[:2] != (m, options):
            self._heard.clear()
            made = levels.compiled(m, options, heard=self._hear)
            self._last = (m, options, made)
        return self._last[2]

    def _hear(self, decision: str, value: str) -> None:
        self._heard.setdefault(decision, []).append(value)

    def _traits(self, case: Case, f: Finding, made: Compiled | Failed) -> frozenset[str]:
        """Return what to group a wrong value or a failed compile by; reasons are enough else."""
        if isinstance(made, Failed):
            return traits.of_error(made.error)
        if f.kind not in ("value", "fault", "ring") or f.level in (
            "passes",
            at_run.NAME,
            calls_again.NAME,
            layouts.NAME,
            alone.NAME,
        ):
            return frozenset()
        if f.level == "graph":
            return frozenset({f.where})
        kernels = traits.of_kernels(made, f.where, scheduled=f.level != "loop")
        return kernels | traits.of_module(case.module, dict(case.env))


def _resized(case: Case) -> Iterator[Case]:
    """Yield a case with other sizes, whose values are drawn anew where they are arrays."""
    given = tuple(x for x in case.given if not x[1].shape)
    for env in calls_again.other_sizes(case.module.dims, dict(case.env), SIZE_AGAIN):
        yield replace(case, env=tuple(env.items()), given=given)


def _reseeded(case: Case) -> Case:
    """Return a case of the same sizes, whose inputs have other values but for those given."""
    return replace(case, seeds=tuple(s + 1 for s in case.seeds))
