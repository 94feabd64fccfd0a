"""What a template is written for: parts of a Primitive function, whose inputs the text names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from didyma.codegen.emit.names import c_names
from didyma.codegen.lower.affine import Affine, Poly
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim, symbol
from didyma.refimpl.ir.dims.polynomial import coefficient
from didyma.refimpl.ir.loop import (
    INDEX,
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    Intrinsic,
    Let,
    LetExpr,
    Load,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import expr_children, exprs, stmts, subexprs

R = TypeVar("R")
USUAL = 1024
_FLAT = Var("flat", INDEX)


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A value that a template's text computes where it likes.

    ``inputs`` are variables to which the text gives values; the first of them are indices, which
    run to ``extents``.
    """

    inputs: tuple[Var, ...]
    value: Expr
    extents: tuple[Expr, ...] = ()

    def flat(self) -> Subgraph:
        """Return the subgraph with one index in place of all, that of the row-major element."""
        count, value = len(self.extents), self.value
        parts = ix.unflatten(_FLAT, self.extents)
        for var, part in zip(self.inputs[:count], parts, strict=True):
            value = LetExpr(var, part, value)
        return Subgraph((_FLAT, *self.inputs[count:]), value, (ix.mul(*self.extents),))


@dataclass(frozen=True, slots=True)
class Output:
    """What a template's text stores: ``inputs`` are an index and the values computed for it."""

    inputs: tuple[Var, ...]
    body: Stmt
    extents: tuple[Expr, ...]

    def flat(self) -> Output:
        """Return the output with one index in place of all, that of the row-major element."""
        count, body = len(self.extents), self.body
        parts = ix.unflatten(_FLAT, self.extents)
        for var, part in zip(self.inputs[:count], parts, strict=True):
            body = Let(var, part, body)
        return Output((_FLAT, *self.inputs[count:]), body, (ix.mul(*self.extents),))


@dataclass(frozen=True, slots=True)
class Run:
    """How an operand lies in an array: neighbours along ``axis`` are neighbours in memory.

    The element at an index is at ``start``, plus the index along each axis times its step.
    """

    buffer: str
    axis: int
    steps: tuple[Expr, ...]
    start: Expr


