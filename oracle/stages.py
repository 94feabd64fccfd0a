"""Run every level of a compiled module and say where it first leaves the truth.

The judge is handed the levels as data.  Each Primitive function is judged alone, on the very
inputs that reach it and against its own subgraph, so that its bar holds one kernel's rounding and
no more; the plan is replayed; and what planning and wrapping do may not change one bit.

Branches and loops are taken as the accused decides, where it decides rightly.  Of what runs many
times, the first ``JUDGED`` uses are judged, and every use whose number is a power of two; the rest
are counted.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from didyma.oracle import chains, compare, plan_check
from didyma.oracle.backend import Backend
from didyma.oracle.compare import Comparison
from didyma.oracle.externs import bodies
from didyma.oracle.kernels import run_primfuncs
from didyma.oracle.report import Finding, Level, Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as graph_interp
from didyma.refimpl.interp import program as program_interp
from didyma.refimpl.ir import dims as dims_
from didyma.refimpl.ir.external import externals
from didyma.refimpl.ir.graph import (
    CALL,
    COMPILER,
    RESHAPE_ONLY,
    Function,
    Module,
    Node,
    Param,
)
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import Kind
from didyma.refimpl.verify import program as program_laws

Env: TypeAlias = Mapping[str, int]
Runner: TypeAlias = Callable[[str, Sequence[Array], Env], Sequence[Array]]
Extern: TypeAlias = Callable[[Sequence[Array], Env], Sequence[Array]]
Kernels: TypeAlias = Callable[[str], Sequence[PrimFunc]]

JUDGED = 8  # uses of a kernel, or of a node, that are judged whatever follows
_FOLDS = (Kind.REDUCTION, Kind.OPAQUE)


@dataclass(frozen=True, slots=True)
class Subject:
    """A compiled module, every level of it; ``externs`` implement external functions by name."""

    source: Module
    passes: tuple[tuple[str, Module], ...]
    fused: Module
    loops: Mapping[str, PrimFunc]
    kernels: Mapping[str, tuple[PrimFunc, ...]]
    program: Program
    externs: Mapping[str, Extern] = field(default_factory=dict[str, "Extern"])


def due(n: int) -> bool:
    """Tell whether the ``n``-th use of something is judged."""
    return n <= JUDGED or n & (n - 1) == 0


class _Judge:
    def __init__(
        self,
        s: Subject,
        inputs: Sequence[Array],
        contract: Contract,
        progress: Callable[[str], None],
        details: bool,
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
        self.known: dict[object, tuple[Bar, ...]] = {}
        self.folds: dict[str, bool] = {}
        self.results: Sequence[Array] = ()
        self.unplanned: Sequence[Array] | None = None
        self.refusal: DidymaError | None = None  # of the inputs, by the reference
        self.details = details
        self.in_float64: Sequence[Array] | None = None  # the results

    def level(self, name: str, run: Callable[[Level], None], subject: str = "") -> None:
        self.progress(name)
        level = Level(name, subject=subject)
        start = time.perf_counter()
        self.attempt(level, name, lambda: run(level))
        level.seconds = time.perf_counter() - start
        self.levels.append(level)

    def attempt(self, level: Level, where: str, run: Callable[[], None]) -> None:
        """Run, and blame what goes wrong; what the reference refuses must be refused alike."""

        def alike() -> None:
            try:
                run()
            except DidymaError as e:
                if self.refusal is None or e.code != self.refusal.code:
                    raise
            else:
                if self.refusal is not None:
                    raise RuntimeError(f"it runs, where the reference says {self.refusal}")

        guard(level, where, alike)

    def record(self, level: Level, where: str, many: Iterable[Comparison]) -> None:
        for c in many:
            level.comparisons.append(c)
            if not c.agree:
                level.findings.append(Finding(level.name, where, "value", c.message))

    def due(self, level: Level, uses: Counter[object], what: object) -> bool:
        """Count a use and tell whether it is judged."""
        uses[what] += 1
        judged = due(uses[what])
        level.unjudged += not judged
        return judged

    def graph(self, level: Level) -> None:
        """Each op's NumPy meaning against its own bar, on the values that reach it."""
        m = self.s.source
        uses: Counter[object] = Counter()
        types: dict[str, dict[str, TensorType]] = {}

        def visit(
            f: Function, n: Node, args: list[Array], env: Env, run: graph_interp.Run
        ) -> Sequence[Array]:
            outs = run()
            if n.op == CALL or not self.due(level, uses, (f.name, n.results)):
                return outs
            if f.name not in types:
                types[f.name] = f.types()
            given = dict(zip(n.args, args, strict=True))
            params = tuple(Param(a, types[f.name][a]) for a in given)
            alone = Function(n.op, params, (n,), n.results)
            bars = [exact(x) for x in given.values()]
            (bar,) = graph_interp.bars(alone, m, bars, env, self.contract)
            (t,) = concrete(n.types, env)
            self.record(level, n.op, [compare.compare(n.results[0], bar, outs[0], t)])
            return outs

        try:
            self.results = graph_interp.walk(m, self.inputs, visit, self.env)
        except DidymaError as e:
            self.refusal = e if e.code == "dim-out-of-range" else None
            raise
        if self.details:
            self.reference()

    def reference(self) -> None:
        """Compute the results in float64, unless what they decide binds a size out of its range."""
        try:
            self.in_float64 = graph_interp.reference(self.s.source, self.inputs, self.env)
        except DidymaError as e:
            if e.code != "dim-out-of-range":
                raise

    def end_to_end(self, level: Level, got: Sequence[Array]) -> None:
        """Note how far results are from those in float64."""
        if self.in_float64 is not None:
            rows = zip(self.in_float64, got, strict=True)
            level.comparisons += [compare.distance(*row) for row in rows]

    def passes(self, level: Level) -> None:
        """Each graph pass end to end: the same results, or within the source's accumulated bars."""
        if self.refusal is not None:
            for name, m in self.s.passes:
                again = partial(graph_interp.run, m, self.inputs, self.env)
                self.attempt(level, name, partial(_discard, again))
            raise self.refusal
        f = self.s.source.entry
        given = [exact(a) for a in self.inputs]
        want = graph_interp.told(f, self.s.source, given, self.env, self.contract, stored=True)
        types = [
            t.with_shape(*a.shape) for t, a in zip(f.result_types(), self.results, strict=True)
        ]
        for name, m in self.s.passes:

            def one(name: str = name, m: Module = m) -> None:
                got = graph_interp.run(m, self.inputs, self.env)
                rows = zip(f.results, self.results, want, got, types, strict=True)
                self.record(level, name, [_rewritten(*row) for row in rows])

            guard(level, name, one)

    def bars(
        self, f: Function, args: Sequence[Array], env: Env, most: int | None
    ) -> tuple[Bar, ...]:
        """Bars of a Primitive's results on exact inputs; levels often ask for the same.

        ``most`` is the longest chain of additions of the kernels judged, where it is known.
        """
        digest = hashlib.blake2b(digest_size=16)
        for a in args:
            digest.update(a.tobytes())
        key = (f.name, most, digest.digest(), tuple(a.shape for a in args), tuple(env.items()))
        if key not in self.known:
            contract = self.contract if most is None else chains.with_chain(self.contract, most)
            given = [exact(a) for a in args]
            self.known[key] = graph_interp.bars(f, self.s.fused, given, env, contract)
        return self.known[key]

    def longest(self, function: str, kernels: Sequence[PrimFunc], env: Env) -> int | None:
        """Longest chain of additions of a Primitive's kernels; None where it has no fold."""
        if function not in self.folds:
            nodes = self.s.fused.function(function).nodes
            self.folds[function] = any(
                n.op in OPS and OPS[n.op].kind in _FOLDS and n.types[0].dtype.is_float
                for n in nodes
            )
        return chains.longest(kernels, env) if self.folds[function] else None

    def chain(
        self, level: Level, run: Runner, kernels: Kernels, externs: bool = False
    ) -> tuple[Array, ...]:
        """Run the fused entry kernel by kernel, each in memory of its own, and judge each.

        ``kernels`` are the programs of what runs, by function, which tell how sums are made;
        ``externs`` says whether external functions are run too, rather than by the reference.
        A kernel that is wrong is followed by the reference's values, so that it is blamed alone.
        """
        m = self.s.fused
        table = {f.name: f for f in m.functions}
        uses: Counter[object] = Counter()

        def visit(
            f: Function, n: Node, args: list[Array], env: Env, by_reference: graph_interp.Run
        ) -> Sequence[Array]:
            del f
            if n.op != CALL or RESHAPE_ONLY in table[n.callee].attr:
                return by_reference()
            if COMPILER in table[n.callee].attr:  # judged at a level of its own
                return run(n.callee, args, env) if externs else by_reference()
            before = len(level.findings)
            outs: Sequence[Array] = ()

            def one() -> None:
                nonlocal outs
                outs = run(n.callee, args, env)
                if not self.due(level, uses, n.callee):
                    return
                most = self.longest(n.callee, kernels(n.callee), env)
                wanted = self.bars(table[n.callee], args, env, most)
                rows = zip(n.results, wanted, outs, concrete(n.types, env), strict=True)
                self.record(level, n.callee, [compare.compare(*row) for row in rows])

            guard(level, n.callee, one)
            return outs if len(level.findings) == before else by_reference()

        return tuple(graph_interp.walk(m, self.inputs, visit, self.env))

    def loop(self, level: Level) -> None:
        def run(function: str, args: Sequence[Array], env: Env) -> Sequence[Array]:
            f = self.s.loops[function]
            types = self.s.fused.function(function).result_types()
            return run_primfuncs([f], f, args, env, types)

        self.chain(level, run, lambda name: (self.s.loops[name],))

    def kernel(self, level: Level) -> None:
        def run(function: str, args: Sequence[Array], env: Env) -> Sequence[Array]:
            kernels, whole = self.s.kernels[function], self.s.loops[function]
            types = self.s.fused.function(function).result_types()
            return run_primfuncs(kernels, whole, args, env, types)

        results = self.chain(level, run, self.s.kernels.__getitem__)
        self.unplanned = None if level.findings else results

    def plan(self, level: Level) -> None:
        for e in plan_check.check(self.s.program, self.env):
            where = f"line {e.step}"
            level.findings.append(Finding(level.name, where, "plan", f"{e.kind}: {e.message}"))
        if self.refusal is not None:
            raise self.refusal  # a plan refuses nothing
        level.checks = len(self.s.program.lines)
        if self.details:
            level.note = str(program_laws.verify(self.s.program, kernels=False))

    def same_bits(self, level: Level, want: Sequence[Array], got: Sequence[Array]) -> None:
        names = self.s.source.entry.results
        rows = zip(names, want, got, strict=True)
        self.record(level, "plan", [compare.bitwise(n, w, g) for n, w, g in rows])

    def program(self, level: Level) -> None:
        """The planned program in poisoned memory gives the bits of the kernels run apart."""
        missing = sorted(externals(self.s.fused).keys() - self.s.externs.keys())
        if missing:
            level.note = f"without an implementation, so run by the reference: {', '.join(missing)}"
        got = program_interp.run(self.s.program, self.inputs, externals=bodies(self.s.fused))
        self.end_to_end(level, got)
        if self.unplanned is not None:
            self.same_bits(level, self.unplanned, got)

    def extern(self, name: str, level: Level) -> None:
        """Judge an implementation of an external function against the bars of its body."""
        f = self.s.fused.function(name)
        uses: Counter[object] = Counter()

        def visit(
            g: Function, n: Node, args: list[Array], env: Env, by_reference: graph_interp.Run
        ) -> Sequence[Array]:
            del g
            if n.op == CALL and n.callee == name and self.due(level, uses, name):
                given = [exact(a) for a in args]
                wanted = graph_interp.bars(f, self.s.fused, given, env, self.contract, stored=True)
                got = self.s.externs[name](args, env)
                rows = zip(n.results, wanted, got, concrete(n.types, env), strict=True)
                self.record(level, f"@{name}", [compare.compare(*row) for row in rows])
            return by_reference()

        graph_interp.walk(self.s.fused, self.inputs, visit, self.env)

    def backend(self, b: Backend, level: Level) -> None:
        def run(function: str, args: Sequence[Array], env: Env) -> Sequence[Array]:
            return b.run_function(function, args, env)

        if self.refusal is not None:
            b.run_program(self.inputs)
            return
        want = self.chain(level, run, self.s.kernels.__getitem__, externs=True)
        if not level.findings:
            got = b.run_program(self.inputs)
            self.end_to_end(level, got)
            if b.deterministic:
                self.same_bits(level, want, got)


