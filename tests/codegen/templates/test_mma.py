"""The template for tensor cores: drawn problems, planted faults, and what compiles take it for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

import didyma as dd
from didyma.codegen.codegens import Asked
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.select.choice import Choice, build
from didyma.codegen.templates import mma
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.target import SM_80
from didyma.tracer.tracing import Program
from didyma.tracer.types import Element
from tests.codegen.templates.draw import FAMILIES, NARROW, drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, request
from tests.errors.test_codes import says

GPU = Options(target="sm_80")
_, DTYPES, SIZES = FAMILIES["mma_gemm"]
POINT = "mma_gemm(depth=32, height=32, stages=3, tall=32, wide=32, width=64)"
ROUNDED = (5, 8, 16, 17, 24, 33, 40, 64)
SEEDS = (1, 4, 6, 10, 11, 14, 19, 23)  # each is a product, not of one row or column
FAULTS = {
    "swizzle": ('{{ swizzled("line", "piece", length) }}',
                "line * {{ length }} + piece * {{ lanes }}"),
    "pieces": ("step * 2 + lane / 16)", "step * 2 + lane / 8 % 2)"),
    "wait": ("cp_async_wait({{ stages - 2 }})", "cp_async_wait({{ stages - 1 }})"),
    "refilled": ("turn + {{ stages - 1 }}", "turn + {{ stages }}"),
    "barrier": ("      cp_async_wait({{ stages - 2 }});\n      __syncthreads();",
                "      cp_async_wait({{ stages - 2 }});"),
    "commit": ("    cp_async_commit();", ""),
    "rows": ('all(below("row", rows, height), below("column", columns, width))) }}\n    }\n  }',
             'below("column", columns, width)) }}\n    }\n  }'),
    "columns": ('all(below("row", rows, height), below("column", columns, width))) }}\n    }\n  }',
                'below("row", rows, height)) }}\n    }\n  }'),
    "epilogue": ("line / 16 * {{ tall }} + i * 16", "line / 16 * {{ tall }}"),
    "fragment": ("lane / 4 + half * 8) *", "lane / 4 + half * 4) *"),
    "k-tail": ('below("term", terms, depth)', '""'),
    "last tile": ("+ {{ depth - 1 }}) / {{ depth }};", ") / {{ depth }};"),
    "sum": ("c{{ i }}_{{ j }} = mma_{{ product }}(a{{ i }}, b{{ j }}, c{{ i }}_{{ j }})",
            "c{{ i }}_{{ j }} = mma_{{ product }}(a{{ i }}, b{{ j }}, none)"),
    "narrow": ("store2_{{ acc }}(",
               "pair.x = cast_bf16_f32(cast_f32_bf16(pair.x));\n        store2_{{ acc }}("),
    "staged": ("    __syncthreads();\n    #pragma unroll {{", "    #pragma unroll {{"),
}  # fmt: skip
FAULTS_OF_ROUNDING = {
    "unrounded": ('{{ rounded("b%d" % j, "xy") -}}', ""),
    "line": ("step * 8 + %d + lane %% 4", "step * 8 + %d + lane %% 2"),
    "piece": ("lane / 16)", "lane / 8)"),
    "place": ("+ lane / 4 % 4]", "+ lane % 4]"),
}


@dd.trace(dd.bf16[40, 72], dd.bf16[72, 104], dd.f32[104])
def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.tanh(x @ w + b)


def points(program: Program) -> list[str]:
    r = request(program, GPU)
    assert r.source is not None
    return list(map(str, mma.TEMPLATE.points(Asked(r.source, r.loop, SM_80))))


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_products_are_right(seed: int) -> None:
    d = drawn(seed, DTYPES, SIZES)
    every = points(d.program)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=GPU) == {""}, f"{d.about}: {point}"


@pytest.mark.parametrize("seed", [0, 4, 7])
def test_drawn_products_of_operands_rounded_to_tf32_are_right(seed: int) -> None:
    d = drawn(seed, (dd.f32,), ROUNDED, rounded=True)
    every = points(d.program)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=GPU) == {""}, f"{d.about}: {point}"


@pytest.mark.parametrize("seed", [4, 7])
def test_drawn_products_of_operands_of_a_byte_are_right(seed: int) -> None:
    d = drawn(seed, (dd.f32,), SIZES, narrow=NARROW)
    every = points(d.program)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=GPU) == {""}, f"{d.about}: {point}"


def test_operands_that_16_bits_hold_are_for_tensor_cores_whatever_they_are_converted_to() -> None:
    def choice(
        left: Element, right: Element, wide: Element = dd.f32, target: str = "sm_90a"
    ) -> str:
        @dd.trace(left[64, 64], right[64, 64], dd.f32[64])
        def scaled(x: dd.Tensor, w: dd.Tensor, scale: dd.Tensor) -> dd.Tensor:
            return dd.astype(dd.astype(x, wide) @ dd.astype(w, wide), dd.f32) * scale

        rows = dd.compile(scaled, options=Options(target=target)).choices["choices"].values()
        (row,) = rows
        return str(row["choice"]).split("(")[0]

    for one, other in ((dd.f8e4m3, dd.f8e4m3), (dd.f8e5m2, dd.f8e4m3), (dd.bf16, dd.f8e5m2),
                       (dd.f16, dd.f8e4m3), (dd.f8e4m3fnuz, dd.i8), (dd.u8, dd.bf16)):  # fmt: skip
        assert choice(one, other) == "wgmma_gemm"
        assert choice(one, other, target="sm_80") == "mma_gemm"
    assert choice(dd.f8e4m3, dd.f8e4m3, dd.bf16) == "wgmma_gemm"
    others = (dd.f16, dd.bf16), (dd.f8e4m3, dd.f32), (dd.f8e4m3, dd.i16)
    assert {choice(one, other) for one, other in others} == {"fma_gemm"}, "no dtype holds both"
    assert choice(dd.f8e4m3, dd.f8e4m3, dd.f64) not in ("wgmma_gemm", "mma_gemm"), "sums in f64"


def test_operands_rounded_to_tf32_are_rounded_in_the_kernel_that_multiplies_them() -> None:
    @dd.trace(dd.f32[16, 128], dd.f32[24, 128], dd.f32[128, 8])
    def two(x: dd.Tensor, w: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        rounded = dd.tf32(x)
        return rounded @ dd.transpose(dd.tf32(w), (1, 0)), rounded @ dd.tf32(v)

    def choices(program: Program, target: str, parts: int = 1) -> list[str]:
        options = Options(target=target).changed({"graph.parts": parts})
        rows = dd.compile(program, options=options).choices["choices"].values()
        return [row["choice"].split("(")[0] for row in rows]

    @dd.trace(dd.f32[40, 128], dd.f32[128, 48])
    def one_rounded(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.tf32(x) @ w

    assert choices(two, "sm_80") == choices(two, "sm_90a") == ["mma_gemm"] * 2
    assert choices(two, "sm_80", parts=2) == ["mma_gemm", "serial"] * 2
    assert "mma_gemm" not in {*choices(two, "portable"), *choices(one_rounded, "sm_80")}
    report = dd.check(two, options=GPU, engines=("simt", "host", "ptx"), tries=1)
    assert report.agree, report


@pytest.mark.parametrize("fault", FAULTS_OF_ROUNDING)
def test_a_planted_fault_in_products_of_rounded_operands_is_found(fault: str) -> None:
    @dd.trace(dd.f32[24, 40], dd.f32[40, 24] if fault != "unrounded" else dd.f32[24, 40])
    def rounded(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        right = dd.tf32(w)
        return dd.tf32(x) @ (right if fault != "unrounded" else dd.transpose(right, (1, 0)))

    old, new = FAULTS_OF_ROUNDING[fault]
    assert old in mma.TEXT.source
    text = Text("mma_gemm", mma.TEXT.source.replace(old, new))
    wrong = replace(mma.TEMPLATE, render=partial(mma.render, text=text))
    assert judged(rounded, POINT, options=GPU, engines=("simt",)) == {""}
    assert "" not in judged(rounded, POINT, wrong, GPU, engines=("simt",))


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in mma.TEXT.source
    text = Text("mma_gemm", mma.TEXT.source.replace(old, new))
    wrong = replace(mma.TEMPLATE, render=partial(mma.render, text=text))
    assert "" not in judged(layer, POINT, wrong, GPU)


def test_the_kernel_without_a_fault_is_right() -> None:
    assert judged(layer, POINT, options=GPU) == {""}


def test_a_compile_for_tensor_cores_takes_it_without_being_told() -> None:
    def choice(dtype: Element, target: str, rows: int = 64) -> str:
        @dd.trace(dtype[rows, 64], dtype[64, 64])
        def plain(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
            return x @ w

        found = dd.compile(plain, options=Options(target=target)).choices["choices"]
        return str(found["fused_matmul_0"]["choice"])

    for target, templates in (("sm_80", "mma_gemm("), ("sm_90a", ("tma_gemm(", "wgmma_gemm("))):
        assert choice(dd.bf16, target).startswith(templates)
        assert choice(dd.f16, target).startswith(templates)
    assert choice(dd.bf16, "sm_90a", 4).startswith("matmul("), "too few rows"
    for other in (choice(dd.f32, "sm_80"), choice(dd.bf16, "portable"), choice(dd.f16, "sm_80", 4)):
        assert not other.startswith("mma_gemm(")


def test_the_model_likes_large_tiles_of_large_products_only() -> None:
    def best(m: int, n: int, k: int) -> dict[str, int]:
        @dd.trace(dd.bf16[m, k], dd.bf16[k, n])
        def plain(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
            return x @ w

        return dict(Choice.parse(points(plain)[0]).points[0].values)

    large, small, flat = best(4096, 4096, 4096), best(256, 256, 4096), best(16, 4096, 4096)
    assert large["height"] * large["width"] >= 128 * 128
    assert small["height"] * small["width"] < 128 * 128
    assert flat["height"] <= 64


def test_operands_that_lie_in_runs_are_copied_and_others_loaded() -> None:
    def copies(left: tuple[int, int], right: tuple[int, int], turned: bool) -> int:
        @dd.trace(dd.bf16[left], dd.bf16[right])
        def plain(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
            return x @ (dd.transpose(w, (1, 0)) if turned else w)

        options = GPU.changed({"kernels.choices": f"{name(plain)}: {POINT}"})
        return dd.compile(plain, options=options).text.count("cp_async16_")

    assert copies((40, 64), (64, 72), False) == 2
    assert copies((40, 64), (72, 64), True) == 2
    assert copies((40, 64), (64, 70), False) == 1
    assert copies((40, 50), (50, 70), False) == 0


def test_products_of_other_dtypes_and_targets_are_refused() -> None:
    r = request(layer)
    with says("bad-choice", "a function that mma_gemm suits"):
        build(r.loop, r.options, Choice.parse(POINT), r.source)
    r = request(layer, Options(target=replace(SM_80, name="small", dynamic=16 << 10)))
    with says("target-lacks", "small", POINT):
        build(r.loop, r.options, Choice.parse(POINT), r.source)


def name(program: Program) -> str:
    (found,) = compile(program.module, until="lower").loops
    return found


def test_a_text_with_more_shared_memory_than_a_block_has_is_refused() -> None:
    @dd.trace(dd.f32[32])
    def twice(x: dd.Tensor) -> dd.Tensor:
        return x + x

    def compiled(count: int, target: str) -> str:
        source = f"""extern "C" __global__ void twice(const f32 *x, f32 *y) {{
  __shared__ f32 s[{count}];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x];
}}"""
        kernel = dd.TextKernel(source, ("x",), ("y",), grid=(1, 1, 1), block=(32, 1, 1))
        options = Options(target=target)
        return dd.compile(twice, kernels={"fused_add_0": kernel}, options=options).text

    with says("target-lacks", "65536 bytes of shared memory", "at most 49152"):
        compiled(16384, "portable")
    assert "f32 s[16384]" in compiled(16384, "sm_80")
    with says("target-lacks", "232452 bytes", "at most 232448"):
        compiled(58113, "sm_90a")


def test_what_nvrtc_compiles_of_it_is_right_with_memory_that_a_launch_asks_for() -> None:
    @dd.trace(dd.bf16[72, 72], dd.bf16[72, 136])
    def plain(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return x @ w

    large = "mma_gemm(depth=64, height=64, stages=4, tall=32, wide=64, width=128)"
    assert judged(plain, large, options=GPU, engines=("ptx",)) == {""}
