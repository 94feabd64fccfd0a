"""The dynamic judge of results in place, on kernels that may and may not."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.fuzz.allocator.kernels import At, Read, kernel
from didyma.oracle.in_place import InterferenceError, launch
from didyma.refimpl.ir.types import Array, DType, TensorType

T = TensorType(DType.I32, (8,))


def shared(at: At, writes: int = 1) -> Array:
    """Run a kernel whose first result lies on its operand; return that result."""
    k = kernel("k", [Read(T, at)], [T] * writes, 3)
    x = np.arange(8, dtype=np.int32)
    more = {f"y{i}": np.zeros(8, np.int32) for i in range(1, writes)}
    launch(k, {"x0": x, "y0": x, **more}, {})
    return x


def test_the_same_element_may_be_written_over() -> None:
    assert shared(At.SAME).tolist() == [7 * i + 3 + 3 * i for i in range(8)]


@pytest.mark.parametrize("at", [At.SHIFTED, At.REVERSED])
def test_another_element_may_not(at: At) -> None:
    with pytest.raises(InterferenceError, match="other elements"):
        shared(at)


def test_an_operand_is_not_read_after_it_is_written_over() -> None:
    with pytest.raises(InterferenceError, match="differs"):
        shared(At.SAME, writes=2)
