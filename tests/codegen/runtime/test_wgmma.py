"""Products of four warps: every layout on ``simt`` and ``host``, and what must be waited for."""

from __future__ import annotations

from functools import cache

import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.refimpl.ir.kernel import KernelText
from didyma.tracer.tracing import Program

GPU = dd.Options(target="sm_90a")
SIZES = ((32, "f16"), (64, "bf16"), (64, "f16"), (96, "bf16"), (160, "f16"), (256, "bf16"))
LAYOUTS = [(n, t, a, b) for n, t in SIZES for a in "km" for b in "kn" if n == 64 or a + b == "kn"]

# Elements go where the PTX ISA has them: bits 4 to 6 of the bytes' address change by bits 7 to 9.
TEXT = """extern "C" __global__ void product(const T *a, const T *b, f32 *y) {
  __shared__ __align__(1024) T left[4096];
  __shared__ __align__(1024) T right[RIGHT];
  const u32 i = threadIdx.x;
  for (u32 n = i; n < 4096; n = n + 128) left[n] = 0;
  for (u32 n = i; n < RIGHT; n = n + 128) right[n] = 0;
  __syncthreads();
  for (u32 n = i; n < 1024; n = n + 128) {
    const u32 at = OF_A * 2;
    left[(at ^ (at >> 7 & 7) << 4) / 2] = a[n];
  }
  for (u32 n = i; n < COLUMNS * 16; n = n + 128) {
    const u32 at = OF_B * 2;
    right[(at ^ (at >> 7 & 7) << 4) / 2] = b[n];
  }
  proxy_fence();
  __syncthreads();
  f32 sums[HALF];
  for (u32 n = 0; n < HALF; ++n) sums[n] = 0.0f;
  wgmma_fence();
  wgmma_NAME(sums, &left[0], &right[0]);
  wgmma_commit();
  wgmma_wait(0);
  for (u32 n = 0; n < HALF; ++n) {
    const u32 row = i / 32 * 16 + i % 32 / 4 + n / 2 % 2 * 8;
    y[row * COLUMNS + n / 4 * 8 + i % 4 * 2 + n % 2] = sums[n];
  }
}
"""


