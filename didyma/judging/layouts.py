"""Where the elements of arrays lie in memory, for kernels that are told strides.

An array is strided where an argument or the launch asks for ``stride(x, axis)``.  Of such an array
the axes whose strides are asked for are drawn apart from each other, or in another order; the
others lie as in row-major order.  Between rows there are elements that are nobody's.
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
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array

_ASKED = re.compile(r"\bstride\(\s*(\w+)\s*,\s*(-?\d+)\s*\)")
_TRIES = 32  # draws, until one fulfils the conditions; then arrays lie in row-major order
_PADS = (1, 2, 3, 4, 8, 16, 32)  # elements after a row
POISON = 0xFF  # a NaN in every float, in memory that nobody has written


def asks(condition: str) -> bool:
    """Return whether a condition is one on strides."""
    return bool(_ASKED.search(condition))


def strides(task: Task, env: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the strides, in elements, of arrays that have others than those of row-major order.

    They are drawn anew for each binding of sizes, so that the conditions of the task hold.
    """
    asked = _asked(task)
    if not asked:
        return {}
    entry = task.spec.entry
    types = {p.name: p.type for p in entry.params}
    types |= dict(zip(entry.results, entry.result_types(), strict=True))
    shapes = {n: dims.values(t.shape, env) for n, t in types.items()}
    rng = np.random.default_rng((task.draw.seed, *env.values()))
    conditions = [w for w in task.draw.where if asks(w)]
    for _ in range(_TRIES):
        drawn = {n: _drawn(shapes[n], axes, rng) for n, axes in asked.items() if n in shapes}
        drawn |= _in_place(task, drawn)
        known: Functions = {**USUAL, "stride": partial(_stride, drawn)}
        if all(evaluate(w, env, "--where", known) for w in conditions):
            return drawn
    return {}


def _stride(strides: Mapping[str, Sequence[int]], name: str, axis: int) -> int:
    return strides[name][axis]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of row-major order.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def span(shape: Sequence[int], steps: Sequence[int]) -> int:
    """Return how many elements there are from the first to the last of an array.

    >>> span((2, 3), (10, 1))
    13
    """
    if not prod(shape):
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))


def seen(memory: Array, shape: Sequence[int], steps: Sequence[int]) -> Array:
    """Return the array with some strides, in elements, that begins where the memory does."""
    flat = memory.reshape(-1)
    return as_strided(flat, tuple(shape), tuple(s * flat.itemsize for s in steps))


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
    shape: Sequence[int], asked: frozenset[int], rng: np.random.Generator
) -> tuple[int, ...]:
    """Draw strides: the leading axes that are asked for, in any order if these are all."""
    free = next((k for k in range(len(shape)) if k not in asked), len(shape))
    order = [*range(len(shape))]
    if free == len(shape) and rng.random() < 0.5:
        order = [int(k) for k in rng.permutation(len(shape))]
    step, steps = 1, [0] * len(shape)
    for k in reversed(order):
        is_row = k < free and k != order[-1] and rng.random() < 0.75
        step += int(rng.choice(_PADS)) if is_row else 0
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
