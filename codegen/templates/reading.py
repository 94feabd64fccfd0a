"""Reads elements of a function's values as expressions, for the problems of templates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from didyma.codegen.lower.build import ScalarBuilder
from didyma.codegen.lower.place import Placer
from didyma.codegen.lower.scalar import narrowed
from didyma.codegen.passes.values import kind
from didyma.codegen.templates.problem import Subgraph
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import Function, Node
from didyma.refimpl.ir.loop import (
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    Let,
    LetExpr,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, subexprs
from didyma.refimpl.ops.spec import Fold, Kind

Roots: TypeAlias = Callable[[ScalarBuilder], Sequence[Expr]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Expressions of a function's values by index variables.

    ``extents`` are those of all index variables, ``parts`` the values of those among them that are
    parts of another, and ``known`` values of which the only element read is a variable.
    """

    function: Function
    loop: PrimFunc
    names: Names
    types: Mapping[str, TensorType]
    extents: Mapping[Var, Expr]
    parts: Sequence[tuple[Var, Expr]]
    known: Mapping[str, Var]

    def element(self, name: str, at: Sequence[Expr]) -> Expr:
        """Return an element of a value, in its compute dtype."""
        return self.value(lambda b: [b.read(name, tuple(at))])

    def value(self, roots: Roots) -> Expr:
        """Return one expression that a builder makes, with all that it needs bound around it."""
        s = self._placed(roots, lambda values: Yield(tuple(values)))
        bound: list[tuple[Var, Expr]] = []
        while isinstance(s, Let):
            bound.append((s.var, s.value))
            s = s.body
        assert isinstance(s, Yield)
        (value,) = s.values
        for var, e in reversed([*self.parts, *bound]):
            if var.name in {x.name for x in subexprs(value) if isinstance(x, Var)}:
                value = LetExpr(var, e, value)
        return value

    def operand(
        self, batches: Sequence[Var], name: str, at: tuple[Var, Var], order: tuple[Var, ...]
    ) -> Subgraph:
        """Return an operand of products of matrices, whose batches may be broadcast.

        ``at`` is the place in a matrix, and ``order`` are the inputs of the subgraph.
        """
        own = self.types[name].shape[:-2]
        last = batches[len(batches) - len(own) :]
        index = (ix.ZERO if d == 1 else part for d, part in zip(own, last, strict=True))
        element = self.element(name, (*index, *at))
        return Subgraph(order, element, tuple(self.extents[v] for v in order))

    def factor(self, n: Node, at: Sequence[Expr], steps: Sequence[Var], *, weights: bool) -> Expr:
        """Return a factor of the product that a convolution adds: of its weights, or its image.

        ``at`` is the place of the result, and ``steps`` are those of the fold.
        """

        name = "weights" if weights else "windows"

        def roots(b: ScalarBuilder) -> list[Expr]:
            rule = b.rule(n, tuple(at))
            assert isinstance(rule, Fold)
            product = rule.body(tuple(steps))
            assert isinstance(product, Binary)
            return [b.define(name, product.rhs if weights else product.lhs)]

        return self.value(roots)

    def stores(self, at: Sequence[Expr], results: Sequence[str] = ()) -> Stmt:
        """Return the stores of an element of some results, or of each."""
        outs = [b for b in self.loop.params if b.name in self.loop.outputs]
        every, to = self.function.results, tuple(at)
        stored = [(r, b) for r, b in zip(every, outs, strict=True) if r in (results or every)]

        def final(values: Sequence[Expr]) -> Stmt:
            pairs = zip((b for _, b in stored), values, strict=True)
            return Block(tuple(Store(b.name, to, narrowed(v, b.dtype)) for b, v in pairs))

        body = self._placed(lambda b: [b.read(r, to) for r, _ in stored], final)
        for var, part in reversed(self.parts):
            if var.name in {e.name for e in exprs(body) if isinstance(e, Var)}:
                body = Let(var, part, body)
        return body

    def _placed(self, roots: Roots, final: Callable[[Sequence[Expr]], Stmt]) -> Stmt:
        f = self.function
        inputs = [b for b in self.loop.params if b.name not in self.loop.outputs]
        buffers = dict(zip((p.name for p in f.params), inputs, strict=True))
        for name, var in self.known.items():
            buffers[name] = Buffer(self.names.fresh(name), var.dtype, self.types[name].shape)
        nodes = {r: n for n in f.nodes for r in n.results}
        types = self.function.stored_types()
        b = ScalarBuilder(nodes, types, buffers, self.names, self.loop.dims)
        for var, extent in self.extents.items():
            b.affine.loop(var, extent)
        shapes = {x.name: x.shape for x in buffers.values()}
        body = Placer(b, shapes).body(roots(b), final)
        return _replaced(body, {buffers[name].name: var for name, var in self.known.items()})


def _replaced(s: Stmt, elements: Mapping[str, Var]) -> Stmt:
    """Return a statement with variables in place of the only elements read of some buffers."""

    def on_expr(e: Expr) -> Expr:
        match e:
            case Load(buffer) if buffer in elements:
                return elements[buffer]
            case Var() | Const():
                return e
            case _:
                return map_expr(on_expr, e)

    def on_stmt(s: Stmt) -> Stmt:
        return map_stmt(s, on_expr, on_stmt)

    return on_stmt(s)


def folds(defs: Mapping[str, Node], roots: Sequence[str], ends: Collection[str]) -> bool:
    """Return whether values are computed by folds, other than the values ``ends``."""
    todo, seen = [*roots], {*ends}
    while todo:
        n = defs.get(name := todo.pop())
        if n is None or name in seen:
            continue
        seen.add(name)
        if kind(n) in (Kind.REDUCTION, Kind.OPAQUE):
            return True
        todo += n.args
    return False


def order(f: Function, start: Node, apart: Collection[str] = ()) -> tuple[int, ...] | None:
    """Return in which order all results of a function, but some, have the axes of a node's result.

    A result of which permutations and elementwise ops are made on the way, or one that does not
    depend on the node and has its shape in this order.  None where there is no such order, or where
    results of several elements a byte are stored without axes.
    """
    types = f.types()
    if any(types[r].dtype.is_packed for r in f.results):
        return None
    found = dict.fromkeys(start.results, tuple(range(start.types[0].rank)))
    for n in f.nodes:
        read = [a for a in n.args if a in found]
        if not read or n.results == start.results:
            continue
        orders = {found[a] for a in read}
        turns = n.op == "permute_dims"
        same = kind(n) is Kind.ELEMENTWISE and {types[a].shape for a in read} == {n.types[0].shape}
        if len(orders) > 1 or not (turns or same):
            return None
        by = cast("tuple[int, ...]", n.attr["axes"]) if turns else range(n.types[0].rank)
        (before,) = orders
        found[n.results[0]] = tuple(before[a] for a in by)
    results = [r for r in f.results if r not in apart]
    made = {found[r] for r in results if r in found}
    if len(made) != 1:
        return None
    (axes,) = made
    shape = tuple(start.types[0].shape[a] for a in axes)
    return axes if all(types[r].shape == shape for r in results) else None
