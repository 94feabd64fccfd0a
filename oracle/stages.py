"""Judge every level of a compiled module, to find the first whose result is wrong.

The judge is given the levels as data.  Each Primitive function is judged alone, on the inputs that
reach it and against its own subgraph, so that its bar covers one kernel's rounding; the plan is
replayed; and what planning and wrapping do may not change one bit.

Branches and loops go the way that the subject's own values decide, while those are right.  Of a
node or kernel that runs many times, a sample of the uses is judged (``Recorder.sample``); the
others are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeVar

import numpy as np

from didyma.oracle import compare, graph_ring, lanes, plan_check, ring
from didyma.oracle.backend import Backend
from didyma.oracle.compare import Comparison
from didyma.oracle.externs import bodies
from didyma.oracle.graph_ring import RingEstimate
from didyma.oracle.kernels import run_primfuncs, told
from didyma.oracle.primitives import (
    Kernels,
    PrimitiveBars,
    Runner,
    concrete,
    exact,
    judge_primitives,
    plain,
)
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Level, Report
from didyma.oracle.ring import PrimitivePayloads
from didyma.oracle.subject import Arrays, Env, Subject
from didyma.oracle.truth import Truth, as_the_reference, compare_with_float64
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as graph_interp
from didyma.refimpl.interp import program as program_interp
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.interp.graph_bars import Estimate
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.interp.program import LaunchFn
from didyma.refimpl.ir import strides
from didyma.refimpl.ir.external import externals
from didyma.refimpl.ir.graph import CALL, Function, Module, Node, Param
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.lines import most_variants
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array, TensorType
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.verify import program as program_laws

T = TypeVar("T")

__all__ = ["Subject", "judge"]


@dataclass(frozen=True, slots=True)
class _SubjectRun:
    """A subject, the inputs on which it is judged, and the bars of its Primitives.

    ``payloads`` are those of its Primitives in the ring, and ``end_to_end`` gives the results with
    theirs.  ``launch`` runs a kernel, in the ring if that is wanted.  ``engines_only`` are the
    Primitives that interpreters do not run.
    """

    subject: Subject
    inputs: Arrays
    env: Env
    contract: Contract
    details: bool
    bars: PrimitiveBars
    payloads: PrimitivePayloads
    end_to_end: Callable[..., Sequence[RingEstimate]]
    in_ring: bool
    launch: LaunchFn
    engines_only: frozenset[str]

    @property
    def variants(self) -> tuple[Subject, ...]:
        """The subject by the number of the variant that each dispatch runs."""
        s = self.subject
        return tuple(s.variant(n) for n in range(most_variants(s.program)))


def judge(
    s: Subject,
    inputs: Sequence[Array],
    backends: Iterable[Backend] = (),
    contract: Contract | None = None,
    progress: Callable[[str], None] = lambda _: None,
    *,
    details: bool = True,
    in_ring: bool = False,
    alive: Callable[[], None] = lambda: None,
    engines_only: frozenset[str] = frozenset(),
) -> Report:
    """Judge every level on the given inputs.

    ``progress`` is called with the name of each level, and ``alive`` at each launch of a kernel.
    With ``details`` results are also compared with those in float64 (``Comparison.off``), and the
    note of ``plan`` says how its symbolic laws were verified; without, loops are judged in the
    ring, and elsewhere only where kernels are wrong, since right kernels come of right loops.
    With ``in_ring`` graphs, loops, kernels and the program are also compared in the ring, which
    sees terms that bars forgive; so are backends whose results are records of values and payloads.
    Levels: ``graph``, ``passes``, ``loop``, ``kernel``, ``plan``, ``program``, then one for each
    implementation of an external function (``extern NAME``), then one for each backend by its name.
    The Primitives in ``engines_only`` are too large for interpreters: ``loop`` and ``kernel`` take
    their results from the reference, ``program`` does not run; the notes of the levels say so.
    A level that fails does not stop the others.  Where a data-dependent size is out of its range,
    the reference refuses the inputs, and so must every level.
    """
    case = _case(s, inputs, contract or Contract(), details, in_ring, alive, engines_only)
    levels: list[Level] = []
    with np.errstate(all="ignore"):  # NaN and infinity are results here, not accidents
        progress("graph")
        level = Recorder("graph")
        truth = level.guard("graph", partial(_graph, case, level)) or Truth()
        levels.append(level.level())

        def run(
            name: str, body: Callable[[_SubjectRun, Truth, Recorder], T | None], subject: str = ""
        ) -> T | None:
            progress(name)
            level = Recorder(name, subject)
            attempt = partial(as_the_reference, truth.refusal, partial(body, case, truth, level))
            results = level.guard(name, attempt)
            levels.append(level.level())
            return results

        run("passes", _passes)
        loops_first = details or in_ring
        if loops_first:
            run("loop", _loop)
        unplanned = run("kernel", _kernel)
        if not loops_first and levels[-1].findings:
            run("loop", _loop)
            levels[-2:] = levels[:-3:-1]  # in the order of the stages
        run("plan", _plan)
        planned = tuple(MemoryUse() for _ in case.variants)
        run("program", partial(_program, unplanned, planned))
        for name in s.externs:
            run(f"extern {name}", partial(_extern, name), f"extern {name}")
        for b in backends:
            run(b.name, partial(_backend, b, planned), b.name)
    refusal = truth.refusal
    return Report(tuple(levels), str(refusal or ""), refusals=int(refusal is not None))


def _case(
    s: Subject, inputs: Arrays, contract: Contract, details: bool, in_ring: bool,
    alive: Callable[[], None] = lambda: None, engines_only: frozenset[str] = frozenset(),
) -> _SubjectRun:  # fmt: skip
    params = zip(s.source.entry.params, inputs, strict=True)
    env = strides.bind([(p.name, p.type, a) for p, a in params], s.source.dims)
    payloads, bars = PrimitivePayloads(s.fused, contract), PrimitiveBars(s.fused, contract)
    end_to_end = cache(partial(_end_to_end, s.source, tuple(inputs), env, contract))
    launch = told(partial(lanes.run, arithmetic=scalar_ring) if in_ring else lanes.run, alive)
    return _SubjectRun(
        s, inputs, env, contract, details, bars, payloads, end_to_end, in_ring, launch, engines_only
    )


def judge_passes(
    s: Subject, inputs: Arrays, contract: Contract | None = None, *, in_ring: bool = False
) -> Level:
    """Judge the graph passes of a subject and nothing else; return the level ``passes``."""
    case = _case(s, inputs, contract or Contract(), False, in_ring)
    level = Recorder("passes")
    with np.errstate(all="ignore"):
        try:
            truth = Truth(graph_interp.run(s.source, inputs, case.env))
        except DidymaError as e:
            if e.code != "dim-out-of-range":
                raise
            truth = Truth(refusal=e)
        run = partial(_passes, case, truth, level)
        level.guard("passes", partial(as_the_reference, truth.refusal, run))
    return level.level()


def _graph(case: _SubjectRun, level: Recorder) -> Truth:
    """Judge each op's NumPy meaning by its own bar, on the values that reach it."""
    m = case.subject.source
    types: dict[str, dict[str, TensorType]] = {}

    def visit(
        f: Function, n: Node, args: list[Array], env: Env, run: graph_interp.Run
    ) -> Sequence[Array]:
        outs = run()
        if n.op == CALL or not level.sample((f.name, n.results)):
            return outs
        if f.name not in types:
            types[f.name] = f.types()
        inputs = dict(zip(n.args, args, strict=True))
        params = tuple(Param(a, types[f.name][a]) for a in inputs)
        alone = Function(n.op, params, (n,), n.results)
        bars = [exact(x) for x in inputs.values()]
        (bar,) = graph_interp.bars(alone, m, bars, env, case.contract)
        (t,) = concrete(n.types, env)
        level.compare(n.op, [compare.compare(n.results[0], bar, outs[0], t)])
        return outs

    try:
        results = graph_interp.walk(m, case.inputs, visit, case.env)
    except DidymaError as e:
        if e.code != "dim-out-of-range":
            raise
        return Truth(refusal=e)
    return Truth(results, level.guard("graph", partial(_in_float64, case)))


