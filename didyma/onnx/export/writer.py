"""The writer of ONNX nodes: names, constants, sizes, and casts to types that operators take."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from didyma.onnx.export.dialect import Dialect, How, candidates
from didyma.onnx.tensors import SATURATED, code_of
from didyma.onnx.values import operation
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType

_SIZE_OPS = {
    "add": "Add",
    "multiply": "Mul",
    "maximum": "Max",
    "minimum": "Min",
    "remainder": "Mod",
}


@dataclass(frozen=True, slots=True)
class Val:
    """A value of the model: its name and dtype."""

    name: str
    dtype: DType


@dataclass(slots=True)
class Block:
    """A graph under construction: that of the model, or a body of a control node."""

    nodes: list[onnx.NodeProto]
    symbols: dict[str, Val]  # as i64[1]
    sizes: dict[Dim, Val]  # that are computed already, as i64[1]


class Writer:
    """Builds the graph of a model node by node.

    ``where`` names the node of the module that is being expressed, for errors.
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
        """Return a new name, like the one wished for."""
        return self._names.fresh(wish)

    def inexpressible(self, got: str, want: str, help: str = "") -> DidymaError:
        """Return the error for what ONNX cannot express."""
        return DidymaError("onnx-inexpressible", self.where, got=got, want=want, help=help)

    def constant(self, value: Array | Tensor, wish: str = "c") -> Val:
        """Return an initializer; equal constants share one."""
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

    def constant_value(self, v: Val) -> Array | None:
        """Return the array of a constant; None for a computed value."""
        return self._arrays.get(v.name)

    # Nodes ----------------------------------------------------------------------------------

    def op(
        self, op: str, *args: Val | None, to: DType | None = None, how: How = How.VALUE,
        wish: str = "", **attrs: Any,
    ) -> Val:  # fmt: skip
        """Add a node of one result.

        Operands of types that the operator does not take are cast to types that represent them,
        and the result is cast back.  ``to`` is the dtype of the result if not the operand's.
        """
        types = self.dialect.takes(op, self.opset)
        chosen: dict[str, DType] = {}
        for i, a in enumerate(args):
            if a is not None and types.variable(i) not in chosen:
                chosen[types.variable(i)] = self._chosen(
                    op, a, types.allowed, types.variable(i), how
                )
        held = [
            "" if a is None else self.cast(a, chosen[types.variable(i)]).name
            for i, a in enumerate(args)
        ]
        wanted = to or next(a.dtype for a in args if a is not None)
        made = chosen.get(types.output, wanted)
        out = self.node(op, held, 1, wish=wish, **attrs)[0]
        return self.cast(Val(out, made), wanted)

    def has(self, op: str, dtype: DType) -> bool:
        """Return whether an operator takes an element type as its first operand."""
        types = self.dialect.takes(op, self.opset)
        return dtype in types.allowed.get(types.variable(0), ())

    def _chosen(
        self, op: str, a: Val, allowed: Mapping[str, frozenset[DType]], variable: str, how: How
    ) -> DType:
        if variable not in allowed or a.dtype in allowed[variable]:
            return a.dtype
        for dtype in candidates(a.dtype, how):
            if dtype in allowed[variable]:
                return dtype
        some = ", ".join(sorted(allowed[variable])) or "none that Didyma has"
        raise self.inexpressible(f"{op} of {a.dtype}", f"{op} of {some}")

    def node(
        self, op: str, inputs: Sequence[str], results: int, wish: str = "", **attrs: Any
    ) -> list[str]:
        """Add a node without casts; return the names of its results."""
        names = [self.fresh(wish or op.lower()) for _ in range(results)]
        self.block.nodes.append(helper.make_node(op, list(inputs), names, **attrs))
        return names

    def cast(self, v: Val, dtype: DType) -> Val:
        """Return a value in another dtype, by a Cast that does not saturate."""
        if v.dtype is dtype:
            return v
        more = {"saturate": 0} if dtype in SATURATED else {}
        (name,) = self.node("Cast", [v.name], 1, wish="cast", to=code_of(dtype), **more)
        return Val(name, dtype)

    def saturated(self, v: Val, dtype: DType) -> Val:
        """Return a value in an 8-bit float dtype, by a Cast that saturates."""
        (name,) = self.node("Cast", [v.name], 1, wish="cast", to=code_of(dtype), saturate=1)
        return Val(name, dtype)

    @contextmanager
    def inside(self) -> Generator[Block]:
        """Build the body of a control node, which may use the values around it."""
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

    def _size(self, d: Dim) -> Val:
        op, operands = operation(d)
        if op == "symbol":
            (name,) = dims.free(d)
            if name not in self.block.symbols:
                raise self.inexpressible(f"the size {dims.text(d)}", "sizes of operands")
            return self.block.symbols[name]
        if op == "floor_divide":
            return self._divided(*operands)
        total = self.size(operands[0])
        if op == "pow":
            base, exponent = operands
            assert isinstance(exponent, int)
            op, operands = "multiply", (base,) * exponent
        return reduce(lambda x, a: self.op(_SIZE_OPS[op], x, self.size(a)), operands[1:], total)

    def _divided(self, a: Dim, b: Dim) -> Val:
        """Return a quotient rounded down; since ONNX rounds to 0, the dividend is made positive."""
        low = dims.bounds(a, self.ranges)[0]
        if low >= 0 or not isinstance(b, int):
            return self.op("Div", self.size(a), self.size(b))
        more = -(low // b)
        q = self.op("Div", self.size(dims.add(a, more * b)), self.size(b))
        return self.op("Sub", q, self.ints(more))


@dataclass(frozen=True, slots=True)
class Use:
    """One node of the module, which a rule expresses."""

    w: Writer
    name: str  # of the op
    args: tuple[Val, ...]
    types: tuple[TensorType, ...]
    out: TensorType
    attr: Mapping[str, Any]
    wish: str

    def op(self, op: str, *args: Val | None, **rest: Any) -> Val:
        """Add an operator whose result gets the name of the node's result, if it is free."""
        return self.w.op(op, *args, wish=self.wish, **rest)


Rule: TypeAlias = Callable[[Use], Val]  # adds the nodes that express a use of an op
