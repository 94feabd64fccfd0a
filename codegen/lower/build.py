"""Compose the ops' element rules: express one element of a result by named scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.lower import packed
from didyma.codegen.lower.affine import Affine, has_division, size
from didyma.codegen.lower.scalar import identity, widened
from didyma.codegen.lower.scatter import gathered
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.loop import (
    Buffer,
    Const,
    Expr,
    LetExpr,
    Load,
    Var,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ir.walk import map_expr, substitute_expr
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Fold, FoldOp, Index, Kind, Read, Rule, Scatter

_BIND_INDEX = 5  # index expressions with more nodes than this are computed once
_BIND_DEPTH = 12  # values that would nest deeper than this are computed by themselves
_READ_DEPTH = 24  # nodes above as many others are read bottom up


@dataclass(slots=True)
class Folding:
    """A fold, which runs as loops before its result is read."""

    op: FoldOp
    ks: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Expr


@dataclass(slots=True, eq=False)
class Scalar:
    """A named scalar value; expressions use it through ``var``."""

    var: Var
    expr: Expr  # of a fold: what the accumulator starts from
    fold: Folding | None = None
    depth: int = 0  # of the values written out in ``expr``; 0 for one that is always bound


def _place(strides: Sequence[Dim], offset: Dim, index: Index) -> Expr:
    """Return where in its memory the element at an index lies."""
    steps = (ix.mul(i, ix.of_dim(s)) for i, s in zip(index, strides, strict=True))
    return ix.add(*steps, ix.of_dim(offset))


class ScalarBuilder:
    """Collects the scalars of one loop nest.

    ``read`` returns the variable of an element of a graph value.  Scalars are in order of
    definition: each uses only earlier ones.  The same element at the same index is one scalar.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        types: Mapping[str, TensorType],
        buffers: Mapping[str, Buffer],
        names: Names,
        sizes: Sequence[DimVar],
    ) -> None:
        self._nodes = nodes
        self._types = types
        self._buffers = buffers
        self.names = names
        self.affine = Affine(sizes)
        self.values: list[Scalar] = []
        self.by_name: dict[str, Scalar] = {}
        self._memo: dict[tuple[str, Index], Expr] = {}
        self._indices: dict[Expr, Expr] = {}
        self._nesting = 0  # depth of the expression being absorbed
        self._above = heights(nodes)

    def loop(self, prefix: str, extent: Expr) -> Var:
        """Return a fresh loop variable."""
        var = Var(self.names.numbered(prefix))
        self.affine.loop(var, extent)
        return var

    def reader(self, name: str) -> Read:
        """Return a function that reads elements of a graph value."""

        def read(index: Index) -> Expr:
            return self.read(name, index)

        return read

    def read(self, name: str, index: Index) -> Expr:
        """Return an element of a graph value, in its compute dtype."""
        index = tuple(self.index(i) for i in index)
        key = (name, index)
        found = self._memo.get(key)
        if found is None:
            if self._above.get(name, 0) > _READ_DEPTH:
                self._prepare(name, index)
            found = self._memo[key] = self._element(name, index)
        return found

    def _prepare(self, name: str, index: Index) -> None:
        """Read the operands of a value at the same index, lowest first, to avoid deep recursion."""
        todo, needed = [name], dict[str, int]()
        while todo:
            node = self._nodes.get(n := todo.pop())
            if node is None or n in needed or (n, index) in self._memo:
                continue
            if OPS[node.op].kind is Kind.ELEMENTWISE:
                needed[n] = self._above[n]
                shape = self._types[n].shape
                todo += (a for a in node.args if self._types[a].shape == shape)
        needed.pop(name, None)
        for n in sorted(needed, key=needed.__getitem__):
            self._memo[(n, index)] = self._element(n, index)

    def byte(self, name: str, at: Expr) -> Expr:
        """Return a byte of a graph value of a packed dtype."""

        def element(index: Sequence[Expr]) -> Expr:
            return self.read(name, tuple(index))

        return self.define(name, packed.byte_of(element, self._types[name], at, self.index))

    def rule(self, node: Node, index: Index) -> Rule:
        """Apply a node's element rule."""
        reads = [self.reader(a) for a in node.args]
        types = [self._types[a] for a in node.args]
        return OPS[node.op].apply(node.attr).element(index, reads, types, node.types[0])

    def _element(self, name: str, index: Index) -> Expr:
        buffer = self._buffers.get(name)
        if buffer is not None:
            t = self._types[name]
            if t.dtype.is_packed:
                return self.define(name, packed.read(buffer.name, t, index, self.index))
            if t.strides is not None:
                index = (self.index(_place(t.strides, t.offset, index)),)
            return self.define(name, widened(Load(buffer.name, index, buffer.dtype)))
        rule = self.rule(self._nodes[name], index)
        start: Expr | None = None
        if isinstance(rule, Scatter):
            shape = tuple(map(ix.of_dim, self._types[name].shape))
            rule, start = gathered(rule, index, shape)
        if isinstance(rule, Fold):
            return self.define(name, rule.finish(self._fold(name, rule, start)))
        return self.define(name, rule)

    def define(self, wish: str, e: Expr) -> Expr:
        """Bind an expression to a variable, unless it is a variable or constant itself."""
        outer, self._nesting = self._nesting, 0
        e = self._absorb(e)
        depth, self._nesting = self._nesting + 1, outer
        if isinstance(e, (Const, Var)):
            self._nesting = max(outer, depth - 1)
            return e
        var = self._new(wish, e, None)
        self.by_name[var.name].depth = 0 if depth >= _BIND_DEPTH else depth
        self._nesting = max(outer, self.by_name[var.name].depth)
        return var

    def _new(self, wish: str, e: Expr, fold: Folding | None) -> Var:
        value = Scalar(Var(self.names.fresh(wish), e.dtype), e, fold)
        self.values.append(value)
        self.by_name[value.var.name] = value
        return value.var

    def _fold(self, name: str, rule: Fold, start: Expr | None) -> Expr:
        extents = tuple(self.index(e) for e in rule.extents)
        ks = tuple(self.loop("k", e) for e in extents)
        body = self._absorb(rule.body(ks))
        if rule.op in ("argmin", "argmax"):
            start = ix.ZERO
        elif start is None:
            start = identity(rule.op, body.dtype)
        return self._new(f"{name}_acc", start, Folding(rule.op, ks, extents, body))

    def index(self, e: Expr) -> Expr:
        """Simplify an index, and bind it if it is long."""
        if isinstance(e, (Const, Var)):
            return e
        if has_division(e):
            e = self.affine.simplify(e)
        if size(e) <= _BIND_INDEX:
            return e
        bound = self._indices.get(e)
        if bound is None:
            bound = self._indices[e] = self.define("at", e)
            assert isinstance(bound, Var), "an expression of some length is no constant"
            self.affine.lets[bound.name] = e
        return bound

    def _absorb(self, e: Expr) -> Expr:
        """Turn the variables that a rule bound into scalars with unique names."""
        if isinstance(e, LetExpr):
            bound: dict[str, Expr] = {}
            while isinstance(e, LetExpr):  # each part is walked once, however long the chain
                bound[e.var.name] = self.define(e.var.name, substitute_expr(e.value, bound))
                e = e.body
            return self._absorb(substitute_expr(e, bound))
        if isinstance(e, Var):
            used = self.by_name.get(e.name)
            if used is not None and used.depth > self._nesting:
                self._nesting = used.depth
            return e
        return e if isinstance(e, Const) else map_expr(self._absorb, e)


def heights(nodes: Mapping[str, Node]) -> dict[str, int]:
    """Return the longest path from each value to an operand; ``nodes`` in order of definition."""
    above: dict[str, int] = {}
    for name, node in nodes.items():
        above[name] = 1 + max((above.get(a, 0) for a in node.args), default=0)
    return above