def _end_to_end(
    m: Module, inputs: Arrays, env: Env, contract: Contract, *, folds: bool
) -> Sequence[RingEstimate]:
    """Return the results of a graph, where any value may be stored, with their payloads."""
    return graph_ring.payloads(m.entry, m, inputs, env, contract, stored=True, folds=folds)


def _in_float64(case: _SubjectRun) -> Arrays | None:
    """Return the results in float64, if asked for; None where they bind a size out of its range."""
    if not case.details:
        return None
    try:
        return graph_interp.reference(case.subject.source, case.inputs, case.env)
    except DidymaError as e:
        if e.code != "dim-out-of-range":
            raise
        return None


def _passes(case: _SubjectRun, truth: Truth, level: Recorder) -> None:
    """Judge each graph pass end to end: the same bits, or within the source's accumulated bars."""
    s = case.subject
    if truth.refusal is not None:
        for name, m in s.passes:
            again = partial(graph_interp.run, m, case.inputs, case.env)
            level.guard(name, partial(as_the_reference, truth.refusal, again))
        raise truth.refusal
    f = s.source.entry
    ringed = case.end_to_end(folds=True) if case.in_ring else None
    inputs = [exact(a) for a in case.inputs]
    want: Sequence[Estimate] = ringed or graph_interp.estimates(
        f, s.source, inputs, case.env, case.contract, stored=True
    )
    types = [t.with_shape(*a.shape) for t, a in zip(f.result_types(), truth.results, strict=True)]

    def one(m: Module) -> list[Comparison]:
        got = graph_interp.run(m, case.inputs, case.env)
        rows = zip(f.results, truth.results, want, got, types, strict=True)
        return [_rewritten(*row) for row in rows]

    before: Module | None = None
    found: list[Comparison] | None = None
    for name, m in s.passes:
        if m is not before or found is None:  # a pass may return the module that it got
            before, found = m, level.guard(name, partial(one, m))
        level.compare(name, found or ())

    def compared(m: Module) -> list[Comparison]:
        got = _end_to_end(m, case.inputs, case.env, case.contract, folds=True)
        return ring.rewritten(f, ringed or (), got)

    if ringed is not None and s.passes:
        level.guard("ring", partial(_passes_in_ring, s.passes, compared, level))


