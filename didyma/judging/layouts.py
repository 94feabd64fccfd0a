"""Where the elements of arrays lie in memory, for kernels that are told strides.

An input has the strides that its type declares.  Another array is strided where an argument or the
launch asks for ``stride(x, axis)``: the axes whose strides are asked for are drawn apart from each
other, or in another order; the others lie as in row-major order.  Between rows there are elements
that are nobody's.  Strides are in elements; a pointer is to the first element of an array, which
negative strides have behind others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from didyma.judging.expressions import USUAL, Functions, evaluate
from didyma.judging.task import Result, Scalar, Task
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array

_ASKED = re.compile(r"\bstride\(\s*(\w+)\s*,\s*(-?\d+)\s*\)")
_TRIES = 64  # draws, until one fulfils the conditions
_PADS = (1, 2, 3, 4, 8, 16, 32)  # elements after a row
_UNITS = (1, 4, 8, 16)  # elements of which strides are multiples
POISON = 0xFF  # a NaN in every float, in memory that nobody has written


def asks(condition: str) -> bool:
    """Return whether a condition is one on strides."""
    return bool(_ASKED.search(condition))


def strides(task: Task, env: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the strides, in elements, of arrays that have others than those of row-major order.

    They are drawn anew for each binding of sizes, so that the conditions of the task hold: zero and
    negative ones where no others do.  DidymaError ``bad-option`` where none is found.
    """
    entry = task.spec.entry
    types = {p.name: p.type for p in entry.params}
    types |= dict(zip(entry.results, entry.result_types(), strict=True))
    declared = {n: dims.values(t.strides, env) for n, t in types.items() if t.strides is not None}
    asked = {n: axes for n, axes in _asked(task).items() if n not in declared}
    conditions = [w for w in task.draw.where if asks(w)]
    if not asked and not conditions:
        return declared
    shapes = {n: dims.values(t.shape, env) for n, t in types.items()}
    usual = {n: row_major(shape) for n, shape in shapes.items()}
    rng = np.random.default_rng((task.draw.seed, *env.values()))
    named = _named(conditions, {n: len(shape) for n, shape in shapes.items()})
    for k in range(_TRIES if conditions else 1):
        unit = int(rng.choice(_UNITS)) if k else 1
        drawn = {n: _drawn(shapes[n], axes, rng, unit) for n, axes in asked.items()}
        if k >= _TRIES // 2:
            drawn = {n: _any_sign(s, {a for x, a in named if x == n}, rng, n not in entry.results)
                     for n, s in drawn.items()}  # fmt: skip
        drawn |= declared
        drawn |= _in_place(task, drawn)
        if _hold(conditions, env, usual | drawn):
            return drawn
    if _hold(conditions, env, usual | declared):
        return declared
    sizes = ", ".join(f"{k}={n}" for k, n in env.items())
    raise DidymaError(
        "bad-option", f"--where {' and '.join(conditions)}", got=f"no strides at {sizes}",
        want="conditions that strides fulfil which the kernel takes",
        help="strides of an input may also be declared by its type in the specification",
    )  # fmt: skip


def _named(conditions: Sequence[str], ranks: Mapping[str, int]) -> set[tuple[str, int]]:
    """Return the arrays and axes of whose strides conditions speak."""
    named = {(n, int(axis)) for w in conditions for n, axis in _ASKED.findall(w)}
    if strange := [n for n, a in named if not -ranks.get(n, 0) <= a < ranks.get(n, 0)]:
        known = ", ".join(f"{n} of {rank} axes" for n, rank in ranks.items())
        raise DidymaError("bad-option", f"--where {conditions[0]}", got=strange[0], want=known)
    return {(n, axis % ranks[n]) for n, axis in named}


def _hold(
    conditions: Sequence[str], env: Mapping[str, int], strides: Mapping[str, Sequence[int]]
) -> bool:
    known: Functions = {**USUAL, "stride": partial(_stride, strides)}
    return all(evaluate(w, env, "--where", known) for w in conditions)