def _discard(run: Callable[[], object]) -> None:
    run()


def exact(a: Array) -> Bar:
    """Bar of an input: it is what it is."""
    return bars.exact(a, DType.of(a))


def concrete(types: Iterable[TensorType], env: Env) -> tuple[TensorType, ...]:
    """Types with every symbol replaced by its value."""
    return tuple(t.with_shape(*dims_.values(t.shape, env)) for t in types)


def _rewritten(
    name: str, want: Array, told: graph_interp.Told, got: Array, type: TensorType
) -> Comparison:
    """Judge a result of a rewritten graph; where its shape is in doubt, only its dtype and rank."""
    if told.sure:
        return compare.rewritten(name, want, told.bar, got, type)
    if got.dtype == want.dtype and got.ndim == want.ndim:
        return Comparison(0, want.size, 0.0)
    return compare.bitwise(name, want, got)


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
    *,
    details: bool = True,
) -> Report:
    """Judge every level on the given inputs.

    With ``details`` the results of the program and of each backend are also held against those in
    float64 (``Comparison.off``), and the note of ``plan`` says how its symbolic laws were verified.

    Levels: ``graph``, ``passes``, ``loop``, ``kernel``, ``plan``, ``program``, then one for each
    implementation of an external function (``extern NAME``), then one for each backend by its name.
    A level that fails does not stop the others.  Where a size found at run time is out of its
    range, the reference refuses the inputs, and so must every level.
    """
    with np.errstate(all="ignore"):  # NaN and infinity are results here, not accidents
        j = _Judge(s, inputs, contract or Contract(), progress, details)
        for name, run in (
            ("graph", j.graph),
            ("passes", j.passes),
            ("loop", j.loop),
            ("kernel", j.kernel),
            ("plan", j.plan),
            ("program", j.program),
        ):
            j.level(name, run)
        for name in s.externs:
            j.level(f"extern {name}", partial(j.extern, name), f"extern {name}")
        for b in backends:
            j.level(b.name, partial(j.backend, b), b.name)
        return Report(tuple(j.levels), str(j.refusal or ""), refusals=int(j.refusal is not None))
