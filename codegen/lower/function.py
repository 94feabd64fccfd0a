"""Lowering: a Primitive function becomes one loop program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from didyma.codegen.lower.build import ScalarBuilder
from didyma.codegen.lower.names import identifier, loop_names
from didyma.codegen.lower.place import Placer, Root
from didyma.codegen.lower.rows import Along, Rows, rows_of
from didyma.codegen.lower.scalar import narrowed
from didyma.codegen.lower.sweep import Swept, swept
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import Function, Module, Node, attrs, stages
from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    Block,
    Buffer,
    Expr,
    For,
    If,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.types import DType, Shape, TensorType
from didyma.refimpl.ir.walk import exprs, items, one_of
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind, Scatter

StoreOf: TypeAlias = Callable[[Expr], Stmt]


def lower(f: Function, m: Module, target: Target = PORTABLE, *, atomics: bool = False) -> PrimFunc:
    """Return the loop program of a Primitive function: its params, then a buffer for each result.

    Results of one shape share a nest of parallel loops over their elements, in which reductions
    are folds.  A scatter has a nest of its own, in which each element folds the updates that meet
    it.  Where the target can update elements of the dtype atomically, and the order of the updates
    does not matter, a scatter is a copy and a nest of updates instead; with ``atomics`` also sums
    and products of floats are, whose results may then differ from run to run.

    The stages of a function follow one another, with buffers for what they store on the way.
    """
    names = loop_names(d.name for d in m.dims)
    types = f.stored_types()

    def buffer(name: str) -> Buffer:
        t = types[name].memory
        return Buffer(names.fresh(name), t.dtype, t.shape)

    inputs = {p.name: buffer(p.name) for p in f.params}
    results = [(r, buffer(r)) for r in f.results]
    own = dict(results)
    *before, (rest, last) = stages(f)
    workspace = list[Buffer]()
    nests = list[Stmt]()
    for stored, nodes in before:
        outputs = [(r, own[r] if r in own else buffer(r)) for r in stored]
        part = replace(f, nodes=nodes, results=stored)
        nests += items(_Lowering(part, m, target, atomics, names, types, inputs, outputs).body())
        inputs = inputs | dict(outputs)
        workspace += (b for r, b in outputs if r not in own)
    part = replace(f, nodes=last, results=rest)
    outputs = [(r, b) for r, b in results if r in rest]
    body = _Lowering(part, m, target, atomics, names, types, inputs, outputs).body()
    if workspace:
        body = Block((*nests, *items(body)))
    for b in reversed(workspace):
        body = Allocate(b, body)
    params = (*(inputs[p.name] for p in f.params), *(b for _, b in results))
    return PrimFunc(
        identifier(f.name),
        params,
        tuple(b.name for _, b in results),
        body,
        _dims(m, body, (*params, *workspace)),
        attrs({"source": tuple(r for n in f.nodes for r in n.results)}),
    )


def _dims(m: Module, body: Stmt, buffers: Sequence[Buffer]) -> tuple[DimVar, ...]:
    if not m.dims:
        return ()
    used = {e.name for e in exprs(body) if isinstance(e, Var)}
    shapes = (ix.of_dim(d) for b in buffers for d in b.shape)
    used |= {e.name for d in shapes for e in exprs(Store("", (), d)) if isinstance(e, Var)}
    return tuple(d for d in m.dims if d.name in used)


class _Lowering:
    """Lowers a stage of a function, whose operands are in buffers ``inputs``, to ``outputs``."""

    def __init__(
        self,
        f: Function,
        m: Module,
        target: Target,
        atomics: bool,
        names: Names,
        types: Mapping[str, TensorType],
        inputs: Mapping[str, Buffer],
        outputs: Sequence[tuple[str, Buffer]],
    ) -> None:
        self.f = f
        self.m = m
        self.target = target
        self.atomics = atomics
        self.types = types
        self.nodes: dict[str, Node] = {r: n for n in f.nodes for r in n.results}
        self.names = names
        self.inputs = inputs
        self.outputs = outputs
        buffers = (*inputs.values(), *(b for _, b in outputs))
        self.shapes: dict[str, Shape] = {b.name: b.shape for b in buffers}

    def body(self) -> Stmt:
        if (rows := self._rows()) is not None:
            return self._row_nest(rows, self.outputs)
        if (found := self._swept()) is not None:
            return self._sweep(found)
        groups: dict[Shape, list[tuple[str, Buffer]]] = {}
        nests: list[Stmt] = []
        for result, out in self.outputs:
            rule = self._scatters(result)
            if rule is not None and self._is_atomic(rule, out.dtype):
                nests += self._scatter(result, out)
            elif rule is not None:
                nests.append(self._nest(out.shape, [(result, out)]))
            else:
                groups.setdefault(out.shape, []).append((result, out))
        nests += [self._nest(shape, group) for shape, group in groups.items()]
        return one_of(nests)

    def _builder(self, stored: Collection[str] = ()) -> ScalarBuilder:
        """Return a builder that loads operands, and the results that were ``stored`` before."""
        known = {**self.inputs, **{r: b for r, b in self.outputs if r in stored}}
        return ScalarBuilder(self.nodes, self.types, known, self.names, self.m.dims)

    def _nest(
        self, shape: Shape, group: Sequence[tuple[str, Buffer]], stored: Collection[str] = ()
    ) -> Stmt:
        b = self._builder(stored)
        index, extents = _loops(b, "i", shape)

        def root(name: str, out: Buffer) -> Expr:
            if self.types[name].dtype.is_packed:
                return b.byte(name, index[0])
            return narrowed(b.read(name, index), out.dtype)

        roots = [root(name, out) for name, out in group]

        def final(values: Sequence[Expr]) -> Stmt:
            stores = [Store(o.name, index, v) for (_, o), v in zip(group, values, strict=True)]
            return one_of(stores)

        return _nested(index, extents, Placer(b, self.shapes).body(roots, final))

    def _rows(self) -> Rows | None:
        """Return the rows that the function folds, if it folds several times or uses them again."""
        rows = rows_of(self.f.nodes, self.types)
        if rows is None or any(self.types[r].dtype.is_packed for r in self.f.results):
            return None
        shapes = {r: self.types[r].shape for r in self.f.results}
        folds = sum(OPS[n.op].kind is Kind.REDUCTION for n in self.f.nodes)
        used = folds > 1 or Along.ELEMENT in map(rows.along.get, shapes)
        return rows if used and all(rows.at(r, s) for r, s in shapes.items()) else None

    def _swept(self) -> Swept | None:
        """Return the rows of the function if others of its results are folds across them.

        What those need of rows must be results that no store rounds.
        """
        found = swept(self.f.nodes, self.types, self.f.results)
        if found is None or any(self.types[r].dtype.is_packed for r in self.f.results):
            return None
        exact = all(self.types[r].dtype is self.types[r].dtype.compute for r in found.shared)
        return found if exact and {*found.shared}.issubset(self.f.results) else None

    def _sweep(self, found: Swept) -> Stmt:
        """Return the nest of rows, then one for each result that is folded across them."""
        along = [(r, b) for r, b in self.outputs if r not in found.across]
        across = [(r, b) for r, b in self.outputs if r in found.across]
        nests = [self._nest(b.shape, [(r, b)], found.shared) for r, b in across]
        return Block((self._row_nest(found.rows, along), *nests))

    def _row_nest(self, rows: Rows, outputs: Sequence[tuple[str, Buffer]]) -> Stmt:
        """Return the nest of rows: folds one after another, then stores all along the row."""
        b = self._builder()
        extents = [ix.of_dim(d) for d in rows.shape]
        outer = [a for a, d in enumerate(rows.shape) if a not in rows.axes and d != 1]
        at = {a: b.loop("i", extents[a]) for a in (*outer, *rows.axes)}
        elements = tuple(at.get(a, ix.ZERO) for a in range(len(extents)))
        zeros = tuple(ix.ZERO if a in rows.axes else v for a, v in enumerate(elements))
        dropped = tuple(v for a, v in enumerate(elements) if a not in rows.axes)
        index = {rows.dropped: dropped, rows.kept: zeros, rows.shape: elements}
        each, once = list[Root](), list[Root]()
        for name, out in outputs:
            inside = rows.at(name, out.shape) is Along.ELEMENT
            if out.shape not in index:
                near = rows.shape if inside else rows.dropped
                index[out.shape] = _reshaped(b, index[near], near, out.shape)
            root = narrowed(b.read(name, index[out.shape]), out.dtype)
            (each if inside else once).append((root, self._store(out, index)))
        loops, ends = [at[a] for a in rows.axes], [extents[a] for a in rows.axes]
        body = Placer(b, self.shapes).rows(each, once, loops, ends, partial(_nested, loops, ends))
        return _nested([at[a] for a in outer], [extents[a] for a in outer], body)

    def _store(self, out: Buffer, index: Mapping[Shape, tuple[Expr, ...]]) -> StoreOf:
        return lambda value: Store(out.name, index[out.shape], value)

    def _scatters(self, result: str) -> Scatter | None:
        """Return the rule of a result that is a scatter; None for another."""
        node = self.nodes.get(result)
        if node is None or OPS[node.op].kind is not Kind.OPAQUE:
            return None
        index = tuple(Var(f"probe {n}") for n in range(len(self.types[result].shape)))
        rule = self._builder().rule(node, index)
        return rule if isinstance(rule, Scatter) else None

    def _is_atomic(self, rule: Scatter, dtype: DType) -> bool:
        """Return whether updates may be atomic: sums of floats depend on their order."""
        if rule.op == "set" or dtype is not dtype.compute or dtype not in self.target.atomics:
            return False
        return self.atomics or rule.op in ("min", "max") or not dtype.is_float

    def _scatter(self, result: str, out: Buffer) -> list[Stmt]:
        node = self.nodes[result]
        copy = self._builder()
        index, extents = _loops(copy, "i", out.shape)
        rule = copy.rule(node, index)
        assert isinstance(rule, Scatter)
        root = narrowed(rule.base(index), out.dtype)

        def store(values: Sequence[Expr]) -> Stmt:
            return Store(out.name, index, values[0])

        copied = Placer(copy, self.shapes).body([root], store)
        return [_nested(index, extents, copied), self._updates(node, out)]

    def _updates(self, node: Node, out: Buffer) -> Stmt:
        b = self._builder()
        rule = b.rule(node, tuple(Var(f"probe {n}") for n in range(len(out.shape))))
        assert isinstance(rule, Scatter)
        op = rule.op
        assert op != "set"
        us = tuple(b.loop("i", e) for e in rule.extents)
        at, counts = rule.target(us)
        roots = [counts, rule.update(us), *(b.index(a) for a in at)]

        def final(values: Sequence[Expr]) -> Stmt:
            update = Atomic(op, out.name, tuple(values[2:]), values[1])
            return update if values[0] == ix.TRUE else If(values[0], update)

        return _nested(us, rule.extents, Placer(b, self.shapes).body(roots, final))


def _loops(b: ScalarBuilder, prefix: str, shape: Shape) -> tuple[tuple[Var, ...], list[Expr]]:
    extents = [ix.of_dim(d) for d in shape]
    return tuple(b.loop(prefix, e) for e in extents), extents


def _reshaped(
    b: ScalarBuilder, index: Sequence[Expr], shape: Shape, other: Shape
) -> tuple[Expr, ...]:
    """Return the index, in another shape, of the element that has an index in a shape."""
    flat = ix.flatten(index, [ix.of_dim(d) for d in shape])
    return tuple(map(b.affine.simplify, ix.unflatten(flat, [ix.of_dim(d) for d in other])))


def _nested(index: Sequence[Var], extents: Sequence[Expr], body: Stmt) -> Stmt:
    for var, extent in reversed(list(zip(index, extents, strict=True))):
        body = For(var, extent, body, LoopKind.PARALLEL)
    return body
