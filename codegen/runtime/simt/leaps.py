"""Leaps over rounds of long loops in which threads wait for each other.

The rounds in the middle of such a loop do what those before did, with other elements.  A leap is
over whole turns of the rings of tiles that the loop goes around, as far as its text shows them, so
that a ring goes on where it was.  Loops of several groups of threads that count the same rounds,
such as those which fill tiles and those which use them, leap over the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pycparser import c_ast as c

from didyma.codegen.runtime.simt.access import Mask, Run, Value
from didyma.codegen.runtime.simt.calls import Eval
from didyma.codegen.runtime.simt.control import Exec
from didyma.codegen.runtime.simt.groups import calls

WAITS = ("__syncthreads", "mbarrier_wait", "named_barrier", "cp_async_wait", "cluster_")
GRID = "gridDim"


@dataclass(frozen=True, slots=True)
class Counter:
    """A loop that counts ``variable`` up to a bound, by a step.

    ``axis`` is that of the grid of which the step is a multiple, if it is.  In ``period`` rounds
    each ring is gone around an even number of times: its barriers have two phases.
    """

    variable: str
    bound: c.Node
    step: c.Node
    axis: str | None
    period: int


def counter(n: c.For) -> Counter | None:
    """Return how a loop counts; None for one that does not, or in which no thread waits."""
    cond, after = n.cond, n.next
    if not (isinstance(n.init, c.DeclList) and isinstance(cond, c.BinaryOp) and cond.op == "<"):
        return None
    name = n.init.decls[0].name
    step = _step(after, name)
    if step is None or not _is(cond.left, name):
        return None
    if _writes(n.stmt, name) or not calls(n.stmt, WAITS):
        return None
    axis = _axis(step)
    rings = () if axis else _rings(n.stmt, name)
    return Counter(name, cond.right, step, axis, math.lcm(2, *(2 * n for n in rings)))


def _step(n: Any, name: str) -> c.Node | None:
    """Return what a statement adds to a variable; None where it does something else."""
    if isinstance(n, c.UnaryOp) and n.op in ("++", "p++"):
        return c.Constant("int", "1")
    if not isinstance(n, c.Assignment) or not _is(n.lvalue, name):
        return None
    added: c.Node = n.rvalue
    if n.op == "=" and isinstance(added, c.BinaryOp) and added.op == "+":
        right: c.Node = added.right
        return right if _is(added.left, name) else None
    return added if n.op == "+=" else None


def _is(n: c.Node, name: str) -> bool:
    return isinstance(n, c.ID) and n.name == name


def _writes(part: Any, name: str) -> bool:
    """Return whether a part of a kernel changes a variable."""
    here = (isinstance(part, c.Assignment) and _is(part.lvalue, name)) or (
        isinstance(part, c.UnaryOp) and part.op in ("++", "p++", "--", "p--")
        and _is(part.expr, name)
    )  # fmt: skip
    return here or any(_writes(below, name) for _, below in part.children())


def _rings(body: Any, name: str) -> Iterator[int]:
    """Yield the lengths of rings that a loop goes around: of what it counts itself, or in turns.

    Those are numbers with which a variable is compared that the loop assigns, and those by which
    its own variable is divided for the rest, or one that lies at a distance.
    """
    nodes = [*_below(body)]
    assigned = {n.lvalue.name for n in nodes if isinstance(n, c.Assignment) if _name(n.lvalue)}
    ahead = {
        n.name for n in nodes
        if isinstance(n, c.Decl) and isinstance(n.init, c.BinaryOp) and n.init.op in "+-"
        and _name(n.init.left) == name and isinstance(n.init.right, c.Constant)
    }  # fmt: skip
    for n in nodes:
        if isinstance(n, c.BinaryOp) and isinstance(n.right, c.Constant):
            counts = n.op == "==" and _name(n.left) in assigned
            if counts or (n.op == "%" and _name(n.left) in {name, *ahead}):
                yield max(1, int(n.right.value.rstrip("uUlL"), 0))


def _below(n: Any) -> Iterator[Any]:
    yield n
    for _, part in n.children():
        yield from _below(part)


def _name(n: c.Node) -> str:
    return n.name if isinstance(n, c.ID) else ""


def _axis(part: Any) -> str | None:
    """Return the axis of the grid of whose blocks an expression has the number."""
    if isinstance(part, c.StructRef) and part.name.name == GRID:
        return str(part.field.name)
    return next((a for _, below in part.children() if (a := _axis(below))), None)


def leap(k: Counter, bound: Eval, step: Eval) -> Exec:
    """Return what leaps from the first rounds of a loop to its last ones.

    Rounds are numbered by the values of the variable, of which one round has as many as the grid
    has blocks where the step is a multiple of these, and else as many as the step.
    """
    first = 2 if k.axis else k.period // 2 + 1
    kept = first + k.period // 2 + 1

    def run(r: Run, m: Mask) -> None:
        old = np.asarray(r.variables[k.variable])
        one = _whole(step(r, m) if k.axis is None else r.axes[GRID, k.axis])
        now, end = _whole(old), _whole(bound(r, m))
        count = -((now % one - end) // one)
        over = np.maximum(count - kept, 0) // k.period * k.period
        number = now // one
        due = (first <= number) & (number < first + over)
        if np.any(due if m is None else due & m):
            new = (now + np.where(due, over * one, 0)).astype(old.dtype)
            r.variables[k.variable] = new if m is None else np.where(m, new, old)

    return run


def _whole(v: Value) -> Any:
    return np.asarray(v).astype(np.int64)