def source(columns: int, dtype: str, a: str, b: str) -> str:
    of_a = "(n / 16 * 64 + n % 16)" if a == "k" else "(n % 16 * 64 + n / 16)"
    row, column = f"n / {columns}", f"n % {columns}"
    of_b = (
        f"({column} * 64 + {row})"
        if b == "k"
        else f"({column} / 64 * 4096 + {row} * 64 + {column} % 64)"
    )
    words = {
        "NAME": f"m64n{columns}k16_{dtype}_{a}{b}", "OF_A": of_a, "OF_B": of_b,
        "RIGHT": str(columns * 64), "COLUMNS": str(columns), "HALF": str(columns // 2),
        "T ": f"{dtype} ",
    }  # fmt: skip
    text = TEXT
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def held(columns: int, dtype: str, b: str) -> str:
    """The text of a product whose first operand threads hold: eight elements of two rows each."""
    text = source(columns, dtype, "k", b)
    mine = f"""  __align__(16) {dtype} mine[8];
  for (u32 n = 0; n < 8; ++n) {{
    mine[n] = a[(i / 32 * 16 + i % 32 / 4 + n / 2 % 2 * 8) * 16 + n / 4 * 8 + i % 4 * 2 + n % 2];
  }}
  wgmma_fence();
"""
    text = text.replace("  wgmma_fence();\n", mine)
    return text.replace(f"{dtype}_k{b}(sums, &left[0]", f"{dtype}_r{b}(sums, &mine[0]")


def program(columns: int, dtype: str) -> Program:
    t = {"f16": dd.f16, "bf16": dd.bf16}[dtype]

    @dd.trace(t[64, 16], t[16, columns])
    def product(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return dd.astype(a, dd.f32) @ dd.astype(b, dd.f32)

    return product


def name(p: Program) -> str:
    (found,) = compile(p.module, until="lower").loops
    return found


def kernel(text: str) -> dd.TextKernel:
    return dd.TextKernel(text, ("a", "b"), ("y",), grid=(1, 1, 1), block=(128, 1, 1))


def findings(text: str, columns: int = 64, dtype: str = "bf16", *engines: str) -> list[str]:
    p = program(columns, dtype)
    report = dd.check(p, kernels={name(p): kernel(text)}, options=GPU, tries=1,
                      engines=engines or ("simt", "host"))  # fmt: skip
    assert report.agree == (not report.findings)
    return [f.message for f in report.findings]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_elements_lie_where_the_instruction_reads_them(layout: tuple[int, str, str, str]) -> None:
    columns, dtype, _, _ = layout
    assert findings(source(*layout), columns, dtype) == []


@pytest.mark.parametrize("n", range(4))
def test_elements_that_threads_hold_are_those_that_the_instruction_reads(n: int) -> None:
    columns, dtype, b = (64, 128, 192, 256)[n], ("bf16", "f16")[n % 2], "nk"[n // 2]
    assert findings(held(columns, dtype, b), columns, dtype) == []


@cache
def compiler() -> NvrtcCompiler:
    return NvrtcCompiler("sm_90a")


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[3], LAYOUTS[-1]], ids=str)
def test_the_prelude_compiles_to_one_instruction(layout: tuple[int, str, str, str]) -> None:
    columns, dtype, a, b = layout
    p = program(columns, dtype)
    made = dd.compile(p, kernels={name(p): kernel(source(*layout))}, options=GPU)
    ptx = compiler().compile(made.compiled.text).ptx
    line = next(
        x for x in ptx.splitlines() if f"wgmma.mma_async.sync.aligned.m64n{columns}k16" in x
    )
    assert line.rstrip("; ").endswith(f"1, 1, 1, {int(a == 'm')}, {int(b == 'n')}")
    assert ptx.count("wgmma.mma_async") == 1


FAULTS = {
    "no fence of the operands": ("  proxy_fence();\n", "", "unfenced"),
    "no fence of the sums": ("  wgmma_fence();\n", "", "unfenced"),
    "no wait": ("  wgmma_wait(0);\n", "", "unwaited"),
    "a wait for too few": ("wgmma_wait(0)", "wgmma_wait(1)", "unwaited"),
    "no commit": ("  wgmma_commit();\n", "", "unwaited"),
    "no barrier": ("  proxy_fence();\n  __syncthreads();\n", "  proxy_fence();\n", "race"),
    "operands written under way": ("  wgmma_wait(0);\n", "  left[i] = 0;\n  wgmma_wait(0);\n",
                                   "unwaited"),
    "a part of the warps": ("  wgmma_m64", "  if (i < 96) wgmma_m64", "barrier-divergence"),
    "another alignment": ("__align__(1024) bf16 left", "__align__(16) bf16 left", "misaligned"),
    "beyond the array": ("&left[0]", "&left[64]", "out-of-bounds"),
    "sums without a value": ("  for (u32 n = 0; n < 32; ++n) sums[n] = 0.0f;\n", "",
                             "uninitialised"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_waited_for_is_found_with_its_line(fault: str) -> None:
    old, new, kind = FAULTS[fault]
    text = source(64, "bf16", "k", "k")
    assert old in text
    (message,) = findings(text.replace(old, new), 64, "bf16", "simt")
    assert f"KernelFault: {kind} in" in message
    assert "wgmma" in message or kind == "race"


HELD_FAULTS = {
    "no fence": ("  wgmma_fence();\n", "", "unfenced"),
    "written under way": ("  wgmma_wait(0);\n", "  mine[0] = 0;\n  wgmma_wait(0);\n", "unwaited"),
    "beyond the array": ("&mine[0]", "&mine[1]", "out-of-bounds"),
    "never written": ("n < 8; ++n", "n < 7; ++n", "uninitialised"),
    "not its own": ("_rn(sums, &mine[0]", "_rn(sums, &left[0]", "out-of-bounds"),
}  # fmt: skip


@pytest.mark.parametrize("fault", HELD_FAULTS)
def test_faults_of_elements_that_threads_hold_are_found(fault: str) -> None:
    old, new, kind = HELD_FAULTS[fault]
    text = held(64, "bf16", "n")
    assert old in text
    (message,) = findings(text.replace(old, new), 64, "bf16", "simt")
    assert f"KernelFault: {kind} in" in message


OF_TF32 = {
    "k16_f32_kk": "k8_tf32_kk", "/ 16 * 64": "/ 8 * 32", "% 64 * 64 +": "% 64 * 32 +",
    "% 16": "% 8", ") * 2;": ") * 4;", "<< 4) / 2": "<< 4) / 4", "< 1024": "< 512",
    "* 16; n = n": "* 8; n = n", "= a[n]": "= tf32_f32(a[n])", "= b[n]": "= tf32_f32(b[n])",
}  # fmt: skip


def test_a_product_of_f32_reads_numbers_that_are_rounded_to_tf32() -> None:
    text = source(64, "f32", "k", "k")
    for old, new in OF_TF32.items():
        assert old in text
        text = text.replace(old, new)

    @dd.trace(dd.f32[64, 8], dd.f32[8, 64])
    def product(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return dd.tf32(a) @ dd.tf32(b)

    def faults(text: str) -> list[str]:
        (one,) = compile(product.module, GPU, until="lower").loops
        report = dd.check(product, kernels={one: kernel(text)}, options=GPU, tries=1,
                          engines=("simt", "host", "ptx"))  # fmt: skip
        return [f.message for f in report.findings]

    assert faults(text) == []
    (message, *_) = faults(text.replace("tf32_f32(b[n])", "b[n]"))
    assert "KernelFault: unrounded in" in message


def test_targets_without_it_refuse_it() -> None:
    p = program(64, "bf16")
    text = kernel(source(64, "bf16", "k", "k"))
    with pytest.raises(dd.DidymaError, match="proxy_fence on the sm_80 target"):
        dd.compile(p, kernels={name(p): text}, options=dd.Options(target="sm_80"))


def test_the_compiler_remarks_on_products_that_wait_for_each_other() -> None:
    text = source(64, "bf16", "k", "n")
    commit = "  wgmma_commit();\n"
    touched = text.replace(commit, f"  sums[0] = sums[0] * 2.0f;\n{commit}")
    plain, serial = (NvrtcCompiler().compile(KernelText(t, ())).remarks for t in (text, touched))
    assert not plain
    assert "wgmma.wait_group is injected" in serial[0]
