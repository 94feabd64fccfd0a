"""Attention as a problem of templates: two products with a softmax between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from didyma.codegen.codegens import Asked
from didyma.codegen.lower.affine import Affine
from didyma.codegen.lower.build import ScalarBuilder
from didyma.codegen.lower.names import loop_names
from didyma.codegen.lower.place import Placer
from didyma.codegen.lower.scalar import narrowed
from didyma.codegen.passes.attention import Attention, attention
from didyma.codegen.passes.values import kind
from didyma.codegen.templates.problem import Output, Problem, Subgraph, has_plain_symbols
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims.polynomial import coefficient, is_constant, plus
from didyma.refimpl.ir.graph import STAGES, Function, Node
from didyma.refimpl.ir.loop import (
    INDEX,
    Binary,
    Block,
    Buffer,
    Compare,
    Const,
    Expr,
    Let,
    LetExpr,
    Load,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
    Yield,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, subexprs, substitute_expr
from didyma.refimpl.ops.spec import Kind

INPUTS = ("the_batch", "the_row", "the_column", "the_dot")  # of the body ``score``
Known = Mapping[str, tuple[Var, tuple[Var, ...]]]  # values of which an element is a variable


def found(asked: Asked) -> Problem | None:
    """Return the attention that a function is, with what precedes and follows its products.

    Operand ``query`` has the axes batch, row and term; ``key`` batch, column and term; ``value``
    batch, column and feature.  All axes of batches are one flat axis.  Body ``score`` is the
    operand of the softmax: of batch, row, column, and the sum over the terms (``INPUTS``).  The
    output has batch, row and feature, and then the weighted sum of the values, ``acc``.

    None for a function that is no attention, or not in floats that sums of f32 or f64 are for.
    """
    return _found(asked.function, asked.loop)


@lru_cache(maxsize=8)
def _found(f: Function, loop: PrimFunc) -> Problem | None:
    taken = {*INPUTS} & {d.name for d in loop.dims}
    if STAGES not in f.attr or taken or not has_plain_symbols(loop):
        return None
    defs, types = {r: n for n in f.nodes for r in n.results}, f.types()
    a = next((a for n in f.nodes if (a := attention(defs, types, n)) is not None), None)
    if a is None or any(types[r].shape != a.output.types[0].shape for r in f.results):
        return None
    read = [types[x].dtype for x in (*a.scores.args, a.score, a.output.args[1])]
    if any(not d.is_float or d.compute is not read[0].compute for d in read):
        return None
    ends = {*a.scores.results, *a.output.results}
    roots = (*a.scores.args, a.score, a.output.args[1], *f.results)
    return None if _folds(defs, roots, ends) else _Reader.of(f, loop, a).problem()


def _folds(defs: Mapping[str, Node], roots: Sequence[str], ends: Collection[str]) -> bool:
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


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads parts of a function as expressions of indices; ``batches`` are parts of ``batch``."""

    function: Function
    loop: PrimFunc
    attention: Attention
    names: Names
    batch: Var
    row: Var
    column: Var
    term: Var
    feature: Var
    batches: tuple[Var, ...]

    @staticmethod
    def of(f: Function, loop: PrimFunc, a: Attention) -> _Reader:
        taken = [*(b.name for b in loop.params), *(d.name for d in loop.dims), *INPUTS, "acc"]
        names = loop_names(taken)
        batch, row, column = (Var(x, INDEX) for x in INPUTS[:-1])
        term, feature = (Var(names.fresh(x), INDEX) for x in ("term", "feature"))
        batches = tuple(Var(names.fresh("part"), INDEX) for _ in a.output.types[0].shape[:-2])
        return _Reader(f, loop, a, names, batch, row, column, term, feature, batches)

    def problem(self) -> Problem:
        a, extents = self.attention, self._extents()
        b, i, j, k, e = self.batch, self.row, self.column, self.term, self.feature
        dtype = a.scores.types[0].dtype.compute
        dot, acc = Var(INPUTS[-1], dtype), Var("acc", dtype)
        query, key, value = *a.scores.args, a.output.args[1]

        def operand(name: str, at: tuple[Var, Var], order: tuple[Var, ...]) -> Subgraph:
            return Subgraph(order, self._operand(name, *at), tuple(extents[v] for v in order))

        operands = {
            "query": operand(query, (i, k), (b, i, k)),
            "key": operand(key, (k, j), (b, j, k)),
            "value": operand(value, (j, e), (b, j, e)),
        }
        at = (*self.batches, i, j)
        score = self._value(a.score, at, {a.scores.results[0]: (dot, at)})
        to = (*self.batches, i, e)
        outs = [x for x in self.loop.params if x.name in self.loop.outputs]

        def stores(values: Sequence[Expr]) -> Stmt:
            pairs = zip(outs, values, strict=True)
            return Block(tuple(Store(x.name, to, narrowed(v, x.dtype)) for x, v in pairs))

        body = self._placed(self.function.results, to, {a.output.results[0]: (acc, to)}, stores)
        used = {x.name for x in exprs(body) if isinstance(x, Var)}
        for var, part in reversed(self._parts()):
            body = Let(var, part, body) if var.name in used else body
        return Problem(
            self.loop,
            operands,
            Output((b, i, e, acc), body, (extents[b], extents[i], extents[e])),
            {"score": Subgraph((b, i, j, dot), score, (extents[b], extents[i], extents[j]))},
        )

    def _extents(self) -> dict[Var, Expr]:
        a = self.attention
        shape, out = a.scores.types[0].shape, a.output.types[0].shape
        terms = self.function.types()[a.scores.args[0]].shape[-1]
        batches = [*zip(self.batches, map(ix.of_dim, out), strict=False)]
        sizes = zip(
            (self.row, self.column, self.term, self.feature),
            map(ix.of_dim, (*shape[-2:], terms, out[-1])), strict=True,
        )  # fmt: skip
        return {self.batch: ix.mul(*(n for _, n in batches)), **dict(batches), **dict(sizes)}

    def _parts(self) -> list[tuple[Var, Expr]]:
        """Return the values of the indices of the axes of batches."""
        extents = self._extents()
        at = ix.unflatten(self.batch, [extents[v] for v in self.batches])
        return [*zip(self.batches, at, strict=True)]

    def _operand(self, name: str, row: Var, column: Var) -> Expr:
        """Return an element of an operand of a product, whose batches may be broadcast."""
        own = self.function.types()[name].shape[:-2]
        last = self.batches[len(self.batches) - len(own) :]
        at = (ix.ZERO if d == 1 else i for d, i in zip(own, last, strict=True))
        return self._value(name, (*at, row, column), {})

    def _value(self, name: str, at: tuple[Expr, ...], known: Known) -> Expr:
        s = self._placed((name,), at, known, lambda values: Yield(tuple(values)))
        bound: list[tuple[Var, Expr]] = []
        while isinstance(s, Let):
            bound.append((s.var, s.value))
            s = s.body
        assert isinstance(s, Yield)
        (value,) = s.values
        for var, e in reversed([*self._parts(), *bound]):
            if var.name in {x.name for x in subexprs(value) if isinstance(x, Var)}:
                value = LetExpr(var, e, value)
        return value

    def _placed(
        self,
        names: Sequence[str],
        at: tuple[Expr, ...],
        known: Known,
        final: Callable[[Sequence[Expr]], Stmt],
    ) -> Stmt:
        """Return the statements that compute elements of values, and do ``final`` with them."""
        f, types = self.function, self.function.types()
        inputs = [b for b in self.loop.params if b.name not in self.loop.outputs]
        buffers = dict(zip((p.name for p in f.params), inputs, strict=True))
        for name, (var, _) in known.items():
            wish = self.names.fresh(name)
            buffers[name] = Buffer(wish, var.dtype, types[name].shape)
        nodes = {r: n for n in f.nodes for r in n.results}
        b = ScalarBuilder(nodes, types, buffers, self.names, self.loop.dims)
        for var, extent in self._extents().items():
            b.affine.loop(var, extent)
        shapes = {x.name: x.shape for x in buffers.values()}
        body = Placer(b, shapes).body([b.read(n, at) for n in names], final)
        return _replaced(body, {buffers[n].name: var for n, (var, _) in known.items()})


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


