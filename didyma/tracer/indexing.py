"""Indexing of tensors by NumPy's rules: ints, slices, None, ``...``, integer and bool arrays.

Ints and the elements of constant arrays must lie within their axis, as in NumPy.  Elements of index
*tensors*, which only a run knows, follow the rule of ``dd.take``: a negative one counts from the
end once, and what is then out of range is the first or last element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TypeAlias, cast

import numpy as np

from didyma.composites import selection
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.broadcasting import broadcast
from didyma.tracer.slices import Axis, at, cut
from didyma.tracer.tensor import Tensor, apply, common, constant, within
from didyma.tracer.types import AnySize, is_size, items, size

Part: TypeAlias = "AnySize | slice | Tensor | Array | None"
Parts: TypeAlias = "Part | EllipsisType"


def index(x: Tensor, key: object) -> Tensor:
    """Return ``x[key]``.

    Errors: ``bad-index`` for what is no index, or one that is or may be out of range;
    ``shape-mismatch`` for index arrays that do not broadcast and masks of another shape.
    """
    indexing = _Indexing(x)
    for part in _parts(x, key):
        indexing.apply(part)
    return indexing.result()


def _bad(x: Tensor, got: str, want: str, help: str = "") -> DidymaError:
    return DidymaError("bad-index", f"an index of {x!r}", got=got, want=want, help=help)


def _parts(x: Tensor, key: object) -> list[Part]:
    """Return the parts of a key, one for each axis or new axis; ``...`` becomes full slices."""
    keys = items(key, tuple)
    parts = [_part(x, k) for k in ((key,) if keys is None else keys)]
    used = sum(_axes_taken(k) for k in parts)
    if used > x.ndim:
        raise _bad(x, f"{used} indices", f"at most {x.ndim}, one for each axis")
    dots = [i for i, k in enumerate(parts) if isinstance(k, EllipsisType)]
    if len(dots) > 1:
        raise _bad(x, f"{len(dots)} times `...`", "at most one `...`")
    first = dots[0] if dots else len(parts)
    full: list[Parts] = [slice(None)] * (x.ndim - used)
    whole = [*parts[:first], *full, *parts[first + 1 :]]
    return [k for k in whole if not isinstance(k, EllipsisType)]


def _axes_taken(part: Parts) -> int:
    if part is None or isinstance(part, EllipsisType):
        return 0
    if isinstance(part, Tensor):
        return part.ndim if part.dtype is DType.BOOL else 1
    return part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1


def _part(x: Tensor, k: object) -> Parts:
    """Return one part of a key; DidymaError ``bad-index`` for an object that cannot be one."""
    if k is None or isinstance(k, (EllipsisType, slice)) or is_size(k):
        return cast("Parts", k)
    if isinstance(k, Tensor) and (k.dtype.is_int or (k.dtype is DType.BOOL and k.ndim)):
        return k
    array = _array(x, k)
    if array is not None:
        if array.dtype.kind in "iu":
            return array.astype(np.int64) if array.ndim else int(array)
        if array.dtype.kind == "b" and array.ndim:
            return array
    raise _bad(
        x, f"{k!r:.60}",
        "ints, slices, None, ..., integer arrays, bool arrays of rank 1 or more",
        "x.astype(dd.i64) makes integers; dd.where(condition, x, y) chooses by a bool scalar",
    )  # fmt: skip


def _array(x: Tensor, k: object) -> Array | None:
    """Return a list or an array as an array, None for anything else; DidymaError ``bad-index``."""
    if not isinstance(k, (list, np.ndarray)):
        return None
    try:
        array: Array = np.asarray(cast("object", k))
    except ValueError as e:
        raise _bad(x, str(e), "a list of one shape") from None
    return array if array.size or isinstance(k, np.ndarray) else array.astype(np.int64)


@dataclass(slots=True)
class _Indexing:
    """The tensor so far, and what of the key is still to be applied.

    Parts are applied from the first to the last: ``axis`` is the one that the next part is for.
    """

    x: Tensor
    axis: int = 0
    picks: list[tuple[int, Tensor]] = field(default_factory=list[tuple[int, Tensor]])
    ints: list[int] = field(default_factory=list[int])  # axes that were cut to one element
    order: list[bool] = field(default_factory=list[bool])  # of each part: is it an int or array

    def apply(self, part: Part) -> None:
        """Apply a part of the key to the axis that it is for."""
        self.order.append(not (part is None or isinstance(part, slice)))
        if part is None:
            shape = self.x.value.type.shape
            shape = (*shape[: self.axis], 1, *shape[self.axis :])
            self.x = apply("reshape", self.x, shape=shape)
        elif isinstance(part, slice):
            self.x = cut(self.x, self.axis, part)
        elif isinstance(part, (Tensor, np.ndarray)):
            if part.dtype in (DType.BOOL, np.dtype(bool)):
                part = self._masked(part)
            self.picks.append((self.axis, self._indices(part)))
        else:
            self.x = at(self.x, self.axis, size(part))
            self.ints.append(self.axis)
        self.axis += 1

    def _masked(self, mask: Tensor | Array) -> Tensor | Array:
        """Lay the axes of a mask along one; return the positions where it is true."""
        shape = self.x.value.type.shape
        last = self.axis + mask.ndim
        covered = shape[self.axis : last]
        mask_shape = mask.value.type.shape if isinstance(mask, Tensor) else mask.shape
        if mask_shape != covered:
            raise DidymaError(
                "shape-mismatch", f"a mask of {self.x!r}", got=f"a mask of shape {mask_shape}",
                want=f"the shape of the axes it stands for, {covered}",
                help="dd.broadcast_to gives a mask another shape",
            )  # fmt: skip
        flat = Axis(self.x, self.axis).merged(mask.ndim)
        self.x = apply("reshape", self.x, shape=(*shape[: self.axis], flat, *shape[last:]))
        if not isinstance(mask, Tensor):
            return np.flatnonzero(mask)
        vector = apply("reshape", mask, shape=(flat,))
        b = common(vector)
        return Tensor(b, selection.nonzero(b, within(b, vector))[0])

    def _indices(self, part: Tensor | Array) -> Tensor:
        """Return indices as a tensor of i32 or i64; a constant's must lie within the axis."""
        if isinstance(part, Tensor):
            return part if part.dtype in (DType.I32, DType.I64) else part.astype(DType.I64)
        axis = Axis(self.x, self.axis)
        for i in (part.min(), part.max()) if part.size else ():
            axis.place(size(int(i)))
        return constant(common(self.x), part)

    def result(self) -> Tensor:
        """Drop the axes of ints and apply the index arrays."""
        x, shape = self.x, self.x.value.type.shape
        kept = [i for i in range(len(shape)) if i not in self.ints]
        if self.ints:
            x = apply("reshape", x, shape=tuple(shape[i] for i in kept))
        if not self.picks:
            return x
        first = self.order.index(True)
        last = len(self.order) - self.order[::-1].index(True)
        # Axes of index arrays stand where the arrays did, or in front if those are apart.
        place = first if all(self.order[first:last]) else 0
        return _picked(x, [(kept.index(a), i) for a, i in self.picks], place)


