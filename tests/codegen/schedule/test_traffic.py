"""How often threads go to memory for the elements of arrays whose sizes no vector divides."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.refimpl.ir.types import DType
from didyma.tracer.types import Size

LANES = {DType.I8: 16, DType.BF16: 8, DType.F16: 8, DType.F32: 4, DType.F64: 2}
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


M = dd.dim("m", 0, 64)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("rows", "length", "lanes"), [(300, 63, 8), (400, 7, 4), (99, 3, 1), (1000, 1, 8), (0, 5, 8)]
)
def test_rows_of_an_odd_length_are_wide_beside_what_is_broadcast(
    rows: int, length: int, lanes: int, known: bool
) -> None:
    """Vectors reach from one row into the next; what is broadcast differs from lane to lane."""
    given, n, m = DType.BF16.numpy, rows if known else N, length if known else M
    x = (np.arange(rows * length) % 251).astype(given).reshape(rows, length)
    row, column = np.arange(length).astype(given), (np.arange(rows) % 99).astype(given)[:, None]
    traffic = Traffic()

    @dd.trace(dd.bf16[n, m], dd.bf16[m], dd.bf16[n, 1])
    def above(x: dd.Tensor, row: dd.Tensor, column: dd.Tensor) -> dd.Tensor:
        return dd.maximum(x, row) - column

    found = np.asarray(dd.compile(above, engine=Simt(traffic=traffic))(x, row, column))
    assert np.array_equal(found, np.maximum(x, row) - column)
    ((_, of_x), (_, of_y)) = [
        (name, count)
        for (_, name), count in sorted(traffic.accesses.items())
        if name not in ("row", "column")
    ] or [("", 0)] * 2
    whole, rest = divmod(x.size, lanes) if known else (rows * (length // 8), rows * (length % 8))
    assert of_x == of_y == whole + rest
