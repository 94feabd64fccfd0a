"""Calls that a built program must refuse, with the codes that the definition of a graph gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.graph import bind
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array

MOST = 1 << 16  # elements of all inputs that are made for a call
SIZES = frozenset({"dim-mismatch", "dim-out-of-range"})  # where both are wrong, either may be told


def refused(m: Module, inputs: Sequence[Array], rng: Random) -> Iterator[tuple[str, list[Array]]]:
    """Yield inputs in which one thing is wrong, with the code of the error that says so.

    That is their number, a dtype, a rank, the size of an axis, or one beyond a symbol's range.
    """
    for given in _changed(m, inputs, rng):
        try:
            bind(m.entry, m, given)
        except DidymaError as e:
            yield e.code, given


def alike(a: str, b: str) -> bool:
    """Return whether a call was refused for the same reason."""
    return a == b or frozenset((a, b)) == SIZES


def _changed(m: Module, inputs: Sequence[Array], rng: Random) -> Iterator[list[Array]]:
    if not inputs or any(p.type.strides is not None for p in m.entry.params):
        return
    at = rng.randrange(len(inputs))
    a = inputs[at]

    def instead(made: Array) -> list[Array]:
        return [*inputs[:at], made, *inputs[at + 1 :]]

    yield [*inputs[:-1]]
    yield instead(a[np.newaxis])
    yield instead(np.zeros(a.shape, np.int16 if a.dtype == np.uint8 else np.uint8))
    if a.ndim and a.size < MOST:
        axis = rng.randrange(a.ndim)
        shape = [n + (k == axis) for k, n in enumerate(a.shape)]
        yield instead(np.zeros(shape, a.dtype))
    env = bind(m.entry, m, inputs)
    for v in m.dims:
        for size in (v.hi + 1, v.lo - 1):
            if v.name in env and size >= 0:
                yield from _at(m, inputs, env | {v.name: size})


def _at(m: Module, inputs: Sequence[Array], env: dict[str, int]) -> Iterator[list[Array]]:
    """Yield inputs of the shapes at some sizes, unless they are large or none."""
    shapes = [dims.values(p.type.shape, env) for p in m.entry.params]
    if all(min(s, default=0) >= 0 for s in shapes) and sum(map(np.prod, shapes)) <= MOST:
        yield [np.zeros(s, a.dtype) for s, a in zip(shapes, inputs, strict=True)]
