"""Arrays of any strides are uploaded as they are, by one copy."""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.simt import Simt
from tests.codegen.layouts.views import view

KINDS = [*map(np.dtype, ("i1", "bool", "f2", "f4", "i8", "c8")), np.dtype(ml_dtypes.bfloat16)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_any_view_comes_as_its_elements(kind: np.dtype[Any]) -> None:
    rng, host = Random(str(kind)), Host()
    for _ in range(100):
        shape = [rng.choice((0, 1, 2, 3, 5)) for _ in range(rng.randint(0, 4))]
        root = rng.randbytes(kind.itemsize * int(np.prod(shape)))
        if 0 in shape:
            x = np.zeros(shape, kind)
        else:
            x = view((np.frombuffer(root, np.uint8) & 1).view(kind).reshape(shape), rng)
        buffer = host.upload(x)
        assert buffer.array.tobytes() == x.tobytes()
        host.free(buffer)


@dd.trace(dd.f32[3, 4], dd.f32[4])
def scaled(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return x * 2.0 + y


@pytest.mark.parametrize("engine", [Host(), Simt()], ids=lambda e: e.name)
def test_calls_take_views(engine: Host | Simt) -> None:
    exe: Any = dd.compile(scaled, engine=engine)
    wide = np.arange(96, dtype=np.float32).reshape(8, 12)
    for x in (wide[:3, :4], wide[::3, ::3], wide[:4, :3].T, wide[2::-1, 3::-1]):
        assert np.array_equal(exe(x, wide[0, ::3]), x * 2 + wide[0, ::3])
