"""Draws results that need no kernel: inputs, and elements of values in another order or shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from didyma.fuzz.chooser import Chooser
from didyma.fuzz.graphs import Case
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr, Node, attrs
from didyma.refimpl.ir.names import fresh
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ops import OPS


def shown(case: Case, c: Chooser) -> Case:
    """Return a case that at times also returns inputs, and moved elements of values."""
    m = case.module
    entry, types = m.entry, m.entry.types()
    some = [v for v in (*(p.name for p in entry.params), *entry.results) if types[v].rank]
    if not some or c.below(2):
        return case
    of = c.pick(some)
    moved = [_moved(of, types[of], c, fresh("shown", types))]
    if c.chance(2):
        (value,), (t,) = moved[0].results, moved[0].types
        moved += _reshaped(value, t, c, fresh("reshaped", types))
    last = moved[-1].results[0]
    more = (last, of) if c.below(2) else (last,)
    new = replace(entry, nodes=(*entry.nodes, *moved), results=(*entry.results, *more))
    return replace(case, module=replace(m, functions=(*m.functions[:-1], new)))


def _moved(of: str, t: TensorType, c: Chooser, name: str) -> Node:
    """Return a node that moves the elements of a value, leaves some out or repeats them."""
    axis = c.below(t.rank)
    kind = c.pick(("permute_dims", "permute_dims", "flip", "slice", "broadcast_to"))
    how: dict[str, Attr]
    match kind:
        case "permute_dims" if t.rank > 1:
            turn = 1 + c.below(t.rank - 1)
            how = {"axes": (*range(turn, t.rank), *range(turn))}
        case "slice":
            starts, steps = [0] * t.rank, [1] * t.rank
            steps[axis] = 2
            n = t.shape[axis]
            starts[axis] = c.below(2) if isinstance(n, int) and n > 1 else 0
            how = {"starts": tuple(starts), "stops": t.shape, "steps": tuple(steps)}
        case "broadcast_to":
            how = {"shape": (2, *t.shape)}
        case _:
            kind = "flip"
            how = {"axes": (axis,)}
    return Node((name,), kind, (of,), (OPS[kind].infer([t], how),), attrs(how))


def _reshaped(of: str, t: TensorType, c: Chooser, name: str) -> Iterator[Node]:
    """Yield a node that joins axes of a value, splits one, or adds one of one element."""
    at = c.below(t.rank)
    n = t.shape[at]
    shapes: list[tuple[Dim, ...]] = [(t.numel,), (*t.shape[:at], 1, *t.shape[at:])]
    if at:
        joined = dims.mul(t.shape[at - 1], n)
        shapes += [(*t.shape[: at - 1], joined, *t.shape[at + 1 :])] * 2
    if isinstance(n, int) and n and n % 2 == 0:
        shapes += [(*t.shape[:at], 2, n // 2, *t.shape[at + 1 :])] * 2
    how: dict[str, Attr] = {"shape": c.pick(shapes)}
    yield Node((name,), "reshape", (of,), (OPS["reshape"].infer([t], how),), attrs(how))
