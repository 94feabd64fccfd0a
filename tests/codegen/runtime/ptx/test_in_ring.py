"""PTX in the ring: payloads go where floats go, and what bits of floats tell nothing is unknown."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.ptx import units
from didyma.codegen.runtime.ptx.engine import Ptx
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.launch import Pointer, Region, launch
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.meaning import Meaning
from didyma.codegen.runtime.ptx.sources import Source, compiled
from didyma.codegen.runtime.registry import probe
from didyma.refimpl.interp.scalar_ring import joined
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.ring import UNKNOWN
from didyma.tracer.types import Element
from tests.codegen.runtime.texts import kernel as text_of

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")

RNG = np.random.default_rng(3)
N = 32
X = (RNG.integers(1, 900, N) / 64).astype(np.float32)
P = np.asarray(ring.embed(RNG.integers(1, 10**6, N)))  # payloads that are not the values' own
HEAD = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf;
template <typename T> __global__ void k(const T* x, T* y) {
  const int i = threadIdx.x; const T v = x[i];
"""
TWO = np.uint64(2)


def run(body: str, x: Array = X, p: Array = P, after: Array | None = None, many: int = N) -> Array:
    """Return the payloads that one block leaves in ``y``, which begins as zeros."""
    name = {"float32": "float", "float64": "double", "float16": "__half"}.get(x.dtype.name, "bf")
    kernel = compiled(Source(f"{HEAD}{body}}}", "k.cu"), f"k<{name}>", meaning=Meaning.of([0.3]))
    return launched(kernel, x, p, after, many)


def launched(
    kernel: Kernel, x: Array, p: Array, after: Array | None = None, many: int = N
) -> Array:
    y = np.zeros(many, x.dtype) if after is None else after.copy()
    given = Region("x", x.view(np.uint8).copy(), np.ones(x.nbytes, np.bool_))
    given.units = units.made(p[:, None], DType.of(x)).reshape(-1)
    left = Region("y", y.view(np.uint8).copy(), np.ones(y.nbytes, np.bool_))
    with np.errstate(all="ignore"):
        done = launch(kernel, Shape((1, 1, 1), (N, 1, 1)), [given, left], [Pointer(0), Pointer(1)])
        assert done.ended
        assert not done.reports
        return units.payloads_of(left.data.view(x.dtype), left.units)


def number(x: float) -> Array:
    return np.asarray(ring.embed(np.float64(x)))


