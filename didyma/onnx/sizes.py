"""The evaluator of sizes: what integer tensors of a graph hold, as sizes, at import.

ONNX computes shapes with tensors, from the shapes of inputs and from data-dependent sizes, which a
run binds to elements of tensors.  The evaluator works on NumPy arrays of objects, one for each
tensor.  Their elements are sizes, truth values of comparisons, or None where an element is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from didyma.composites.builder import Builder, Value
from didyma.onnx.values import wrapped
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, Ranges
from didyma.refimpl.ir.graph import Attr, Node
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType

MOST_BOUND = 64  # elements of a value whose elements are looked up as bound sizes
MOST_FOLDED = 1 << 10  # elements of a value that is computed from constants
MOST_TERMS = 64  # of a size: products of sums grow exponentially, and are left to the run
DEPTH = 64  # nodes between a value and the sizes that it is computed from

_NARROWER = (DType.I8, DType.I16, DType.I32, DType.U8, DType.U16, DType.U32)  # than i64
Element: TypeAlias = tuple[Builder, str, int]  # of a value of a function


@dataclass(frozen=True, slots=True)
class BoundSizes:
    """Which elements of which values the data-dependent sizes are bound to.

    If ``bind_up_to`` is not 0, integers that sizes are computed from are bound as soon as they
    become part of a shape, as sizes of at most so much, so that all that is computed from them can
    be compared.
    """

    symbols: dict[Element, list[tuple[Builder, Dim]]] = field(
        default_factory=dict[Element, list[tuple[Builder, Dim]]]
    )
    bind_up_to: int = 0
    order: list[Element] = field(default_factory=list[Element])  # as they were bound

    def forget(self, since: int) -> None:
        """Forget all but the first ``since`` bindings, when the nodes after them are given up."""
        while len(self.order) > since:
            self.symbols[self.order.pop()].pop()

    def add(self, b: Builder, scalar: Value, d: Dim) -> None:
        """Record that a function binds a size to a value of one element."""
        self.order.append(source(b, scalar))
        self.symbols.setdefault(self.order[-1], []).append((b, d))

    def find(self, b: Builder, v: Value, least: int | None = None) -> list[Dim] | None:
        """Return the elements of an integer value as sizes; None if any of them is unknown.

        With ``least``, the elements are sizes of at least so much, and unknown ones may be bound.
        """
        if not v.type.dtype.is_int or not isinstance(v.type.numel, int):
            return None
        bind_up_to = self.bind_up_to if least is not None else 0
        sizes = _Evaluator(b, MOST_BOUND, self, least or 0, bind_up_to).evaluate(b, v)
        elements = [] if sizes is None else sizes.reshape(-1).tolist()
        return elements if len(elements) == v.type.numel and None not in elements else None


def folded(b: Builder, v: Value, constants: Mapping[str, Array]) -> Array | None:
    """Return the elements of a value computed from some of a function's values; None if unknown."""
    evaluator = _Evaluator(b, MOST_FOLDED)
    evaluator.arrays.update({(b, name): array for name, array in constants.items()})
    sizes = evaluator.evaluate(b, v)
    return None if sizes is None or None in sizes.reshape(-1).tolist() else sizes


def source(b: Builder, v: Value) -> Element:
    """Return the element that a value of one element is a copy of.

    Reshapes, slices, concatenations and widening casts copy elements.
    """
    at = 0
    while True:
        b, v = home(b, v)
        n = b.maker(v)
        if n is None or n.op not in ("reshape", "cast", "slice", "concat"):
            return b, v.name, at
        args = b.values(n.args)
        if n.op == "cast" and not (v.type.dtype is DType.I64 and args[0].type.dtype in _NARROWER):
            return b, v.name, at
        if n.op == "slice":
            starts, steps = _tuple(n.attr["starts"]), _tuple(n.attr["steps"])
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


