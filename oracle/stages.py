"""Run every level of a compiled module and say where it first leaves the truth.

The judge is handed the levels as data.  Each Primitive function is judged on the reference's own
inputs, against its own subgraph, so that its bar holds one kernel's rounding and no more; the plan
is replayed; and what planning and wrapping do may not change one bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from oracle import compare, plan_check
from oracle.backend import Backend
from oracle.compare import Comparison
from refimpl.interp import graph as graph_interp
from refimpl.interp import loop as loop_interp
from refimpl.interp import program as program_interp
from refimpl.ir import dims as dims_
from refimpl.ir.graph import CALL, RESHAPE_ONLY, Function, Module, Node, Param
from refimpl.ir.loop import PrimFunc
from refimpl.ir.program import Program
from refimpl.ir.types import Array, DType, TensorType
from refimpl.ops import bars
from refimpl.ops.bars import Contract

POISON = 0xA5  # unlikely bytes in a buffer that a kernel has yet to write


@dataclass(frozen=True, slots=True)
class Subject:
    """A compiled module, every level of it."""

    source: Module
    passes: tuple[tuple[str, Module], ...]
    fused: Module
    loops: Mapping[str, PrimFunc]
    kernels: Mapping[str, tuple[PrimFunc, ...]]
    program: Program


@dataclass(frozen=True, slots=True)
class Finding:
    """A disagreement: the level, the pass, node, function or kernel, and what was seen.

    ``kind`` is ``value``, ``plan``, ``fault`` (a check of an interpreter or engine) or ``error``
    (an exception that is none of these).
    """

    level: str
    where: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.message}"


@dataclass(slots=True)
class Level:
    """What one level had to say."""

    name: str
    comparisons: list[Comparison] = field(default_factory=list[Comparison])
    findings: list[Finding] = field(default_factory=list[Finding])
    seconds: float = 0.0

    @property
    def agree(self) -> bool:
        """True when nothing was found."""
        return not self.findings

    @property
    def checked_share(self) -> float:
        """Share of elements that could be decided; 1 when there were none."""
        t = compare.total(self.comparisons)
        return t.checked / t.total if t.total else 1.0

    @property
    def worst(self) -> float:
        """Largest share of a bar that an element used."""
        return compare.total(self.comparisons).worst


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict of every level, in order."""

    levels: tuple[Level, ...]

    @property
    def agree(self) -> bool:
        """True when every level agrees."""
        return all(level.agree for level in self.levels)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings; the first is where to look."""
        return tuple(f for level in self.levels for f in level.findings)

    @property
    def checked_share(self) -> float:
        """Share of elements decided over all levels."""
        t = compare.total(c for level in self.levels for c in level.comparisons)
        return t.checked / t.total if t.total else 1.0


@dataclass(frozen=True, slots=True)
class _Call:
    """One use of a Primitive function, with what the reference says about it."""

    node: Node
    function: Function
    inputs: tuple[Array, ...]
    types: tuple[TensorType, ...]
    bars: tuple[bars.Bar, ...]


class _Judge:
    def __init__(
        self,
        s: Subject,
        inputs: Sequence[Array],
        contract: Contract,
        progress: Callable[[str], None],
    ) -> None:
        self.s = s
        self.inputs = inputs
        self.contract = contract
        self.progress = progress
        entry = s.source.entry
        shapes = [
            (p.name, p.type.shape, a.shape) for p, a in zip(entry.params, inputs, strict=True)
        ]
        self.env = dims_.bind(shapes, s.source.dims)
        self.levels: list[Level] = []

    def level(self, name: str, run: Callable[[Level], None]) -> None:
        self.progress(name)
        level = Level(name)
        start = time.perf_counter()
        guard(level, name, lambda: run(level))
        level.seconds = time.perf_counter() - start
        self.levels.append(level)

    def record(self, level: Level, where: str, many: Iterable[Comparison]) -> None:
        for c in many:
            level.comparisons.append(c)
            if not c.agree:
                level.findings.append(Finding(level.name, where, "value", c.message))

    def concrete(self, types: Iterable[TensorType]) -> tuple[TensorType, ...]:
        return tuple(t.with_shape(*(dims_.evaluate(d, self.env) for d in t.shape)) for t in types)

    def graph(self, level: Level) -> None:
        """Each op's NumPy meaning against its own bar, on the values that reach it."""
        f, m = self.s.source.entry, self.s.source
        values = self.values = graph_interp.values(f, m, self.inputs, self.env)
        types = f.types()
        for n in f.nodes:
            if n.op == CALL:
                continue
            operands = tuple(dict.fromkeys(n.args))
            alone = Function(n.op, tuple(Param(a, types[a]) for a in operands), (n,), n.results)
            given = [exact(values[a]) for a in operands]
            (bar,) = graph_interp.bars(alone, m, given, self.env, self.contract)
            (out,) = self.concrete(n.types)
            result = compare.compare(n.results[0], bar, values[n.results[0]], out)
            self.record(level, n.op, [result])

    def passes(self, level: Level) -> None:
        """Each graph pass end to end: the same results, or within the source's accumulated bars."""
        f = self.s.source.entry
        given = [exact(a) for a in self.inputs]
        want = graph_interp.bars(f, self.s.source, given, self.env, self.contract, stored=True)
        types = self.concrete(f.result_types())
        values = [self.values[r] for r in f.results]
        for name, m in self.s.passes:

            def one(name: str = name, m: Module = m) -> None:
                got = graph_interp.run(m, self.inputs, self.env)
                rows = zip(f.results, values, want, got, types, strict=True)
                compared = [compare.rewritten(*row) for row in rows]
                self.record(level, name, compared)

            guard(level, name, one)

    def prepare(self) -> None:
        """Evaluate the fused graph by the reference: inputs and bars of every Primitive call."""
        m = self.s.fused
        values = graph_interp.values(m.entry, m, self.inputs, self.env)
        calls: list[_Call] = []
        for n in m.entry.nodes:
            if n.op != CALL or RESHAPE_ONLY in m.function(n.callee).attr:
                continue
            f = m.function(n.callee)
            args = tuple(values[a] for a in n.args)
            given = [exact(a) for a in args]
            types = self.concrete(n.types)
            calls.append(
                _Call(n, f, args, types, graph_interp.bars(f, m, given, self.env, self.contract))
            )
        self.calls = calls
        self.reference = values

    def judge_call(self, level: Level, call: _Call, outputs: Sequence[Array]) -> None:
        rows = zip(call.node.results, call.bars, outputs, call.types, strict=True)
        compared = [compare.compare(r, b, o, t) for r, b, o, t in rows]
        self.record(level, call.function.name, compared)

    def judge_outputs(
        self, level: Level, call: _Call, run: Callable[[_Call], Sequence[Array]]
    ) -> None:
        self.judge_call(level, call, run(call))

    def each_call(self, level: Level, run: Callable[[_Call], Sequence[Array]]) -> None:
        for call in self.calls:
            judged = partial(self.judge_outputs, level, call, run)
            guard(level, call.function.name, judged)

    def run_loops(self, funcs: Sequence[PrimFunc], call: _Call) -> tuple[Array, ...]:
        return run_primfuncs(funcs, self.s.loops[call.function.name], call.inputs, self.env)

    def loop(self, level: Level) -> None:
        self.each_call(level, lambda c: self.run_loops([self.s.loops[c.function.name]], c))

    def kernel(self, level: Level) -> None:
        self.each_call(level, lambda c: self.run_loops(self.s.kernels[c.function.name], c))

    def plan(self, level: Level) -> None:
        for e in plan_check.check(self.s.program, self.env):
            where = f"line {e.step}"
            level.findings.append(Finding(level.name, where, "plan", f"{e.kind}: {e.message}"))

    def chain(self, run: Callable[[str, Sequence[Array]], Sequence[Array]]) -> tuple[Array, ...]:
        """Results of the fused entry, every kernel's buffers apart: what a plan must reproduce."""
        m = self.s.fused
        env: dict[str, Array] = {
            p.name: a for p, a in zip(m.entry.params, self.inputs, strict=True)
        }
        for n in m.entry.nodes:
            args = [env[a] for a in n.args]
            if n.op != CALL:
                outs: Sequence[Array] = [self.reference[r] for r in n.results]
            elif RESHAPE_ONLY in m.function(n.callee).attr:
                (t,) = self.concrete(n.types)
                outs = [args[0].reshape(dims_.values(t.shape, self.env))]
            else:
                outs = run(n.callee, args)
            env.update(zip(n.results, outs, strict=True))
        return tuple(env[r] for r in m.entry.results)

    def same_bits(self, level: Level, want: Sequence[Array], got: Sequence[Array]) -> None:
        names = self.s.source.entry.results
        rows = zip(names, want, got, strict=True)
        self.record(level, "plan", [compare.bitwise(n, w, g) for n, w, g in rows])

    def program(self, level: Level) -> None:
        def one(function: str, args: Sequence[Array]) -> Sequence[Array]:
            return run_primfuncs(self.s.kernels[function], self.s.loops[function], args, self.env)

        want = self.chain(one)
        self.same_bits(level, want, program_interp.run(self.s.program, self.inputs))

    def backend(self, b: Backend, level: Level) -> None:
        known: dict[tuple[str, tuple[bytes, ...]], tuple[Array, ...]] = {}

        def run(function: str, args: Sequence[Array]) -> tuple[Array, ...]:
            key = (function, tuple(a.tobytes() for a in args))
            if key not in known:
                known[key] = b.run_function(function, args, self.env)
            return known[key]

        self.each_call(level, lambda c: run(c.function.name, c.inputs))
        if level.findings or not b.deterministic:
            return
        self.same_bits(level, self.chain(run), b.run_program(self.inputs))


