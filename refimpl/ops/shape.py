"""Ops that give the same elements another shape or order: reshape, permute, broadcast, flip."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import expr as ex
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import ALL as EVERY
from didyma.refimpl.ir.types import Array, DType, Shape, TensorType
from didyma.refimpl.ops.attributes import Ints, attributes, integers, sizes
from didyma.refimpl.ops.broadcasting import operand_index
from didyma.refimpl.ops.choose import flag, permutation, pick, size, subset
from didyma.refimpl.ops.examples import example
from didyma.refimpl.ops.movement import MOVED, moving
from didyma.refimpl.ops.rules import attr_error, check_axes, concrete, shape_error
from didyma.refimpl.ops.spec import Chooser, Index, Kind, Op, Read, Sample, Use


@attributes
class Reshape:
    """The shape of the result."""

    shape: Shape = sizes("shape of the result, with as many elements")


def _reshape_infer(types: Sequence[TensorType], a: Reshape) -> TensorType:
    (t,) = types
    if not dims.equal(dims.mul(*a.shape), t.numel):
        raise shape_error(
            "reshape",
            types,
            f"{dims.text(t.numel)} elements",
            f"{dims.text(dims.mul(*a.shape))} elements",
            "a reshape keeps the number of elements",
        )
    return t.with_shape(*a.shape)


def _reshape(args: Sequence[Array], _a: Reshape, result: TensorType) -> Array:
    return args[0].reshape(concrete(result.shape))


def _prefixes(shape: Shape) -> list[Dim]:
    products: list[Dim] = [1]
    for d in shape:
        products.append(dims.mul(products[-1], d))
    return products


def groups(old: Shape, new: Shape) -> list[tuple[slice, slice]]:
    """Split two shapes of equally many elements into pairs of slices with equal products.

    >>> groups((2, 3, 4), (6, 4))
    [(slice(0, 2, None), slice(0, 1, None)), (slice(2, 3, None), slice(1, 2, None))]
    """
    if 0 in old or 0 in new:
        return [(slice(0, len(old)), slice(0, len(new)))]
    before, after = _prefixes(old), _prefixes(new)
    cuts: list[tuple[slice, slice]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        m, n = next(
            (m, n)
            for m in range(i + 1 if i < len(old) else i, len(old) + 1)
            for n in range(j + 1 if j < len(new) else j, len(new) + 1)
            if before[m] == after[n]
        )
        cuts.append((slice(i, m), slice(j, n)))
        i, j = m, n
    return cuts


def _reshape_element(at: Index, reads: Sequence[Read], use: Use[Reshape]) -> Expr:
    old, new = use.types[0].shape, use.result.shape
    source: list[Expr] = []
    for m, n in groups(old, new):
        flat = ex.flatten(at[n], map(ex.of_dim, new[n]))
        source += ex.unflatten(flat, map(ex.of_dim, old[m]))
    return reads[0](tuple(ex.ZERO if d == 1 else i for i, d in zip(source, old, strict=True)))


def _factors(n: int) -> list[int]:
    found: list[int] = []
    p = 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found


def _reshape_sample(ch: Chooser, t: TensorType) -> Sample | None:
    parts: list[Dim] = []
    for d in t.shape:
        if isinstance(d, int) and 1 < d <= 4096 and flag(ch):
            parts += _factors(d)
        else:
            parts.append(d)
    if 0 in parts or all(isinstance(d, int) for d in parts):
        parts = [parts[i] for i in permutation(ch, len(parts))]
    shape: list[Dim] = []
    for d in parts:
        if shape and flag(ch):
            shape[-1] = dims.mul(shape[-1], d)
        elif d != 1 or flag(ch):
            shape.append(d)
    while len(shape) < 5 and ch.below(4) == 3:
        shape.insert(ch.below(len(shape) + 1), 1)
    return Sample((t,), freeze({"shape": tuple(shape)}))


@attributes
class Permutation:
    """Which axis of the operand each axis of the result is."""

    axes: Ints = integers("a permutation of the operand's axes")


def _permute_infer(types: Sequence[TensorType], a: Permutation) -> TensorType:
    (t,) = types
    if sorted(a.axes) != list(range(t.rank)):
        raise attr_error("permute_dims", "axes", a.axes, f"a permutation of range({t.rank})")
    return t.with_shape(*(t.shape[axis] for axis in a.axes))


def _permute(args: Sequence[Array], a: Permutation, _result: TensorType) -> Array:
    return np.transpose(args[0], a.axes)


def _permute_element(at: Index, reads: Sequence[Read], use: Use[Permutation]) -> Expr:
    axes = use.attrs.axes
    return reads[0](tuple(at[axes.index(a)] for a in range(len(axes))))


def _permute_sample(ch: Chooser, t: TensorType) -> Sample | None:
    order = permutation(ch, t.rank)  # in order last: it moves nothing
    return Sample((t,), freeze({"axes": tuple(reversed(order))}))


@attributes
class Broadcast:
    """The shape of the result."""

    shape: Shape = sizes("shape of the result")


def _broadcast_infer(types: Sequence[TensorType], a: Broadcast) -> TensorType:
    (t,), shape = types, a.shape
    lead = len(shape) - t.rank
    if lead < 0 or not all(
        m == 1 or dims.equal(m, n) for m, n in zip(t.shape, shape[lead:], strict=True)
    ):
        raise shape_error(
            "broadcast_to",
            types,
            f"shape=[{', '.join(map(dims.text, shape))}]",
            "the operand's sizes at the end, or any size where the operand has 1",
        )
    return t.with_shape(*shape)


def _broadcast(args: Sequence[Array], _a: Broadcast, result: TensorType) -> Array:
    return np.broadcast_to(args[0], concrete(result.shape))


def _broadcast_element(at: Index, reads: Sequence[Read], use: Use[Broadcast]) -> Expr:
    return reads[0](operand_index(at, use.types[0]))


def _broadcast_sample(ch: Chooser, t: TensorType) -> Sample | None:
    shape = [size(ch, 8) if d == 1 else d for d in t.shape]
    while len(shape) < 5 and (ch.below(3) == 2 or len(shape) == 0):
        shape.insert(0, pick(ch, (2, 3, 1, 4, 0)))
    return Sample((t,), freeze({"shape": tuple(shape)}))


@attributes
class Flip:
    """The axes that are reversed."""

    axes: Ints = integers("increasing axes; none leaves the operand as it is")


def _flip_infer(types: Sequence[TensorType], a: Flip) -> TensorType:
    check_axes("flip", a.axes, types[0].rank)
    return types[0]


def _flip(args: Sequence[Array], a: Flip, _result: TensorType) -> Array:
    return np.flip(args[0], a.axes)


def _flip_element(at: Index, reads: Sequence[Read], use: Use[Flip]) -> Expr:
    return reads[0](
        tuple(
            ex.sub(ex.of_dim(dims.sub(d, 1)), i) if a in use.attrs.axes else i
            for a, (i, d) in enumerate(zip(at, use.result.shape, strict=True))
        )
    )


def _flip_sample(ch: Chooser, t: TensorType) -> Sample | None:
    return Sample((t,), freeze({"axes": subset(ch, t.rank)}))


RESHAPE = Op(
    name="reshape",
    doc="The elements in row-major order under another shape.",
    special=MOVED,
    kind=Kind.RESHAPE,
    dtypes=EVERY,
    rules=moving(Reshape, _reshape_infer, _reshape, _reshape_element, view=True),
    sample=_reshape_sample,
    example=example([[[1, 2], [3, 4]]], [1, 2, 3, 4], DType.I32, shape=(4,)),
)

PERMUTE_DIMS = Op(
    name="permute_dims",
    doc="Axes in another order: axis i of the result is axis ``axes[i]`` of the operand.",
    special=MOVED,
    kind=Kind.INJECTIVE,
    dtypes=EVERY,
    rules=moving(Permutation, _permute_infer, _permute, _permute_element, view=True),
    sample=_permute_sample,
    nearby=True,
    example=example([[[1, 2, 3], [4, 5, 6]]], [[1, 4], [2, 5], [3, 6]], DType.I32, axes=(1, 0)),
)

BROADCAST_TO = Op(
    name="broadcast_to",
    doc="Repeats axes of static size 1, and puts new axes in front.",
    special=MOVED + " Growing to size 0 leaves nothing.",
    kind=Kind.INJECTIVE,
    dtypes=EVERY,
    rules=moving(Broadcast, _broadcast_infer, _broadcast, _broadcast_element, view=True),
    sample=_broadcast_sample,
    nearby=True,
    example=example([[[1], [2]]], [[1, 1, 1], [2, 2, 2]], DType.I32, shape=(2, 3)),
)

FLIP = Op(
    name="flip",
    doc="Reverses the order along ``axes``.",
    special=MOVED,
    kind=Kind.INJECTIVE,
    dtypes=EVERY,
    rules=moving(Flip, _flip_infer, _flip, _flip_element),
    sample=_flip_sample,
    nearby=True,
    example=example([[1, 2, 3]], [3, 2, 1], DType.I32, axes=(0,)),
)

ALL: tuple[Op, ...] = (RESHAPE, PERMUTE_DIMS, BROADCAST_TO, FLIP)
