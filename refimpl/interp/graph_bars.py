"""The interpreter of graphs on values with error bars.  What depends on an undecided
choice is undecided.

Where an implementation may take the other branch, go round once more or bind another size, no
bar holds what it yields: such results are undecided, and their shapes too if they depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from didyma.refimpl.interp.graph_machine import Machine, Step
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import Function, Module, Node
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.bars import (
    Bar,
    Contract,
    centre_dtype,
    in_pieces,
    never,
    perhaps_scaled,
    perhaps_stored,
    settle,
    store,
)
from didyma.refimpl.ops.liberties import Reach, Terms, added, loosened, multiplied, softplus
from didyma.refimpl.ops.spec import Kind

MOVEMENT = (Kind.INJECTIVE, Kind.RESHAPE)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its bar; ``sure`` is false where an implementation may find another shape.

    ``reach`` is that of a product's factors, if they may be multiplied in another order, and
    ``terms`` are those of a sum, if they may be added in another order.
    """

    bar: Bar
    sure: bool = True
    reach: Reach | None = field(default=None, kw_only=True)
    terms: Terms | None = field(default=None, kw_only=True)

    def unknown(self, *, sure: bool) -> Estimate:
        """Return the estimate with every element undecided."""
        return replace(self, bar=Bar(self.bar.c, np.full(self.bar.c.shape, np.inf)), sure=sure)


def settled_operands(n: Node, bars: Sequence[Bar], types: Sequence[TensorType]) -> list[Bar]:
    """Return settled bars of a node's operands; one bar for one value, for x * x is a square."""
    known = {a: settle(b, t.dtype) for a, b, t in zip(n.args, bars, types, strict=True)}
    return [known[a] for a in n.args]


def _decided(t: Estimate) -> bool:
    return t.sure and bool(np.all(t.bar.e == 0))


