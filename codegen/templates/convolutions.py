"""Convolutions as matrix products: each window is a column, as of an implicit GEMM.

The windows are never stored: what the template loads of a column are elements of the operand, or
zeros of its border.  (S. Chetlur et al., *cuDNN: Efficient primitives for deep learning*, 2014.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import cast

from didyma.codegen.lower.affine import Affine, has_division
from didyma.codegen.lower.names import loop_names
from didyma.codegen.templates.problem import Output, Problem, Subgraph, Windows, has_plain_symbols
from didyma.codegen.templates.reading import Reading, folds, order
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import STAGES, Function, Node
from didyma.refimpl.ir.loop import (
    INDEX,
    Const,
    Expr,
    Let,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.types import Shape
from didyma.refimpl.ir.walk import map_expr, map_stmt, stmts


@lru_cache(maxsize=8)
def convolution(f: Function, loop: PrimFunc) -> Problem | None:
    """Return the convolution that a function is, with what precedes and follows it.

    It is a product as of ``products``: ``left`` are the weights, of batch, row and term, and
    ``right`` the windows.  A batch is a group of channels, a row an output channel of the group, a
    column an image and a place, and a term a channel of the group and a place in the window.  Where
    the result has its channels last, ``left`` are the windows, and columns are channels; and where
    the operand has, neighbouring terms are channels.

    None for a function that is no convolution, and for one whose groups have one output channel.
    """
    if STAGES in f.attr or not has_plain_symbols(loop):
        return None
    defs = {r: n for n in f.nodes for r in n.results}
    n = next((n for n in f.nodes if n.op == "conv"), None)
    if n is None or folds(defs, (*n.args, *f.results), n.results):
        return None
    if (axes := order(f, n)) is None:
        return None
    groups = n.attr["groups"]
    assert isinstance(groups, int)
    channels = n.types[0].shape[1]
    if not isinstance(channels, int) or channels <= groups:
        return None
    return _problem(f, loop, n, groups, axes)


def _problem(f: Function, loop: PrimFunc, n: Node, groups: int, axes: Sequence[int]) -> Problem:
    names = loop_names([*(b.name for b in loop.params), *(d.name for d in loop.dims)])

    def fresh(wish: str) -> Var:
        return Var(names.fresh(wish), INDEX)

    types, by_place = f.types(), axes[-1] == 1
    batch, place, out, term = map(fresh, ("group", "place", "out", "term"))
    (image, channels, *places), (_, *window) = n.types[0].shape, types[n.args[1]].shape
    assert isinstance(channels, int)
    inner = [*enumerate(map(ix.of_dim, window))]
    if _is_turned(f, n.args[0]):
        inner = [*inner[1:], inner[0]]
    outer = tuple(map(ix.of_dim, (image, *places)))
    each = channels // groups
    at, ks = tuple(fresh("place") for _ in outer), tuple(fresh("k") for _ in window)
    extents = {
        batch: ix.index(groups), out: ix.index(each), place: ix.mul(*outer),
        term: ix.mul(*(size for _, size in inner)),
        **dict(zip(at, outer, strict=True)), **{ks[k]: size for k, size in inner},
    }  # fmt: skip
    parts = [
        *zip(at, ix.unflatten(place, outer), strict=True),
        *zip((ks[k] for k, _ in inner), ix.unflatten(term, [size for _, size in inner]),
             strict=True),
    ]  # fmt: skip
    acc = Var(names.fresh("acc"), n.types[0].dtype.compute)
    reading = Reading(f, loop, names, types, extents, parts, {n.results[0]: acc})
    index = (at[0], ix.add(ix.mul(batch, ix.index(each)), out), *at[1:])

    row, column = (place, out) if by_place else (out, place)
    sides = {"left": (batch, row, term), "right": (batch, term, column)}
    operands = {
        name: Subgraph(
            order, reading.factor(n, index, ks, weights=place not in order),
            tuple(extents[v] for v in order),
        )
        for name, order in sides.items()
    }  # fmt: skip
    stores = _joined(reading.stores(tuple(index[a] for a in axes)), loop, extents)
    to = (batch, row, column)
    output = Output((*to, acc), stores, tuple(extents[v] for v in to))
    windows = _windows(f, loop, n) if by_place and groups == 1 else None
    return Problem(loop, operands, output, windows=windows)


def _windows(f: Function, loop: PrimFunc, n: Node) -> Windows | None:
    """Return the windows of images that are a parameter with its channels last; None for others."""
    turned = next((m for m in f.nodes if n.args[0] in m.results), None)
    params, shape = [p.name for p in f.params], f.types()[n.args[0]].shape
    last = (0, len(shape) - 1, *range(1, len(shape) - 1))
    if turned is None or turned.op != "permute_dims" or turned.attr["axes"] != last:
        return None
    if turned.args[0] not in params or len(shape) > MOST_AXES:
        return None
    buffer = [b for b in loop.params if b.name not in loop.outputs][params.index(turned.args[0])]
    places = (1, *n.types[0].shape[2:])[-2:]
    rows = f.types()[n.args[1]].shape[2:], *(cast("Shape", n.attr[key]) for key in _SLIDES)
    match [*map(_both, rows, (1, 1, 1, 0, 0))]:
        case [(y, x), (_, _) as strides, (_, _) as dilations, (_, _) as low, (_, _) as high]:
            slides = strides, dilations, low, high
            return Windows(buffer, (places[0], places[1]), (y, x), *slides)
        case _:
            return None


_SLIDES = ("strides", "dilations", "low", "high")  # attributes along each axis of an image
MOST_AXES = 4  # of images that are walked: these, channels, lines and columns


def _both(row: Shape, fill: int) -> tuple[int, int] | None:
    """Return numbers of lines and columns: ``fill`` for lines where images have only columns."""
    y, x = (fill, *row)[-2:]
    return (y, x) if isinstance(y, int) and isinstance(x, int) else None


def _joined(body: Stmt, loop: PrimFunc, extents: Mapping[Var, Expr]) -> Stmt:
    """Return stores in which an element is counted along the last axis, where that divides nothing.

    The parts of a place need not be found to be put together again.
    """
    affine = Affine(loop.dims)
    for var, extent in extents.items():
        affine.loop(var, extent)
    for s in stmts(body):
        if isinstance(s, Let) and s.var.dtype is INDEX:
            affine.lets[s.var.name] = s.value
    shapes = {b.name: [affine.poly(ix.of_dim(d)) for d in b.shape] for b in loop.params}

    def index(buffer: str, old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        at = affine.expr(affine.offset(old, shapes[buffer])) if buffer in shapes and old else None
        return old if at is None or has_division(at) else (*(ix.ZERO,) * (len(old) - 1), at)

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, (Var, Const)):
            return e
        e = map_expr(on_expr, e)
        return replace(e, index=index(e.buffer, e.index)) if isinstance(e, Load) else e

    def on_stmt(s: Stmt) -> Stmt:
        s = map_stmt(s, on_expr, on_stmt)
        return replace(s, index=index(s.buffer, s.index)) if isinstance(s, Store) else s

    return on_stmt(body)


def _is_turned(f: Function, name: str) -> bool:
    """Return whether the channels of an operand are its last axis in memory."""
    n = next((n for n in f.nodes if name in n.results), None)
    if n is None or n.op != "permute_dims":
        return False
    axes = n.attr["axes"]
    assert isinstance(axes, tuple)
    return axes[1] == len(axes) - 1