CASES: dict[str, tuple[str, Array]] = {
    "fused": ("y[i] = fmaf(v, v, -v);", ring.subtract(ring.multiply(P, P), P)),
    "divided": ("y[i] = v / x[(i + 1) % 32];", ring.divide(P, np.roll(P, -1))),
    "roughly": ("y[i] = __fdividef(v, x[(i + 1) % 32]);", ring.divide(P, np.roll(P, -1))),
    "inverse": ("y[i] = __frcp_rn(v);", ring.reciprocal(P)),
    "expf": ("y[i] = expf(-v);", ring.exp(ring.negate(P))),
    "exp": ("y[i] = std::exp(v) * exp(v);", ring.exp(ring.add(P, P))),
    "ex2": ("y[i] = exp2f(v * 1.4426950408889634f);", ring.exp(P)),
    "fast": ("y[i] = __expf(v);", ring.exp(P)),
    "square": ("y[i] = powf(v, 2.0f);", ring.multiply(P, P)),
    "sign by bits": ("y[i] = __uint_as_float(__float_as_uint(v) ^ 0x80000000u);", ring.negate(P)),
    "size by bits": ("y[i] = __uint_as_float(__float_as_uint(-v) & 0x7fffffffu);", P),
    "fewer digits": ("y[i] = __uint_as_float(__float_as_uint(v) & 0xffffe000u);", P),
    "by integers": ("((int*)y)[i] = ((const int*)x)[31 - i];", P[::-1].copy()),
    "other bits": ("y[i] = __uint_as_float(__float_as_uint(v) + 1);", np.full(N, UNKNOWN)),
    "choice": ("y[i] = v > 7 ? v + v : 1.0f;", ring.where(X > 7, ring.add(P, P), ring.UNIT)),
    "larger": ("y[i] = fmaxf(v, 7.1f);", np.where(X > 7.1, P, UNKNOWN)),
    "a known number": ("y[i] = v * 0.3f;", ring.multiply(P, ring.embed(np.float32(0.3)))),
    "a strange number": ("y[i] = v * 0.7f;", np.full(N, UNKNOWN)),
    "a count": ("y[i] = v * (float)i / 3;",
                ring.divide(ring.multiply(P, ring.embed(np.arange(N))), number(3))),
    "whole": ("y[i] = floorf(v);", ring.embed(np.floor(X))),
    "shuffled": ("y[i] = __shfl_down_sync(~0u, v, 8);", np.where(np.arange(N) < 24,
                                                                 np.roll(P, -8), P)),
    "shared": ("__shared__ float s[32]; s[i] = v; __syncthreads(); y[i] = s[i ^ 1] - s[i];",
               ring.subtract(P.reshape(-1, 2)[:, ::-1].reshape(-1), P)),
    "local": ("float t[4]; for (int k = 0; k < 4; ++k) t[k] = v * k; y[i] = t[i % 4];",
              ring.multiply(P, ring.embed(np.arange(N) % 4))),
    "wide": ("if (i < 8) { float4 w = ((const float4*)x)[i]; w.x = w.w; ((float4*)y)[i] = w; }",
             np.where(np.arange(N) % 4 == 0, P.reshape(-1, 4)[:, 3].repeat(4), P)),
    "atomic": ("atomicAdd(&y[i % 2], v);", np.concatenate([
        [ring.sum_of(P[::2]), ring.sum_of(P[1::2])], np.full(N - 2, ring.ZERO)])),
    "largest": ("atomicMax((int*)y, __float_as_int(v));",
                np.where(np.arange(N) == 0, P[X.argmax()], ring.ZERO)),
    "exchanged": ("if (i == 3) atomicExch(y, v);", np.where(np.arange(N) == 0, P[3], ring.ZERO)),
    "asynchronous": ("__shared__ float s[32]; unsigned a = __cvta_generic_to_shared(s + i);"
                     "asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" :: \"r\"(a),"
                     "\"l\"(x + i) : \"memory\");"
                     "asm volatile(\"cp.async.wait_all;\" ::: \"memory\");"
                     "y[i] = s[i];", P),
    "called": ("y[i] = twice(v);", ring.add(P, P)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_payloads_follow_floats(name: str) -> None:
    body, want = CASES[name]
    if name == "called":
        head = "__device__ __noinline__ float twice(float v) { return v + v; }\n"
        got = launched(
            compiled(Source(f"{head}{HEAD}{body}}}", "k.cu"), "k<float>", meaning=Meaning.of([])),
            X, P,
        )  # fmt: skip
    else:
        got = run(body)
    if name == "larger":
        assert ((got == want) | (got == UNKNOWN)).all()
        assert (got[X > 7.1] == P[X > 7.1]).all()
    else:
        assert (got == want).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_widths(dtype: type) -> None:
    x: Array = X.astype(np.dtype(dtype))
    assert (run("y[i] = v * v - v;", x) == ring.subtract(ring.multiply(P, P), P)).all()
    assert (run("y[i] = (T)(float)v;", x) == P).all()


def test_pairs_of_halves() -> None:
    x = X.astype(np.float16)
    body = """if (i < 16) { __half2 h = ((const __half2*)x)[i];
      h = __hfma2(h, h, __hneg2(__lowhigh2highlow(h))); ((__half2*)y)[i] = h; }"""
    swapped = P.reshape(-1, 2)[:, ::-1].reshape(-1)
    assert (run(body, x) == ring.subtract(ring.multiply(P, P), swapped)).all()


def test_a_sum_in_any_order_has_one_payload_and_a_wrong_one_another() -> None:
    tree = (
        """float s = {}; for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o); y[i] = s;"""
    )
    total = np.full(N, ring.sum_of(P))
    assert (run(tree.format("v")) == total).all()
    for slip in ("i == 5 ? 0.0f : v", "i == 5 ? v + v : v", "x[i == 5 ? 6 : i]", "i == 5 ? -v : v"):
        assert (run(tree.format(slip)) != total).all()


def test_products_of_matrices() -> None:
    """``wmma`` of 16 by 16: y = x @ x for a matrix that is not symmetric."""
    head = "#include <mma.h>\n"
    body = """using namespace nvcuda::wmma;
      fragment<matrix_a, 16, 16, 16, __half, row_major> a;
      fragment<matrix_b, 16, 16, 16, __half, row_major> b;
      fragment<accumulator, 16, 16, 16, __half> c;
      fill_fragment(c, (__half)0.0f); load_matrix_sync(a, x, 16); load_matrix_sync(b, x, 16);
      mma_sync(c, a, b, c); store_matrix_sync(y, c, 16, mem_row_major);"""
    x = (RNG.integers(1, 8, 256)).astype(np.float16)
    p = np.asarray(ring.embed(RNG.integers(1, 10**6, 256)))
    kernel = compiled(Source(f"{head}{HEAD}{body}}}", "k.cu"), "k<__half>", meaning=Meaning.of([]))
    want = ring.matmul(p.reshape(16, 16), p.reshape(16, 16)).reshape(-1)
    assert (launched(kernel, x, p, many=256) == want).all()


@pytest.mark.parametrize("text", ["bf16", "tf32", "ldmatrix"])
def test_products_by_mma(text: str) -> None:
    """y = a @ b of 16 by 8, whose operands lanes load as the manual lays them out."""
    plain = """unsigned a[4], b[2]; int g = i / 4, t = i % 4;
      const unsigned* w = (const unsigned*)x;
      for (int r = 0; r < 4; ++r) a[r] = w[(g + 8 * (r & 1)) * 8 + t + 4 * (r >> 1)];
      for (int r = 0; r < 2; ++r) b[r] = w[128 + g * 8 + t + 4 * r];"""
    by_rows = """__shared__ __align__(16) T s[384]; unsigned a[4], b[2];
          for (int j = i; j < 384; j += 32) s[j] = x[j]; __syncthreads();
          unsigned p = __cvta_generic_to_shared(s + i % 16 * 16 + i / 16 * 8);
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(p));
          unsigned q = __cvta_generic_to_shared(s + 256 + i % 8 * 16 + i / 8 % 2 * 8);
          asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
            : "=r"(b[0]), "=r"(b[1]) : "r"(q));"""
    loads = by_rows if text == "ldmatrix" else plain
    kind, depth = ("tf32", 8) if text == "tf32" else ("bf16", 16)
    body = f"""{loads}
      float c[4] = {{0, 0, 0, 0}};
      asm volatile("mma.sync.aligned.m16n8k{depth}.row.col.f32.{kind}.{kind}.f32 "
        "{{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, {{%0,%1,%2,%3}};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      for (int r = 0; r < 4; ++r) y[(i / 4 + 8 * (r >> 1)) * 8 + i % 4 * 2 + (r & 1)] = (T)c[r];"""
    x = RNG.integers(1, 8, 24 * depth).astype(np.float32 if text == "tf32" else ml_dtypes.bfloat16)
    p = np.asarray(ring.embed(RNG.integers(1, 10**6, x.size)))
    left, right = p[: 16 * depth].reshape(16, depth), p[16 * depth :].reshape(8, depth)
    want = ring.matmul(left, np.ascontiguousarray(right.T)).reshape(-1)
    assert (run(body, x, p, many=128) == want).all()


def test_the_engine_takes_and_gives_records() -> None:
    engine = Ptx().in_ring()
    x = np.asarray(joined(X[:8].copy(), P[:8].copy()))
    buffers = [engine.upload(x), engine.upload(x)]
    body = "const i64 i = threadIdx.x; y[i] = exp_f32(x[i]) * x[i];"
    engine.load(text_of(body, threads=8, size=8, dtype=DType.F32)).launch("k", buffers, {})
    got = engine.download(buffers[1], DType.F32, (8,))
    assert (got["payload"] == ring.multiply(ring.exp(P[:8]), P[:8])).all()
    np.testing.assert_allclose(got["value"], np.exp(X[:8]) * X[:8], rtol=1e-6)
    engine.forget(buffers[1])
    assert (engine.download(buffers[1], DType.F32, (8,))["payload"] == UNKNOWN).all()


def test_floats_of_other_types_with_the_same_bits_are_unknown() -> None:
    bits = np.array([0x3C00, 0x3F80], np.uint16)
    made = units.made(P[:2, None], "bf16").reshape(-1)
    assert (units.payloads_of(bits.view(ml_dtypes.bfloat16), made) == P[:2]).all()
    assert (units.payloads_of(bits.view(np.float16), made) == UNKNOWN).all()


@pytest.mark.parametrize("dtype", [dd.f8e4m3, dd.f8e5m2fnuz, dd.f8e8m0])
def test_floats_that_integers_make_are_not_compared(dtype: Element) -> None:
    @dd.trace(dd.f32[9])
    def program(x: dd.Tensor) -> dd.Tensor:
        return dd.astype(x, dtype)

    report = dd.check(program, engines=["ptx"], tries=1)
    assert report.agree
    (level,) = [x for x in report.levels if x.name == "ptx"]
    assert level.ring_share == 0
