"""Let programs run on operands that are padded to larger sizes, fixed ones or symbols.

Results begin with those that the program has at the smaller sizes: what is padded is kept out of
folds.  The smaller sizes are then inputs, where a fold needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast as typed

import numpy as np
import sympy

from didyma.codegen.passes.inline import inline
from didyma.codegen.passes.prefixes import DIVIDED, masks
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr, Function, Module, Node, Param, attrs
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import DType, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import FoldOp

SIZE = TensorType(DType.I64, ())
INNER = "only the main function has such sizes"
FIRST = "an op whose first elements are the same, however much is padded behind them"


@dataclass(frozen=True, slots=True)
class Padded:
    """A module of larger sizes; its last inputs are the values of ``given`` at the smaller ones."""

    module: Module
    given: tuple[Dim, ...]


def padded(m: Module, sizes: Mapping[str, Dim]) -> Padded:
    """Return a module in which symbols have other sizes, for inputs padded to them.

    A symbol has a fixed size, or stays and is then the padded size.  Inputs may be padded with
    anything.  DidymaError ``not-padded`` for an op whose first elements would be others than
    before.
    """
    m = inline(m)
    grown = frozenset(sizes)
    for f in m.functions[:-1]:
        for name, t in f.types().items():
            if {*dims.free(t.shape)} & grown:
                raise _refused(f, f"%{name}: {t}", INNER)
        for n in f.nodes:
            if control.symbols(n) & grown:
                raise _refused(f, f"%{n.results[0]} = {n.op}: {n.types[0]}", INNER)
    known = control.input_symbols(m)
    for name, t in m.entry.types().items():
        if any(found & grown and found - known for found in ({*dims.free(d)} for d in t.shape)):
            raise _refused(m.entry, f"%{name}: {t}", "no size that data and the padded size tell")
    p = _Padding(m.entry, sizes)
    entry = p.function()
    kept = tuple(v for v in m.dims if not isinstance(sizes.get(v.name), int))
    return Padded(replace(m, functions=(*m.functions[:-1], entry), dims=kept), tuple(p.given))


@dataclass
class _Padding:
    """A function under rewriting, in its old sizes until each node is added.

    ``larger`` are the types of the values that were added, at their larger sizes.
    """

    f: Function
    sizes: Mapping[str, Dim]
    types: dict[str, TensorType] = field(init=False)
    larger: dict[str, TensorType] = field(init=False)
    names: Names = field(init=False)
    nodes: list[Node] = field(default_factory=list[Node])
    given: dict[Dim, str] = field(default_factory=dict[Dim, str])

    def __post_init__(self) -> None:
        self.types = self.f.types()
        self.larger = {p.name: self._type(p.type) for p in self.f.params}
        self.names = Names((*self.types, *self.sizes))

    def function(self) -> Function:
        """Return the function at its larger sizes."""
        for n in self.f.nodes:
            self._node(n)
        params = [replace(p, type=self.larger[p.name]) for p in self.f.params]
        params += [Param(name, SIZE) for name in self.given.values()]
        return replace(self.f, params=tuple(params), nodes=tuple(self.nodes))

    def _node(self, n: Node) -> None:
        types = [self.types[a] for a in n.args]
        if n.op not in OPS:
            if self._grows(*types, *n.types) or control.symbols(n) & self.sizes.keys():
                raise _refused(self.f, n.op, "such sizes are of ops alone")
            self.larger |= zip(n.results, n.types, strict=True)
            self.nodes.append(n)
            return
        needed = masks(n, types, frozenset(self.sizes))
        if needed is None:
            raise _refused(self.f, f"%{n.results[0]} = {n.op}: {n.types[0]}")
        args = list(n.args)
        for i, axes in enumerate(needed.axes):
            for axis in axes:
                filler = _neutral(needed.op, types[i].dtype, i)
                args[i] = self._masked(args[i], types[i], axis, filler)
        if n.op == DIVIDED and needed.axes[0]:
            self._mean(n, args[0], types[0])
        else:
            self._add(n.results[0], n.op, args, n.types[0], n.attr)

    def _masked(self, x: str, t: TensorType, axis: int, filler: Tensor) -> str:
        """Return an operand in which elements of an axis behind the old ones are ``filler``."""
        index = replace(t, dtype=DType.I64)
        i = self._new("iota", (), index, {"shape": t.shape, "axis": axis, "dtype": DType.I64})
        size = self._like(self._size(t.shape[axis], t), index)
        inside = self._new("less", (i, size), replace(t, dtype=DType.BOOL), {})
        one = self._new("constant", (), TensorType(t.dtype, (), t.device), {"value": filler})
        return self._new("where", (inside, x, self._like(one, t)), t, {})

    def _mean(self, n: Node, x: str, t: TensorType) -> None:
        """Add a mean as a sum that is divided by the size of what it takes."""
        axes = n.attr["axes"]
        result, wide = n.types[0], t.dtype.compute
        summed = replace(result, dtype=wide)
        if wide is not t.dtype:
            x = self._new("cast", (x,), replace(t, dtype=wide), {"dtype": wide})
        total = self._new("sum", (x,), summed, n.attr)
        size = self._size(dims.mul(*(t.shape[a] for a in typed("tuple[int, ...]", axes))), t)
        number = self._new("cast", (size,), TensorType(wide, (), t.device), {"dtype": wide})
        args = total, self._like(number, summed)
        if wide is result.dtype:
            self._add(n.results[0], "divide", args, result, {})
        else:
            mean = self._new("divide", args, summed, {})
            self._add(n.results[0], "cast", (mean,), result, {"dtype": result.dtype})

    def _size(self, d: Dim, near: TensorType) -> str:
        """Return a value of a size as it was, on the device of a tensor."""
        name = self.given.setdefault(d, "")
        if not name:
            name = self.given[d] = self.names.fresh("size")
        if not near.device:
            return name
        there = replace(SIZE, device=near.device)
        return self._new("to", (name,), there, {"device": near.device})

    def _like(self, scalar: str, t: TensorType) -> str:
        return self._new("broadcast_to", (scalar,), t, {"shape": t.shape}) if t.rank else scalar

    def _new(self, op: str, args: Sequence[str], t: TensorType, given: Mapping[str, Attr]) -> str:
        name = self.names.fresh("padded")
        self._add(name, op, args, t, given)
        return name

    def _add(
        self, name: str, op: str, args: Sequence[str], t: TensorType, given: Mapping[str, Attr]
    ) -> None:
        fixed = {k: self._attr(a) for k, a in given.items()}
        operands = [self.larger.get(a, SIZE) for a in args]
        # Inferred, since a number in the place of a symbol may make an expression a simpler one.
        result = replace(OPS[op].infer(operands, fixed), device=t.device)
        self.larger[name] = result
        self.nodes.append(Node((name,), op, tuple(args), (result,), attrs(fixed)))

    def _grows(self, *types: TensorType) -> bool:
        return any({*dims.free(t.shape)} & self.sizes.keys() for t in types)

    def _type(self, t: TensorType) -> TensorType:
        return t.with_shape(*(dims.substitute(d, self.sizes) for d in t.shape))

    def _attr(self, a: Attr) -> Attr:
        match a:
            case sympy.Expr():
                return dims.substitute(a, self.sizes)
            case tuple():
                return tuple(map(self._attr, a))
            case _:
                return a


def _neutral(op: FoldOp, dtype: DType, operand: int) -> Tensor:
    """Return an element that changes no fold, not even the sign of a zero.

    Where products are added, both factors are zeros, of two signs.
    """
    least, most = _ends(dtype)
    zero = 0.0 if operand else -0.0
    value = {
        "add": zero, "mul": 1, "and": True, "or": False, "min": most, "argmin": most, "max": least,
        "argmax": least,
    }[op]  # fmt: skip
    return Tensor.of(np.array(value).astype(dtype.numpy))


def _ends(dtype: DType) -> tuple[float, float]:
    if dtype.is_float:
        return -np.inf, np.inf
    if dtype is DType.BOOL:
        return False, True
    return dtype.limits


def _refused(f: Function, got: str, want: str = FIRST) -> DidymaError:
    return DidymaError(
        "not-padded", f"@{f.name}", got=got,
        want=want,
        help="compile the program with the size as a symbol, or give another dim buckets",
    )  # fmt: skip