def home(b: Builder, v: Value) -> tuple[Builder, Value]:
    """Return the function that computes a value, and the value there, if ``b`` captures it."""
    while b.parent is not None:
        outer = next((o for o, own in b.captures.values() if own.name == v.name), None)
        if outer is None:
            break
        b, v = b.parent, outer
    return b, v


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """Evaluates values as they are seen from the function ``seen_from``.

    Without ``bound``, sizes are taken to fit the dtypes that hold them, as those of tensors do;
    with it, symbolic sizes that their dtype may not hold are unknown.
    """

    seen_from: Builder
    most: int  # elements of a value
    bound: BoundSizes | None = None
    least: int = 0
    bind_up_to: int = 0
    arrays: dict[tuple[Builder, str], Array] = field(
        default_factory=dict[tuple[Builder, str], Array]
    )

    def evaluate(self, b: Builder, v: Value, depth: int = 0) -> Array | None:
        """Return the elements of a value; None for one that is too large or holds no integers."""
        dtype = v.type.dtype
        if dims.free(v.type.shape) or not (dtype.is_int or dtype is DType.BOOL) or depth > DEPTH:
            return None
        if int(v.type.numel) > self.most:
            return None
        b, v = home(b, v)
        if (b, v.name) not in self.arrays:
            self.arrays[b, v.name] = self._evaluated(b, v, depth + 1)
        return self.arrays[b, v.name]

    def _evaluated(self, b: Builder, v: Value, depth: int) -> Array:
        n = b.maker(v)
        computed = None if n is None else self._computed(b, n, v, depth)
        array = _array([None] * int(v.type.numel), v.type) if computed is None else computed
        if self.bound is None or not v.type.dtype.is_int:
            return array
        flat = array.reshape(-1).tolist()
        flat = [self._bound(b, v, k) if d is None else d for k, d in enumerate(flat)]
        if self.bind_up_to and computed is None:
            flat = [self._bind(b, v, k) if d is None else d for k, d in enumerate(flat)]
        return _array(flat, v.type)

    def _bind(self, b: Builder, v: Value, k: int) -> Dim:
        """Bind an element that is not a size yet."""
        if v.type.rank:
            flat = b("reshape", [v], shape=(v.type.numel,))
            v = b("slice", [flat], starts=(k,), stops=(k + 1,), steps=(1,))
        wide = v if v.type.dtype is DType.I64 else b("cast", [v], dtype=DType.I64)
        scalar = b("reshape", [wide], shape=()) if wide.type.rank else wide
        d = b.bind(scalar, self.bind_up_to, "u", self.least)
        assert self.bound is not None
        self.bound.add(b, scalar, d)
        return d

    def _bound(self, b: Builder, v: Value, k: int) -> Dim | None:
        """Return the size that is bound to an element in a function around, if any."""
        assert self.bound is not None
        symbols = self.bound.symbols.get((b, v.name, k), ())
        around: Builder | None = self.seen_from
        while around is not None:
            for binder, d in symbols:
                if binder is around:
                    return d
            around = around.parent
        return None

    def _computed(self, b: Builder, n: Node, v: Value, depth: int) -> Array | None:
        """Return what a node computes from its operands' elements; None if it is not evaluated."""
        if n.op == "constant":
            tensor = n.attr["value"]
            assert isinstance(tensor, Tensor)
            return tensor.array().astype(object)
        if n.op == "iota" and v.type.rank == 1:
            return np.arange(int(v.type.numel)).astype(object)
        args = b.values(n.args)
        if n.op == "slice" and (size := _element_of_iota(b, n, args[0])) is not None:
            return _array([size], v.type)
        arrays: list[Array] = []
        for a in args:
            array = self.evaluate(b, a, depth)
            if array is None:
                return None
            arrays.append(array)
        ranges = b.ranges()
        computed = apply(n.op, n.attr, arrays, v.type, ranges)
        return computed if computed is None or self.bound is None else _fitting(computed, v, ranges)


def _element_of_iota(b: Builder, n: Node, operand: Value) -> Dim | None:
    """Return the element that a slice takes from an iota, if it takes one."""
    maker = b.maker(operand)
    starts = _tuple(n.attr["starts"])
    if maker is None or maker.op != "iota" or len(starts) != 1 or n.types[0].numel != 1:
        return None
    return dims.canonical(starts[0])


