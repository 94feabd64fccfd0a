"""Sizes that values tell: integers computed from sizes that a run has bound already.

A size that only the run tells is a symbol bound to an element of some value.  What the graph
computes from that element is then a size over the symbol, as what it computes from shapes is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import Array, DType, Tensor
from didyma.refimpl.ops.builder import Builder, Value

MOST = 64  # elements of a value whose sizes are looked for
MOST_TERMS = 64  # of a size: products of sums grow without end
DEPTH = 64  # nodes from a value back to what is bound

_NARROWER = (DType.I8, DType.I16, DType.I32, DType.U8, DType.U16, DType.U32)  # than i64
Element: TypeAlias = tuple[Builder, str, int]  # of a value of a function
Two: TypeAlias = Callable[[Dim, Dim], Dim]


@dataclass(frozen=True, slots=True)
class Told:
    """Which symbol is bound to which element, and in which function.

    ``eager``: what comes from no sizes is bound as soon as it is part of one, as a size of at most
    so much, so that all that is computed of it can be compared; 0 if not.
    """

    bound: dict[Element, list[tuple[Builder, Dim]]] = field(
        default_factory=dict[Element, list[tuple[Builder, Dim]]]
    )
    eager: int = 0
    order: list[Element] = field(default_factory=list[Element])  # as they were bound

    def forget(self, since: int) -> None:
        """Forget all but the first so many that were bound: what followed was given up."""
        while len(self.order) > since:
            self.bound[self.order.pop()].pop()

    def learn(self, b: Builder, scalar: Value, d: Dim) -> None:
        """Remember that a function has bound a size to a value of one element."""
        self.order.append(root(b, scalar))
        self.bound.setdefault(self.order[-1], []).append((b, d))

    def find(self, b: Builder, v: Value, least: int | None = None) -> Sequence[Dim] | None:
        """Elements of a value of integers as sizes; None where any of them is not told.

        Given the least that they may be, they are known to be sizes, and may be bound.
        """
        if not v.type.dtype.is_int or not isinstance(v.type.numel, int) or v.type.numel > MOST:
            return None
        most = self.eager if least is not None else 0
        found = _Search(self, b, least or 0, most).elements(b, v, 0)
        known = [d for d in found if d is not None] if found is not None else []
        return known if len(known) == v.type.numel else None


def root(b: Builder, v: Value) -> Element:
    """Return the element of an operation's result that a value of one element merely moves."""
    at = 0
    while True:
        b, v = home_of(b, v)
        n = b.maker(v)
        if n is None or n.op not in ("reshape", "cast", "slice", "concat"):
            return b, v.name, at
        args = b.values(n.args)
        if n.op == "cast" and not (v.type.dtype is DType.I64 and args[0].type.dtype in _NARROWER):
            return b, v.name, at
        if n.op == "slice":
            starts, steps = n.attr["starts"], n.attr["steps"]
            assert isinstance(starts, tuple)
            assert isinstance(steps, tuple)
            if len(starts) != 1 or not isinstance(starts[0], int) or steps[0] != 1:
                return b, v.name, at
            at += starts[0]
        if n.op == "concat":
            sizes = [a.type.numel for a in args]
            if args[0].type.rank != 1 or not all(isinstance(s, int) for s in sizes):
                return b, v.name, at
            k = 0
            while isinstance(s := sizes[k], int) and at >= s:
                at, k = at - s, k + 1
            args = [args[k]]
        v = args[0]


def home_of(b: Builder, v: Value) -> tuple[Builder, Value]:
    """Return the function that makes a value that others around it capture."""
    while b.parent is not None:
        outer = next((o for o, own in b.captures.values() if own.name == v.name), None)
        if outer is None:
            break
        b, v = b.parent, outer
    return b, v


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for the sizes that a value holds, as they are seen from a function."""

    told: Told
    seen_from: Builder
    least: int
    most: int  # of what is bound, 0 if nothing is
    seen: dict[tuple[Builder, str], list[Dim | None]] = field(
        default_factory=dict[tuple[Builder, str], list[Dim | None]]
    )

    def elements(self, b: Builder, v: Value, depth: int) -> list[Dim | None] | None:
        """Sizes of the elements, in order; None where there are too many or they are no sizes."""
        if dims.free(v.type.shape) or not v.type.dtype.is_int or depth > DEPTH:
            return None
        count = int(v.type.numel)
        if count > MOST:
            return None
        b, v = home_of(b, v)
        if (b, v.name) not in self.seen:
            self.seen[b, v.name] = self._elements(b, v, count, depth + 1)
        return self.seen[b, v.name]

    def _elements(self, b: Builder, v: Value, count: int, depth: int) -> list[Dim | None]:
        n = b.maker(v)
        made = None if n is None else self._made(b, n, v, depth)
        flat: list[Dim | None] = list(made.reshape(-1)) if made is not None else [None] * count
        if any(d is None for d in flat):
            flat = [self._bound(b, v, k) if d is None else d for k, d in enumerate(flat)]
        if self.most and made is None:
            flat = [self._bind(b, v, k) if d is None else d for k, d in enumerate(flat)]
        return flat

    def _bind(self, b: Builder, v: Value, k: int) -> Dim:
        """Bind an element of what is no size yet."""
        if v.type.rank:
            flat = b("reshape", [v], shape=(v.type.numel,))
            v = b("slice", [flat], starts=(k,), stops=(k + 1,), steps=(1,))
        wide = v if v.type.dtype is DType.I64 else b("cast", [v], dtype=DType.I64)
        scalar = b("reshape", [wide], shape=()) if wide.type.rank else wide
        d = b.bind(scalar, self.most, "u", self.least)
        self.told.learn(b, scalar, d)
        return d

    def _bound(self, b: Builder, v: Value, k: int) -> Dim | None:
        around = self.seen_from
        while True:
            for binder, d in self.told.bound.get((b, v.name, k), ()):
                if binder is around:
                    return d
            if around.parent is None:
                return None
            around = around.parent

    def _made(self, b: Builder, n: Node, v: Value, depth: int) -> Array | None:
        """Sizes that a node yields of its operands' sizes."""
        if n.op == "constant":
            held = n.attr["value"]
            assert isinstance(held, Tensor)
            return held.array().astype(object)
        if n.op == "iota" and v.type.rank == 1:
            return np.arange(v.type.numel if isinstance(v.type.numel, int) else 0).astype(object)
        args = b.values(n.args)
        if n.op == "slice" and (start := _counted(b, n, args)) is not None:
            return _array([start], v.type.shape)
        arrays: list[Array] = []
        for a in args:
            flat = self.elements(b, a, depth)
            if flat is None:
                return None
            arrays.append(_array(flat, a.type.shape))
        made = _moved(n, arrays, v) if n.op in _MOVES else _computed(n, arrays, b.ranges())
        return None if made is None else _within(made, v.type.dtype, b.ranges())


