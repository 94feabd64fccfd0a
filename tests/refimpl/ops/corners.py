"""Operand values where dtypes have edges, and sweeps over all their combinations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from didyma.refimpl.ir.loop import Load
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops.attributes import AttrMap
from didyma.refimpl.ops.bitcast import targets
from didyma.refimpl.ops.broadcasting import broadcast
from didyma.refimpl.ops.spec import Kind, Op

FLOAT = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 2.5, 3.0, -3.0, 0.1, -0.1, 0.3, 7.0,
    10.0, -10.0, 88.5, -104.0, 1e4, -1e4, 6e4, 3.14159274, 1.57079637, 1e-4, 1e-7, -1e-7,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
EDGES = {
    DType.F64: (5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e300, -1e-300,
                1 + 2.0**-52, 1 - 2.0**-53, 2.0**53 + 2, 1e22, 709.5, -745.0),
    DType.F32: (1.4e-45, -1.4e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38, 1e30, -1e-30,
                1 + 2.0**-23, 1 - 2.0**-24, 2.0**24 - 1, 1e22, 8388607.5, 2147483648.0),
    DType.F16: (6e-8, -6e-8, 6.1e-5, 65504.0, -65504.0, 1 + 2.0**-10, 2047.0, 255.5),
    DType.BF16: (9.2e-41, -9.2e-41, 1.17549435e-38, 3.3895314e38, -3.3895314e38, 1.0078125),
    DType.F8E4M3: (2.0**-9, -(2.0**-9), 448.0, 464.0, 465.0, -480.0, 1.0625, 1.125),
    DType.F8E4M3FNUZ: (2.0**-10, -(2.0**-10), 240.0, 248.0, -249.0, 1.0625, 1.125),
    DType.F8E5M2: (2.0**-16, -(2.0**-16), 57344.0, 61439.0, 61440.0, 1.125, 1.25),
    DType.F8E5M2FNUZ: (2.0**-17, -(2.0**-17), 57344.0, 61439.0, -61440.0, 1.125, 1.25),
    DType.F8E8M0: (2.0**-127, 2.0**127, 2.0**-126, 2.0**126),
    DType.F4E2M1: (6.0, -6.0, 4.0, 5.0),
}  # fmt: skip
INT = (0, 1, 2, 3, 5, 7, 8, 10, 31, 32, 63, 64, 100, -1, -2, -3, -7, -8)


def corners(dtype: DType, extra: Sequence[float] = ()) -> Array:
    """Corner values of a dtype."""
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_float:
        wide = np.array([*FLOAT, *EDGES[dtype], *extra], np.float64)
        with np.errstate(all="ignore"):
            return wide.astype(np.float32 if dtype is not DType.F64 else wide.dtype).astype(
                dtype.numpy
            )
    least, most = dtype.limits
    near = {least, least + 1, most, most - 1, *INT}
    whole = {int(x) for x in extra if x == int(x)}
    fits = sorted(v for v in near | whole if least <= v <= most)
    return np.array(fits, dtype.numpy)


def sweep(op: Op, dtypes: Sequence[DType], attrs: AttrMap) -> tuple[list[Array], TensorType]:
    """Operands that meet in every combination of corner values, and the result's type."""
    n = len(dtypes)
    operands: list[Array] = []
    for i, dtype in enumerate(dtypes):
        x = corners(dtype, op.corners)
        if n == 3 and len(x) > 20:
            x = x[:: len(x) // 16]
        operands.append(x.reshape([-1 if j == i else 1 for j in range(n)]))
    types = [TensorType(DType.of(x), x.shape) for x in operands]
    return operands, op.infer(types, attrs)


def cases(op: Op) -> Iterator[tuple[list[DType], AttrMap]]:
    """Operand dtypes and attributes of an elementwise op."""
    assert op.kind is Kind.ELEMENTWISE
    for dtype in op.dtypes:
        if op.name in ("cast", "saturating_cast"):
            for to in ALL:
                yield [dtype], {"dtype": to}
        elif op.name == "bitcast":
            for to in targets(dtype):
                yield [dtype], {"dtype": to}
        elif op.name == "where":
            yield [DType.BOOL, dtype, dtype], {}
        else:
            yield [dtype] * op.arity[0], {}


def reader(k: int, dtype: DType) -> Load:
    """Expression that reads operand ``k``."""
    return Load(str(k), (), dtype.compute)


def shape_of(operands: Sequence[Array]) -> tuple[int, ...]:
    """Broadcast shape of operands, by the op table's rule."""
    types = [TensorType(DType.of(x), x.shape) for x in operands]
    shape, _ = broadcast("sweep", types)
    assert all(isinstance(d, int) for d in shape)
    return tuple(int(d) for d in shape)