def _fitting(array: Array, v: Value, ranges: Ranges) -> Array:
    """Replace symbolic sizes that a dtype may not hold, and those of many terms, by None."""
    if not v.type.dtype.is_int:
        return array
    least, most = v.type.dtype.limits

    def fits(d: Dim | None) -> Dim | None:
        if d is None:
            return None
        low, high = dims.bounds(d, ranges)
        return d if least <= low and high <= most and dims.terms(d) <= MOST_TERMS else None

    return np.asarray(np.frompyfunc(fits, 1, 1)(array), object)


def _array(flat: Sequence[Dim | None], type: TensorType) -> Array:
    array = np.empty(len(flat), object)
    array[:] = flat
    return array.reshape([int(d) for d in type.shape])


def _tuple(attr: Attr) -> tuple[Any, ...]:
    assert isinstance(attr, tuple)
    return attr


# Ops --------------------------------------------------------------------------------------------


def apply(
    op: str, attr: Mapping[str, Attr], arrays: Sequence[Array], type: TensorType, ranges: Ranges
) -> Array | None:
    """Return the result of an op on arrays of sizes; None if the op is not evaluated."""
    if op in _MOVES:
        return _MOVES[op](attr, arrays, tuple(int(d) for d in type.shape))
    if op == "cast":
        return np.asarray(np.frompyfunc(_cast_to(type.dtype), 1, 1)(arrays[0]), object)
    if op == "prod":
        return _product(arrays[0], type)
    if op not in _ELEMENTWISE or (op in _ARITHMETIC and type.dtype is DType.BOOL):
        return None
    f = _ELEMENTWISE[op]

    def each(*elements: Any) -> Any:
        if op != "where" and any(e is None for e in elements):
            return None
        if op in _ARITHMETIC and reduce(lambda n, e: n * dims.terms(e), elements, 1) > MOST_TERMS:
            return None
        return _settled(f(ranges, *elements), type.dtype)

    return np.asarray(np.frompyfunc(each, len(arrays), 1)(*arrays), object)


def _settled(e: Any, dtype: DType) -> Any:
    """Return an element as its dtype holds it: numbers wrap around."""
    if e is None or dtype is DType.BOOL:
        return e
    d = dims.canonical(int(e) if isinstance(e, bool) else e)
    return wrapped(d, dtype) if isinstance(d, int) else d


def _cast_to(dtype: DType) -> Callable[[Any], Any]:
    def run(e: Any) -> Any:
        if dtype is DType.BOOL:
            return bool(e) if isinstance(e, int) else None
        return _settled(e, dtype)

    return run


def _product(a: Array, type: TensorType) -> Array | None:
    """Return the product of a vector of sizes."""
    elements = a.tolist()
    if a.ndim != 1 or None in elements:
        return None
    return _array([_settled(dims.mul(*elements), type.dtype)], type)


Shape: TypeAlias = tuple[int, ...]
Attrs: TypeAlias = Mapping[str, Attr]


def _reshape(attr: Attrs, arrays: Sequence[Array], shape: Shape) -> Array | None:
    return arrays[0].reshape(shape)


def _broadcast_to(attr: Attrs, arrays: Sequence[Array], shape: Shape) -> Array | None:
    return np.broadcast_to(arrays[0], shape)


def _concat(attr: Attrs, arrays: Sequence[Array], shape: Shape) -> Array | None:
    return np.concatenate(arrays, int(str(attr["axis"])))


def _gather(attr: Attrs, arrays: Sequence[Array], shape: Shape) -> Array | None:
    a, at = arrays
    axis = int(str(attr["axis"]))
    n = a.shape[axis]
    if not all(isinstance(i, int) and -n <= i < n for i in at.flat):
        return None
    return np.asarray(np.take(a, at.astype(np.int64), axis), object).reshape(shape)


def _slice(attr: Attrs, arrays: Sequence[Array], shape: Shape) -> Array | None:
    bounds = [_tuple(attr[k]) for k in ("starts", "stops", "steps")]
    if not all(isinstance(e, int) for each in bounds for e in each):
        return None
    # a slice backwards stops at -1 after the first element, which Python writes as None
    parts = [slice(i, None if k < 0 and j < 0 else j, k) for i, j, k in zip(*bounds, strict=True)]
    return arrays[0][tuple(parts)].reshape(shape)


