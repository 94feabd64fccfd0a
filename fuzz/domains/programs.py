"""The domain of programs: graphs with loops, branches and calls, down to their wrappers.

What is judged is what becomes of values between kernels: the order of lines, what is copied or not,
streams, memory, and the wrapper.  Kernels are run by the loop interpreter on both sides, one by one
as the graph says and as the wrapper launches them, so that the results must have the same bits,
and nothing is emitted or compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from didyma.codegen import rules
from didyma.codegen.options import Options
from didyma.codegen.passes.place import place
from didyma.codegen.pipeline import Planned, compile
from didyma.codegen.runtime.externs import bound, routines
from didyma.fuzz import census, control, control_bytes, control_sizes, counters, traits
from didyma.fuzz.allocator import wrappers
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Chooser, Dice
from didyma.fuzz.control import BOOL
from didyma.fuzz.cpp import judge
from didyma.fuzz.devices import spread
from didyma.fuzz.domains.capacity import exceeded, excused
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome, Shrinker
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.domains.returned import shown
from didyma.fuzz.graphs import Case, drawn_planner, finished, quick
from didyma.fuzz.steering.draw import RESULTS, Repertoire, changes, chosen, symbols
from didyma.fuzz.steering.motifs import Motif, carried, controlled
from didyma.fuzz.steering.names import renamed
from didyma.fuzz.steering.sharing import KINDS as SHARED
from didyma.fuzz.steering.sharing import shared
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.steering.told import KINDS as TOLD
from didyma.fuzz.steering.told import told
from didyma.oracle import plan_check
from didyma.oracle.compare import bitwise
from didyma.oracle.kernels import run_primfuncs
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as reference
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir import strides
from didyma.refimpl.ir.graph import CALL, IF, TO, Function, Node
from didyma.refimpl.ir.lines import blocks, most_variants
from didyma.refimpl.ir.names import fresh
from didyma.refimpl.ir.program import Line, Program
from didyma.refimpl.ir.types import PLAIN, Array

SALT = 2 << 32  # of seeds, so that other graphs are drawn than in other domains
ENGINES = ("simt", "host")  # that a finding is replayed on
REPERTOIRE = Repertoire(
    (
        Motif("carried", ((*control_bytes.KINDS, *control_bytes.CHANGES),), carried, 6),
        Motif("control", (control_sizes.KINDS,), controlled, 4),
        Motif("shared", (tuple(SHARED),), shared, 4),
        Motif("told", (tuple(TOLD),), told, 1),
    ),
    1,
)
EMPTY = 4  # one in so many has sizes of 0, if it may
RANGES = ((0, 3), (0, 5), (1, 8), (2, 13), (3, 24), (2, 3), (6, 6))  # of its sizes
AWKWARD = 12  # one graph in so many has awkward names
LOADED = 3  # of so many programs, one is judged as its loader in C++, too
SPREAD = 4  # one graph in so many is on two devices
OTHERS = ("host:1", "cuda:1")  # of which one is of another kind than the program's own


@dataclass(frozen=True, slots=True)
class Programs(Domain[Case]):
    """Graphs with control flow, whose programs, memory plans and wrappers are judged."""

    options: Options = field(default_factory=Options)

    @property
    def name(self) -> str:
        """``programs``."""
        return "programs"

    @property
    def floor(self) -> float:
        """There are many ways to use the bytes of values, and few are drawn in a second."""
        return 0.2

    @property
    def usual(self) -> bool:
        """Whether no option of the user changes what is counted."""
        return self.options == Options()

    def draw(self, seed: int, index: int) -> Case:
        """Return a graph of a campaign's seed and an index: most of one piece, on streams."""
        c = Dice(((seed + SALT) << 64) + index)
        with np.errstate(all="ignore"):  # corners of one dtype may lie outside of another
            return _drawn(c, seed + SALT, index)

    def judge(self) -> Judge[Case]:
        """Return the judge."""
        return self.outcome

    def outcome(self, case: Case) -> Outcome:
        """Compile a graph up to its plan, and judge the plan and its wrapper."""
        size = len(case.module.entry.nodes)
        stages, (heard, hear) = ["source"], counters.listener()
        options = case.options(self.options)
        try:
            made = compile(case.module, options, stages.append, until="plan", heard=hear)
        except Exception as e:
            if excused(e, case, self.options):
                return Outcome(size=size)
            finding = Finding(stages[-1], "while compiling", "error", f"{type(e).__name__}: {e}")
            return Outcome((finding,), traits.of_error(e), size)
        use = MemoryUse()
        findings = tuple(chain(_placed(case), _findings(made, case, self.options, use)))[:1]
        covered = tuple(dict.fromkeys(_keys(made, case)))
        for decision, value in rules.places(made):
            hear(decision, value)
        counted = {**counters.of_run(use), **counters.of_lines(made.program)}
        counted |= counters.of_decisions(heard)
        if not findings:
            counted |= census.counted(case, made, self.options, loaders=True)
        return Outcome(findings, frozenset(), size, covered=covered, counters=counted)

    @property
    def _graphs(self) -> Graphs:
        return Graphs(ENGINES, self.options)

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[Case]]]:
        """Return what makes graphs smaller."""
        return self._graphs.shrinkers(finding)

    def size(self, case: Case) -> tuple[int, ...]:
        """Return the number of nodes of all functions, and of the elements of the inputs."""
        return self._graphs.size(case)

    def text(self, case: Case, found: Outcome, message: str, seed: int) -> str:
        """Return the file that ``didyma replay`` reads."""
        return self._graphs.text(case, found, message, seed)

    def replay(self, case: Case, file: str) -> str:
        """Return the command that replays a file."""
        return self._graphs.replay(case, file)

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how many programs had lines of each kind."""
        lines = {k[1]: n for k, n in sorted(covered.items()) if k[0] == "line"}
        return {"lines": lines, "keys": len(covered)}


def _drawn(c: Chooser, seed: int, index: int) -> Case:
    s = Sketch(GraphBuilder(control.draw, symbols(c, RANGES)), c)
    s.bind_symbols()
    pieces = c.pick((1, 1, 1, 2))
    for turn in range(pieces):
        motif, kind = chosen(index + turn * 7, seed, REPERTOIRE.motifs)
        motif.draw(s, *kind)
    if not s.b.params:
        s.start(PLAIN)
    case = shown(_kept(_decided(finished(s.b, c, RESULTS), c), c), c)
    found = dict(changes(c))
    found["kernels.streams"] = c.pick((1, 2, 3, 2))
    if planner := drawn_planner(c):
        found["memory.planner"] = planner
    if c.chance(2):
        found["memory.eager"] = True  # whatever may share bytes does
    if c.chance(4):
        found["memory.views"] = False  # results have bytes of their own
    if c.chance(3):
        found["graph.fuse"] = False  # more kernels, and more of them views
    if c.chance(8):
        found["kernels.variants"] = 2
    if c.chance(6):
        found["memory.capacity"] = 256 << c.below(6)
    found |= s.changes
    case = replace(case, changes=tuple(quick(found).items()), given=tuple(s.given.items()))
    case = _emptied(case) if c.chance(EMPTY) else case
    case = renamed(case, c) if c.chance(AWKWARD) else case
    if not c.chance(SPREAD):
        return case
    return replace(case, module=spread(case.module, c, ("", c.pick(OTHERS))))


def _emptied(case: Case) -> Case:
    """Return a case whose sizes are 0 where they may be: loops run no round."""
    least = {v.name: v.lo for v in case.module.dims}
    env = tuple((name, 0 if least[name] == 0 else size) for name, size in case.env)
    return replace(case, env=env, given=tuple(x for x in case.given if not x[1].shape))


def _decided(case: Case, c: Chooser) -> Case:
    """Return a case in which kernels, on any stream, compute what branches hang on."""
    m, nodes = case.module, list[Node]()
    taken, given = {*m.entry.types()}, {p.name for p in m.entry.params}
    for n in m.entry.nodes:
        if n.op == IF and n.args[0] in given and c.below(2):
            name = fresh("decided", taken)
            taken.add(name)
            nodes.append(Node((name,), "logical_not", n.args[:1], (BOOL,)))
            n = replace(n, args=(name, *n.args[1:]))
        nodes.append(n)
    entry = replace(m.entry, nodes=tuple(nodes))
    return replace(case, module=replace(m, functions=(*m.functions[:-1], entry)))


def _kept(case: Case, c: Chooser) -> Case:
    """Return a case that at times also returns values which others are made of."""
    entry = case.module.entry
    more = [r for n in entry.nodes for r in n.results if r not in entry.results]
    if not more or c.below(3):
        return case
    some = {c.pick(more) for _ in range(1 + c.below(2))}
    entry = replace(entry, results=(*entry.results, *sorted(some)))
    return replace(
        case, module=replace(case.module, functions=(*case.module.functions[:-1], entry))
    )


def _placed(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the copies between devices that are left, if anything is."""
    if (less := place(case.module)) is case.module:
        return
    inputs, env = case.inputs(), dict(case.env)
    names = case.module.entry.results
    try:
        want, got = (reference.run(m, inputs, env) for m in (case.module, less))
    except DidymaError:
        return  # of values, which the program refuses as well
    for c in (bitwise(*row) for row in zip(names, want, got, strict=True)):
        if not c.agree:
            yield Finding("passes", "place", "value", c.message)
            return
    copies = [(n.args, n.types[0].device) for n in less.entry.nodes if n.op == TO]
    if len({*copies}) < len(copies):
        yield Finding(
            "passes", "place", "copies", f"a value is brought to a device twice: {copies}"
        )


