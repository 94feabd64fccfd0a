"""What a GPU computes in place of division by one number for all lanes: the same, to the bit."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from didyma.codegen.emit import prelude
from didyma.codegen.runtime.tinycc import TinyCC

Numbers = np.ndarray[Any, np.dtype[np.float32]]

# CUDA's own intrinsics by C's: a fused step rounds once, and a reciprocal is rounded correctly.
SHIMS = """\
#define __device__
#define __forceinline__ inline
extern float fmaf(float, float, float);
extern float fabsf(float);
extern double fma(double, double, double);
#define __fmaf_rn fmaf
#define __frcp_rn(b) (1.0f / (b))
#define __fma_rn fma
#define __drcp_rn(b) (1.0 / (b))
static inline unsigned __float_as_uint(float x) { return *(unsigned *)&x; }
static long long slow;
"""
RUN = """
void run(const f32 *a, const f32 *b, f32 *q, i64 n) {
  for (i64 i = 0; i < n; ++i) {
    f32x4 v = {a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]};
    v = quotients4_f32(v, b[i]);
    q[4 * i] = v.x, q[4 * i + 1] = v.y, q[4 * i + 2] = v.z, q[4 * i + 3] = v.w;
  }
}
i64 slowly(void) { return slow; }
"""
SLOWLY = "FN f32 divided__(f32 a, f32 b, f64 y) {"  # where numbers go that need a division each


class Divide:
    """The text for a GPU, compiled for this machine: four numbers of a row by one each."""

    def __init__(self) -> None:
        text = f"{prelude.load('cuda').select(RUN)}{RUN}".replace("static inline", "static")
        assert text.count(SLOWLY) == 1
        text = SHIMS + text.replace(SLOWLY, f"{SLOWLY} ++slow;")
        self.native = TinyCC().compile(text, "quotients", ("run", "slowly"))
        at, several = self.native.addresses, [ctypes.c_void_p] * 3
        self._run = ctypes.CFUNCTYPE(None, *several, ctypes.c_longlong)(at["run"])
        self.slowly = ctypes.CFUNCTYPE(ctypes.c_longlong)(at["slowly"])

    def __call__(self, a: Numbers, b: Numbers) -> Numbers:
        out = np.zeros_like(a)
        self._run(a.ctypes.data, b.ctypes.data, out.ctypes.data, len(b))
        return out


@pytest.fixture(scope="module")
def divide() -> Iterator[Divide]:
    made = Divide()
    yield made
    made.native.close()


def same(got: Numbers, a: Numbers, b: Numbers) -> None:
    with np.errstate(all="ignore"):
        want = a / b[:, None]
    unlike = (got.view(np.uint32) != want.view(np.uint32)) & ~(np.isnan(got) & np.isnan(want))
    assert not unlike.any(), (a[unlike][:3], got[unlike][:3], want[unlike][:3])


def near_the_middle(b: np.ndarray[Any, np.dtype[np.int64]]) -> Numbers:
    """Return, for odd divisors of 24 bits, the numbers whose quotients come nearest a middle.

    With ``2**24 * a = n (mod b)`` a quotient is ``n / 2b`` of an ulp from the middle of two floats.
    """
    found = list[Any]()
    for n in (1, -1, 2, -2):
        x = n % b
        for _ in range(24):
            x = np.where(x & 1, (x + b) >> 1, x >> 1)
        found.append(np.where(x + b < 1 << 24, x + b, b))
    return np.stack(found, axis=1).astype(np.float32)


def test_quotients_next_to_the_middle_of_two_floats(divide: Divide) -> None:
    b = np.random.default_rng(0).integers(1 << 22, 1 << 23, 1 << 16) * 2 + 1
    a, small = near_the_middle(b), np.float32(2.0**-20)
    same(divide(a, b.astype(np.float32) * small), a, b.astype(np.float32) * small)


def test_quotients_of_all_kinds(divide: Divide) -> None:
    rng = np.random.default_rng(1)
    for high in (8, 32):  # near 1, and any bits
        bits = rng.integers(0, 1 << 32, (1 << 15, 5), np.uint32)
        if high == 8:
            bits = bits & np.uint32(0x83FFFFFF) | np.uint32(0x3C000000)
        numbers = bits.view(np.float32)
        a, b = np.ascontiguousarray(numbers[:, :4]), np.ascontiguousarray(numbers[:, 4])
        same(divide(a, b), a, b)


def test_special_numbers_and_the_ends_of_the_range(divide: Divide) -> None:
    ends = [s * 2.0**e * (1 + d * 2.0**-23) for s in (1, -1) for e in (-149, -126, -101, -100, -99,
            -21, -20, -19, 0, 19, 20, 21, 99, 100, 101, 127) for d in (0, 1)]  # fmt: skip
    all_ = np.array([*ends, 0.0, -0.0, np.inf, -np.inf, np.nan, 3.0, 5e-40], np.float32)
    above, below = (x.ravel() for x in np.meshgrid(all_, all_))
    for one in (np.float32(1), np.float32(0)):  # beside a number that is plain, and one that is not
        a = np.stack([above, np.full_like(above, one), -above, above], axis=1)
        same(divide(a, np.ascontiguousarray(below)), a, below)


@pytest.mark.parametrize("sign", [1, -1])
def test_zeros_by_a_positive_number_need_no_division_each(divide: Divide, sign: int) -> None:
    rng, before = np.random.default_rng(2), divide.slowly()
    b = (rng.random(1 << 15, np.float32) + 0.5) * np.exp2(rng.integers(-19, 19, 1 << 15))
    a = rng.standard_normal((len(b), 4), np.float32)
    zero = rng.random(a.shape) < 0.7  # as a softmax that masks has them
    a = np.where(zero, np.copysign(np.float32(0), a), a) * np.float32(sign)
    b = b.astype(np.float32)
    same(divide(a, b), a, b)
    assert divide.slowly() == before
    same(divide(a, -b), a, -b)


@pytest.mark.parametrize("high", [1.0, 2.0**99, -(2.0**99)])
@pytest.mark.parametrize("low", [0.0, -0.0, 2.0**-99, 2.0**-100, 2.0**-101, 5e-45, -5e-45])
def test_zeros_and_small_numbers_beside_large_ones(divide: Divide, low: float, high: float) -> None:
    divisors = [s * 2.0**e * m for s in (1, -1) for e in (-20, -1, 0, 1, 19) for m in (1, 1.7)]
    b = np.array(divisors, np.float32)
    for turn in range(4):
        a = np.roll(np.array([low, high, low, 3.0], np.float32), turn)
        rows = np.broadcast_to(a, (len(b), 4)).copy()
        same(divide(rows, b), rows, b)
