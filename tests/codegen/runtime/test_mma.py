"""Matrices of warps: layouts by PTX's own formulas, products on each engine, and planted faults."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit.intrinsics import MATRICES, TABLE, c_type
from didyma.codegen.runtime.engine import Fault, KernelFault
from didyma.codegen.runtime.nvrtc import Nvrtc
from didyma.codegen.runtime.registry import engine, probe
from didyma.oracle.report import Report
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.fragments import PRODUCTS, Product
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.target import SM_80
from didyma.refimpl.ir.types import Array, DType
from tests.errors.test_codes import says

ENGINES = ("simt", "host")
LANES = {2: "xy", 4: "xyzw", 8: [f"s{i}" for i in range(8)], 16: [f"s{i:x}" for i in range(16)]}


def run(body: str, on: str, given: Sequence[Array], out: Array, threads: int = 32) -> Array:
    """Run a kernel ``k(a, b, …, y)`` by one block on arrays; return the result, of zeros before."""
    e, arrays = engine(on), [*given, out]
    named = [(n, DType.of(x)) for n, x in zip("abcdefg", given, strict=False)]
    named.append(("y", DType.of(out)))
    params = ", ".join(f"{c_type(d)} *{n}" for n, d in named)
    source = f'extern "C" __global__ void k({params}) {{\n{body}}}\n'
    sizes = tuple(index(x.size) for x in arrays)
    ones = (index(1), index(1), index(1))
    s = Signature("k", tuple(named), sizes, ("y",), (), ones, (threads, 1, 1))
    buffers = [e.upload(x) for x in arrays]
    e.load(KernelText(source, (s,))).launch("k", buffers, {})
    return np.asarray(e.download(buffers[-1], DType.of(out), out.shape))


# The layouts as the ISA gives them: row and column of element i of a thread's fragment.


def a_of(p: Product, t: int, i: int) -> tuple[int, int]:
    group, inner = t >> 2, t % 4
    match p.operands:
        case DType.F16 | DType.BF16:
            row = group if i < 2 or 4 <= i < 6 else group + 8
            return row, inner * 2 + (i & 1) + (0 if i < 4 else 8)
        case DType.I8:
            row = group if i < 4 or 8 <= i < 12 else group + 8
            return row, inner * 4 + (i & 3) + (0 if i < 8 else 16)
        case _:
            return (group if i in {0, 2} else group + 8), (inner if i < 2 else inner + 4)


def b_of(p: Product, t: int, i: int) -> tuple[int, int]:
    group, inner = t >> 2, t % 4
    match p.operands:
        case DType.F16 | DType.BF16:
            return inner * 2 + (i & 1) + (0 if i < 2 else 8), group
        case DType.I8:
            return inner * 4 + (i & 3) + (0 if i < 4 else 16), group
        case _:
            return (inner if i == 0 else inner + 4), group


def sum_of(t: int, i: int) -> tuple[int, int]:
    return (t >> 2) + (0 if i < 2 else 8), t % 4 * 2 + (i & 1)


def layouts(p: Product) -> tuple[Callable[[int, int], tuple[int, int]], ...]:
    """Return those of a, b and the sums."""
    return partial(a_of, p), partial(b_of, p), sum_of


def counts(p: Product) -> tuple[int, int, int]:
    a, b, c = p.fragments
    return a[1], b[1], c[1]


@pytest.mark.parametrize("p", PRODUCTS.values(), ids=lambda p: p.name)
def test_layouts_are_those_of_the_isa(p: Product) -> None:
    every = (p.of_a(), p.of_b(), p.of_sums())
    for n, places, of in zip(counts(p), every, layouts(p), strict=True):
        assert places[0].shape == places[1].shape == (32, n)
        for t, i in product(range(32), range(n)):
            assert (places[0][t, i], places[1][t, i]) == of(t, i)


def fragment(name: str, dtype: DType, n: int) -> str:
    """Text that takes a fragment from an array of (32, n) elements."""
    t = c_type(dtype)
    parts = "".join(f"  f{name}.{p} = {name}[i * {n} + {k}];\n" for k, p in enumerate(LANES[n]))
    return f"  {t}x{n} f{name};\n{parts}"


def multiplied(p: Product, on: str, a: Array, b: Array, c: Array) -> Array:
    """Multiply by one call, from fragments that this test lays out."""
    held = [
        np.stack([[x[f(t, i)] for i in range(n)] for t in range(32)])
        for x, f, n in zip((a, b, c), layouts(p), counts(p), strict=True)
    ]
    takes = [fragment(name, d, n) for name, (d, n) in zip("abc", p.fragments, strict=True)]
    gives = "".join(f"  y[i * 4 + {k}] = r.{q};\n" for k, q in enumerate("xyzw"))
    result = f"{c_type(p.sums)}x4"
    body = (
        "  const i64 i = threadIdx.x;\n" + "".join(takes)
        + f"  const {result} r = mma_{p.name}(fa, fb, fc);\n{gives}"
    )  # fmt: skip
    got = run(body, on, held, np.zeros((32, 4), p.sums.numpy))
    out = np.zeros((16, 8), p.sums.numpy)
    for t, i in product(range(32), range(4)):
        out[sum_of(t, i)] = got[t, i]
    return out


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("p", PRODUCTS.values(), ids=lambda p: p.name)
def test_a_product_of_small_integers_is_exact(on: str, p: Product) -> None:
    rng = np.random.default_rng(3)
    high = 127 if p.operands is DType.I8 else 8
    a, b = (rng.integers(-high, high, s).astype(p.operands.numpy) for s in ((16, p.k), (p.k, 8)))
    c = rng.integers(-99, 99, (16, 8)).astype(p.sums.numpy)
    want = a.astype(np.float64) @ b.astype(np.float64) + c
    assert np.array_equal(multiplied(p, on, a, b, c), want)


@pytest.mark.parametrize("p", [p for p in PRODUCTS.values() if p.sums is DType.F32],
                         ids=lambda p: p.name)  # fmt: skip
def test_floats_have_the_same_bits_on_each_engine_and_lie_in_the_bound(p: Product) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype(p.operands.numpy) for s in ((16, p.k), (p.k, 8)))
    if p.narrow:
        a, b = (np.trunc(x * 2**8).astype(np.float32) / 2**8 for x in (a, b))
    c = rng.standard_normal((16, 8)).astype(np.float32)
    results = [multiplied(p, on, a, b, c) for on in ENGINES]
    assert results[0].tobytes() == results[1].tobytes()
    wide = [x.astype(np.float64) for x in (a, b, c)]
    exact = wide[0] @ wide[1] + wide[2]
    size = abs(wide[0]) @ abs(wide[1]) + abs(wide[2])
    assert (abs(results[0] - exact) <= (p.k + 1) * 2.0**-24 * size).all()
    assert (results[0] != exact.astype(np.float32)).any(), "f32 rounds"


def test_sums_of_integers_wrap() -> None:
    p = PRODUCTS["m16n8k32_i8"]
    ones, c = np.ones((16, 32), np.int8), np.full((16, 8), 2**31 - 1, np.int32)
    for on in ENGINES:
        got = multiplied(p, on, ones, np.ones((32, 8), np.int8), c)
        assert (got == np.int32(-(2**31) + 31)).all()


@pytest.mark.parametrize("on", ENGINES)
def test_operands_of_tf32_are_rounded_to_nearest_and_away_from_zero(on: str) -> None:
    ends = [0.0, -0.0, 1.0, 1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11, 1 + 2**-12, 2.0**-149, 1e-40,
            3.4028235e38, -3.4e38, math.inf, -math.inf, math.nan, 1 + 2**-10 - 2**-23]  # fmt: skip
    x = np.concatenate([ends, np.random.default_rng(7).standard_normal(17)]).astype(np.float32)
    body = "  const i64 i = threadIdx.x;\n  y[i] = tf32_f32(a[i]);\n"
    got = run(body, on, [x], np.zeros_like(x))
    for v, r in zip(x.tolist(), got.tolist(), strict=True):
        if not math.isfinite(v) or v == 0:
            assert r == v or (math.isnan(r) and math.isnan(v))
            assert math.copysign(1, r) == math.copysign(1, v) or math.isnan(v)
            continue
        step = Fraction(2) ** (max(math.frexp(v)[1] - 1, -126) - 10)
        want = math.floor(abs(Fraction(v)) / step + Fraction(1, 2)) * step
        big = want >= Fraction(2) ** 128
        assert abs(r) == (math.inf if big else float(want)), v


# Loads of matrices.


def loads() -> list[tuple[str, int, DType, bool]]:
    """Each ldmatrix: its name, its matrices, its dtype, whether it is turned."""
    every = product((1, 2, 4), MATRICES, (False, True))
    named = (
        (f"ldmatrix{n}_{'trans_' * turned}{c_type(d)}", n, d, turned) for n, d, turned in every
    )
    return [row for row in named if row[0] in TABLE]


CHOSEN = [r for r in loads() if r[2] in (DType.I8, DType.F16, DType.F32)]


def test_each_load_that_fits_a_vector_is_there() -> None:
    assert len(CHOSEN) == 3 + 6 + 2
    assert "ldmatrix1_f32" not in TABLE
    assert "ldmatrix4_trans_i8" not in TABLE


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize(("name", "n", "dtype", "turned"), CHOSEN, ids=lambda v: str(v))
def test_rows_are_dealt_out_as_the_isa_says(
    on: str, name: str, n: int, dtype: DType, turned: bool
) -> None:
    """Rows lie in a shuffled order, each 8 matrices of 16 bytes apart from the next."""
    t, wide, step = c_type(dtype), 16 // dtype.nbytes, 4 // dtype.nbytes
    x = (np.arange(32 * wide) % 128).astype(dtype.numpy)
    lanes = n * step
    stores = "".join(f"  y[i * {lanes} + {k}] = v.{p};\n" for k, p in enumerate(LANES[lanes]))
    body = f"""\
  __shared__ __align__(16) {t} s[{32 * wide}];
  const i64 i = threadIdx.x;
  for (i64 k = i; k < {32 * wide}; k += 32) s[k] = a[k];
  __syncthreads();
  const {t}x{lanes} v = {name}(&s[i * 5 % 32 * {wide}]);
{stores}"""
    got = run(body, on, [x], np.zeros((32, n, step), dtype.numpy))
    rows = x.reshape(32, wide)
    for thread, m, e in product(range(32), range(n), range(step)):
        row, column = thread // 4, thread % 4 * step + e
        if turned:
            row, column = column, row
        assert got[thread, m, e] == rows[(m * 8 + row) * 5 % 32, column]


# Wrong ones.

TWO = """\
  __shared__ __align__(16) f16 s[256];
  const i64 i = threadIdx.x;
  for (i64 k = i; k < 256; k += 64) s[k] = a[k];
  __syncthreads();
  f32x4 r;
  r.x = 0.0f;
  r.y = 0.0f;
  r.z = 0.0f;
  r.w = 0.0f;
  if (i < 32) {
    const f16x8 v = ldmatrix4_f16(&s[i * 8]);
    const f16x4 w = ldmatrix2_f16(&s[i % 16 * 8]);
    r = mma_m16n8k16_f16(v, w, r);
  }
  __syncthreads();
  y[i * 2] = r.x;
  y[i * 2 + 1] = r.w;
