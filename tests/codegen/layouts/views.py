"""Views of arrays as users make them, and where the judge says that their elements lie."""

from __future__ import annotations

import math
from random import Random

import numpy as np

from didyma.codegen.layouts.layout import Placed, placed
from didyma.refimpl.ir.types import Array

ALIGNED = 4  # elements


def view(root: Array, rng: Random) -> Array:
    """Return a random view of an array: parts, steps, axes in another order, repetitions."""
    x = root
    for _ in range(rng.randint(0, 4)):
        axes = range(x.ndim)
        match rng.choice(("turn", "part", "part", "repeat", "reverse", "flat")):
            case "turn":
                x = x.transpose(rng.sample(axes, x.ndim))
            case "part" if x.ndim:
                k, n = rng.choice(axes), 0
                n = x.shape[k]
                first = rng.randrange(n)
                part = slice(first, rng.randint(first + 1, n), rng.choice((1, 1, 2, 3)))
                x = x[(*(slice(None),) * k, part)]
            case "repeat" if x.ndim < 4:
                x = np.broadcast_to(x, (rng.choice((1, 2, 3)), *x.shape))
            case "reverse" if x.ndim and rng.random() < 0.2:
                x = x[::-1]
            case "flat" if np.shares_memory(flat := x.reshape(-1), x):
                x = flat
            case _:
                pass
    return x


def start(root: Array, x: Array) -> int:
    """Return how many elements of an array lie before the first of its view."""
    at, origin = (a.__array_interface__["data"][0] for a in (x, root))
    return int(at - origin) // root.itemsize


def placed_in(root: Array, x: Array) -> Placed | str:
    """Return where a view of an array lies."""
    before = start(root, x)
    strides = tuple(s // x.itemsize for s in x.strides)
    return placed(x.shape, strides, (before, root.size - before), before % ALIGNED, ALIGNED)


def base(root: Array, x: Array, p: Placed) -> Array:
    """Return the base that a layout says; a test fails where it is not inside of the array."""
    first = start(root, x) - p.before
    last = first + math.prod(p.shape)
    assert 0 <= first <= last <= root.size, "outside of the memory"
    assert first % ALIGNED == 0, "unaligned"
    return root.reshape(-1)[first:last].reshape(p.shape)
