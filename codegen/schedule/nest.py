"""Reading a loop program: its nests, what they touch, names that are still free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.lower.affine import Affine, Poly
from codegen.lower.names import Names
from refimpl.ir import dims
from refimpl.ir import expr as ix
from refimpl.ir.graph import attrs
from refimpl.ir.loop import (
    INDEX,
    Allocate,
    Atomic,
    Block,
    Buffer,
    Const,
    Expr,
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
from refimpl.ir.walk import exprs, stmts


@dataclass(frozen=True, slots=True)
class Nest:
    """Parallel loops around a body, in a function of which it is one statement."""

    index: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Stmt

    @property
    def numel(self) -> Expr:
        """Number of iterations."""
        return ix.mul(*self.extents)


def nests(body: Stmt) -> list[Nest]:
    """Nests of a function from lowering, in order."""
    if isinstance(body, Block) and all(isinstance(s, For) for s in body.body):
        return [_nest(s) for s in body.body]
    return [_nest(body)]


def _nest(s: Stmt) -> Nest:
    index: list[Var] = []
    extents: list[Expr] = []
    while isinstance(s, For) and s.kind is LoopKind.PARALLEL:
        index.append(s.var)
        extents.append(s.extent)
        s = s.body
    return Nest(tuple(index), tuple(extents), s)


@dataclass(slots=True)
class Scene:
    """What a schedule needs to know: the function, its nest, facts about it, fresh names."""

    func: PrimFunc
    nest: Nest
    block: int
    vectorise: bool
    names: Names
    affine: Affine
    buffers: dict[str, Buffer]
    inside: tuple[Expr, ...]  # every expression of the body

    @staticmethod
    def of(func: PrimFunc, nest: Nest, block: int, vectorise: bool) -> Scene:
        """Look at one nest of a function."""
        names = Names([*(b.name for b in func.params), *(d.name for d in func.dims)])
        affine = Affine()
        for var, extent in zip(nest.index, nest.extents, strict=True):
            affine.loop(var, extent)
        inside: list[Expr] = []
        for s in stmts(nest.body):
            match s:
                case For(var, extent):
                    affine.loop(var, extent)
                case Let(var, value):
                    if var.dtype is INDEX:
                        affine.lets[var.name] = value
                case _:
                    pass
        inside += exprs(nest.body)
        names.take(defined(nest))
        buffers = {b.name: b for b in func.params}
        return Scene(func, nest, block, vectorise, names, affine, buffers, tuple(inside))

    def largest(self, e: Expr) -> int:
        """Upper bound of a size over the declared ranges of the dims."""
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
        """Block size for a number of threads that may be wanted: a power of two."""
        return max(1, min(self.block, 1 << max(0, most - 1).bit_length()))

    def shape(self, buffer: str) -> tuple[Expr, ...]:
        """Shape of a parameter."""
        return tuple(ix.of_dim(d) for d in self.buffers[buffer].shape)

    def offset(self, buffer: str, index: Sequence[Expr]) -> Poly:
        """Where an access to a parameter goes, in elements."""
        polys = [self.affine.poly(d) for d in self.shape(buffer)]
        return self.affine.offset(index, polys)

    def accesses(self) -> Iterator[tuple[str, tuple[Expr, ...]]]:
        """Loads and stores of parameters."""
        for e in self.inside:
            if isinstance(e, Load) and e.buffer in self.buffers:
                yield e.buffer, e.index
        for s in stmts(self.nest.body):
            if isinstance(s, (Store, Atomic)) and s.buffer in self.buffers:
                yield s.buffer, s.index

    def kernel(self, body: Stmt, schedule: str, flat: Iterable[str] = ()) -> PrimFunc:
        """Kernel with this body; the ``flat`` parameters are seen as one-dimensional."""
        flat = frozenset(flat)
        touched: set[str] = set()
        written: set[str] = set()
        variables: set[str] = set()
        for s in stmts(body):
            if isinstance(s, (Store, Atomic)):
                touched.add(s.buffer)
                written.add(s.buffer)
        for e in exprs(body):
            if isinstance(e, Load):
                touched.add(e.buffer)
            elif isinstance(e, Var):
                variables.add(e.name)
        params = tuple(
            replace(b, shape=(dims.mul(*b.shape),)) if b.name in flat else b
            for b in self.func.params
            if b.name in touched
        )
        if self.func.dims:
            variables.update(dims.free(d for b in params for d in b.shape))
        return PrimFunc(
            self.func.name,
            params,
            tuple(o for o in self.func.outputs if o in written),
            body,
            tuple(d for d in self.func.dims if d.name in variables),
            attrs({**dict(self.func.attrs), "schedule": schedule}),
        )


def defined(nest: Nest) -> Iterator[str]:
    """Names of the variables and buffers that a nest defines."""
    for v in nest.index:
        yield v.name
    for s in stmts(nest.body):
        match s:
            case For(var) | Let(var):
                yield var.name
            case Allocate(buffer):
                yield buffer.name
            case _:
                pass
    for e in exprs(nest.body):
        if isinstance(e, LetExpr):
            yield e.var.name


def bound(var: Var, extent: Expr, axis: str, body: Stmt) -> Stmt:
    """Loop over a grid or thread axis."""
    return For(var, extent, body, LoopKind.BOUND, axis)


def guarded(conds: Iterable[Expr], body: Stmt) -> Stmt:
    """Statement that runs where every condition holds."""
    cond = ix.all_of(conds)
    return body if cond == ix.TRUE else If(cond, body)


def let_all(table: Mapping[Var, Expr], body: Stmt, used: Iterable[str]) -> Stmt:
    """Bind variables, those that are used."""
    used = frozenset(used)
    for var, value in reversed(list(table.items())):
        if var.name in used:
            body = Let(var, value, body)
    return body