"""
HALVES = np.ones(256, np.float16)


def faults(body: str, on: str, threads: int = 64) -> list[Fault]:
    with pytest.raises(KernelFault) as caught:
        run(body, on, [HALVES], np.zeros(128, np.float32), threads)
    return list(caught.value.faults)


@pytest.mark.parametrize("on", [*ENGINES, "host-fast"])
def test_one_warp_of_two_multiplies(on: str) -> None:
    if not probe(on).runs:
        pytest.skip(probe(on).why)
    got = run(TWO, on, [HALVES], np.zeros(128, np.float32), 64)
    assert got.tolist() == [16.0] * 64 + [0.0] * 64


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("limit", ["i < 31", "i < 48"])
def test_a_warp_comes_whole(on: str, limit: str) -> None:
    (f, *_) = faults(TWO.replace("i < 32", limit), on)
    assert (f.kind, f.line) == ("barrier-divergence", 12)


@pytest.mark.parametrize("on", ENGINES)
def test_a_block_is_of_whole_warps(on: str) -> None:
    assert faults(TWO, on, 24)[0].kind == "barrier-divergence"


@pytest.mark.parametrize("on", ENGINES)
def test_rows_start_at_multiples_of_16_bytes(on: str) -> None:
    (f, *_) = faults(TWO.replace("&s[i * 8]", "&s[i * 7]"), on)
    assert (f.kind, f.line) == ("misaligned", 12)


PLANTED = {
    "no barrier before": (TWO.replace("  __syncthreads();\n  f32x4", "  f32x4"), "race", 11,
                          "shared s is read while another thread writes it"),
    "no alignment": (TWO.replace("__align__(16) ", ""), "misaligned", 12,
                     "shared s[0], of alignment 2, is at no multiple of 16 bytes, by ldmatrix4"),
    "past the end": (TWO.replace("&s[i * 8]", "&s[i * 8 + 8]"), "out-of-bounds", 12,
                     "shared s[256] of 256 elements"),
    "from global memory": (TWO.replace("&s[i * 8]", "&a[i * 8]"), "misaligned", 12,
                           "global a is where an address in shared memory has to be"),
    "a copy that nobody waits for": (
        TWO.replace("s[k] = a[k];\n", "s[k] = a[k];\n  __syncthreads();\n"
                    "  if (i < 32) cp_async16_f16(&s[i * 8], &a[i * 8]);\n"),
        "unwaited", 14, "is read before a wait for cp_async16_f16 of line 6, which writes it"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_at_its_line(name: str) -> None:
    body, kind, line, words = PLANTED[name]
    assert body != TWO
    found = {(f.kind, f.line): f.detail for f in faults(body, "simt")}
    assert (kind, line) in found, found
    assert words in found[kind, line]


def test_operands_of_tf32_that_are_not_rounded_are_a_fault() -> None:
    p = PRODUCTS["m16n8k8_tf32"]
    a, b, c = (np.ones(s, np.float32) for s in ((16, 8), (8, 8), (16, 8)))
    b[3, 2] = 1 + 2**-11
    with pytest.raises(KernelFault) as caught:
        multiplied(p, "simt", a, b, c)
    (f,) = caught.value.faults
    assert (f.kind, f.detail) == (
        "unrounded", "an operand of mma_m16n8k8_tf32 is not rounded by tf32_f32 (1 threads)",
    )  # fmt: skip
    b[3, 2] = math.nan
    assert np.isnan(multiplied(p, "simt", a, b, c)).sum() == 16


# On GPUs and in programs.


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_products_and_loads_compile_for_gpus(architecture: str) -> None:
    if not probe("nvrtc").runs:
        pytest.skip(probe("nvrtc").why)
    lines = ["  __shared__ __align__(16) u32 s[512];", "  const i64 i = threadIdx.x;",
             "  s[i] = y[i];"]  # fmt: skip
    for k, (name, _, d, _) in enumerate(loads()):
        t, v = c_type(d), TABLE[name].result
        lines.append(f"  __shared__ __align__(16) {t} s{k}[512];\n  s{k}[i] = s{k}[i + 1];")
        last = LANES[int(v.split("x")[-1])][-1]
        lines.append(f"  const {v} v{k} = {name}(&s{k}[i * 8]);\n  y[i] += (u32)v{k}.{last};")
    for p in PRODUCTS.values():
        (a, b, c), n = TABLE[f"mma_{p.name}"].args, p.name
        lines.append(f"  {a} a{n};\n  {b} b{n};\n  {c} c{n};\n  c{n}.x = tf32_f32(c{n}.x);")
        lines.append(f"  c{n} = mma_{n}(a{n}, b{n}, c{n});\n  y[i] += (u32)c{n}.w;")
    source = f'extern "C" __global__ void k(u32 *y) {{\n{chr(10).join(lines)}\n}}\n'
    ones = (index(1), index(1), index(1))
    s = Signature("k", (("y", DType.U32),), (index(512),), ("y",), (), ones, (32, 1, 1))
    ptx = Nvrtc(architecture).load(KernelText(source, (s,))).cubin.ptx
    assert ptx.count("mma.sync.aligned.m16n8k") == len(PRODUCTS)
    assert ptx.count("ldmatrix.sync.aligned.m8n8.x") == len(loads())
    assert "prmt" not in ptx, "fragments are words"


GEMM = """extern "C" __global__ void gemm(const f16 *a, const f16 *b, f16 *y) {
  __shared__ __align__(16) f16 s[512];
  __shared__ __align__(16) f16 u[256];
  const i64 i = threadIdx.x;
  const i64 row = blockIdx.x * 16;
  const i64 column = blockIdx.y * 8;
  f32x4 c;
  c.x = 0.0f;
  c.y = 0.0f;
  c.z = 0.0f;
  c.w = 0.0f;
  for (i64 t = -1; t < 3; ++t) {
    if (t < 2) {
      const i64 k = (t + 1) * 16;
      cp_async16_f16(&s[(t + 1) % 2 * 256 + i * 8], &a[(row + i / 2) * 48 + k + i % 2 * 8]);
      if (i < 16) {
        cp_async16_f16(&u[(t + 1) % 2 * 128 + i * 8], &b[(k + i) * 16 + column]);
      }
    }
    cp_async_commit();
    if (t >= 0) {
      cp_async_wait(1);
      __syncthreads();
      const f16x8 v = ldmatrix4_f16(&s[t % 2 * 256 + i % 16 * 16 + i / 16 * 8]);
      const f16x4 w = ldmatrix2_trans_f16(&u[t % 2 * 128 + i % 16 * 8]);
      c = mma_m16n8k16_f16(v, w, c);
      __syncthreads();
    }
  }
  const i64 at = (row + i / 4) * 16 + column + i % 4 * 2;
  y[at] = cast_f32_f16(c.x);
  y[at + 1] = cast_f32_f16(c.y);
  y[at + 128] = cast_f32_f16(c.z);
  y[at + 129] = cast_f32_f16(c.w);
}
"""
AMPERE = dd.Options(target=SM_80)


def judged(source: str, engines: Sequence[str] = ENGINES, options: dd.Options = AMPERE) -> Report:
    """Judge a text for a product of halves."""

    @dd.trace(dd.f16[32, 48], dd.f16[48, 16])
    def halves(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return a @ b

    kernel = dd.TextKernel(source, ("a", "b"), ("y",), (2, 2, 1), (32, 1, 1))
    kernels = {"fused_matmul_0": kernel}
    return dd.check(halves, kernels=kernels, options=options, engines=list(engines), tries=2)


def test_a_pipelined_product_is_right() -> None:
    report = judged(GEMM)
    assert report.agree, report.findings


WRONG = {
    "the refill before the readers are done": (
        "      __syncthreads();\n    }\n",
        "    }\n",
        "race",
    ),
    "the wait": ("      cp_async_wait(1);\n", "", "unwaited"),
    "rows of a that are swapped": ("i % 16 * 16 + i / 16 * 8", "i / 2 * 16 + i % 2 * 8", "value"),
    "b unturned": ("ldmatrix2_trans_f16", "ldmatrix2_f16", "value"),
    "a tile too few": ("t < 3;", "t < 2;", "value"),
    "a sum that starts over": (
        "c = mma_m16n8k16_f16(v, w, c)",
        "c.w = 0.0f;\n      c = mma_m16n8k16_f16(v, w, c)",
        "value",
    ),
    "a place of the result": ("y[at + 129]", "y[at + 130]", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_planted_in_a_product_is_a_finding(name: str) -> None:
    old, new, kind = WRONG[name]
    assert GEMM.count(old) == 1, old
    report = judged(GEMM.replace(old, new), ["simt"])
    assert not report.agree
    assert {f.level for f in report.findings} == {"simt"}
    assert any(kind in f.kind or kind in f.message for f in report.findings), report.findings


@pytest.mark.parametrize(
    ("families", "name"), [((), "cp_async16_f16"), (("cp_async",), "ldmatrix4_f16")]
)
def test_a_target_without_them_refuses_the_text(families: tuple[str, ...], name: str) -> None:
    poor = replace(SM_80, name="poor", families=families)
    with says("target-lacks", f"{name} on the poor target", "sm_80, sm_90a"):
        judged(GEMM, options=dd.Options(target=poor))