def exact(a: Array) -> bars.Bar:
    """Bar of an input: it is what it is."""
    return bars.exact(a, DType.of(a))


def run_primfuncs(
    funcs: Sequence[PrimFunc], whole: PrimFunc, inputs: Sequence[Array], env: Mapping[str, int]
) -> tuple[Array, ...]:
    """Run the kernels of a Primitive in order by the loop interpreter.

    ``whole`` is the PrimFunc they come from: its parameters are the inputs, then the outputs,
    which start out poisoned.
    """
    given = dict(zip(whole.inputs, inputs, strict=True))
    buffers: dict[str, Array] = {}
    for p in whole.params:
        if p.name in given:
            buffers[p.name] = given[p.name]
        else:
            shape = [dims_.evaluate(d, env) for d in p.shape]
            size = int(np.prod(shape, dtype=np.int64)) * p.dtype.nbytes
            raw = np.full(size, POISON, np.uint8)
            buffers[p.name] = raw.view(p.dtype.numpy).reshape(shape)
    for f in funcs:
        shaped = {
            p.name: buffers[p.name].reshape([dims_.evaluate(d, env) for d in p.shape])
            for p in f.params
        }
        loop_interp.run(f, shaped, env)
    return tuple(buffers[o] for o in whole.outputs)


def guard(level: Level, where: str, run: Callable[[], None]) -> None:
    """Turn an exception into a finding of the level: a crash is a result."""
    try:
        run()
    except Exception as e:
        kind = "fault" if hasattr(e, "faults") or type(e).__name__.endswith("Fault") else "error"
        level.findings.append(Finding(level.name, where, kind, f"{type(e).__name__}: {e}"))


def judge(
    s: Subject,
    inputs: Sequence[Array],
    backends: Iterable[Backend] = (),
    contract: Contract | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Judge every level on the given inputs.

    Levels: ``graph``, ``passes``, ``loop``, ``kernel``, ``plan``, ``program``, then one per backend
    by its name.  A level that fails does not stop the others.
    """
    with np.errstate(all="ignore"):  # NaN and infinity are results here, not accidents
        return _judge(_Judge(s, inputs, contract or Contract(), progress), backends)


def _judge(j: _Judge, backends: Iterable[Backend]) -> Report:
    j.level("graph", j.graph)
    j.level("passes", j.passes)
    setup = Level("reference")
    guard(setup, "fused", j.prepare)
    if setup.findings:
        j.levels.append(setup)
        return Report(tuple(j.levels))
    j.level("loop", j.loop)
    j.level("kernel", j.kernel)
    j.level("plan", j.plan)
    j.level("program", j.program)
    for b in backends:
        j.level(b.name, partial(j.backend, b))
    return Report(tuple(j.levels))
