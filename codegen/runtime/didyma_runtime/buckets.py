"""Calls of a program on inputs that are padded to the next of a few sizes, its buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .checks import taken
from .dtypes import Array
from .refused import Refused

Sizes = Mapping[str, int]


class Buckets(NamedTuple):
    """What inputs are padded to, and what results are cut to.

    ``sizes`` are the buckets of each dim, increasing, and ``extra`` counts the program's last
    inputs, which it is told.  The rest are functions of the sizes of a call: the ``shapes`` of the
    other inputs, the values that are ``told``, and the shapes of the ``results``, None for an axis
    whose size data tells.
    """

    sizes: Mapping[str, Sequence[int]]
    extra: int
    shapes: Callable[[Sizes], Sequence[Sequence[int]]]
    told: Callable[[Sizes], Sequence[int]]
    results: Callable[[Sizes], Sequence[Sequence[int | None]]]

    def bucket(self, sizes: Sizes) -> dict[str, int]:
        """Return sizes with the least buckets that hold them.

        Error ``dim-out-of-range`` beyond the last bucket.
        """
        return {**sizes, **{k: _least(k, sizes[k], row) for k, row in self.sizes.items()}}

    def call(
        self,
        run: Callable[..., list[Array]],
        args: list[Any],
        count: int,
        bind: Callable[[list[Any]], Sizes],
        **asked: Any,
    ) -> list[Array]:
        """Return the results of a program for a list of ``count`` arrays, which is emptied.

        ``run`` takes the arrays at the sizes of a bucket, with zeros behind their elements, and
        what is told; ``bind`` reads the sizes of the same at their own.  An array that fills its
        bucket is given as it is.  Results that are cut are new arrays.  Error ``input-count``.
        """
        given = taken(args)
        if len(given) != count:
            raise Refused("input-count", "inputs", got=str(len(given)), want=str(count))
        nothing = [np.zeros((), np.int64)] * self.extra
        sizes = dict(bind([*given, *nothing]))
        shapes = self.shapes(self.bucket(sizes))
        wide = [filled(a, shape) for a, shape in zip(given, shapes, strict=True)]
        wide += [np.array(n, np.int64) for n in self.told(sizes)]
        del given
        found = run(wide, **asked)
        return [cut(a, shape) for a, shape in zip(found, self.results(sizes), strict=True)]


def _least(name: str, size: int, row: Sequence[int]) -> int:
    found = next((s for s in row if s >= size), None)
    if found is None:
        raise Refused(
            "dim-out-of-range", name, got=f"{name} = {size}",
            want=f"at most {row[-1]}, the last bucket",
        )  # fmt: skip
    return found


def filled(a: Any, shape: Sequence[int]) -> Any:
    """Return an array with zeros behind its elements; itself where it has the shape already."""
    if a.shape == tuple(shape):
        return a
    out = np.zeros(tuple(shape), a.dtype)
    out[tuple(map(slice, a.shape))] = np.asarray(a)
    return out


def cut(a: Array, shape: Sequence[int | None]) -> Array:
    """Return the first elements of each axis whose size is told, in row-major order."""
    return np.ascontiguousarray(a[tuple(map(slice, shape))]) if a.ndim else a
