"""Run every level of a compiled module and say where it first leaves the truth.

The judge is handed the levels as data.  Each Primitive function is judged alone, on the very
inputs that reach it and against its own subgraph, so that its bar holds one kernel's rounding and
no more; the plan is replayed; and what planning and wrapping do may not change one bit.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from oracle import chains, compare, plan_check
from oracle.backend import Backend
from oracle.compare import Comparison
from oracle.kernels import run_primfuncs
from oracle.report import Finding, Level, Report
from refimpl.interp import graph as graph_interp
from refimpl.interp import program as program_interp
from refimpl.ir import dims as dims_
from refimpl.ir.graph import CALL, RESHAPE_ONLY, Function, Module, Node, Param
from refimpl.ir.loop import PrimFunc
from refimpl.ir.program import Program
from refimpl.ir.types import Array, DType, TensorType
from refimpl.ops import OPS, bars
from refimpl.ops.bars import Bar, Contract
from refimpl.ops.spec import Kind

Runner: TypeAlias = Callable[[str, Sequence[Array]], Sequence[Array]]
Kernels: TypeAlias = Callable[[str], Sequence[PrimFunc]]

_FOLDS = (Kind.REDUCTION, Kind.OPAQUE)


@dataclass(frozen=True, slots=True)
class Subject:
    """A compiled module, every level of it."""

    source: Module
    passes: tuple[tuple[str, Module], ...]
    fused: Module
    loops: Mapping[str, PrimFunc]
    kernels: Mapping[str, tuple[PrimFunc, ...]]
    program: Program


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
        self.known: dict[tuple[str, int | None, bytes], tuple[Bar, ...]] = {}
        self.folds: dict[str, bool] = {}
        self.unplanned: Sequence[Array] | None = None

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

    def bars(self, f: Function, args: Sequence[Array], most: int | None) -> tuple[Bar, ...]:
        """Bars of a Primitive's results on exact inputs; levels often ask for the same.

        ``most`` is the longest chain of additions of the kernels judged, where it is known.
        """
        digest = hashlib.blake2b(digest_size=16)
        for a in args:
            digest.update(a.tobytes())
        key = (f.name, most, digest.digest())
        if key not in self.known:
            contract = self.contract if most is None else chains.with_chain(self.contract, most)
            given = [exact(a) for a in args]
            self.known[key] = graph_interp.bars(f, self.s.fused, given, self.env, contract)
        return self.known[key]

    def longest(self, function: str, kernels: Sequence[PrimFunc]) -> int | None:
        """Longest chain of additions of a Primitive's kernels; None where it has no fold."""
        if function not in self.folds:
            nodes = self.s.fused.function(function).nodes
            self.folds[function] = any(
                n.op in OPS and OPS[n.op].kind in _FOLDS and n.types[0].dtype.is_float
                for n in nodes
            )
        return chains.longest(kernels, self.env) if self.folds[function] else None

    def chain(self, level: Level, run: Runner, kernels: Kernels) -> tuple[Array, ...]:
        """Run the fused entry kernel by kernel, each in memory of its own, and judge each.

        ``kernels`` are the programs of what runs, by function, which tell how sums are made.
        A kernel that is wrong is followed by the reference's values, so that it is blamed alone.
        """
        m = self.s.fused
        values = dict(zip((p.name for p in m.entry.params), self.inputs, strict=True))
        for n in m.entry.nodes:
            args = [values[a] for a in n.args]
            types = self.concrete(n.types)
            if n.op != CALL or RESHAPE_ONLY in m.function(n.callee).attr:
                outs = self.reference(n, args)
            else:
                outs = self.one(level, n, args, types, run, kernels)
            values.update(zip(n.results, outs, strict=True))
        return tuple(values[r] for r in m.entry.results)

    def one(
        self,
        level: Level,
        n: Node,
        args: Sequence[Array],
        types: Sequence[TensorType],
        run: Runner,
        kernels: Kernels,
    ) -> Sequence[Array]:
        """Judge one call; return its outputs, or the reference's where they are wrong."""
        before = len(level.findings)
        found: list[Sequence[Array]] = []

        def judged() -> None:
            outs = run(n.callee, args)
            most = self.longest(n.callee, kernels(n.callee))
            wanted = self.bars(self.s.fused.function(n.callee), args, most)
            rows = zip(n.results, wanted, outs, types, strict=True)
            self.record(level, n.callee, [compare.compare(*row) for row in rows])
            found.append(outs)

        guard(level, n.callee, judged)
        return found[0] if len(level.findings) == before else self.reference(n, args)

    def reference(self, n: Node, args: Sequence[Array]) -> Sequence[Array]:
        """Values of one node of the fused entry."""
        m = self.s.fused
        types = m.entry.types()
        params = tuple(Param(f"x{i}", types[a]) for i, a in enumerate(n.args))
        alone = replace(n, args=tuple(p.name for p in params))
        f = Function("alone", params, (alone,), n.results)
        values = graph_interp.values(f, m, args, self.env)
        return [values[r] for r in n.results]

    def loop(self, level: Level) -> None:
        def run(function: str, args: Sequence[Array]) -> Sequence[Array]:
            f = self.s.loops[function]
            types = self.s.fused.function(function).result_types()
            return run_primfuncs([f], f, args, self.env, types)

        self.chain(level, run, lambda name: (self.s.loops[name],))

    def kernel(self, level: Level) -> None:
        def run(function: str, args: Sequence[Array]) -> Sequence[Array]:
            kernels, whole = self.s.kernels[function], self.s.loops[function]
            types = self.s.fused.function(function).result_types()
            return run_primfuncs(kernels, whole, args, self.env, types)

        results = self.chain(level, run, self.s.kernels.__getitem__)
        self.unplanned = results if level.agree else None

    def plan(self, level: Level) -> None:
        for e in plan_check.check(self.s.program, self.env):
            where = f"line {e.step}"
            level.findings.append(Finding(level.name, where, "plan", f"{e.kind}: {e.message}"))

    def same_bits(self, level: Level, want: Sequence[Array], got: Sequence[Array]) -> None:
        names = self.s.source.entry.results
        rows = zip(names, want, got, strict=True)
        self.record(level, "plan", [compare.bitwise(n, w, g) for n, w, g in rows])

    def program(self, level: Level) -> None:
        """The planned program in poisoned memory gives the bits of the kernels run apart."""
        got = program_interp.run(self.s.program, self.inputs)
        if self.unplanned is not None:
            self.same_bits(level, self.unplanned, got)

    def backend(self, b: Backend, level: Level) -> None:
        def run(function: str, args: Sequence[Array]) -> Sequence[Array]:
            return b.run_function(function, args, self.env)

        want = self.chain(level, run, self.s.kernels.__getitem__)
        if level.agree:
            got = b.run_program(self.inputs)
            if b.deterministic:
                self.same_bits(level, want, got)


def exact(a: Array) -> Bar:
    """Bar of an input: it is what it is."""
    return bars.exact(a, DType.of(a))


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
        j = _Judge(s, inputs, contract or Contract(), progress)
        for name, run in (
            ("graph", j.graph),
            ("passes", j.passes),
            ("loop", j.loop),
            ("kernel", j.kernel),
            ("plan", j.plan),
            ("program", j.program),
        ):
            j.level(name, run)
        for b in backends:
            j.level(b.name, partial(j.backend, b))
        return Report(tuple(j.levels))
