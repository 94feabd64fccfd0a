"""What the importer of one node may use: its operands, attributes and outputs, and the builder."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from didyma.composites.builder import Builder, Value
from didyma.onnx import unify
from didyma.onnx.sizes import BoundSizes
from didyma.onnx.values import Constant, Entry, Operand, TensorList, as_value
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interp
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import CONTROL, Attr, Module
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.rules import ShapeMismatch, unequal_sizes
from didyma.refimpl.ops.spec import Kind

SMALL = 1 << 10  # elements of a tensor that is folded although nothing needs its value
MOST_TRIED = 1 << 12  # values of a symbol that are tried one by one
MAX_FOLDED = 1 << 22  # elements of a constant that the import computes


class NotConstant(DidymaError):
    """A value that the import needs depends on inputs; ``inputs`` names them."""

    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """One node of the model, and the builder of the function that it becomes part of.

    ``emitted`` holds the constants that the function has; ``max_size`` is the largest value of a
    data-dependent size.  With ``runtime_checks``, data-dependent sizes that must be equal are
    compared at run time where nothing else decides it.
    """

    builder: Builder
    emitted: dict[Constant, Value]
    max_size: int = 1 << 20
    opset: int = 0
    where: str = ""
    outputs: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    runtime_checks: bool = False
    bound_sizes: BoundSizes = field(default_factory=BoundSizes)

    def error(
        self, got: str, want: str, help: str = "", code: str = "onnx-unsupported"
    ) -> DidymaError:
        """Return an error that names the node."""
        return DidymaError(code, self.where, got=got, want=want, help=help)

    def broken(self, got: str, want: str) -> DidymaError:
        """Return the error ``onnx-broken``: the model violates ONNX's rules."""
        return self.error(got, want, code="onnx-broken")

    # Operands -------------------------------------------------------------------------------

    def tensor(self, entry: Entry) -> Operand:
        """Return an entry that must be a tensor."""
        if isinstance(entry, TensorList):
            raise self.error(
                "a sequence of tensors", "a tensor",
                "use SequenceAt or ConcatFromSequence in the model to make tensors of it",
            )  # fmt: skip
        return entry

    def input(self, x: Sequence[Entry | None], i: int) -> Operand:
        """Return a required operand, which may be a constant."""
        if i >= len(x) or (entry := x[i]) is None:
            raise self.broken(f"{len(x)} operands", f"operand {i}")
        return self.tensor(entry)

    def optional_input(self, x: Sequence[Entry | None], i: int) -> Operand | None:
        """Return an operand, which may be a constant; None if the node omits it."""
        entry = x[i] if i < len(x) else None
        return None if entry is None else self.tensor(entry)

    def value(self, entry: Entry) -> Value:
        """Return a tensor as a value of the graph; each constant becomes one node."""
        operand = self.tensor(entry)
        if isinstance(operand, Value):
            return operand
        if operand not in self.emitted:
            self.emitted[operand] = as_value(self.builder, operand)
        return self.emitted[operand]

    def operand(self, x: Sequence[Entry | None], i: int) -> Value:
        """Return a required operand as a value of the graph."""
        return self.value(self.input(x, i))

    def optional(self, x: Sequence[Entry | None], i: int) -> Value | None:
        """Return an operand as a value of the graph; None if the node omits it."""
        operand = self.optional_input(x, i)
        return None if operand is None else self.value(operand)

    def uses_output(self, i: int) -> bool:
        """Return whether the model names output ``i``."""
        return i < len(self.outputs) and bool(self.outputs[i])

    # Building -------------------------------------------------------------------------------

    def emit(self, op: str, *args: Value | float, **attrs: Attr) -> Value:
        """Add a node named after the ONNX output; numbers become scalars like the first value.

        Where operands' sizes do not match as written, the node is tried again with operands whose
        sizes are unified.  Errors: those of the op.
        """
        like = next((a for a in args if isinstance(a, Value)), None)
        values = [a if isinstance(a, Value) or like is None else self.scalar(a, like) for a in args]
        operands = self._with_scalars(op, [v for v in values if isinstance(v, Value)])
        name = self.outputs[0] if self.outputs else ""
        try:
            return self.builder.node(op, operands, attrs, name)
        except ShapeMismatch:
            unified = unify.with_fixed_sizes(self.builder, operands)
            if unified is None:
                unified = unify.unify_sizes(self.builder, op, operands, attrs, self.runtime_checks)
            if unified is None:
                raise
            return self.builder.node(op, unified, attrs, name)

    def _with_scalars(self, op: str, operands: list[Value]) -> list[Value]:
        """Return operands with scalars for constants of one number, where no shape hangs on them.

        Kernels hold scalars in their text, and passes know them by their value.
        """
        if OPS[op].kind is not Kind.ELEMENTWISE:
            return operands
        made = [*operands]
        for i, v in enumerate(operands):
            others = max((x.type.rank for x in (*made[:i], *made[i + 1 :])), default=0)
            n = self.builder.maker(v)
            value = n.attr["value"] if n is not None and n.op == "constant" else None
            if isinstance(value, Tensor) and v.type.numel == 1 and 0 < v.type.rank <= others:
                made[i] = self.builder.constant(value.array().reshape(()))
        return made

    def __call__(self, op: str, args: Sequence[Value], /, **attrs: Attr) -> Value:
        """Add a node, as the composite functions of ``refimpl.ops`` do."""
        return self.builder.node(op, args, attrs, self.outputs[0] if self.outputs else "")

    def type_of(self, value: Value, /) -> TensorType:
        """Return the type of a value."""
        return value.type

    def cast(self, v: Value, dtype: DType) -> Value:
        """Return a value in a dtype."""
        return v if v.type.dtype is dtype else self.emit("cast", v, dtype=dtype)

    def reshape(self, v: Value, *shape: Dim) -> Value:
        """Return a value in a shape."""
        return v if v.type.shape == shape else self.emit("reshape", v, shape=shape)

    def slice(self, v: Value, axis: int, start: Dim, stop: Dim) -> Value:
        """Return the elements of one axis from ``start`` to before ``stop``."""
        starts = tuple(start if i == axis else 0 for i in range(v.type.rank))
        stops = tuple(stop if i == axis else d for i, d in enumerate(v.type.shape))
        return self.emit("slice", v, starts=starts, stops=stops, steps=(1,) * v.type.rank)

    def constant(self, array: Array) -> Value:
        """Return a constant of the graph."""
        return self.builder.constant(array)

    def iota(self, n: Dim, dtype: DType = DType.I64, rank: int = 1, axis: int = 0) -> Value:
        """Return 0, 1, …, n - 1 along one axis; the other axes have size 1."""
        shape = tuple(n if i == axis else 1 for i in range(rank))
        return self.emit("iota", dtype=dtype, shape=shape, axis=axis)

    def scalar(self, x: float, like: Value) -> Value:
        """Return a scalar constant of a value's dtype."""
        return self.builder.scalar(x, like.type.dtype)

    # Attributes -----------------------------------------------------------------------------

    def integer(self, name: str, default: int = 0) -> int:
        """Return an integer attribute."""
        return int(self.attrs.get(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """Return a float attribute, rounded to f32 as ONNX stores it; the default, too."""
        return float(np.float32(self.attrs.get(name, default)))

    def string(self, name: str, default: str = "") -> str:
        """Return a string attribute."""
        return str(self.attrs.get(name, default))

    def choice(self, name: str, default: str, *others: str) -> str:
        """Return a string attribute that has one of some values."""
        chosen = self.string(name, default)
        if chosen not in (default, *others):
            raise self.broken(f"{name} = {chosen!r}", ", ".join(sorted({default, *others})))
        return chosen

    def flag(self, name: str, default: bool = False) -> bool:
        """Return whether an integer attribute is not 0."""
        return bool(self.attrs.get(name, default))

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front; ``onnx-broken`` if it is out of range."""
        if not -rank <= axis < max(rank, 1):
            got = f"axis {axis} of a tensor of rank {rank}"
            raise self.broken(got, f"{-rank} <= axis < {rank}")
        return axis % max(rank, 1)

    def axes(self, x: Sequence[Operand | None], i: int, rank: int) -> tuple[int, ...] | None:
        """Return increasing axes from operand ``i`` or the attribute; None if there is neither."""
        if (operand := self.optional_input(x, i)) is not None:
            given: Sequence[int] = self.ints(operand)
        elif "axes" in self.attrs:
            given = self.attrs["axes"]
        else:
            return None
        axes = tuple(sorted(self.axis(a, rank) for a in given))
        if len(set(axes)) != len(axes):
            raise self.broken(f"axes {tuple(given)}", "each axis once")
        return axes

    # Constants ------------------------------------------------------------------------------

    def fold(self, operand: Operand) -> Constant:
        """Return the value of a tensor that is computed from constants alone.

        The graph interpreter computes it.  ``NotConstant`` if the tensor depends on inputs, or has
        more than ``MAX_FOLDED`` elements.
        """
        if isinstance(operand, Constant):
            return operand
        f = self.builder.cone(operand)
        if f.params:
            got = f"%{operand.name}, computed from inputs"
            raise self.not_constant(got, [p.name for p in f.params])
        made = {r for n in f.nodes for r in n.results}
        used = {operand.name}.union(*(n.args for n in f.nodes))
        if any(n.op in CONTROL for n in f.nodes) or not used <= made:
            raise self.not_constant(f"%{operand.name}, computed in a branch or loop")
        m = Module((f,), self.builder.declared())
        for n in f.nodes:
            for t in n.types:
                if dims.free(t.shape):  # even if there are no elements
                    raise self.not_constant(f"%{operand.name}, whose size is not known")
                if int(t.numel) > MAX_FOLDED:
                    raise self.not_constant(f"%{operand.name}, of {t.numel} elements")
        (array,) = interp.run(m, [])
        return Constant(array, operand.type.dtype, operand.name)

    def try_fold(self, operand: Operand) -> Operand:
        """Return the value of a small tensor if it is constant, or else the tensor."""
        n = operand.type.numel
        if isinstance(operand, Value) and isinstance(n, int) and n <= SMALL:
            try:
                return self.fold(operand)
            except NotConstant:
                pass
        return operand

    def check_count(self, what: str, *counts: int) -> None:
        """Raise ``onnx-too-large`` for a table of more than ``MAX_FOLDED`` elements."""
        count = math.prod(counts)
        if count > MAX_FOLDED:
            raise self.error(
                f"{dims.count_text(count)} {what}", f"at most {MAX_FOLDED:,}",
                code="onnx-too-large",
            )  # fmt: skip

    def array(self, operand: Operand) -> Array:
        """Return the numbers of a constant tensor; NotConstant if it is not constant."""
        constant = self.fold(operand)
        if constant.symbolic:
            raise self.not_constant(f"the sizes {', '.join(map(dims.text, constant.dims()))}")
        return constant.array

    def sizes(self, operand: Operand, least: int | None = None) -> tuple[Dim, ...]:
        """Return a vector of sizes that are constant or bound already; NotConstant otherwise.

        ``least`` says that they are sizes of at least so much, which may be bound: see
        ``BoundSizes.find``.
        """
        try:
            constant = self.fold(operand)
        except NotConstant:
            bound = None
            if isinstance(operand, Value) and operand.type.rank <= 1:
                bound = self.bound_sizes.find(self.builder, operand, least)
            if bound is None:
                raise
            return tuple(bound)
        if not constant.dtype.is_int or constant.array.ndim > 1:
            raise self.broken(str(constant.type), "a vector of integers")
        return constant.dims()

    def ints(self, operand: Operand) -> tuple[int, ...]:
        """Return a constant vector of integers; NotConstant if it is not constant."""
        a = self.array(operand)
        if a.dtype.kind not in "iu" or a.ndim > 1:
            raise self.broken(f"{a.dtype}{list(a.shape)}", "a vector of integers")
        return tuple(int(n) for n in a.reshape(-1))

    def number(self, operand: Operand) -> Any:
        """Return the element of a constant tensor as a Python number."""
        a = self.array(operand)
        if a.size != 1:
            raise self.broken(f"{a.size} elements", "one")
        return np.asarray(a).reshape(()).item()

    def not_constant(self, got: str, inputs: Sequence[str] = ()) -> NotConstant:
        """Return the error for a value that the import needs and that depends on ``inputs``."""
        e = NotConstant(
            "onnx-not-constant",
            self.where,
            got=got,
            want="a value known when the model is imported",
            help="fix the input as an initializer, for example with onnxsim",
        )
        e.inputs = tuple(inputs)
        return e

    def depends_on_sizes_only(self, operand: Operand) -> bool:
        """Return whether a tensor is computed from constants and shapes, not from elements."""
        if isinstance(operand, Constant):
            return True
        f = self.builder.cone(operand)
        made = {r for n in f.nodes for r in n.results}
        return {operand.name}.union(*(n.args for n in f.nodes)) <= made

    # Sizes ----------------------------------------------------------------------------------

    def bounds(self, d: Dim) -> tuple[int, int]:
        """Return the smallest and the largest value of a size."""
        return dims.bounds(d, self.builder.ranges())

    def require(self, d: Dim, value: int) -> None:
        """Narrow the range of a size's symbol so that the size always has a value.

        Raise ``onnx-unsupported`` if no range of a single symbol does that.
        """
        if self.bounds(d) == (value, value):
            return
        names = dims.free(d)
        fitting = range(0)
        if len(names) == 1:
            lo, hi = self.builder.ranges()[names[0]]
            fitting = _interval(d, names[0], lo, hi, value)
        if not fitting:
            raise self.error(f"the size {dims.text(d)}", f"one that can be {value}")
        self.builder.know([DimVar(names[0], fitting[0], fitting[-1])])

    def at_least(self, d: Dim, value: int) -> None:
        """Narrow the range of a size's symbol so that the size is at least a value.

        Raise ``onnx-unsupported`` if no range of a single symbol does that.
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
            raise self.error(f"the size {dims.text(d)}", f"one that is at least {value}",
                             "name the axes, or give the size a number")  # fmt: skip

    def expect_size(self, v: Value, axis: int, n: Dim) -> None:
        """Raise ``ShapeMismatch`` if an open size is not written as the size that it must be."""
        d = v.type.shape[axis]
        if d != n and dims.free((d, n)):
            raise unequal_sizes(self.where, d, n, axis)

    def bind(self, count: Value, name: str) -> Dim:
        """Bind a data-dependent size to an integer scalar."""
        return self.bind_within(count, self.max_size, name)

    def bind_within(self, count: Value, most: Dim, name: str) -> Dim:
        """Bind a data-dependent size of at most ``most``, unless it is bound already."""
        bound = self.bound_sizes.find(self.builder, count)
        if bound is not None and self.bounds(bound[0])[0] >= 0:
            return bound[0]
        n = self.reshape(self.cast(count, DType.I64))
        d = self.builder.bind(n, most, f"u_{name}")
        self.bound_sizes.add(self.builder, n, d)
        return d


Entries: TypeAlias = Sequence[Entry | None]  # None for an operand that the node omits
Inputs: TypeAlias = Sequence[Operand | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Operand] | None]


def _interval(d: Dim, name: str, lo: int, hi: int, value: int) -> range:
    """Return the values of a symbol for which a size that grows with it has a value, or none."""
    first = bisect_left(range(lo, hi + 1), value, key=lambda n: dims.evaluate(d, {name: n})) + lo
    last = bisect_right(range(lo, hi + 1), value, key=lambda n: dims.evaluate(d, {name: n})) + lo
    fitting = range(first, last)
    if len(fitting) > MOST_TRIED or any(dims.evaluate(d, {name: n}) != value for n in fitting):
        return range(0)  # the size does not grow with the symbol, or too slowly to be sure
    return fitting
