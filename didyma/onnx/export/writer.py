"""Emit ONNX nodes: names, constants, sizes, and element types that an operator lacks."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from didyma.onnx.export.dialect import Dialect, How, candidates
from didyma.onnx.rules.casts import SATURATED
from didyma.onnx.tensors import code_of
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType


@dataclass(frozen=True, slots=True)
class Val:
    """A value of the model."""

    name: str
    dtype: DType


@dataclass(slots=True)
class Block:
    """A graph under construction: the model's own, or the body of a node."""

    nodes: list[onnx.NodeProto]
    symbols: dict[str, Val]  # sizes as i64[1]
    sizes: dict[Dim, Val]  # sizes computed already


class Writer:
    """Builds a model's graph node by node.

    ``where`` names the node of the program that is being expressed; errors show it.
    """

    def __init__(self, dialect: Dialect, opset: int, ranges: Mapping[str, tuple[int, int]]) -> None:
        self.dialect = dialect
        self.opset = opset
        self.ranges = ranges
        self.where = ""
        self.block: Block = Block([], {}, {})
        self.initializers: list[onnx.TensorProto] = []
        self._names = Names()
        self._constants: dict[Tensor, Val] = {}
        self._arrays: dict[str, Array] = {}

    # Names and constants --------------------------------------------------------------------

    def fresh(self, wish: str) -> str:
        """Return a name that nothing else has."""
        return self._names.fresh(wish)

    def inexpressible(self, got: str, want: str, help: str = "") -> DidymaError:
        """Return the error for what ONNX cannot say."""
        return DidymaError("onnx-inexpressible", self.where, got=got, want=want, help=help)

    def constant(self, value: Array | Tensor, wish: str = "c") -> Val:
        """Return an initializer; equal ones are kept once."""
        t = value if isinstance(value, Tensor) else Tensor.of(value)
        if t not in self._constants:
            name = self.fresh(wish)
            proto = onnx.TensorProto(name=name, data_type=code_of(t.dtype), dims=t.shape)
            proto.raw_data = t.data
            self.initializers.append(proto)
            self._constants[t] = Val(name, t.dtype)
            self._arrays[name] = t.array()
        return self._constants[t]

    def scalar(self, x: float | int | bool, dtype: DType) -> Val:
        """Return a constant of rank 0."""
        return self.constant(np.asarray(x).astype(dtype.numpy))

    def ints(self, *n: int) -> Val:
        """Return a constant vector of i64."""
        return self.constant(np.array(n, np.int64))

    def known(self, v: Val) -> Array | None:
        """Return a constant's value; None for what is computed."""
        return self._arrays.get(v.name)

    # Nodes ----------------------------------------------------------------------------------

    def op(
        self, op: str, *args: Val | None, to: DType | None = None, how: How = How.VALUE,
        wish: str = "", **attrs: Any,
    ) -> Val:  # fmt: skip
        """Add a node of one result.

        Operands of types that the operator lacks are cast to others that may stand for them, and
        the result is cast back.  ``to`` is the result's type where it is not the first operand's.
        """
        takes = self.dialect.takes(op, self.opset)
        chosen: dict[str, DType] = {}
        for i, a in enumerate(args):
            if a is not None and takes.variable(i) not in chosen:
                chosen[takes.variable(i)] = self._chosen(
                    op, a, takes.allowed, takes.variable(i), how
                )
        held = [
            "" if a is None else self.cast(a, chosen[takes.variable(i)]).name
            for i, a in enumerate(args)
        ]
        wanted = to or next(a.dtype for a in args if a is not None)
        made = chosen.get(takes.output, wanted)
        out = self.node(op, held, 1, wish=wish, **attrs)[0]
        return self.cast(Val(out, made), wanted)

    def has(self, op: str, dtype: DType) -> bool:
        """Tell whether an operator takes an element type as its first operand's."""
        takes = self.dialect.takes(op, self.opset)
        return dtype in takes.allowed.get(takes.variable(0), ())

    def _chosen(
        self, op: str, a: Val, allowed: Mapping[str, frozenset[DType]], variable: str, how: How
    ) -> DType:
        if variable not in allowed or a.dtype in allowed[variable]:
            return a.dtype
        for dtype in candidates(a.dtype, how):
            if dtype in allowed[variable]:
                return dtype
        some = ", ".join(sorted(allowed[variable])) or "none of ours"
        raise self.inexpressible(f"{op} of {a.dtype}", f"{op} of {some}")

    def node(
        self, op: str, inputs: Sequence[str], results: int, wish: str = "", **attrs: Any
    ) -> list[str]:
        """Add a node as it is and return its results' names."""
        names = [self.fresh(wish or op.lower()) for _ in range(results)]
        self.block.nodes.append(helper.make_node(op, list(inputs), names, **attrs))
        return names

    def cast(self, v: Val, dtype: DType) -> Val:
        """Return a value in another type, by a plain Cast."""
        if v.dtype is dtype:
            return v
        more = {"saturate": 0} if dtype in SATURATED else {}
        (name,) = self.node("Cast", [v.name], 1, wish="cast", to=code_of(dtype), **more)
        return Val(name, dtype)

    def saturated(self, v: Val, dtype: DType) -> Val:
        """Return a value in a type of eight bits, by a Cast that ends at its largest number."""
        (name,) = self.node("Cast", [v.name], 1, wish="cast", to=code_of(dtype), saturate=1)
        return Val(name, dtype)

    @contextmanager
    def inside(self) -> Generator[Block]:
        """Build the body of a node, which sees the values around it."""
        outer = self.block
        self.block = Block([], dict(outer.symbols), dict(outer.sizes))
        try:
            yield self.block
        finally:
            self.block = outer

    # Sizes ----------------------------------------------------------------------------------

    def shape(self, v: Val, axis: int) -> Val:
        """Return the size of an axis as i64[1]."""
        (name,) = self.node("Shape", [v.name], 1, wish="size", start=axis, end=axis + 1)
        return Val(name, DType.I64)

    def size(self, d: Dim) -> Val:
        """Return a size as i64[1]."""
        if isinstance(d, int):
            return self.ints(d)
        if d not in self.block.sizes:
            self.block.sizes[d] = self._size(d)
        return self.block.sizes[d]

    def vector(self, ds: Sequence[Dim]) -> Val:
        """Return sizes as a vector of i64."""
        plain = [d for d in ds if isinstance(d, int)]
        if len(plain) == len(ds):
            return self.ints(*plain)
        return self.op("Concat", *(self.size(d) for d in ds), axis=0)

    def _size(self, e: Any) -> Val:
        name = e.func.__name__
        if not e.args:
            if name == "Symbol" and e.name in self.block.symbols:
                return self.block.symbols[e.name]
            raise self.inexpressible(f"the size {e}", "sizes that an operand tells")
        if name == "floor":
            above, below = e.args[0].as_numer_denom()
            return self._divided(above, below)
        onnx_op = {"Add": "Add", "Mul": "Mul", "Max": "Max", "Min": "Min", "Mod": "Mod"}.get(name)
        if onnx_op and all(not a.is_Rational or a.is_Integer for a in e.args):
            total = self.size(dims.canonical(e.args[0]))
            for a in e.args[1:]:
                total = self.op(onnx_op, total, self.size(dims.canonical(a)))
            return total
        if name == "Pow" and e.args[1].is_Integer and e.args[1] > 0:
            base = self.size(dims.canonical(e.args[0]))
            total = base
            for _ in range(int(e.args[1]) - 1):
                total = self.op("Mul", total, base)
            return total
        above, below = e.as_numer_denom()
        if below != 1:  # such a size is a whole number all the same
            return self._divided(above, below)
        raise self.inexpressible(f"the size {e}", "+ * // % min max over symbols")

    def _divided(self, above: Any, below: Any) -> Val:
        """Quotient rounded down; ONNX rounds to zero, so the dividend is made nonnegative."""
        a, b = dims.canonical(above), dims.canonical(below)
        low = dims.bounds(a, self.ranges)[0]
        if low >= 0 or not isinstance(b, int):
            return self.op("Div", self.size(a), self.size(b))
        more = -(low // b)
        q = self.op("Div", self.size(dims.add(a, more * b)), self.size(b))
        return self.op("Sub", q, self.ints(more))


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an op, to be expressed."""

    w: Writer
    name: str  # of the op
    args: tuple[Val, ...]
    types: tuple[TensorType, ...]
    out: TensorType
    attr: Mapping[str, Any]
    wish: str

    def op(self, op: str, *args: Val | None, **rest: Any) -> Val:
        """Add a node whose value gets the result's name, if that is free."""
        return self.w.op(op, *args, wish=self.wish, **rest)
