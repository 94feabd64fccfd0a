"""Facts about the loop nests of a function, and building blocks of schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from didyma.codegen.lower.affine import Affine, Poly
from didyma.codegen.lower.names import loop_names
from didyma.codegen.options import Options
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.expand import bound_by
from didyma.refimpl.ir.graph import attrs
from didyma.refimpl.ir.loop import (
    INDEX,
    Allocate,
    Atomic,
    Block,
    Buffer,
    Chain,
    Const,
    Expr,
    Fold,
    For,
    If,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.unfold import without_folds
from didyma.refimpl.ir.walk import expr_children, map_stmt, stmt_children, stmt_exprs, subexprs

WIDE = 16  # bytes of the widest access of several elements


@dataclass(frozen=True, slots=True)
class Nest:
    """Parallel loops around a body; a statement of a function from lowering."""

    index: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Stmt

    @property
    def numel(self) -> Expr:
        """Return the number of iterations."""
        return ix.mul(*self.extents)


def nests(body: Stmt) -> list[Nest]:
    """Return the nests of a function from lowering, in order."""
    if isinstance(body, Block) and any(_is_parallel(s) for s in body.body):
        return [_nest(s) for s in body.body]
    return [_nest(body)]


def _is_parallel(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind is LoopKind.PARALLEL


def _nest(s: Stmt) -> Nest:
    index: list[Var] = []
    extents: list[Expr] = []
    while isinstance(s, For) and s.kind is LoopKind.PARALLEL:
        index.append(s.var)
        extents.append(s.extent)
        s = s.body
    return Nest(tuple(index), tuple(extents), s)


@dataclass(slots=True)
class NestFacts:
    """A nest of a function with what schedules ask about it, and a supply of unused names.

    ``block`` and ``wide`` are as the options wish, as far as the target allows.
    """

    func: PrimFunc
    nest: Nest
    options: Options
    block: int  # threads of a block where the shape asks for no other
    wide: bool  # whether threads may load and store several elements at once
    names: Names
    affine: Affine
    buffers: dict[str, Buffer]
    statements: tuple[Stmt, ...]  # of the body, all of them
    inside: tuple[Expr, ...]  # likewise
    _sizes: dict[str, list[Poly]] = field(default_factory=dict[str, list[Poly]])  # of buffers

    @staticmethod
    def of(func: PrimFunc, nest: Nest, options: Options) -> NestFacts:
        """Collect the facts about one nest of a function."""
        buffers = {b.name: b for b in func.params}
        names = loop_names([*buffers, *(d.name for d in func.dims)])
        affine = Affine(func.dims)
        for var, extent in zip(nest.index, nest.extents, strict=True):
            affine.loop(var, extent)
        names.take(v.name for v in nest.index)
        statements, inside = scan(nest.body)
        for s in statements:
            if isinstance(s, For):
                affine.loop(s.var, s.extent)
                names.take((s.var.name,))
            elif isinstance(s, Fold):
                for a in s.axes:
                    affine.loop(a.var, a.extent)
                names.take(v.name for v in bound_by(s))
            elif isinstance(s, Let):
                names.take((s.var.name,))
                if s.var.dtype is INDEX:
                    affine.lets[s.var.name] = s.value
            elif isinstance(s, Allocate):
                names.take((s.buffer.name,))
        names.take(e.var.name for e in inside if isinstance(e, LetExpr))
        target, wish = options.device, options.kernels
        return NestFacts(
            func, nest, options, options.block,
            wish.vectorise and target.access >= WIDE, names, affine, buffers,
            tuple(statements), tuple(inside),
        )  # fmt: skip

    @property
    def target(self) -> Target:
        """What kernels may rely on."""
        return self.options.device

    def serial(self) -> NestFacts:
        """Return the facts about the nest with loops in place of folds."""
        body = without_folds(self.nest.body, self.names)
        statements, inside = scan(body)
        nest = replace(self.nest, body=body)
        return replace(self, nest=nest, statements=tuple(statements), inside=tuple(inside))

    def largest(self, e: Expr) -> int:
        """Return an upper bound of a size over the declared ranges of the dims."""
        if isinstance(e, Const):
            return int(e.value)
        high = {d.name: d.hi for d in self.func.dims}
        total = 0
        for m, k in self.affine.poly(e).items():
            if k > 0:
                for v in m:
                    k *= high.get(v, 1 << 40)
            elif m:
                continue
            total += k
        return total

    def threads(self, most: int) -> int:
        """Return the block size for a number of threads: a power of two."""
        return max(1, min(self.block, 1 << max(0, most - 1).bit_length()))

    def shape(self, buffer: str) -> tuple[Expr, ...]:
        """Return the shape of a parameter."""
        return tuple(ix.of_dim(d) for d in self.buffers[buffer].shape)

    def offset(self, buffer: str, index: Sequence[Expr]) -> Poly:
        """Return the row-major offset of an access to a parameter, in elements."""
        if buffer not in self._sizes:
            self._sizes[buffer] = [self.affine.poly(d) for d in self.shape(buffer)]
        return self.affine.offset(index, self._sizes[buffer])

    def accesses(self) -> Iterator[tuple[str, tuple[Expr, ...]]]:
        """Return the loads and stores of parameters."""
        for e in self.inside:
            if isinstance(e, Load) and e.buffer in self.buffers:
                yield e.buffer, e.index
        for s in self.statements:
            if isinstance(s, (Store, Atomic)) and s.buffer in self.buffers:
                yield s.buffer, s.index

    @property
    def operands(self) -> frozenset[str]:
        """The parameters that the nest does not write: inputs, and what other nests have left."""
        written = {s.buffer for s in self.statements if isinstance(s, (Store, Atomic))}
        return frozenset(self.buffers) - written

    def kernel(self, body: Stmt, schedule: str, flat: Iterable[str] = ()) -> PrimFunc:
        """Return the kernel with this body; it sees the ``flat`` parameters as one-dimensional."""
        flat = frozenset(flat)
        written = {s.buffer for s in self.statements if isinstance(s, (Store, Atomic))}
        written |= {
            b for s in self.statements if isinstance(s, Chain) for b in (s.states, s.totals)
        }
        touched = written | {e.buffer for e in self.inside if isinstance(e, Load)}
        params = tuple(
            replace(b, shape=(dims.mul(*b.shape),)) if b.name in flat else b
            for b in self.func.params
            if b.name in touched
        )
        used: set[str] = set()
        if self.func.dims:
            for e in (*self.inside, *(x for n in self.nest.extents for x in subexprs(n))):
                if isinstance(e, Var):
                    used.add(e.name)
            used.update(dims.free(d for b in params for d in b.shape))
        return PrimFunc(
            self.func.name,
            params,
            tuple(o for o in self.func.outputs if o in written),
            body,
            tuple(d for d in self.func.dims if d.name in used),
            attrs({**dict(self.func.attrs), "schedule": schedule}),
        )


def scan(body: Stmt) -> tuple[list[Stmt], list[Expr]]:
    """Return all statements and expressions of a statement, parents before children."""
    statements: list[Stmt] = []
    found: list[Expr] = []
    todo: list[Stmt] = [body]
    while todo:
        s = todo.pop()
        statements.append(s)
        todo += stmt_children(s)
        left = list(stmt_exprs(s))
        while left:
            e = left.pop()
            found.append(e)
            if type(e) is not Var and type(e) is not Const:
                left += expr_children(e)
    return statements, found


def variables(s: Stmt) -> set[str]:
    """Return the names of the variables that a statement uses."""
    return {e.name for e in scan(s)[1] if isinstance(e, Var)}


def unrolled(s: Stmt, most: int) -> Stmt:
    """Unroll innermost serial loops, up to ``most`` copies of a body."""
    return _unrolled(s, most)[0]


def _unrolled(s: Stmt, limit: int) -> tuple[Stmt, int]:
    """Statement with short loops unrolled, and how often its innermost body is written."""
    most = 1

    def on_stmt(b: Stmt) -> Stmt:
        nonlocal most
        b, count = _unrolled(b, limit)
        most = max(most, count)
        return b

    s = map_stmt(s, same, on_stmt)
    if isinstance(s, For) and s.kind is LoopKind.SERIAL:
        count = int(s.extent.value) * most if isinstance(s.extent, Const) else limit + 1
        if 0 < count <= limit:
            return replace(s, kind=LoopKind.UNROLLED), count
        return s, limit + 1
    return s, most


def same(e: Expr) -> Expr:
    """Return the expression."""
    return e


def bound(var: Var, extent: Expr, axis: str, body: Stmt) -> Stmt:
    """Return a loop bound to a grid or thread axis."""
    return For(var, extent, body, LoopKind.BOUND, axis)


def tail(v: Var, size: Expr, by: int) -> list[Expr]:
    """Return the guards of an index that runs to a multiple of ``by``: none if ``by`` divides."""
    if isinstance(size, Const) and int(size.value) % by == 0:
        return []
    return [ix.compare("lt", v, size)]


def guarded(conds: Iterable[Expr], body: Stmt) -> Stmt:
    """Return a statement that runs where every condition holds."""
    cond = ix.all_of(conds)
    return body if cond == ix.TRUE else If(cond, body)


def let_all(table: Mapping[Var, Expr], body: Stmt) -> Stmt:
    """Return the body inside bindings of those variables of a table that it uses."""
    used = variables(body)
    for var, value in reversed(list(table.items())):
        if var.name in used:
            body = Let(var, value, body)
            used = used | {e.name for e in subexprs(value) if isinstance(e, Var)}
    return body
