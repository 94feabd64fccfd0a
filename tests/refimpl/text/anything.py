"""Random values of every IR class, well formed or not: all that a text must be able to say."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any, TypeVar

import numpy as np

from didyma.refimpl.ir import dims, loop, program
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Attr, Attrs, Function, Module, Node, Param
from didyma.refimpl.ir.loop import Buffer, Expr, LoopKind, PrimFunc, Scope, Stmt, Var
from didyma.refimpl.ir.types import DType, Tensor, TensorType

T = TypeVar("T")
NAMES = (
    "x", "y", "i0", "a_1", "h.1", "a/b:0", "", "0", "for", "let", "min", "select", "f32", "true",
    "nan", "in", "и", 'q"uo\\te', "new\nline", "%x", "blockIdx.x", "block", "exp", "\ud800",
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e22, 1e-300, 5e-324, 1.7976931348623157e308, math.inf)


class Anything:
    """Draws from one seed."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)

    def pick(self, xs: tuple[T, ...]) -> T:
        return xs[self.r.randrange(len(xs))]

    def some(self, draw: Any, most: int = 3) -> tuple[Any, ...]:
        return tuple(draw() for _ in range(self.r.randrange(most + 1)))

    def name(self) -> str:
        return self.pick(NAMES)

    def dtype(self) -> DType:
        return self.pick(tuple(DType))

    def integer(self) -> int:
        return self.pick((0, 1, -1, 2**63 - 1, -(2**63), 2**64 - 1, self.r.randrange(100)))

    def float(self) -> float:
        if self.r.random() < 0.5:
            return self.pick((*FLOATS, -math.inf, math.nan, -math.nan))
        return float(struct.unpack("d", self.r.randbytes(8))[0])

    def dim(self, depth: int = 2) -> Dim:
        if depth == 0 or self.r.random() < 0.4:
            leaves: tuple[Dim, ...] = (0, 1, 7, 2**40, dims.symbol("n"), dims.symbol(self.name()))
            return self.pick(leaves)
        a, b = self.dim(depth - 1), self.dim(depth - 1)
        c = self.r.randrange(1, 9)
        match self.r.randrange(7):
            case 0:
                return dims.add(a, b)
            case 1:
                return dims.sub(a, b)
            case 2:
                return dims.mul(a, b)
            case 3:
                return dims.floordiv(a, c)
            case 4:  # not of each other: sympy may fold those one way once, another way twice
                return dims.maximum(dims.symbol("n"), c)
            case 5:
                return dims.minimum(dims.symbol("n"), c)
            case _:
                return dims.ceildiv(a, c)

    def shape(self) -> tuple[Dim, ...]:
        return self.some(self.dim)

    def type(self) -> TensorType:
        device = self.pick(("", "", "cuda:1", "cpu", "a b"))
        return TensorType(self.dtype(), self.shape(), device)

    def tensor(self) -> Tensor:
        dtype = self.dtype()
        shape = self.pick(((), (0,), (1,), (2, 3), (2, 0, 5), (4, 1, 3), (40,), (3, 0, 99)))
        count = math.prod(shape)
        if dtype.is_packed:
            return Tensor(dtype, shape, self.r.randbytes(-(-count * dtype.bits // 8)))
        if self.r.random() < 0.2:
            return Tensor(dtype, shape, self.r.randbytes(dtype.nbytes) * count)
        if dtype is DType.BOOL:
            return Tensor(dtype, shape, bytes(self.r.randrange(2) for _ in range(count)))
        if dtype.is_float and self.r.random() < 0.5:
            values = [self.pick((*FLOATS, math.nan, -math.nan)) for _ in range(count)]
            with np.errstate(all="ignore"):
                return Tensor.of(np.array(values).astype(dtype.numpy).reshape(shape))
        return Tensor(dtype, shape, self.r.randbytes(count * dtype.nbytes))

    def attr(self, depth: int = 2) -> Attr:
        match self.r.randrange(8 if depth else 7):
            case 0:
                return self.r.random() < 0.5
            case 1:
                return self.integer()
            case 2:
                return self.float()
            case 3:
                return self.name()
            case 4:
                return self.dtype()
            case 5:
                return self.tensor()
            case 6:
                return self.dim()
            case _:
                return self.some(lambda: self.attr(depth - 1))

    def attrs(self) -> Attrs:
        return self.some(lambda: (self.name(), self.attr()))

    def dimvar(self) -> DimVar:
        return DimVar(self.name(), self.integer(), self.integer())

    # ---- graphs

    def node(self) -> Node:
        op = self.pick(("add", "call", "constant", self.name()))
        attrs = self.attrs()
        if op == "call" and self.r.random() < 0.8:
            extra: Attrs = (("callee", self.name()),)
            attrs = tuple(sorted((*attrs, *extra), key=lambda kv: kv[0]))
        return Node(self.some(self.name), op, self.some(self.name), self.some(self.type, 2), attrs)

    def function(self) -> Function:
        params = self.some(lambda: Param(self.name(), self.type()))
        nodes = self.some(self.node, 4)
        return Function(self.name(), params, nodes, self.some(self.name), self.attrs())

    def module(self) -> Module:
        return Module(self.some(self.function), self.some(self.dimvar))

    # ---- loops

    def const(self) -> loop.Const:
        dtype = self.dtype()
        value = self.pick((True, False, self.integer(), self.float()))
        if isinstance(value, float) and dtype.is_float and self.r.random() < 0.8:
            with np.errstate(all="ignore"):
                value = float(np.float64(value).astype(dtype.numpy))
        return loop.Const(value, dtype)

    def expr(self, depth: int = 3) -> Expr:
        def sub() -> Expr:
            return self.expr(depth - 1)

        match self.r.randrange(10 if depth else 2):
            case 0:
                return self.const()
            case 1:
                return Var(self.name(), self.pick((loop.INDEX, self.dtype())))
            case 2:
                return loop.Cast(sub(), self.dtype())
            case 3 | 4:
                return loop.Binary(self.pick(loop.BINARY_OPS), sub(), sub())
            case 5:
                return loop.Compare(self.pick(loop.COMPARE_OPS), sub(), sub())
            case 6:
                return loop.Unary(self.pick(loop.UNARY_OPS), sub())
            case 7:
                name = self.pick(("exp", "fma", "isnan", self.name()))
                return loop.Intrinsic(name, self.some(sub))
            case 8:
                if self.r.random() < 0.5:
                    return loop.Select(sub(), sub(), sub())
                if self.r.random() < 0.5:
                    return self.vector(sub())
                return loop.LetExpr(Var(self.name(), self.dtype()), sub(), sub())
            case _:
                return loop.Load(self.name(), self.some(sub, 2), self.dtype())

    def vector(self, e: Expr) -> Expr:
        if self.r.random() < 0.5:
            return loop.Broadcast(e, self.integer())
        return loop.Ramp(e, self.integer(), self.integer())

    def buffer(self) -> Buffer:
        return Buffer(self.name(), self.dtype(), self.shape(), self.pick(tuple(Scope)))

    def stmt(self, depth: int = 4) -> Stmt:
        def sub() -> Stmt:
            return self.stmt(depth - 1)

        index = self.some(self.expr, 2)
        match self.r.randrange(24 if depth else 8):
            case 0:
                return loop.Store(self.name(), index, self.expr())
            case 1:
                return loop.Atomic(self.pick(loop.ATOMIC_OPS), self.name(), index, self.expr())
            case 2:
                return loop.Free(self.name())
            case 3:
                return loop.Barrier()
            case 4:
                return loop.Assert(self.expr(), self.name())
            case 18 if self.r.random() < 0.5:
                return loop.Evaluate(self.expr())
            case 18:
                return loop.Prefetch(self.name(), index)
            case 19:
                return loop.AttrStmt(self.name(), self.attr(), sub())
            case 5:
                names = self.some(self.name)
                return loop.ExternalCall(self.name(), names, self.some(self.name), self.attrs())
            case 21:
                names, made = self.some(self.name), self.some(self.buffer)
                return loop.ExternalAllocate(self.name(), made, names, self.attrs(), sub())
            case 6 if self.r.random() < 0.3:
                return loop.Return(self.expr())
            case 6:
                return loop.Call(self.name(), self.some(self.name), index)
            case 7:
                return loop.Yield(index)
            case 8:
                return self.fold(sub)
            case 9 | 15:
                return loop.Block(self.some(sub))
            case 16:
                kind, axis = self.pick(tuple(LoopKind)), self.pick(("", "", *loop.AXES, "odd one"))
                var = Var(self.name(), self.pick((loop.INDEX, self.dtype())))
                return loop.For(var, self.expr(), sub(), kind, axis)
            case 17:
                return self.block(sub)
            case 20:
                return self.part(sub)
            case 10:
                return loop.If(self.expr(), sub(), self.pick((None, sub())))
            case 11:
                return loop.Let(Var(self.name(), self.dtype()), self.expr(), sub())
            case 22:
                mask = self.r.randrange(1, 40)
                return loop.Exchange(self.var(), self.expr(), mask, sub())
            case 23:
                by = self.name(), self.name()
                start, value = self.expr(), self.expr()
                return loop.Chain(self.var(), self.pick(loop.CHAIN_OPS), start, value, *by, sub())
            case 12:
                return loop.Allocate(self.buffer(), sub())
            case 13:
                return loop.While(self.expr(), sub())
            case _:
                return loop.PlacementAllocate(self.buffer(), self.name(), sub())

    def fold(self, sub: Any) -> Stmt:
        accs = self.some(lambda: loop.Accumulator(self.var(), self.expr(1)))
        axes = self.some(lambda: loop.Axis(self.var(), self.expr(1)))
        merge = self.pick((None, self.combiner()))
        return loop.Fold(accs, axes, self.combiner(), sub(), sub(), merge)

    def block(self, sub: Any) -> Stmt:
        vars = self.some(
            lambda: loop.IterVar(
                self.var(), self.expr(1), self.pick(tuple(loop.IterKind)), self.expr(1)
            )
        )
        reads, writes = self.some(self.region, 2), self.some(self.region, 2)
        init = self.pick((None, sub()))
        return loop.BlockRealize(vars, self.expr(1), reads, writes, init, sub())

    def part(self, sub: Any) -> Stmt:
        axes = self.some(lambda: (self.expr(1), self.r.randrange(9)), 2)
        starts, extents = tuple(a for a, _ in axes), tuple(n for _, n in axes)
        match self.r.randrange(3):
            case 0:
                return loop.BufferRealize(self.buffer(), starts, extents, sub())
            case 1:
                return loop.Compute(self.buffer(), self.some(self.var), sub(), sub())
            case _:
                return loop.ProducerRealize(self.name(), starts, extents, sub())

    def region(self) -> loop.Region:
        axes = self.some(lambda: (self.expr(1), self.expr(1)), 2)
        return loop.Region(self.name(), tuple(a for a, _ in axes), tuple(n for _, n in axes))

    def combiner(self) -> loop.Combiner:
        return loop.Combiner(self.some(self.var), self.some(lambda: self.expr(2)))

    def var(self) -> Var:
        return Var(self.name(), self.pick((loop.INDEX, self.dtype())))

    def primfunc(self, depth: int = 2) -> PrimFunc:
        params, outputs = self.some(self.buffer), self.some(self.name)
        dimvars, attrs, body = self.some(self.dimvar), self.attrs(), self.stmt(depth + 2)
        functions = self.some(lambda: self.primfunc(depth - 1), 2) if depth else ()
        returns = self.pick((None, self.dtype()))
        return PrimFunc(
            self.name(), params, outputs, body, dimvars, attrs, functions, returns=returns
        )

    # ---- programs

    def line(self, depth: int = 2) -> program.Line:
        a, b = self.name(), self.name()
        several = self.some(self.name)
        match self.r.randrange(18 if depth else 10):
            case 0:
                return program.Allocate(a)
            case 1:
                return program.Free(a)
            case 2:
                return program.Reuse(a, b)
            case 3:
                return program.PlacementAllocate(a, b, self.dim())
            case 4:
                return program.View(a, b, self.pick((0, self.dim())))
            case 5:
                return program.Launch(a, several, self.r.randrange(3), self.some(self.names))
            case 6:
                return program.Extern(
                    a, several, self.some(self.name), self.attrs(), self.some(self.name)
                )
            case 7:
                return program.Assert(self.dim(), self.dim(), a)
            case 8:
                return program.Copy(a, b)
            case 9:
                return program.Return(several)
            case _:
                return self.line_of_control(depth)

    def line_of_control(self, depth: int) -> program.Line:
        def lines() -> tuple[program.Line, ...]:
            return self.some(lambda: self.line(depth - 1))

        a, b = self.name(), self.name()
        match self.r.randrange(10):
            case 9:
                variants = tuple((self.name(), self.some(self.name)) for _ in range(2))
                outputs = self.some(self.name)
                return program.Dispatch(
                    outputs, variants, self.r.randrange(3), self.some(self.names)
                )
            case 0:
                device = self.pick(("", "cuda:1", "a b"))
                return program.Arena(a, self.dim(), device, self.r.random() < 0.5)
            case 1:
                return program.Place(a, b, self.dim())
            case 2:
                return program.Wait(self.r.randrange(3), self.r.randrange(3))
            case 3:
                return program.Bind(a, b)
            case 4:
                sizes = self.some(lambda: (self.name(), self.dim()))
                return program.Carry(self.some(self.names), sizes)
            case 5:
                return program.If(a, lines(), lines())
            case 6:
                return program.While(lines(), a, lines())
            case 7:
                return program.Call(a, self.some(self.name), self.some(self.name))
            case _:
                return program.Repeat(a, self.dim(), lines())

    def names(self) -> tuple[str, str]:
        return self.name(), self.name()

    def called(self) -> program.Program:
        return program.Program(
            self.name(),
            self.some(self.dimvar),
            self.some(self.name),
            (),
            self.some(lambda: (self.name(), self.type())),
            (),
            self.some(self.line, 4),
            outputs=self.some(self.name),
        )

    def program(self) -> program.Program:
        return program.Program(
            self.name(),
            self.some(self.dimvar),
            self.some(self.name),
            self.some(lambda: (self.name(), self.tensor())),
            self.some(lambda: (self.name(), self.type())),
            self.some(self.primfunc, 2),
            self.some(self.line, 9),
            functions=self.some(self.called, 2),
        )