def _passes_in_ring(
    passes: Sequence[tuple[str, Module]],
    compared: Callable[[Module], list[Comparison]],
    level: Recorder,
) -> None:
    """Judge the last pass in the ring; if it disagrees, blame the first pass that does."""
    name, last = passes[-1]
    found = compared(last)
    if not all(c.agree for c in found):
        each = ((name, compared(m)) for name, m in passes)
        name, found = next((p, cs) for p, cs in each if not all(c.agree for c in cs))
    level.compare(name, found)


def _rewritten(name: str, want: Array, bound: Estimate, got: Array, type: TensorType) -> Comparison:
    """Judge a result of a rewritten graph: by dtype and rank alone where its shape is in doubt."""
    if bound.sure:
        return compare.rewritten(name, want, bound.bar, got, type)
    if got.dtype == want.dtype and got.ndim == want.ndim:
        return Comparison(0, want.size, 0.0)
    return compare.bitwise(name, want, got)


def _loop(case: _SubjectRun, truth: Truth, level: Recorder) -> None:
    """Judge the loop program of each Primitive."""
    del truth
    s = case.subject

    def run(function: str, args: Arrays, env: Env) -> Arrays:
        f = s.loops[function]
        types = s.fused.function(function).result_types()
        return run_primfuncs([f], f, args, env, types, case.launch, in_ring=case.in_ring)

    _judge_interpreted(case, level, run, lambda name: (s.loops[name],))


def _kernel(case: _SubjectRun, truth: Truth, level: Recorder) -> tuple[Arrays, ...] | None:
    """Judge the kernels of each Primitive, variant by variant.

    Returns the results of the program for each number of a variant, if all are right and come of
    kernels.
    """
    del truth
    results = [
        _by_variant(level, n, partial(_kernels_of, case, s, level))
        for n, s in enumerate(case.variants)
    ]
    return None if level.findings or case.engines_only else tuple(results)


def _kernels_of(case: _SubjectRun, s: Subject, level: Recorder) -> Arrays:
    def run(function: str, args: Arrays, env: Env) -> Arrays:
        types = s.fused.function(function).result_types()
        kernels, loop = s.kernels[function], s.loops[function]
        return run_primfuncs(kernels, loop, args, env, types, case.launch, in_ring=case.in_ring)

    def meanings(function: str) -> Sequence[PrimFunc]:
        return tuple(map(loops, s.kernels[function]))

    return _judge_interpreted(case, level, run, meanings)


def _by_variant(level: Recorder, number: int, judged: Callable[[], T]) -> T:
    """Judge variants of a number; findings about any but the first say which they are about."""
    before = len(level.findings)
    result = judged()
    if number:
        level.findings[before:] = [
            replace(f, message=f"{f.message}, by variant {number}") for f in level.findings[before:]
        ]
    return result


def _judge_interpreted(case: _SubjectRun, level: Recorder, run: Runner, kernels: Kernels) -> Arrays:
    """Judge those Primitives that are not too large for interpreters."""
    if case.engines_only:
        level.note = f"too large for interpreters, so judged on engines alone: {_large(case)}"
    return _judge_primitives(case, level, run, kernels, without=case.engines_only)


def _large(case: _SubjectRun) -> str:
    """Return how many Primitives are too large for interpreters, with their names."""
    names = sorted(case.engines_only)
    return f"{len(names)} of {len(case.subject.kernels)} functions ({', '.join(names)})"


def _judge_primitives(
    case: _SubjectRun,
    level: Recorder,
    run: Runner,
    kernels: Kernels,
    *,
    run_externs: bool = False,
    without: Container[str] = (),
) -> Arrays:
    return judge_primitives(
        level, case.bars, case.inputs, case.env, run, kernels,
        payloads=case.payloads, run_externs=run_externs, without=without,
    )  # fmt: skip


