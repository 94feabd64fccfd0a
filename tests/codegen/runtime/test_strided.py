from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from didyma.codegen.runtime import strided
from didyma.codegen.runtime.didyma_runtime import dtypes
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.nvrtc import Nvrtc
from didyma.codegen.runtime.registry import probe
from didyma.refimpl.ir.types import Array, DType

BASE = np.arange(2 * 3 * 5 * 7, dtype=np.int64).reshape(2, 3, 5, 7)
VIEWS: dict[str, Array] = {
    "transposed": BASE[0, 0].T,
    "reversed": BASE[:, ::-1, ::2, ::-3],
    "repeated": np.broadcast_to(BASE[1, 1, :, :1], (4, 5, 6)),
    "moved": np.moveaxis(BASE, 0, -1),
    "scalar": BASE[1, 2, 3, 4, ...],
    "empty": BASE[:, :0, ::2],
}


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8])
def test_nvrtc_takes_the_text(nbytes: int) -> None:
    if not probe("nvrtc").runs:
        pytest.skip("no nvrtc")
    Nvrtc().load(strided.text(3, nbytes))


@pytest.mark.parametrize("dtype", ["i1", "f2", "f4", "f8"])
@pytest.mark.parametrize("name", VIEWS)
def test_elements_come_side_by_side(name: str, dtype: str) -> None:
    base = BASE.astype(dtype)
    view = np.lib.stride_tricks.as_strided(
        base, VIEWS[name].shape, tuple(s // 8 * base.itemsize for s in VIEWS[name].strides)
    )
    start = (VIEWS[name].ctypes.data - BASE.ctypes.data) // 8
    host, steps = Host(), tuple(s // base.itemsize for s in view.strides)
    sizes = strided.sizes(view.shape, steps)
    low = base.reshape(-1)[start - sizes["first"] :][: sizes["span"]]
    x, y = host.upload(low), host.allocate(view.size * base.itemsize)
    loaded = host.load(strided.text(view.ndim, base.itemsize))
    loaded.launch(strided.NAME, [x, y], sizes)
    want = VIEWS[name].astype(dtype)
    assert host.download(y, DType.of(base), view.shape).tobytes() == want.tobytes()


def test_elements_of_other_libraries_and_records_of_them_are_shown_by_strides() -> None:
    f8 = np.arange(6).astype(ml_dtypes.float8_e5m2)
    records = np.zeros(6, [("value", f8.dtype), ("payload", np.uint64)])
    records["value"] = f8
    for a in (f8, records):
        shown = dtypes.strided(a, (2, 3), (1, 2), 0)
        assert shown.dtype == a.dtype
        assert shown.tobytes() == a[[0, 2, 4, 1, 3, 5]].tobytes()