def _within(made: Array, dtype: DType, ranges: dims.Ranges) -> Array:
    """Leave out sizes that a type may not hold: there, they wrap; and those of many terms."""
    most = 1 << (dtype.bits - (1 if dtype.is_signed else 0))

    def held(d: Dim | None) -> Dim | None:
        if d is None:
            return None
        low, high = dims.bounds(d, ranges)
        fits = (-most if dtype.is_signed else 0) <= low and high < most
        return d if fits and dims.terms(d) <= MOST_TERMS else None

    return np.asarray(np.frompyfunc(held, 1, 1)(made), object)


def _array(flat: Sequence[Dim | None], shape: Sequence[Dim]) -> Array:
    held = np.empty(len(flat), object)
    held[:] = flat
    return held.reshape([int(d) for d in shape])


def _counted(b: Builder, n: Node, args: Sequence[Value]) -> Dim | None:
    """Return the number that a slice of one takes of numbers that count from 0."""
    maker = b.maker(args[0])
    starts = n.attr["starts"]
    assert isinstance(starts, tuple)
    if maker is None or maker.op != "iota" or len(starts) != 1 or n.types[0].numel != 1:
        return None
    return dims.canonical(starts[0])


_MOVES = ("reshape", "cast", "slice", "concat", "broadcast_to", "gather")


def _moved(n: Node, arrays: Sequence[Array], v: Value) -> Array | None:
    a = arrays[0]
    shape = [int(d) for d in v.type.shape]
    match n.op:
        case "reshape" | "cast":
            return a.reshape(shape)
        case "broadcast_to":
            return np.broadcast_to(a, shape)
        case "concat":
            return np.concatenate(arrays, int(str(n.attr["axis"])))
        case "gather":
            at = arrays[1].reshape(-1)
            if a.ndim != 1 or not all(isinstance(i, int) and -a.size <= i < a.size for i in at):
                return None
            return a[at.astype(np.int64)].reshape(shape)
        case _:
            pass
    bounds = [n.attr[k] for k in ("starts", "stops", "steps")]
    if a.ndim != 1 or not all(isinstance(e, tuple) and isinstance(e[0], int) for e in bounds):
        return None
    start, stop, step = (e[0] for e in bounds if isinstance(e, tuple))
    if step != 1:
        return None
    return a[start:stop]


def _computed(n: Node, arrays: Sequence[Array], ranges: dims.Ranges) -> Array | None:
    """Whole numbers computed of whole numbers; None for what is unknown, or is no such op."""
    if n.op == "negative":
        return np.asarray(np.frompyfunc(_negative, 1, 1)(arrays[0]), object)
    if n.op == "trunc_divide":
        divisible = all(d is not None and dims.bounds(d, ranges)[0] >= 0 for d in arrays[0].flat)
        divisors = all(isinstance(d, int) and d > 0 for d in arrays[1].flat)
        if not divisible or not divisors:
            return None
    f = _ARITHMETIC.get(n.op)
    if f is None or len(arrays) != 2:
        return None
    return np.asarray(np.frompyfunc(_careful(f), 2, 1)(*arrays), object)


def _negative(d: Dim | None) -> Dim | None:
    return None if d is None else dims.sub(0, d)


def _careful(f: Two) -> Callable[[Dim | None, Dim | None], Dim | None]:
    def run(a: Dim | None, b: Dim | None) -> Dim | None:
        if a is None or b is None or dims.terms(a) * dims.terms(b) > MOST_TERMS:
            return None
        return None if f is dims.floordiv and b == 0 else f(a, b)

    return run


_ARITHMETIC: Mapping[str, Two] = {
    "add": dims.add,
    "subtract": dims.sub,
    "multiply": dims.mul,
    "maximum": dims.maximum,
    "minimum": dims.minimum,
    "floor_divide": dims.floordiv,
    "trunc_divide": dims.floordiv,
}