def _picked(x: Tensor, picks: Sequence[tuple[int, Tensor]], place: int) -> Tensor:
    """Apply index arrays, broadcast together; ``place`` is their first axis in the result."""
    axes = [a for a, _ in picks]
    if len(picks) == 1 and axes[0] == place:
        return apply("gather", x, picks[0][1], axis=place)
    x = _permuted(x, [*axes, *(a for a in range(x.ndim) if a not in axes)])
    shape, _ = broadcast("index", [i.value.type for _, i in picks])
    rank = len(shape)
    x = apply("gather", x, _broadcast(picks[0][1], shape), axis=0)
    for _, i in picks[1:]:
        after = x.value.type.shape[rank + 1 :]
        column = apply("reshape", _broadcast(i, shape), shape=(*shape, 1, *(1 for _ in after)))
        x = apply("gather_elements", x, _broadcast(column, (*shape, 1, *after)), axis=rank)
        x = apply("reshape", x, shape=(*shape, *after))
    rest = list(range(rank, x.ndim))
    return _permuted(x, [*rest[:place], *range(rank), *rest[place:]])


def _permuted(x: Tensor, axes: Sequence[int]) -> Tensor:
    return x if list(axes) == sorted(axes) else apply("permute_dims", x, axes=tuple(axes))


def _broadcast(x: Tensor, shape: tuple[Dim, ...]) -> Tensor:
    return x if x.value.type.shape == shape else apply("broadcast_to", x, shape=shape)