def _plan(case: _SubjectRun, truth: Truth, level: Recorder) -> None:
    """Replay the plan over memory that records which value owns each byte."""
    program = case.subject.program
    for e in plan_check.check(program, case.env):
        level.find(f"line {e.step}", "plan", f"{e.kind}: {e.message}")
    if truth.refusal is not None:
        raise truth.refusal  # a plan refuses nothing
    level.checks = len(program.lines)
    if case.details:
        level.note = str(program_laws.verify(program, kernels=False))


def _program(
    unplanned: Sequence[Arrays] | None,
    uses: Sequence[MemoryUse],
    case: _SubjectRun,
    truth: Truth,
    level: Recorder,
) -> None:
    """Demand that the planned program, in poisoned memory, gives the bits of separate kernels."""
    s = case.subject
    if case.engines_only:
        level.note = f"not run, since it has what is too large for interpreters: {_large(case)}"
        return
    missing = sorted(externals(s.fused).keys() - s.externs.keys())
    if missing:
        level.note = f"without an implementation, so run by the reference: {', '.join(missing)}"

    def judged(number: int, use: MemoryUse) -> None:
        got = program_interp.run(
            s.program, case.inputs, case.launch, bodies(s.fused), in_ring=case.in_ring, use=use,
            variant=number,
        )  # fmt: skip
        values = [plain(a) for a in got]
        compare_with_float64(level, truth, values)
        if unplanned is not None:
            _demand_same_bits(case, level, unplanned[number], values)
            _demand_same_payloads(case, level, got)

    for number, use in enumerate(uses):
        _by_variant(level, number, partial(judged, number, use))


def _extern(name: str, case: _SubjectRun, truth: Truth, level: Recorder) -> None:
    """Judge an implementation of an external function by the bars of its body."""
    del truth
    s = case.subject
    f = s.fused.function(name)

    def visit(
        _: Function, n: Node, args: list[Array], env: Env, by_reference: graph_interp.Run
    ) -> Sequence[Array]:
        if n.op == CALL and n.callee == name and level.sample(name):
            inputs = [exact(a) for a in args]
            want = graph_interp.bars(f, s.fused, inputs, env, case.contract, stored=True)
            got = s.externs[name](args, env)
            rows = zip(n.results, want, got, concrete(n.types, env), strict=True)
            level.compare(f"@{name}", [compare.compare(*row) for row in rows])
        return by_reference()

    graph_interp.walk(s.fused, case.inputs, visit, case.env)


def _backend(
    b: Backend, planned: Sequence[MemoryUse], case: _SubjectRun, truth: Truth, level: Recorder
) -> None:
    """Judge a backend: each Primitive by its bar, then the program by the bits of those.

    The program may take no more memory than the plan does, at no time.
    """
    if truth.refusal is not None:
        b.run_program(case.inputs)
        return
    for number, s in enumerate(case.variants):
        judged = partial(_backend_variant, b, planned[number], case, s, truth, level, number)
        _by_variant(level, number, judged)


def _backend_variant(
    b: Backend,
    planned: MemoryUse,
    case: _SubjectRun,
    s: Subject,
    truth: Truth,
    level: Recorder,
    number: int,
) -> None:
    run = partial(b.run_function, variant=number)
    kernels, without = s.kernels.__getitem__, s.shown
    want = _judge_primitives(case, level, run, kernels, run_externs=True, without=without)
    if not level.findings:
        use = MemoryUse()
        got = b.run_program(case.inputs, use, number)
        values = [plain(a) for a in got]
        compare_with_float64(level, truth, values)
        if b.deterministic:
            _demand_same_bits(case, level, want, values)
            logs = {f: ring.scaled_logs(s.fused.function(f), ks) for f, ks in s.kernels.items()}
            _demand_same_payloads(case, level, got, ring.reached(s.fused, logs))
            _demand_same_memory(level, planned, use)


def _demand_same_memory(level: Recorder, planned: MemoryUse, use: MemoryUse) -> None:
    """Demand the launches and copies of the plan, with as many bytes allocated at each."""
    if not level.findings and planned.finished and (why := use.unlike(planned)):
        level.find("plan", "memory", why)


def _demand_same_bits(case: _SubjectRun, level: Recorder, want: Arrays, got: Arrays) -> None:
    names = case.subject.source.entry.results
    rows = zip(names, want, got, strict=True)
    level.compare("plan", [compare.bitwise(name, w, g) for name, w, g in rows])


def _demand_same_payloads(
    case: _SubjectRun, level: Recorder, got: Arrays, without: Container[int] = ()
) -> None:
    """Demand the payloads of the source, where the values are right, but for some results."""
    if not level.findings:
        names = case.subject.source.entry.results
        level.compare("plan", ring.judged(names, got, case.end_to_end, without))
