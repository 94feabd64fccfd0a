"""What an op of padded operands needs, so that the elements it had before come out as they were.

A padded axis is longer than before, and its first elements are the old ones.  The loop rule of an
op tells how an element is computed.  Where neither what is read nor how it is combined mentions the
size that grows, an old element is computed from old elements alone.  A fold over all of a padded
axis also takes what lies behind the old elements, which must then be neutral.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.loop import Expr, Load, Var
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ir.walk import subexprs
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Fold, FoldOp, Index, Read, Scatter

DIVIDED = "mean"  # the op whose fold is divided by how many elements it takes


@dataclass(frozen=True, slots=True)
class Masks:
    """Axes of each operand along which what is padded must be neutral to the fold ``op``."""

    op: FoldOp
    axes: tuple[tuple[int, ...], ...]


def masks(n: Node, types: Sequence[TensorType], grown: frozenset[str]) -> Masks | None:
    """Return what the operands of a node need; no axes where old elements are as they were.

    ``types`` are those of the operands, before sizes of the names ``grown`` grow.  None means that
    old elements would come out otherwise, or may.
    """
    fine = Masks("add", ((),) * len(types))
    if grown.isdisjoint((*control.symbols(n), *(s for t in types for s in dims.free(t.shape)))):
        return fine
    numbers = count()
    at = tuple(_index(numbers) for _ in n.types[0].shape)
    rule = OPS[n.op].apply(n.attr).element(at, _reads(types), types, n.types[0])
    if isinstance(rule, Scatter):
        return None
    if not isinstance(rule, Fold):
        return None if _mentions([rule], grown) else fine
    steps = tuple(_index(numbers) for _ in rule.extents)
    body = rule.body(steps)
    finish = [] if n.op == DIVIDED else [rule.finish(Var("total", body.dtype))]
    if _mentions([body, *finish], grown):
        return None
    over = {k.name: e for k, e in zip(steps, rule.extents, strict=True) if _mentions([e], grown)}
    found = [set[int]() for _ in types]
    reached = set[str]()
    for load in (e for e in subexprs(body) if isinstance(e, Load)):
        operand = int(load.buffer)
        for axis, i in enumerate(load.index):
            used = {v.name for v in subexprs(i) if isinstance(v, Var)} & over.keys()
            if not used:
                continue
            whole = isinstance(i, Var) and over[i.name] == ix.of_dim(types[operand].shape[axis])
            if not whole:
                return None
            found[operand].add(axis)
            reached |= used
    return Masks(rule.op, tuple(map(_sorted, found))) if reached == over.keys() else None


def _sorted(axes: set[int]) -> tuple[int, ...]:
    return tuple(sorted(axes))


def _index(numbers: Iterable[int]) -> Var:
    return Var(f"{next(iter(numbers))}")  # no name of a size


def _reads(types: Sequence[TensorType]) -> list[Read]:
    def reader(i: int, t: TensorType) -> Read:
        def read(index: Index) -> Expr:
            return Load(f"{i}", index, t.dtype.compute)

        return read

    return [reader(i, t) for i, t in enumerate(types)]


def _mentions(found: Iterable[Expr], names: frozenset[str]) -> bool:
    parts = (e for whole in found for e in subexprs(whole))
    return any(isinstance(e, Var) and e.name in names for e in parts)
