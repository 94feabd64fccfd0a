"""What the importer of one node may use, and the errors of importing."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from didyma.onnx import unify
from didyma.onnx.told import Told
from didyma.onnx.values import Entry, Item, Known, TensorList, as_value
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interp
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import CONTROL, Attr, Module
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.builder import Builder, Value

MAX_BYTES = 1 << 36  # a model with a larger tensor is refused before anything is made
SMALL = 1 << 10  # elements of a tensor whose value is looked for
MOST_TRIED = 1 << 12  # numbers that are tried for a symbol
MAX_FOLDED = 1 << 22  # elements that may be worked out at import


class NotConstant(DidymaError):
    """A value that must be known at import is computed from inputs; ``inputs`` names them."""

    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """One node: where it is, its operator set, outputs and attributes, and the graph's builder."""

    builder: Builder
    placed: dict[Known, Value]
    most: int = 1 << 20  # of a size that only the values tell
    opset: int = 0
    where: str = ""
    outputs: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    held: bool = False  # sizes that only the run tells are held equal where they must be
    told: Told = field(default_factory=Told)

    def bad(self, got: str, want: str, help: str = "", code: str = "onnx-unsupported") -> Exception:
        """Return an error that names the node."""
        return DidymaError(code, self.where, got=got, want=want, help=help)

    def wrong(self, got: str, want: str) -> Exception:
        """Return an error that says that the model breaks ONNX's rules."""
        return self.bad(got, want, code="onnx-broken")

    # Operands -------------------------------------------------------------------------------

    def tensor(self, entry: Entry) -> Item:
        """Return an entry that must be a tensor."""
        if isinstance(entry, TensorList):
            raise self.bad(
                "a sequence of tensors", "a tensor",
                "use SequenceAt or ConcatFromSequence in the model to make tensors of it",
            )  # fmt: skip
        return entry

    def item(self, x: Sequence[Entry | None], i: int) -> Item:
        """Return an operand that must be there."""
        if i >= len(x) or (entry := x[i]) is None:
            raise self.wrong(f"{len(x)} operands", f"operand {i}")
        return self.tensor(entry)

    def maybe(self, x: Sequence[Entry | None], i: int) -> Item | None:
        """Return an operand that may be left out."""
        entry = x[i] if i < len(x) else None
        return None if entry is None else self.tensor(entry)

    def value(self, entry: Entry) -> Value:
        """Return an entry as a value of the graph; a known tensor is put there once."""
        item = self.tensor(entry)
        if isinstance(item, Value):
            return item
        if item not in self.placed:
            self.placed[item] = as_value(self.builder, item)
        return self.placed[item]

    def operand(self, x: Sequence[Entry | None], i: int) -> Value:
        """Return an operand that must be there, as a value of the graph."""
        return self.value(self.item(x, i))

    def optional(self, x: Sequence[Entry | None], i: int) -> Value | None:
        """Return an operand that may be left out, as a value of the graph."""
        item = self.maybe(x, i)
        return None if item is None else self.value(item)

    def wants(self, i: int) -> bool:
        """Tell whether somebody may use output ``i``."""
        return i < len(self.outputs) and bool(self.outputs[i])

    # Building -------------------------------------------------------------------------------

    def emit(self, op: str, *args: Value, **attrs: Attr) -> Value:
        """Add a node named for the ONNX output; sizes that only the run tells are held equal."""
        name = self.outputs[0] if self.outputs else ""
        try:
            return self.builder.node(op, args, attrs, name)
        except DidymaError as e:
            if e.code != "shape-mismatch":
                raise
            equal = unify.settled(self.builder, args)
            if equal is None:
                equal = unify.equalised(self.builder, op, args, attrs, self.held)
            if equal is None:
                raise
            return self.builder.node(op, equal, attrs, name)

    def do(self, op: str, *args: Value | float, **attrs: Attr) -> Value:
        """Add a node; numbers become scalars of the first value's dtype."""
        like = next(a for a in args if isinstance(a, Value))
        values = [a if isinstance(a, Value) else self.scalar(a, like) for a in args]
        return self.emit(op, *values, **attrs)

    def __call__(self, op: str, args: Sequence[Value], /, **attrs: Attr) -> Value:
        """Add a node: what composites are built with."""
        return self.builder.node(op, args, attrs, self.outputs[0] if self.outputs else "")

    def type_of(self, value: Value, /) -> TensorType:
        """Type of a value."""
        return value.type

    def cast(self, v: Value, dtype: DType) -> Value:
        """Return a value in a dtype."""
        return v if v.type.dtype is dtype else self.emit("cast", v, dtype=dtype)

    def reshape(self, v: Value, *shape: Dim) -> Value:
        """Return a value in a shape."""
        return v if v.type.shape == shape else self.emit("reshape", v, shape=shape)

    def constant(self, array: Array) -> Value:
        """Return a constant."""
        return self.builder.constant(array)

    def iota(self, n: Dim, dtype: DType = DType.I64, rank: int = 1, axis: int = 0) -> Value:
        """Return 0, 1, … along one axis of several."""
        shape = tuple(n if i == axis else 1 for i in range(rank))
        return self.emit("iota", dtype=dtype, shape=shape, axis=axis)

    def scalar(self, x: float, like: Value) -> Value:
        """Return a scalar constant of a value's dtype."""
        return self.builder.scalar(x, like.type.dtype)

    # Attributes -----------------------------------------------------------------------------

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer."""
        return int(self.attrs.get(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is a number; ONNX holds defaults as f32, too."""
        return float(np.float32(self.attrs.get(name, default)))

    def word(self, name: str, default: str = "") -> str:
        """Return an attribute that is a word."""
        return str(self.attrs.get(name, default))

    def choice(self, name: str, default: str, *others: str) -> str:
        """Return an attribute that is one of some words."""
        word = self.word(name, default)
        if word not in (default, *others):
            raise self.wrong(f"{name} = {word!r}", ", ".join(sorted({default, *others})))
        return word

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an attribute that is yes (not 0) or no."""
        return bool(self.attrs.get(name, default))

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front."""
        if not -rank <= axis < max(rank, 1):
            raise self.wrong(f"axis {axis} of a tensor of rank {rank}", f"{-rank} <= axis < {rank}")
        return axis % max(rank, 1)

    def axes(self, x: Sequence[Item | None], i: int, rank: int) -> tuple[int, ...] | None:
        """Return increasing axes from operand ``i`` or the attribute; None where neither is."""
        if (item := self.maybe(x, i)) is not None:
            given: Sequence[int] = self.ints(item)
        elif "axes" in self.attrs:
            given = self.attrs["axes"]
        else:
            return None
        found = tuple(sorted(self.axis(a, rank) for a in given))
        if len(set(found)) != len(found):
            raise self.wrong(f"axes {tuple(given)}", "each axis once")
        return found

    # Values that must be known --------------------------------------------------------------

    def bounds(self, d: Dim) -> tuple[int, int]:
        """Smallest and largest value of a size."""
        return dims.bounds(d, self.builder.ranges())

    def known(self, item: Item) -> Known:
        """Return an item's value; NotConstant if it depends on an input.

        What the graph computes from constants alone is worked out by the graph interpreter.
        """
        if isinstance(item, Known):
            return item
        f = self.builder.cone(item)
        if f.params:
            raise self._unknown(f"%{item.name}, computed from inputs", [p.name for p in f.params])
        made = {r for n in f.nodes for r in n.results}
        used = {item.name}.union(*(n.args for n in f.nodes))
        if any(n.op in CONTROL for n in f.nodes) or not used <= made:
            raise self._unknown(f"%{item.name}, computed in a branch or loop", [])
        m = Module((f,), self.builder.declared())
        for n in f.nodes:
            for t in n.types:
                if dims.free(t.shape):  # also where it has no elements
                    raise self._unknown(f"%{item.name}, whose size is not known", [])
                if int(t.numel) > MAX_FOLDED:
                    raise self._unknown(f"%{item.name}, of {t.numel} elements", [])
        (array,) = interp.run(m, [])
        return Known(array, item.type.dtype, item.name)

    def perhaps(self, item: Item) -> Item:
        """Return an item's value if it is known and small, else the item."""
        if isinstance(item, Value) and isinstance(n := item.type.numel, int) and n <= SMALL:
            try:
                return self.known(item)
            except NotConstant:
                pass
        return item

    def fits(self, what: str, *counts: int) -> None:
        """Raise ``onnx-too-large`` for a table of so many numbers that import would make."""
        count = math.prod(counts)
        if count > MAX_FOLDED:
            raise self.bad(
                f"{dims.count_text(count)} {what}", f"at most {MAX_FOLDED:,}",
                code="onnx-too-large",
            )  # fmt: skip

    def require(self, d: Dim, value: int) -> None:
        """Narrow the range of the symbol that a size depends on, so that it has a value.

        DidymaError ``onnx-unsupported`` where no range of one symbol gives it.
        """
        if self.bounds(d) == (value, value):
            return
        names = dims.free(d)
        found = range(0)
        if len(names) == 1:
            lo, hi = self.builder.ranges()[names[0]]
            found = _interval(d, names[0], lo, hi, value)
        if not found:
            raise self.bad(f"the size {dims.text(d)}", f"one that can be {value}")
        self.builder.know([DimVar(names[0], found[0], found[-1])])

    def at_least(self, d: Dim, value: int) -> None:
        """Narrow the range of the symbol that a size depends on, so that it has a least value.

        DidymaError ``onnx-unsupported`` where no range of one symbol gives it.
        """
        names = dims.free(d)
        if self.bounds(d)[0] < value and len(names) == 1 and self.builder.parent is None:
            name = names[0]
            lo, hi = self.builder.ranges()[name]
            every = range(lo, hi + 1)
            first = bisect_left(every, value, key=lambda n: dims.evaluate(d, {name: n})) + lo
            if first <= hi:
                self.builder.know([DimVar(name, first, hi)])
        if self.bounds(d)[0] < value:
            raise self.bad(f"the size {dims.text(d)}", f"one that is at least {value}",
                           "name the axes, or give the size a number")  # fmt: skip

    def fit(self, v: Value, axis: int, n: Dim) -> None:
        """Raise ``shape-mismatch`` for an open size that must be another; ``load`` equates them."""
        d = v.type.shape[axis]
        if d != n and dims.free((d, n)):
            raise self.bad(
                f"sizes {dims.text(d)} and {dims.text(n)} on axis {axis}", "sizes that are equal",
                code="shape-mismatch",
            )  # fmt: skip

    def sized(self, item: Item) -> bool:
        """Tell whether an item depends on sizes alone, on no value of an input."""
        if isinstance(item, Known):
            return True
        f = self.builder.cone(item)
        made = {r for n in f.nodes for r in n.results}
        return {item.name}.union(*(n.args for n in f.nodes)) <= made

    def bound(self, count: Value, wish: str) -> Dim:
        """Bind a size to a number that only the run tells."""
        return self.bound_within(count, self.most, wish)

    def bound_within(self, count: Value, most: Dim, wish: str) -> Dim:
        """Bind a size to a number of at most another size; one bound already is that size."""
        found = self.told.find(self.builder, count)
        if found is not None and self.bounds(found[0])[0] >= 0:
            return found[0]
        n = self.reshape(self.cast(count, DType.I64))
        d = self.builder.bind(n, most, f"u_{wish}")
        self.told.learn(self.builder, n, d)
        return d

    def array(self, item: Item) -> Array:
        """Return an item's numbers; NotConstant if they are not known."""
        k = self.known(item)
        if k.symbolic:
            raise self._unknown(f"the sizes {', '.join(map(dims.text, k.dims()))}", [])
        return k.array

    def sizes(self, item: Item, least: int | None = None) -> tuple[Dim, ...]:
        """Return a vector of sizes that are known, or bound by now; NotConstant otherwise.

        ``least``: they are sizes of at least so much and may be bound, see ``Told``.
        """
        try:
            k = self.known(item)
        except NotConstant:
            found = self.told.find(self.builder, item, least) if isinstance(item, Value) else None
            if found is None or item.type.rank > 1:
                raise
            return tuple(found)
        if not k.dtype.is_int or k.array.ndim > 1:
            raise self.wrong(str(k.type), "a vector of integers")
        return k.dims()

    def ints(self, item: Item) -> tuple[int, ...]:
        """Return a known vector of plain integers; NotConstant otherwise."""
        a = self.array(item)
        if a.dtype.kind not in "iu" or a.ndim > 1:
            raise self.wrong(f"{a.dtype}{list(a.shape)}", "a vector of integers")
        return tuple(int(n) for n in a.reshape(-1))

    def number(self, item: Item) -> Any:
        """Return a known tensor of one element as a Python number."""
        a = self.array(item)
        if a.size != 1:
            raise self.wrong(f"{a.size} elements", "one")
        return np.asarray(a).reshape(()).item()

    def unknown(self, got: str) -> NotConstant:
        """Return the error for what must be known and is not."""
        return self._unknown(got, [])

    def _unknown(self, got: str, inputs: Sequence[str]) -> NotConstant:
        e = NotConstant(
            "onnx-not-constant",
            self.where,
            got=got,
            want="a value known when the model is imported",
            help="fix the input as an initializer, for example with onnxsim",
        )
        e.inputs = tuple(inputs)
        return e


def _interval(d: Dim, name: str, lo: int, hi: int, value: int) -> range:
    """Numbers for which a size has a value, if it grows with its symbol; else none."""
    first = bisect_left(range(lo, hi + 1), value, key=lambda n: dims.evaluate(d, {name: n})) + lo
    last = bisect_right(range(lo, hi + 1), value, key=lambda n: dims.evaluate(d, {name: n})) + lo
    found = range(first, last)
    if len(found) > MOST_TRIED or any(dims.evaluate(d, {name: n}) != value for n in found):
        return range(0)  # it does not grow, or too slowly to be sure
    return found