def _findings(made: Planned, case: Case, options: Options, first: MemoryUse) -> Iterator[Finding]:
    """Yield what is wrong with a plan, or else with what its wrapper does.

    ``first`` is told what the first variant takes of memory.
    """
    inputs, env = case.inputs(), dict(case.env)
    for e in plan_check.check(made.program, env):
        yield Finding("plan", f"line {e.step}", "plan", f"{e.kind}: {e.message}")
        return
    for variant in range(most_variants(made.program)):
        refusal, want = "", list[Array]()
        use = MemoryUse() if variant else first
        try:
            want = _one_by_one(made, inputs, env, variant)
        except DidymaError as e:
            refusal = e.code
        try:
            given = routines(bound(made.fused))
            got = wrappers.run(made.program, inputs, use, variant, given)
            walked = None if variant else wrappers.walked(made.program, inputs)
        except Exception as e:  # whatever it is, the wrapper has failed
            refuses = isinstance(e, DidymaError) and e.code == refusal
            if not refuses and not excused(e, case, options):
                yield Finding("program", "wrapper", "error", f"{type(e).__name__}: {e}")
            return
        if refusal:
            yield Finding("program", "wrapper", "error", f"it runs in spite of {refusal}")
            return
        if more := exceeded(made, case, use):
            yield Finding("program", "wrapper", "memory", more)
            return
        names = made.source.entry.results
        rows = zip(names * 2, want * 2, [*got, *(walked or want)], strict=True)
        for c in (bitwise(*row) for row in rows):
            if not c.agree:
                yield Finding("program", "wrapper", "value", c.message)
                return
        if not variant and sum(case.seeds) % LOADED == 0:
            architectures = sorted(judge.CAPABILITIES)
            for_ = architectures[sum(case.seeds) // LOADED % len(architectures)]
            yield from _loaded(made.program, inputs, env, judge.Wanted.like(got, use), for_)


def _loaded(
    p: Program,
    inputs: Sequence[Array],
    env: Mapping[str, int],
    want: judge.Wanted,
    architecture: str,
) -> Iterator[Finding]:
    """Yield what is wrong with the loader in C++ of a program, if it has one."""
    text = wrappers.text_of(p)
    if not judge.has_loader(p, text):
        return
    try:
        loader = judge.Loader(p, text, architecture=architecture)
        wrong = [*judge.judged(loader, inputs, env, want)]
    except Exception as e:  # whatever it is, the loader or the reading of it has failed
        wrong = [f"{type(e).__name__}: {e}"]
    yield from (Finding("program", "loader", "value", message) for message in wrong)


def _one_by_one(
    made: Planned, inputs: Sequence[Array], env: Mapping[str, int], variant: int
) -> list[Array]:
    """Return the results of the fused graph, each Primitive computed by its kernels alone."""
    functions = {f.name: f for f in made.fused.functions}

    def visit(
        f: Function, n: Node, args: list[Array], env: Mapping[str, int], run: reference.Run
    ) -> Sequence[Array]:
        del f
        if n.op != CALL or n.callee not in made.kernels:
            return run()
        rows = [made.variants.get(k.name, ()) for k in made.kernels[n.callee]]
        kernels = [
            row[variant % len(row)].kernel if row else k
            for row, k in zip(rows, made.kernels[n.callee], strict=True)
        ]
        called = functions[n.callee]
        given = strides.rows(called.params, args, env)
        return run_primfuncs(kernels, made.loops[n.callee], given, env, called.result_types())

    return reference.walk(made.fused, inputs, visit, env)


def _keys(made: Planned, case: Case) -> Iterator[Key]:
    """Yield each kind of line with the block around it, and with the planner and the streams."""
    chosen = dict(case.changes)
    how = f"{chosen.get('memory.planner', '')} {chosen.get('kernels.streams', 1)}"
    for program in (made.program, *made.program.functions):
        for line, around in _lines(program.lines, ""):
            kind = type(line).__name__
            yield "line", kind
            yield "block", kind, around
            yield "planned", kind, how


def _lines(lines: Sequence[Line], around: str) -> Iterator[tuple[Line, str]]:
    for line in lines:
        yield line, around
        for b in blocks(line):
            yield from _lines(b, f"{around}/{type(line).__name__}")