@dataclass(frozen=True, slots=True)
class Wide:
    """A load of an operand that takes neighbours at once: they lie together as ``run`` says.

    ``value`` is what is computed of it, and is 0 in place of that where ``inside`` does not hold.
    """

    load: Load
    run: Run
    value: Subgraph
    inside: Subgraph | None


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a convolution of images in ``buffer`` whose channels lie together in memory.

    The buffer has the shape images, lines, columns and channels.  All others are numbers of lines
    and of columns: the ``places`` of the result, the size of the ``window``, its strides and
    dilations, and the border before (``low``) and behind (``high``).
    """

    buffer: Buffer
    places: tuple[Dim, Dim]
    window: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """A Primitive function as a template sees it.

    ``loop`` is its loop program.  ``operands`` are what the template loads, with all that the graph
    computes before, and ``output`` what it stores, with all that the graph computes after.
    ``bodies`` are further values that the template computes by ``modification``, and ``line`` what
    it stores for each row of the output beside that.  ``windows`` tells of a convolution what
    windows the left operand has, before anything is computed of their elements.
    """

    loop: PrimFunc
    operands: Mapping[str, Subgraph]
    output: Output
    bodies: Mapping[str, Subgraph] = field(default_factory=lambda: MappingProxyType({}))
    line: Output | None = None
    windows: Windows | None = None
    _known: dict[Any, Any] = field(
        default_factory=dict[Any, Any], init=False, repr=False, compare=False
    )

    def turned(self) -> Problem:
        """Return the product of both operands transposed, whose result is stored transposed."""

        def swapped(sub: Subgraph) -> Subgraph:
            batch, one, other = sub.inputs
            far, near, last = sub.extents
            return Subgraph((batch, other, one), sub.value, (far, last, near))

        batch, row, column, *sums = self.output.inputs
        far, rows, columns = self.output.extents
        output = Output((batch, column, row, *sums), self.output.body, (far, columns, rows))
        left, right = (swapped(self.operands[name]) for name in ("right", "left"))
        return replace(self, operands={"left": left, "right": right}, output=output, windows=None)

    def dim(self, e: Expr) -> Dim:
        """Return an extent as a size; TypeError for one that no size is."""
        found = ix.dim_of(e, {d.name: symbol(d.name) for d in self.loop.dims})
        if found is None:
            raise TypeError(f"no size: {e}")
        return found

    def expected(self, e: Expr) -> int:
        """Return how large to expect an extent: each symbol as near to ``USUAL`` as it may be."""
        sizes = {d.name: min(d.hi, max(d.lo, USUAL)) for d in self.loop.dims}
        (found,) = dims.values((self.dim(e),), sizes)
        return found

    def run(self, operand: str, nbytes: int) -> Run | None:
        """Return where an operand lies in memory, if it is nothing but elements of an array there.

        Runs of ``nbytes`` along one axis lie together and begin at multiples of that, if their
        index does; an offset is linear in all axes but the first, as heads may share one.  None for
        what is computed, or lies otherwise.
        """
        return self._once(("run", operand, nbytes), lambda: self._run(operand, nbytes))

    def _once(self, key: tuple[object, ...], find: Callable[[], R]) -> R:
        """Return what is found for a key, which is looked for once."""
        if key not in self._known:
            self._known[key] = find()
        found: R = self._known[key]
        return found

    def _run(self, operand: str, nbytes: int) -> Run | None:
        sub = self.operands[operand]
        load = sub.value
        while isinstance(load, LetExpr):
            load = load.body
        if not isinstance(load, Load):
            return None
        affine, shapes = self._affine(sub)
        p = affine.offset(load.index, shapes[load.buffer])
        inputs = {v.name for v in sub.inputs}
        steps = [coefficient(p, v.name) for v in sub.inputs]
        start = {m: c for m, c in p.items() if not inputs & {*m}}
        known, lanes = {d.name for d in self.loop.dims}, nbytes // load.dtype.nbytes
        names = {n for q in steps if q is not None for m in q for n in m}
        ones = [n for n, q in enumerate(steps) if q == {(): 1}]
        begin = subexprs(affine.simplify(affine.expr(start)))
        names |= {e.name for e in begin if isinstance(e, Var)} - {sub.inputs[0].name}
        read = any(isinstance(e, Load) for e in begin)
        if None in steps or read or not names <= known or not ones:
            return None
        axis = ones[-1]
        length = affine.poly(sub.extents[axis])
        rest = [q for n, q in enumerate(steps) if n != axis and q is not None]
        if any(c % lanes for q in (*rest, start, length) for c in q.values()):
            return None
        return Run(load.buffer, axis, tuple(affine.expr(q or {}) for q in steps), begin[0])

    def loaded(self, operand: str, lanes: int) -> Wide | None:
        """Return a load of an operand that takes so many neighbours at once.

        What is computed of it may be anything that loads it always, or 0 where a condition does not
        hold that is the same for all of them.
        """
        return self._once(("loaded", operand, lanes), lambda: self._loaded(operand, lanes))

    def _loaded(self, operand: str, lanes: int) -> Wide | None:
        sub = self.operands[operand]
        around, value, inside = list[LetExpr](), sub.value, ix.TRUE
        while isinstance(value, LetExpr):
            around.append(value)
            value = value.body
        if isinstance(value, Select) and value.other == Const(0, value.dtype):
            inside, value = value.cond, value.then
        parts = list(subexprs(value))
        if any(isinstance(e, (Select, LetExpr)) for e in (*parts, *subexprs(inside))):
            return None
        lets = {let.var.name: let.value for let in around}
        named = _names((inside,), lets)

        def whole(e: Expr) -> Subgraph:
            for let in reversed(around):
                e = replace(let, body=e)
            return replace(sub, value=e)

        for load in (e for e in parts if isinstance(e, Load)):
            alone = replace(self, operands={operand: whole(load)})
            run = alone.run(operand, lanes * load.dtype.nbytes)
            if run is not None and sub.inputs[run.axis].name not in named:
                return Wide(load, run, whole(value), None if inside == ix.TRUE else whole(inside))
        return None

    def stored(self, lanes: int) -> tuple[tuple[Output, Store], ...] | None:
        """Return the stores of the output, if neighbours along its last axis are so in memory.

        Each comes with an output that is it alone.  So many neighbours lie together, from each
        index that is a multiple of ``lanes``.
        """
        return self._once(("stored", lanes), lambda: self._all_stored(lanes))

    def _all_stored(self, lanes: int) -> tuple[tuple[Output, Store], ...] | None:
        parts = [(replace(self.output, body=s), self._stored(s, lanes))
                 for s in _apart(self.output.body)]  # fmt: skip
        found = tuple((out, store) for out, store in parts if store is not None)
        return found if len(found) == len(parts) else None

    def _stored(self, whole: Stmt, lanes: int) -> Store | None:
        """Return the store that a statement is, if neighbours lie together as ``stored`` has it."""
        body = whole
        while isinstance(body, Let):
            body = body.body
        if not isinstance(body, Store):
            return None
        axes = self.output.inputs[: len(self.output.extents)]
        lets = [(s.var, s.value) for s in stmts(whole) if isinstance(s, Let)]
        value: Expr = body.value
        for var, e in reversed(lets):
            value = LetExpr(var, e, value)
        affine, shapes = self._affine(Subgraph(axes, value, self.output.extents))
        p = affine.offset(body.index, shapes[body.buffer])
        last = coefficient(p, axes[-1].name)
        rest = {m: c for m, c in p.items() if axes[-1].name not in m}
        known = {v.name for v in axes[:-1]} | {d.name for d in self.loop.dims}
        length = affine.poly(self.output.extents[-1])
        begin = list(subexprs(affine.expr(rest)))
        names = {e.name for e in begin if isinstance(e, Var)}
        if last != {(): 1} or not names <= known or any(isinstance(e, Load) for e in begin):
            return None
        if any(c % lanes for q in (rest, length) for c in q.values()):
            return None
        return body

    def neighbours(self, out: Output, lanes: int) -> frozenset[Load]:
        """Return the loads of an output that take neighbours in memory where its store does.

        So many of them lie together, from each index that is a multiple of ``lanes``.  What is
        loaded only under a condition is left out.
        """
        return self._once(("neighbours", out, lanes), lambda: self._neighbours(out, lanes))

    def _neighbours(self, out: Output, lanes: int) -> frozenset[Load]:
        axes = out.inputs[: len(out.extents)]
        last, lets = axes[-1].name, [s for s in stmts(out.body) if isinstance(s, Let)]
        values = [*(s.value for s in lets)]
        values += [s.value for s in stmts(out.body) if isinstance(s, Store)]
        found = set[Load]()
        for load in {e for v in values for e in _always(v) if isinstance(e, Load)}:
            place: Expr = load
            for let in reversed(lets):
                place = LetExpr(let.var, let.value, place)
            affine, shapes = self._affine(Subgraph(axes, place, out.extents))
            p = affine.offset(load.index, shapes[load.buffer])
            rest = {m: c for m, c in p.items() if last not in m}
            known = {v.name for v in axes} | {d.name for d in self.loop.dims}
            whole = not any(c % lanes for c in rest.values())
            if coefficient(p, last) == {(): 1} and whole and {n for m in rest for n in m} <= known:
                found.add(load)
        return frozenset(found)

    def followed(self) -> tuple[float, int]:
        """Return what follows each sum: costly functions, and elements that it has for itself.

        A quotient counts half.  The elements are those of arrays whose index depends on the last
        two axes of the output.
        """
        return self._once(("followed",), self._followed)

    def _followed(self) -> tuple[float, int]:
        parts = {*exprs(self.output.body)}
        records = [e.record for e in parts if isinstance(e, Intrinsic)]
        calls = sum(known is not None and not known.is_exact for known in records)
        quotients = sum(isinstance(e, Binary) and e.op == "div" for e in parts)
        lets = {s.var.name: s.value for s in stmts(self.output.body) if isinstance(s, Let)}
        lets |= {e.var.name: e.value for e in parts if isinstance(e, LetExpr)}
        axes = {v.name for v in self.output.inputs[1 : len(self.output.extents)]}
        loads = [e for e in parts if isinstance(e, Load)]
        own = sum(axes <= _names(e.index, lets) for e in loads)
        return calls + quotients / 2, own

    def _affine(self, sub: Subgraph) -> tuple[Affine, Mapping[str, Sequence[Poly]]]:
        """Return what knows the variables of a subgraph, and the shapes of the arrays."""
        affine = Affine(self.loop.dims)
        for var, extent in zip(sub.inputs, sub.extents, strict=True):
            affine.loop(var, extent)
        for e in subexprs(sub.value):
            if isinstance(e, LetExpr) and e.var.dtype is INDEX:
                affine.lets[e.var.name] = e.value
        shapes = {b.name: [affine.poly(ix.of_dim(d)) for d in b.shape] for b in self.loop.params}
        return affine, shapes

    def stride(self, operand: str, axis: int) -> Expr | None:
        """Return the elements between neighbours in memory along an axis of an operand.

        Those of the array that depends on the most axes; None where there is no such number.
        """
        sub = self.operands[operand]
        affine, shapes = self._affine(sub)
        loads = [e for e in subexprs(sub.value) if isinstance(e, Load)]
        offsets = [affine.offset(e.index, shapes[e.buffer]) for e in loads]
        inputs = {v.name for v in sub.inputs}
        most = max((len(inputs & affine.names(p)) for p in offsets), default=0)
        steps = {
            None if c is None or affine.names(c) & inputs else affine.expr(c)
            for p in offsets
            if len(inputs & affine.names(p)) == most
            for c in (coefficient(p, sub.inputs[axis].name),)
        }
        return steps.pop() if len(steps) == 1 else None


def _names(index: Sequence[Expr], lets: Mapping[str, Expr]) -> set[str]:
    """Return the names of all variables that an index depends on."""
    found, todo = set[str](), [*index]
    while todo:
        new = {e.name for e in subexprs(todo.pop()) if isinstance(e, Var)} - found
        found |= new
        todo += [lets[name] for name in new if name in lets]
    return found


def _always(e: Expr) -> Iterator[Expr]:
    """Yield the parts of an expression that are computed whatever conditions it has."""
    yield e
    match e:
        case Select(cond):
            yield from _always(cond)
        case Binary("and" | "or", lhs, _):
            yield from _always(lhs)
        case _:
            for part in expr_children(e):
                yield from _always(part)


def _apart(s: Stmt) -> Iterator[Stmt]:
    """Yield the statements of which a block is made, each with the variables bound around it."""
    match s:
        case Let(body=body):
            yield from (replace(s, body=part) for part in _apart(body))
        case Block(body=body):
            for part in body:
                yield from _apart(part)
        case _:
            yield s


def has_plain_symbols(loop: PrimFunc) -> bool:
    """Return whether the symbols of a function can be the names of a kernel's arguments.

    >>> from didyma.refimpl.ir.dims import DimVar
    >>> from didyma.refimpl.ir.loop import Block
    >>> def f(name):
    ...     return PrimFunc("f", (), (), Block(()), (DimVar(name, 1, 8),))
    >>> has_plain_symbols(f("n")), has_plain_symbols(f("int"))
    (True, False)
    """
    return all(c_names().fresh(d.name) == d.name for d in loop.dims)
