"""The builder of random graphs: it draws nodes from the op table, so new ops are fuzzed too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import sympy

from didyma.fuzz import values
from didyma.fuzz.chooser import Bytes, Chooser
from didyma.fuzz.devices import DRAWN
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Attr, Function, Node, Param
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import ALL, PLAIN, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Sample
from didyma.refimpl.verify.sizes import Sizes

MAX_ELEMENTS = 2048  # of any value, at the largest binding tried
MAX_PARAMS = 8
CONTROLLED = 6  # one graph in so many has branches, loops, calls and data-dependent sizes

_OPS = [
    *sorted(DRAWN), *["reshape"] * 4, *["cast"] * 3, *["add", "subtract", "multiply"] * 2,
    "sum", "max", "matmul", "permute_dims",
]  # fmt: skip
_NEUTRAL = (0, 0, 1, 1, 2, 3, 5, 7)  # of the corners: mostly zeros and ones, which ops may drop
_SIZES = (2, 3, 1, 4, 5, 7, 8, 0, 16, 33)
_DTYPES = (
    DType.F32, DType.F32, DType.F32, DType.I32, DType.F16, DType.BOOL, DType.F64, DType.I64,
    DType.BF16, DType.F16, *PLAIN, *PLAIN, *PLAIN, *ALL,
)  # fmt: skip

# Adds a control node that works on a value; returns whether there was one that could.
ControlDrawer: TypeAlias = Callable[["GraphBuilder", bytes, tuple[str, TensorType]], bool]


class GraphBuilder:
    """A graph under construction: its nodes so far, and the values that a further one may read.

    ``draw_control`` adds a node with functions of its own: a branch, a loop, a call.  ``declared``
    are symbols and their values.  No value has more than ``most_elements``.
    """

    def __init__(
        self,
        draw_control: ControlDrawer,
        declared: Sequence[tuple[DimVar, int]] = (),
        most_elements: int = MAX_ELEMENTS,
        most_params: int = MAX_PARAMS,
    ) -> None:
        self.draw_control = draw_control
        self.most_elements, self.most_params = most_elements, most_params
        self.dims: list[DimVar] = [v for v, _ in declared]
        self.env: dict[str, int] = {v.name: value for v, value in declared}
        self.controlled = False
        self.staying = 0  # how deep functions that stay call each other in the node being drawn
        self.unbacked: list[DimVar] = []
        self.functions: list[Function] = []
        self.sizes = Sizes(self.dims, "fuzz")
        self.params: list[Param] = []
        self.nodes: list[Node] = []
        self.pool: list[tuple[str, TensorType]] = []
        self.used: set[str] = set()
        self.seeds: list[int] = []

    @staticmethod
    def decoded(header: bytes, draw_control: ControlDrawer, controlled: int) -> GraphBuilder:
        """Return a graph with the symbols and first parameters of a header.

        One graph in ``controlled`` may have nodes with functions of their own.
        """
        c = Bytes(header)
        declared: list[tuple[DimVar, int]] = []
        for name in ("n", "m")[: c.pick((0, 0, 1, 1, 2))]:
            lo, hi = c.pick(((1, 8), (0, 5), (1, 40), (2, 3), (4, 4)))
            declared.append((DimVar(name, lo, hi), min(hi, lo + c.below(hi - lo + 1))))
        b = GraphBuilder(draw_control, declared)
        b.controlled = c.chance(controlled)
        for _ in range(1 + c.below(3)):
            b.param(TensorType(c.pick(_DTYPES), b.shape(c)), c)
        return b

    def shape(self, c: Chooser) -> tuple[Dim, ...]:
        """Draw a shape."""
        rank = c.pick((2, 1, 2, 3, 0, 2, 3, 4, 1, 5))
        return tuple(self.size(c, rank) for _ in range(rank))

    def size(self, c: Chooser, rank: int) -> Dim:
        """Draw the size of one of so many axes."""
        if self.dims and c.chance(3):
            n = dims.symbol(c.pick(self.dims).name)
            return c.pick((n, n, n, dims.add(n, 1), dims.mul(n, 2)))
        return c.pick(_SIZES if rank < 4 else _SIZES[:5])

    def param(self, t: TensorType, c: Chooser) -> str:
        """Add a parameter."""
        name = f"p{len(self.params)}"
        self.params.append(Param(name, t))
        self.seeds.append(c.below(2**24))
        self.pool.append((name, t))
        return name

    def fits(self, t: TensorType) -> bool:
        """Return whether a type is small at this binding and valid at every other."""
        if not 0 <= dims.evaluate(t.numel, self.env) <= self.most_elements:
            return False
        try:
            self.sizes.shape(t.shape, t.dtype, "fuzz")
        except DidymaError:
            return False  # such as n - 1 where n may be 0
        return True

    def node(self, data: bytes) -> None:
        """Decode a node from bytes and add it, unless nothing fits."""
        c = Bytes(data)
        if c.below(8) == 0:
            return
        start = c.below(len(_OPS))
        back = c.below(4) if c.chance(2) else c.below(len(self.pool))
        name, focus = self.pool[-1 - min(back, len(self.pool) - 1)]
        if self.controlled and c.chance(4) and self.fits(focus):
            self.draw_control(self, data, (name, focus))
            return
        for i in range(3):  # an op that cannot take the focus lets its neighbours try
            op = OPS[_OPS[(start + i * 7) % len(_OPS)]]
            sample = op.sample(c, focus)
            if sample is not None and self.use(op.name, sample, c):
                return

    def use(self, op: str, sample: Sample, c: Chooser) -> bool:
        """Add a node of an op, if its operands and result fit; return whether they do."""
        try:
            t = OPS[op].infer(sample.operands, dict(sample.attrs))
        except DidymaError:
            return False  # a sample may not fit these sizes: the node is left out
        if not all(self.fits(x) for x in (t, *sample.operands)):
            return False
        args: list[str] = []
        for want in sample.operands:
            arg = self.operand(want, c)
            if arg is None:
                return False
            args.append(arg)
        self.emit(op, args, (t,), dict(sample.attrs))
        return True

    def emit(
        self, op: str, args: Sequence[str], types: Sequence[TensorType], attrs: Mapping[str, Attr]
    ) -> tuple[str, ...]:
        """Add a node."""
        at = len(self.nodes)
        names = (f"v{at}",) if len(types) == 1 else tuple(f"v{at}_{i}" for i in range(len(types)))
        self.nodes.append(Node(names, op, tuple(args), tuple(types), freeze(attrs)))
        self.used.update(args)
        self.pool.extend(zip(names, types, strict=True))
        return names

    def op(self, op: str, args: Sequence[str], t: TensorType, **attrs: Attr) -> str:
        """Add a node of an op, given its result type; return the result's name."""
        (name,) = self.emit(op, args, (t,), attrs)
        return name

    def number(self, x: float, dtype: DType) -> str:
        """Add a scalar constant."""
        value = Tensor.of(np.array(x).astype(dtype.numpy))
        return self.op("constant", (), value.type, value=value)

    def function(self, f: Function, wish: str) -> Function:
        """Add a function under a name of its own."""
        f = replace(f, name=f"{wish}_{len(self.functions)}")
        self.functions.append(f)
        return f

    def symbol(self, most: int, usual: int) -> sympy.Symbol:
        """Declare a data-dependent size; while the graph is drawn it is taken to be ``usual``."""
        v = DimVar(f"r{len(self.unbacked)}", 0, most)
        self.unbacked.append(v)
        self.env[v.name] = usual
        self.sizes.ranges[v.name] = (v.lo, v.hi)
        return dims.symbol(v.name)

    def most(self, d: Dim) -> int:
        """Return the largest value that a size can have."""
        return dims.bounds(d, self.sizes.ranges)[1]

    def operand(self, want: TensorType, c: Chooser) -> str | None:
        """Return a value of a type, an old or a new one; None if there can be none."""
        have = [name for name, t in self.pool if t == want]
        if have and not c.chance(4):
            return have[-1 - c.below(min(len(have), 4))]
        static = not dims.free(want.shape)
        if static and (c.chance(2) or len(self.params) >= self.most_params):
            return self.constant(want, c)
        if len(self.params) < self.most_params and self.bindable(want):
            return self.param(want, c)
        return have[-1] if have else None

    def bindable(self, t: TensorType) -> bool:
        """Return whether a parameter may have a type: other parameters bind each of its symbols."""
        bare = {d for p in self.params for d in p.type.shape if not isinstance(d, int)}
        return all(dims.symbol(s) in bare for s in dims.free(t.shape))

    def constant(self, t: TensorType, c: Chooser) -> str:
        """Add a constant."""
        shape = tuple(dims.evaluate(d, {}) for d in t.shape)
        if c.chance(2):
            corners = values.corners(t.dtype)
            array = np.broadcast_to(corners[c.pick(_NEUTRAL) % corners.size], shape)
        else:
            array = values.array(c.below(2**16), t.dtype, shape)
        data = Tensor.of(array)
        name = f"v{len(self.nodes)}"
        self.nodes.append(Node((name,), "constant", (), (t,), (("value", data),)))
        self.pool.append((name, t))
        return name