CORNERS = ("first_row", "last_row", "first_column", "last_column")  # of a tile, which bodies take
LEAST = {"ge": 0, "le": 0, "gt": 1, "lt": 1}  # of the difference of what is compared


def masked(p: Problem) -> dict[str, Subgraph]:
    """Return bodies about the tiles of an attention, beside its ``score``.

    ``seen`` says whether some row of a tile may see some key, by its ``CORNERS``, and ``whole``
    whether every row sees every key, so that ``open_score`` is the score.  A row that does not see
    a key has the score -inf for it, if a comparison fails that is linear in row and column; of
    anything else it is not known that a row does not see.
    """
    ends = [Var(x, INDEX) for x in CORNERS]
    body, affine = p.bodies["score"], Affine(p.loop.dims)
    _, row, column, _ = body.inputs
    value, bound = body.value, list[tuple[Var, Expr]]()
    some, every = list[Expr](), list[Expr]()
    while True:
        if isinstance(value, LetExpr):
            bound.append((value.var, value.value))
            if value.var.dtype is INDEX:
                affine.lets[value.var.name] = value.value
            value = value.body
            continue
        if not (isinstance(value, Select) and isinstance(value.other, Const)):
            break
        parts = [*_conditions(value.cond)]
        found = [_linear(c, affine, (row, column), {d.name for d in p.loop.dims}) for c in parts]
        if value.other.value != -math.inf:
            break
        some += (_at(x, (row, column), ends, most=True) for x in found if x is not None)
        if None in found:
            break
        every += (_at(x, (row, column), ends, most=False) for x in found if x is not None)
        value = value.then
    for var, e in reversed(bound):
        value = LetExpr(var, e, value)
    corners = tuple(ends)
    return {
        "seen": Subgraph(corners, ix.all_of(some)),
        "whole": Subgraph(corners, ix.all_of(every)),
        "open_score": replace(body, value=value),
    }


