"""Kernel text in the ring: payloads go where the floats go, also as halves and four at once."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.simt import Simt
from didyma.refimpl.interp.scalar_ring import joined
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import ring
from tests.codegen.runtime.texts import kernel

RNG = np.random.default_rng(5)


def given(n: int = 8, dtype: DType = DType.F32) -> Array:
    """Return small floats with payloads that are not their own."""
    values = RNG.integers(1, 9, n).astype(np.float32).astype(dtype.numpy)
    return np.asarray(joined(values, ring.embed(RNG.integers(1, 10**6, n))))


def run(body: str, x: Array, y: Array | None = None, threads: int = 8) -> Array:
    """Run a kernel of one block on ``x`` and ``y``, which is ``x`` where it is not given."""
    dtype = DType.of(x["value"])
    engine = Simt(ring=True)
    buffers = [engine.upload(x), engine.upload(x if y is None else y)]
    text = kernel(body, threads=threads, size=x.size, dtype=dtype)
    engine.load(text).launch("k", buffers, {})
    return engine.download(buffers[1], dtype, x.shape)


def test_arithmetic_is_done_in_the_ring_and_on_the_values() -> None:
    x = given()
    y = run("const i64 i = threadIdx.x; y[i] = x[i] * x[i] - 2.0f;", x)
    p = x["payload"]
    assert (y["value"] == x["value"] ** 2 - 2).all()
    assert (y["payload"] == ring.subtract(ring.multiply(p, p), ring.embed(2))).all()


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F8E4M3])
def test_storage_floats_keep_their_payloads(dtype: DType) -> None:
    x = given(dtype=dtype)
    wide = f"cast_{dtype}_f32(x[threadIdx.x])"
    y = run(f"const {dtype} h = cast_f32_{dtype}({wide} + {wide}); y[threadIdx.x] = h;", x)
    assert (y["payload"] == ring.add(x["payload"], x["payload"])).all()


def test_a_literal_of_a_storage_float_is_its_bits() -> None:
    x = given(dtype=DType.F16)
    y = run("y[threadIdx.x] = threadIdx.x < 3 ? x[threadIdx.x] : 0x3c00;", x)
    assert (y["payload"][:3] == x["payload"][:3]).all()
    assert (y["value"][3:] == 1).all()
    assert (y["payload"][3:] == ring.UNIT).all()


def test_wide_accesses_move_four_payloads() -> None:
    x = given()
    body = """
      f32x4 v = load4_f32(&x[threadIdx.x * 4]);
      v.x = v.y; v.w = v.w + v.z;
      store4_f32(&y[threadIdx.x * 4], v);"""
    p, q = x["payload"], run(body, x, threads=2)["payload"]
    assert (
        q == [p[1], p[1], p[2], ring.add(p[2], p[3]), p[5], p[5], p[6], ring.add(p[6], p[7])]
    ).all()


def test_shared_and_local_arrays_hold_payloads() -> None:
    x = given()
    body = """
      __shared__ f32 tile[8];
      f32 mine[2];
      const i64 i = threadIdx.x;
      mine[0] = 0.0f; mine[1] = x[i];
      tile[i] = mine[1] + mine[0];
      __syncthreads();
      f32 total = 0.0f;
      for (i64 k = 0; k < 8; ++k) { total = total + tile[k]; }
      y[i] = total;"""
    assert (run(body, x)["payload"] == ring.sum_of(x["payload"])).all()


def test_lanes_that_sit_out_keep_their_payloads() -> None:
    x = given()
    body = """
      f32 v = x[threadIdx.x];
      if (v > 4.0f) { v = v * 2.0f; } else if (threadIdx.x == 0) { v = -v; }
      y[threadIdx.x] = v;"""
    p = x["payload"]
    first = np.where(np.arange(8) == 0, ring.negate(p), p)
    want = np.where(x["value"] > 4, ring.add(p, p), first)
    assert (run(body, x)["payload"] == want).all()


def test_atomics_fold_payloads() -> None:
    x = given()
    y = run("atomic_add_f32(&y[threadIdx.x % 2], x[threadIdx.x]);", x)
    p = x["payload"]
    for i in (0, 1):
        assert y["payload"][i] == ring.add(p[i], ring.sum_of(p[i::2]))
    assert (y["payload"][2:] == p[2:]).all()


def test_a_float_made_of_bits_is_as_if_it_were_given() -> None:
    x = given()
    y = run("y[threadIdx.x] = bitcast_u32_f32(bitcast_f32_u32(x[threadIdx.x]) + 0u);", x)
    assert (y["payload"] == ring.embed(x["value"])).all()


def test_a_dropped_term_shows_in_the_ring() -> None:
    x = given()
    sum_ = "f32 s = 0.0f; for (i64 k = {}; k < 8; ++k) {{ s = s + x[k]; }} y[threadIdx.x] = s;"
    right, wrong = run(sum_.format(0), x)["payload"], run(sum_.format(1), x)["payload"]
    assert (right == ring.sum_of(x["payload"])).all()
    assert (wrong != right).all()
