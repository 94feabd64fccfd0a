"""What each op means, element by element, in Python numbers: written from its ``doc`` alone.

Operands are dictionaries from index to number; whole numbers stay exact, quotients are fractions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

Index = tuple[int, ...]
Cells = Mapping[Index, Any]
Attrs = Mapping[str, Any]
Shapes = tuple[Index, ...]
Definition = Callable[[Index, Sequence[Cells], Attrs, Shapes, Index], Any]


def grid(shape: Index) -> Iterator[Index]:
    return itertools.product(*(range(n) for n in shape))


def constant(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    return a["value"].array()[at].item()


def iota(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    axis: int = a["axis"]
    return at[axis]


def reshape(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    return args[0][list(grid(shapes[0]))[list(grid(out)).index(at)]]


def permute_dims(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    source = [0] * len(at)
    for i, axis in enumerate(a["axes"]):
        source[axis] = at[i]
    return args[0][tuple(source)]


def broadcast_to(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    tail = at[len(at) - len(shapes[0]) :]
    return args[0][tuple(0 if n == 1 else i for i, n in zip(tail, shapes[0], strict=True))]


def flip(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    n = shapes[0]
    return args[0][tuple(n[k] - 1 - i if k in a["axes"] else i for k, i in enumerate(at))]


def slice_(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    source: list[int] = []
    for k, i in enumerate(at):
        start, stop, step, n = a["starts"][k], a["stops"][k], a["steps"][k], shapes[0][k]
        walk = [p for p in range(start, stop, step) if p < n]
        if step < 0:
            first = min(start, n - 1)
            walk = list(range(first, stop, step))
        assert len(walk) == out[k]
        source.append(walk[i])
    return args[0][tuple(source)]


def concat(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    axis: int = a["axis"]
    i = at[axis]
    for cells, shape in zip(args, shapes, strict=True):
        if i < shape[axis]:
            return cells[(*at[:axis], i, *at[axis + 1 :])]
        i -= shape[axis]
    raise AssertionError


def pad(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    source: list[int] = []
    for i, low, n in zip(at, a["low"], shapes[0], strict=True):
        p = i - low
        if n == 0 or (a["mode"] == "constant" and not 0 <= p < n):
            return args[1][()]
        if a["mode"] == "edge":
            p = min(max(p, 0), n - 1)
        while not 0 <= p < n:  # mirrored, again and again
            p = 0 if n == 1 else -p if p < 0 else 2 * (n - 1) - p
        source.append(p)
    return args[0][tuple(source)]


def _line(at: Index, x: Cells, shape: Index, axes: Index, keepdims: bool) -> list[Any]:
    """Elements that fold into ``at``, in row-major order."""
    kept = list(at) if not keepdims else [i for k, i in enumerate(at) if k not in axes]
    return [x[p] for p in grid(shape) if [i for k, i in enumerate(p) if k not in axes] == kept]


def fold(
    f: Callable[[list[Any]], Any],
) -> Definition:
    def run(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
        axes = a["axes"] if "axes" in a else (a["axis"],)
        return f(_line(at, args[0], shapes[0], axes, a["keepdims"]))

    return run


def mean(xs: list[Any]) -> Any:
    return Fraction(sum(xs), len(xs)) if xs else math.nan


def first_min(xs: list[Any]) -> int:
    return xs.index(min(xs))


def first_max(xs: list[Any]) -> int:
    return xs.index(max(xs))


def running(f: Callable[[list[Any]], Any]) -> Definition:
    def run(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
        axis: int = a["axis"]
        i, n = at[axis], shapes[0][axis]
        places = range(i, n) if a["reverse"] else range(i + 1)
        chosen = [k for k in places if not (a["exclusive"] and k == i)]
        return f([args[0][(*at[:axis], k, *at[axis + 1 :])] for k in chosen])

    return run


def matmul(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    def batch(shape: Index) -> Index:
        own = at[len(at) - len(shape) : -2]
        return tuple(0 if n == 1 else i for i, n in zip(own, shape[:-2], strict=True))

    left, right = batch(shapes[0]), batch(shapes[1])
    return sum(
        args[0][(*left, at[-2], k)] * args[1][(*right, k, at[-1])] for k in range(shapes[0][-1])
    )


def _window(at: Index, a: Attrs, shape: Index, window: Index) -> list[tuple[Index, Index | None]]:
    """Places of a window, each with its position in the operand (None: padding)."""
    found: list[tuple[Index, Index | None]] = []
    for k in grid(window):
        p = tuple(
            o * s + i * d - low
            for o, s, i, d, low in zip(at, a["strides"], k, a["dilations"], a["low"], strict=True)
        )
        assert all(i < n + high for i, n, high in zip(p, shape, a["high"], strict=True))
        found.append((k, p if all(0 <= i < n for i, n in zip(p, shape, strict=True)) else None))
    return found


def conv(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    x, w = shapes
    per_group = w[0] // a["groups"]
    first = at[1] // per_group * w[1]
    return sum(
        args[0][(at[0], first + c, *p)] * args[1][(at[1], c, *k)]
        for c in range(w[1])
        for k, p in _window(at[2:], a, x[2:], w[2:])
        if p is not None
    )


def max_pool(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    places = _window(at[2:], a, shapes[0][2:], a["window"])
    return max((args[0][(*at[:2], *p)] for _, p in places if p is not None), default=-math.inf)


def avg_pool(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    places = _window(at[2:], a, shapes[0][2:], a["window"])
    inside = [args[0][(*at[:2], *p)] for _, p in places if p is not None]
    count = len(places) if a["count_include_pad"] else len(inside)
    return Fraction(sum(inside), count) if count else math.nan


def _clamped(i: int, n: int) -> int:
    return min(max(i + n if i < 0 else i, 0), n - 1)


def gather(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    axis: int = a["axis"]
    rank, n = len(shapes[1]), shapes[0][axis]
    if n == 0:
        return 0
    i = _clamped(args[1][at[axis : axis + rank]], n)
    return args[0][(*at[:axis], i, *at[axis + rank :])]


def gather_elements(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    axis: int = a["axis"]
    n = shapes[0][axis]
    if n == 0:
        return 0
    return args[0][(*at[:axis], _clamped(args[1][at], n), *at[axis + 1 :])]


def scatter(at: Index, args: Sequence[Cells], a: Attrs, shapes: Shapes, out: Index) -> Any:
    axis: int = a["axis"]
    n = shapes[0][axis]
    value = args[0][at]
    for u in grid(shapes[1]):
        i: int = args[1][u]
        i = i + n if i < 0 else i
        if (*u[:axis], i, *u[axis + 1 :]) == at:
            new = args[2][u]
            match a["reduction"]:
                case "none":
                    value = new
                case "add":
                    value += new
                case "mul":
                    value *= new
                case "min":
                    value = min(value, new)
                case _:
                    value = max(value, new)
    return value


def smallest(xs: list[Any]) -> Any:
    return min(xs, default=math.inf)


def largest(xs: list[Any]) -> Any:
    return max(xs, default=-math.inf)


DEFINITIONS: dict[str, Definition] = {
    "constant": constant,
    "iota": iota,
    "reshape": reshape,
    "permute_dims": permute_dims,
    "broadcast_to": broadcast_to,
    "flip": flip,
    "slice": slice_,
    "concat": concat,
    "pad": pad,
    "sum": fold(sum),
    "prod": fold(math.prod),
    "min": fold(smallest),
    "max": fold(largest),
    "mean": fold(mean),
    "any": fold(any),
    "all": fold(all),
    "argmin": fold(first_min),
    "argmax": fold(first_max),
    "cumulative_sum": running(sum),
    "cumulative_prod": running(math.prod),
    "matmul": matmul,
    "conv": conv,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
    "gather": gather,
    "gather_elements": gather_elements,
    "scatter": scatter,
    "to": lambda at, args, a, shapes, out: args[0][at],
}
