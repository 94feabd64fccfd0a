"""Values against the definitions, on whole numbers, where every order of evaluation is exact."""

import math
from typing import Any

import numpy as np
import pytest

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.spec import Op
from tests.refimpl.ops import draw
from tests.refimpl.ops.meaning import DEFINITIONS
from tests.refimpl.ops.ours import NAMES, OURS


def cells(x: Array) -> dict[tuple[int, ...], Any]:
    whole = x.dtype.kind in "biu"
    return {at: x[at].item() if whole else _whole(float(x[at])) for at in np.ndindex(x.shape)}


def _whole(x: float) -> int | float:
    return int(x) if x == int(x) else x


def in_dtype(value: Any, dtype: DType) -> Any:
    """An exact number as a dtype: integers wrap, f16 and bf16 round by way of f32."""
    if dtype is DType.BOOL:
        return bool(value)
    if dtype.is_int:
        least, most = dtype.limits
        if math.isinf(value):
            return most if value > 0 else least
        return (int(value) - least) % (most - least + 1) + least
    return np.array(float(value)).astype(dtype.compute.numpy).astype(dtype.numpy)


@pytest.mark.parametrize("op", OURS, ids=NAMES)
def test_value_is_the_definition(op: Op) -> None:
    define = DEFINITIONS[op.name]
    checked = 0
    for seed in range(50):
        dice = draw.Dice(500 + seed)
        u = draw.use(op, draw.sample(op, dice), dice, wild=False)
        shape = draw.shape(u.result)
        if math.prod(shape) > 150:
            continue
        args = [cells(a) for a in u.args]
        shapes = tuple(a.shape for a in u.args)
        want = np.zeros(shape, u.result.dtype.numpy)
        with np.errstate(all="ignore"):
            for at in np.ndindex(shape):
                value = define(at, args, u.attrs, shapes, shape)
                want[at] = in_dtype(value, u.result.dtype)
        wide = np.longdouble
        np.testing.assert_array_equal(u.eval().astype(wide), want.astype(wide), err_msg=str(u))
        checked += math.prod(shape)
    assert checked > 60
