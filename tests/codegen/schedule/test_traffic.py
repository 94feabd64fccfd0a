"""How often threads go to memory for the elements of arrays whose sizes no vector divides."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.refimpl.ir.types import DType
from didyma.tracer.types import Size

LANES = {DType.I8: 16, DType.BF16: 8, DType.F16: 8, DType.F32: 4, DType.F64: 4}
N = dd.dim("n", 0, 1 << 20)


def counted(dtype: DType, size: int | Size, given: int) -> Traffic:
    """Return the traffic of a sum of two arrays of ``given`` elements, once it is right."""

    def add(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
        return x + y

    of = getattr(dd, str(dtype))[size]
    traffic = Traffic()
    x = (np.arange(given) % 13).astype(dtype.numpy)
    exe = dd.compile(dd.trace(of, of)(add), engine=Simt(traffic=traffic))
    found = np.asarray(exe(x, x))
    assert np.array_equal(found, (np.arange(given) % 13 * 2).astype(dtype.numpy))
    return traffic


@pytest.mark.parametrize("dtype", LANES)
@pytest.mark.parametrize("known", [True, False])
def test_an_odd_size_is_whole_vectors_and_a_rest(dtype: DType, known: bool) -> None:
    n, lanes = 8191, LANES[dtype]
    traffic = counted(dtype, n if known else N, given=n)
    assert traffic.accesses.total() == 3 * (n // lanes + n % lanes)
    assert traffic.read.total() + traffic.written.total() == 3 * n * dtype.nbytes