class Bars(Machine[Estimate]):
    """Runs functions on bars; ``loose`` are symbols whose value is in doubt."""

    def __init__(self, m: Module, env: Mapping[str, int], contract: Contract, stored: bool) -> None:
        super().__init__(m, env)
        self.contract = contract
        self.alone = replace(contract, rescaled=never)  # of folds that no other one hangs on
        self.stored = stored
        self.loose: set[str] = set()
        self.stopped = False
        self.depth = 0

    def call(self, f: Function, args: list[Estimate]) -> list[Estimate]:
        """Run a function; its results are stored where it ends."""
        self.depth += 1
        results = super().call(f, args)
        self.depth -= 1
        if self.stored and self.depth:
            return results  # stored or not: that is in the bars already
        types = self.prepare(f).types
        return [
            replace(t, bar=store(t.bar, types[r].dtype))
            for r, t in zip(f.results, results, strict=True)
        ]

    def apply(self, f: Function, step: Step, args: list[Estimate]) -> Sequence[Estimate]:
        """Return the bar of an op's result."""
        n = step.node
        op = OPS[n.op]
        operands = self.operands(f, step, args)
        bars = [t.bar for t in args]
        if not op.pending and op.kind not in MOVEMENT:
            bars = settled_operands(n, bars, operands)
        use = step.sized(self.env)
        joined = self.contract.rescaled is not never and n.results[0] in self.prepare(f).joined
        contract = self.contract if joined else self.alone

        def rule(bars: Sequence[Bar]) -> Bar:
            return use.op.bar(bars, operands, use.type, contract)

        bar = in_pieces(rule, bars) if op.kind is Kind.ELEMENTWISE else rule(bars)
        bar = loosened(self.contract, n.op, bars, bar, n.types[0].dtype)
        if n.results[0] in self.prepare(f).softplus:
            bar = softplus(self.contract, bar, n.types[0].dtype)
        reach, terms = None, None
        if n.types[0].dtype.compute is DType.F32:
            bar, reach = multiplied(self.contract, n.op, [t.reach for t in args], bars, bar)
        if n.types[0].dtype is DType.F32:
            bar, terms = added(self.contract, n.op, [t.terms for t in args], bars, bar)
            if op.kind in MOVEMENT and len(args) == 1 and args[0].terms:
                terms = args[0].terms.moved(rule)
        if n.results[0] in self.prepare(f).on_the_way:
            bar = perhaps_scaled(bar, n.types[0].dtype, cast=n.op == "cast")
        elif self.stored:
            bar = perhaps_stored(bar, n.types[0].dtype)
        out = Estimate(bar, reach=reach, terms=terms)
        sure = all(t.sure for t in args) and self.loose.isdisjoint(step.symbols)
        return (out if sure else out.unknown(sure=False),)

    def operands(self, f: Function, step: Step, args: Sequence[Estimate]) -> list[TensorType]:
        """Return the concrete types of a node's operands."""
        types = self.prepare(f).types
        names = zip(step.node.args, args, strict=True)
        return [TensorType(types[a].dtype, t.bar.c.shape) for a, t in names]

    def shape(self, value: Estimate) -> tuple[int, ...]:
        """Return the shape of a value."""
        return value.bar.c.shape

    def truth(self, value: Estimate) -> bool:
        """Read a condition."""
        return bool(value.bar.c)

    def again(self, value: Estimate) -> bool:
        """Read the condition of a loop, which stops where it is undecided."""
        self.stopped = not _decided(value)
        return not self.stopped and self.truth(value)

    def size(self, value: Estimate) -> int:
        """Read a size."""
        return int(value.bar.c)

    def take(self, value: Estimate, i: int) -> Estimate:
        """Return one slice along the first axis."""
        return replace(
            value, bar=Bar(value.bar.c[i, ...], value.bar.e[i, ...]), reach=None, terms=None
        )

    def stack(self, slices: Sequence[Estimate], t: TensorType) -> Estimate:
        """Join slices along a new first axis."""
        shape = tuple(int(str(s)) for s in t.shape)
        c, e = np.empty(shape, centre_dtype(t.dtype)), np.zeros(shape)
        for i, s in enumerate(slices):
            c[i], e[i] = s.bar.c, s.bar.e
        return Estimate(Bar(c, e), all(s.sure for s in slices))

    def bound(self, symbol: str, value: Estimate) -> None:
        """Run a ``bind``, and note whether its symbol is in doubt."""
        super().bound(symbol, value)
        self.doubt(symbol, not _decided(value))

    def doubt(self, symbol: str, loose: bool) -> None:
        """Say whether the value that a symbol has been given is in doubt."""
        if loose:
            self.loose.add(symbol)
        else:
            self.loose.discard(symbol)

    def rebind(self, n: Node, types: Sequence[TensorType], values: Sequence[Estimate]) -> None:
        """Bind symbols by the shapes of values, and note which are in doubt."""
        super().rebind(n, types, values)
        for s in control.rebound(n):
            named = [v for t, v in zip(types, values, strict=True) if dims.symbol(s) in t.shape]
            self.doubt(s, not all(v.sure for v in named))

    def undecided(self, n: Node, results: Sequence[Estimate]) -> list[Estimate]:
        """Results of a node whose condition is undecided."""
        new = set(control.rebound(n))
        self.loose |= new
        return [
            r.unknown(sure=r.sure and new.isdisjoint(dims.free(t.shape)))
            for r, t in zip(results, n.types, strict=True)
        ]

    def branch(self, n: Node, runs: Sequence[Function], args: list[Estimate]) -> Sequence[Estimate]:
        """Run the function that the condition chooses; undecided unless it is decided."""
        decided = _decided(args[0])
        results = super().branch(n, runs, args)
        return results if decided else self.undecided(n, results)

    def loop(self, n: Node, runs: Sequence[Function], args: list[Estimate]) -> Sequence[Estimate]:
        """Test, run the body, again; undecided if a test was."""
        results = super().loop(n, runs, args)
        return self.undecided(n, results) if self.stopped else results

    def scan(self, n: Node, body: Function, args: list[Estimate]) -> Sequence[Estimate]:
        """Run the body for each slice; undecided if their number is in doubt."""
        results = super().scan(n, body, args)
        length = control.symbols(n)
        if self.loose.isdisjoint(length):
            return results
        return [r.unknown(sure=r.sure) for r in results]