def _conditions(cond: Expr) -> Iterator[Expr]:
    """Yield conditions that hold together where one holds."""
    if isinstance(cond, Binary) and cond.op == "and":
        yield from _conditions(cond.lhs)
        yield from _conditions(cond.rhs)
    else:
        yield cond


@dataclass(frozen=True, slots=True)
class _Linear:
    """That ``value`` is ``least`` or more; it grows by constants with row and column."""

    value: Expr
    steps: tuple[int, int]
    least: int


def _linear(cond: Expr, affine: Affine, at: tuple[Var, Var], symbols: Set[str]) -> _Linear | None:
    """Return a comparison as a linear one of row and column; None for another condition."""
    if not isinstance(cond, Compare) or cond.lhs.dtype is not INDEX or cond.op not in LEAST:
        return None
    sides = (cond.lhs, cond.rhs) if cond.op in ("ge", "gt") else (cond.rhs, cond.lhs)
    more, less = map(affine.poly, sides)
    difference = plus(more, less, -1)
    value = affine.expr(difference)
    steps = [coefficient(difference, v.name) for v in at]
    read = [e for e in subexprs(value) if isinstance(e, (Var, Load))]
    if not {e.name if isinstance(e, Var) else "" for e in read} <= {v.name for v in at} | symbols:
        return None
    if any(q is None or not is_constant(q) for q in steps):
        return None
    by, across = (int((q or {}).get((), 0)) for q in steps)
    return _Linear(value, (by, across), LEAST[cond.op])


def _at(x: _Linear, at: tuple[Var, Var], ends: Sequence[Var], *, most: bool) -> Expr:
    """Return the comparison where its value is largest, or smallest, in a tile."""
    table: dict[str, Expr] = {}
    for n, (v, step) in enumerate(zip(at, x.steps, strict=True)):
        table[v.name] = ends[2 * n + ((step > 0) is most)]
    return ix.compare("ge", substitute_expr(x.value, table), ix.index(x.least))
