"""Uses of operators in old operator sets, rewritten as newer operator sets define them.

Sources: the versions of each operator in ``onnx.defs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import onnx

from didyma.onnx.context import Context, Inputs
from didyma.onnx.values import Constant, Operand
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import Array, DType

Upgraded: TypeAlias = tuple[Context, Inputs]  # attributes and operands
Upgrade: TypeAlias = Callable[[Context, Inputs], Upgraded]


def upgrade(c: Context, op: str, x: Inputs) -> Upgraded:
    """Return the context and operands that express a node in a newer operator set.

    Errors: ``onnx-broken`` if operands violate the rules of the old operator set.
    """
    before, rule = RULES.get(op, (0, None))
    return rule(c, x) if rule is not None and c.opset < before else (c, x)


def _aligned(c: Context, x: Inputs) -> Upgraded:
    """Align the second operand of an elementwise operator with axes of the first.

    With ``broadcast``, its axes are consecutive axes of the first operand: from ``axis`` on, or the
    last ones.  Otherwise the shapes are equal.
    """
    a, b = c.input(x, 0), c.input(x, 1)
    shape, part = a.type.shape, b.type.shape
    if not c.flag("broadcast"):
        _check_equal(c, [a, b], "equal shapes, or broadcast = 1")
        return c, x
    start = len(shape) - len(part)
    if b.type.numel != 1 and "axis" in c.attrs:
        start = c.axis(c.integer("axis"), len(shape))
    fits = 0 <= start <= len(shape) - len(part) and all(
        p in (n, 1) or not (isinstance(n, int) and isinstance(p, int))
        for n, p in zip(shape[start:], part, strict=False)
    )
    if not fits:
        got = f"{b.type} at axis {start} of {a.type}"
        raise c.broken(got, "a second operand with the sizes of consecutive axes of the first")
    behind = len(shape) - len(part) - start
    return c, [a, _reshaped(c, b, (*part, *(1,) * behind))]


def _check_equal(c: Context, items: Sequence[Operand], want: str) -> None:
    first = items[0].type
    for other in (i.type for i in items[1:]):
        equal = first.rank == other.rank and all(
            n == m or not (isinstance(n, int) and isinstance(m, int))
            for n, m in zip(first.shape, other.shape, strict=False)
        )
        if not equal:
            raise c.broken(f"operands {first} and {other}", want)


def _reshaped(c: Context, operand: Operand, shape: Sequence[Dim]) -> Operand:
    """Return an operand in another shape; a constant stays a constant."""
    if isinstance(operand, Constant):
        return replace(operand, array=operand.array.reshape([int(n) for n in shape]))
    return c.reshape(operand, *shape)


def _equal_shapes(c: Context, x: Inputs) -> Upgraded:
    _check_equal(c, [c.input(x, i) for i in range(len(x))], "operands of one shape")
    return c, x


def _prelu(c: Context, x: Inputs) -> Upgraded:
    """Align a vector of slopes with the channels, which are axis 1."""
    v, slope = c.input(x, 0), c.input(x, 1)
    if slope.type.numel == 1:
        return c, [v, _reshaped(c, slope, ())]
    if slope.type.rank != 1:
        return c, x
    channels = v.type.shape[1] if v.type.rank > 1 else 1
    (count,) = slope.type.shape
    if isinstance(count, int) and isinstance(channels, int) and count != channels:
        raise c.broken(
            f"{slope.type} as slopes of {v.type}", f"one slope, or {channels}: one for each channel"
        )
    return c, [v, _reshaped(c, slope, (count, *(1,) * (v.type.rank - 2)))]


def _gemm(c: Context, x: Inputs) -> Upgraded:
    a, b, bias = (c.input(x, i).type for i in range(3))
    if a.rank != 2 or b.rank != 2:
        raise c.broken(f"{a} and {b}", "two matrices")
    shape = (a.shape[c.flag("transA")], b.shape[not c.flag("transB")])
    if bias.shape != shape and not c.flag("broadcast"):
        raise c.broken(f"a third operand {bias}", f"{a.with_shape(*shape)}, or broadcast = 1")
    return c, x


def _with(c: Context, **attrs: object) -> Context:
    return replace(c, attrs={**c.attrs, **attrs})


def _vector(numbers: Sequence[int]) -> Constant:
    return Constant(np.array(numbers, np.int64), DType.I64)


def _integers(c: Context, operand: Operand) -> tuple[int, ...]:
    """Return the integers that a constant of any number type holds."""
    array: Array = np.asarray(c.array(operand)).astype(np.float64)
    if (array != np.round(array)).any():
        raise c.broken(f"{array.tolist()}", "integers")
    return tuple(int(n) for n in array.reshape(-1))


def _cast(c: Context, x: Inputs) -> Upgraded:
    """Read the element type from its name, which opset 1 has."""
    codes: Mapping[str, int] = dict(onnx.TensorProto.DataType.items())
    name = c.string("to").upper()
    if name not in codes:
        raise c.broken(f"to = {c.string('to')!r}", ", ".join(codes))
    return _with(c, to=codes[name]), x


def _concat(c: Context, x: Inputs) -> Upgraded:
    return _with(c, axis=c.integer("axis", 1)), x


def _split(c: Context, x: Inputs) -> Upgraded:
    sizes = c.optional_input(x, 1)
    return c, x if sizes is None else [x[0], _vector(_integers(c, sizes))]


def _tile(c: Context, x: Inputs) -> Upgraded:
    """Turn a number of copies along one axis into repeats of all axes."""
    v = c.input(x, 0)
    (tiles, *others), (axis, *more) = (_integers(c, c.input(x, i)) for i in (1, 2))
    if others or more:
        raise c.broken("several tiles or axes", "one number each")
    repeats = [1] * v.type.rank
    repeats[c.axis(axis, v.type.rank)] = tiles
    return c, [v, _vector(repeats)]


def _upsample(c: Context, x: Inputs) -> Upgraded:
    if c.input(x, 0).type.rank != 4:
        raise c.broken(str(c.input(x, 0).type), "a tensor of rank 4")
    return _with(c, scales=(1.0, 1.0, c.real("height_scale"), c.real("width_scale"))), x


def _pad(c: Context, x: Inputs) -> Upgraded:
    return _with(c, pads=c.attrs["paddings"]), x


def _reshape(c: Context, x: Inputs) -> Upgraded:
    if "shape" not in c.attrs:
        raise c.broken("no shape", "the attribute shape")
    return c, [c.input(x, 0), _vector(c.attrs["shape"])]


def _norm_pool(c: Context, x: Inputs) -> Upgraded:
    p = c.real("p", 2.0)
    if p != round(p) or p < 1:
        raise c.error(f"p = {p:g}", "an integer of at least 1")
    return _with(c, p=round(p)), x


def _lp_pool(c: Context, x: Inputs) -> Upgraded:
    if "kernel_shape" not in c.attrs:
        raise c.broken("no kernel_shape", "the attribute kernel_shape")
    return _norm_pool(c, x)


# Each operator's rule, and the first operator set that needs none.
RULES: dict[str, tuple[int, Upgrade]] = {
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Greater", "Less", "Pow"),
        (7, _aligned),
    ),
    **dict.fromkeys(("Max", "Min", "Mean", "Sum"), (8, _equal_shapes)),
    "Cast": (6, _cast),
    "Concat": (4, _concat),
    "Gemm": (7, _gemm),
    "GlobalLpPool": (2, _norm_pool),
    "LpPool": (2, _lp_pool),
    "PRelu": (7, _prelu),
    "Pad": (2, _pad),
    "Reshape": (5, _reshape),
    "Split": (2, _split),
    "Tile": (6, _tile),
    "Upsample": (7, _upsample),
}