_MOVES: Mapping[str, Callable[[Attrs, Sequence[Array], Shape], Array | None]] = {
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "gather": _gather,
    "slice": _slice,
}


def _add(ranges: Ranges, a: Dim, b: Dim) -> Dim:
    return dims.add(a, b)


def _subtract(ranges: Ranges, a: Dim, b: Dim) -> Dim:
    return dims.sub(a, b)


def _multiply(ranges: Ranges, a: Dim, b: Dim) -> Dim:
    return dims.mul(a, b)


def _negative(ranges: Ranges, a: Dim) -> Dim:
    return dims.sub(0, a)


def _maximum(ranges: Ranges, a: Dim, b: Dim) -> Dim:
    return dims.maximum(a, b)


def _minimum(ranges: Ranges, a: Dim, b: Dim) -> Dim:
    return dims.minimum(a, b)


def _floor_divide(ranges: Ranges, a: Dim, b: Dim) -> Dim | None:
    return None if b == 0 else dims.floordiv(a, b)


def _remainder(ranges: Ranges, a: Dim, b: Dim) -> Dim | None:
    """Remainder with the sign of the divisor, which must be a positive number."""
    return dims.sub(a, dims.mul(b, dims.floordiv(a, b))) if isinstance(b, int) and b > 0 else None


def _trunc_divide(ranges: Ranges, a: Dim, b: Dim) -> Dim | None:
    """Quotient rounded towards zero, which is 0 if the divisor is 0."""
    if isinstance(b, int) and b <= 0:
        return 0 if b == 0 else _trunc_divide(ranges, dims.mul(a, -1), -b)
    if isinstance(a, int) and isinstance(b, int):
        return a // b if a >= 0 else -(-a // b)
    if not isinstance(b, int) and dims.bounds(b, ranges)[0] < 1:
        return None
    below = dims.mul(a, -1)
    if dims.never_negative(a):
        return dims.floordiv(a, b)
    if dims.never_negative(below):
        return dims.mul(dims.floordiv(below, b), -1)
    parts = (dims.floordiv(dims.maximum(side, 0), b) for side in (a, below))
    return dims.sub(*parts)


def _less(ranges: Ranges, a: Dim, b: Dim) -> bool | None:
    more = dims.sub(b, a)
    low, high = dims.bounds(more, ranges)
    if low > 0 or dims.never_negative(dims.sub(more, 1)):
        return True
    return False if high <= 0 or dims.never_negative(dims.mul(more, -1)) else None


def _equal(ranges: Ranges, a: Dim, b: Dim) -> bool | None:
    return dims.always_equal(int(a) if isinstance(a, bool) else a, b, ranges)


def _order(swap: bool, negate: bool) -> Callable[[Ranges, Dim, Dim], bool | None]:
    """Return a comparison that is ``less`` with operands swapped, or negated."""

    def run(ranges: Ranges, a: Dim, b: Dim) -> bool | None:
        result = _less(ranges, b, a) if swap else _less(ranges, a, b)
        return None if result is None else result != negate

    return run


def _logical_not(ranges: Ranges, a: bool) -> bool:
    return not a


def _logical_and(ranges: Ranges, a: bool, b: bool) -> bool:
    return a and b


def _logical_or(ranges: Ranges, a: bool, b: bool) -> bool:
    return a or b


def _where(ranges: Ranges, condition: bool | None, a: Dim | None, b: Dim | None) -> Dim | None:
    return None if condition is None else a if condition else b


_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "negative": _negative,
    "maximum": _maximum,
    "minimum": _minimum,
    "floor_divide": _floor_divide,
    "trunc_divide": _trunc_divide,
    "remainder": _remainder,
}
_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    **_ARITHMETIC,
    "equal": _equal,
    "less": _less,
    "greater": _order(swap=True, negate=False),
    "less_equal": _order(swap=True, negate=True),
    "greater_equal": _order(swap=False, negate=True),
    "logical_not": _logical_not,
    "logical_and": _logical_and,
    "logical_or": _logical_or,
    "where": _where,
}