def _any_sign(
    steps: Sequence[int], axes: set[int], rng: np.random.Generator, zero: bool
) -> tuple[int, ...]:
    """Return strides of which those of some axes may be negative, or 0 with ``zero``."""
    signs = rng.choice((-1, 0, 1) if zero else (-1, 1), len(steps))
    return tuple(s * int(signs[k]) if k in axes else s for k, s in enumerate(steps))


def _stride(strides: Mapping[str, Sequence[int]], name: str, axis: int) -> int:
    return strides[name][axis]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of row-major order.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def span(shape: Sequence[int], steps: Sequence[int]) -> int:
    """Return how many elements of memory an array extends over.

    >>> span((2, 3), (10, 1)), span((4, 3), (0, -1))
    (13, 3)
    """
    if not prod(shape):
        return 0
    return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, steps, strict=True))


def first(shape: Sequence[int], steps: Sequence[int]) -> int:
    """Return how many elements of memory lie before the first of an array.

    >>> first((2, 3), (10, -1))
    2
    """
    if not prod(shape):
        return 0
    return sum((1 - n) * s for n, s in zip(shape, steps, strict=True) if s < 0)


def seen(memory: Array, shape: Sequence[int], steps: Sequence[int]) -> Array:
    """Return the array with some strides, in elements, that extends over memory."""
    flat = memory.reshape(-1)
    begin = flat[first(shape, steps) :]
    return as_strided(begin, tuple(shape), tuple(s * flat.itemsize for s in steps))


def spread(x: Array, steps: Sequence[int]) -> Array:
    """Return memory with the elements of an array at some strides, and poison between them."""
    count = span(x.shape, steps)
    memory = np.full(count * x.itemsize, POISON, np.uint8).view(x.dtype)
    seen(memory, x.shape, steps)[...] = x
    return memory


def between(shape: Sequence[int], steps: Sequence[int]) -> Array:
    """Return, for each element of the memory of an array, whether it lies between those of it."""
    free = np.ones(span(shape, steps), np.bool_)
    if free.size:
        seen(free, shape, steps)[...] = False
    return free


def _asked(task: Task) -> dict[str, frozenset[int]]:
    """Return the axes of each array whose strides the launches ask for."""
    texts = [r.expression for s in task.steps for r in s.roles if isinstance(r, Scalar)]
    texts += [e for s in task.steps for e in (*s.geometry.grid, *s.geometry.block)]
    found: dict[str, set[int]] = {}
    entry = task.spec.entry
    ranks = {p.name: len(p.type.shape) for p in entry.params}
    ranks |= {n: len(t.shape) for n, t in zip(entry.results, entry.result_types(), strict=True)}
    for name, axis in (pair for t in texts for pair in _ASKED.findall(t)):
        if name in ranks:
            found.setdefault(name, set()).add(int(axis) % max(1, ranks[name]))
    return {n: frozenset(axes) for n, axes in found.items()}


def _drawn(
    shape: Sequence[int], asked: frozenset[int], rng: np.random.Generator, unit: int
) -> tuple[int, ...]:
    """Draw strides: the leading axes that are asked for, in any order if these are all."""
    free = next((k for k in range(len(shape)) if k not in asked), len(shape))
    order = [*range(len(shape))]
    if free == len(shape) and rng.random() < 0.5:
        order = [int(k) for k in rng.permutation(len(shape))]
    step, steps = 1, [0] * len(shape)
    for k in reversed(order):
        is_row = k < free and k != order[-1] and rng.random() < 0.75
        step = -(-(step + int(rng.choice(_PADS))) // unit) * unit if is_row else step
        steps[k] = step
        step *= max(1, shape[k])
    return tuple(steps)


def _in_place(task: Task, drawn: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the strides of arrays that share memory: those of the input, or of the output."""
    pairs = [(r.over, r.name) for s in task.steps for r in s.roles
             if isinstance(r, Result) and r.over]  # fmt: skip
    found: dict[str, tuple[int, ...]] = {}
    for a, b in pairs:
        if a in drawn or b in drawn:
            found[a] = found[b] = drawn[a] if a in drawn else drawn[b]
    return found
