"""The compile gate; skipped where NVRTC is not installed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime import cuda_libraries, nvrtc_process
from didyma.codegen.runtime.nvrtc import Nvrtc, NvrtcCompiler
from didyma.codegen.runtime.nvrtc_library import Job
from didyma.codegen.runtime.registry import NAMES, engine, probe
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.types import DType
from didyma.tracer.types import Element
from tests.codegen.runtime.texts import kernel


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    state = probe("nvrtc")
    if not state.runs:
        pytest.skip(f"nvrtc: {state.why}")
    return Nvrtc()


def test_resources_are_reported(nvrtc: Nvrtc) -> None:
    body = (
        "  __shared__ f32 s[256];\n  s[threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n"
        "  y[threadIdx.x] = s[7 - (i64)threadIdx.x];"
    )
    cubin = nvrtc.load(kernel(body)).cubin
    assert cubin.code.startswith(b"\x7fELF")
    (r,) = cubin.resources
    assert (r.kernel, r.shared, r.spills, r.stack) == ("k", 1024, 0, 0)
    assert 4 <= r.registers <= 40


def test_architecture_is_a_choice(nvrtc: Nvrtc) -> None:
    text = kernel("  y[0] = x[0];")
    assert Nvrtc("sm_80").load(text).cubin.code != nvrtc.load(text).cubin.code


def test_a_product_and_a_sum_are_fused_only_where_they_may_be(nvrtc: Nvrtc) -> None:
    text = kernel("  y[threadIdx.x] = x[threadIdx.x] * 1.25f + x[threadIdx.x];")
    apart = replace(text, contract=False)
    assert "fma.rn.f32" in nvrtc.load(text).cubin.ptx
    ptx = nvrtc.load(apart).cubin.ptx
    assert "fma" not in ptx
    assert {"mul.rn.f32", "add.rn.f32"} <= {*ptx.split()}


@pytest.mark.parametrize("dtype", [DType.F8E4M3, DType.F8E5M2])
def test_numbers_of_f8_are_converted_by_an_instruction_where_there_is_one(dtype: DType) -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    x = np.arange(256, dtype=np.uint8).view(dtype.numpy)

    @dd.trace(Element(dtype)[256])
    def wider(x: dd.Tensor) -> dd.Tensor:
        return dd.astype(x, dd.f32)

    counts = list[int]()
    for target in ("sm_80", "sm_90a"):
        made = dd.compile(wider, options=dd.Options(target=target), engine="ptx")
        assert np.array_equal(made(x), x.astype(np.float32), equal_nan=True)
        ptx = NvrtcCompiler(target).compile(made.compiled.text).ptx
        counts.append(ptx.count("cvt.rn.f16x2.e"))
    assert counts == [0, 4], "a thread has four"


def test_a_kernel_that_begins_early_waits_before_it_touches_memory(nvrtc: Nvrtc) -> None:
    text = kernel("  y[threadIdx.x] = x[threadIdx.x];")
    ptx = NvrtcCompiler(early=True).compile(text).ptx
    order = ("griddepcontrol.wait", "ld.global", "st.global")
    places = [ptx.index(name) for name in order]
    assert places == sorted(places)
    assert "griddepcontrol" not in nvrtc.load(text).cubin.ptx


def test_an_error_shows_its_line(nvrtc: Nvrtc) -> None:
    with pytest.raises(DidymaError) as e:
        nvrtc.load(kernel("  y[0] = 1.0f;\n  y[1] = nothing;"))
    assert e.value.where == "line 4: y[1] = nothing;"
    assert e.value.got == 'identifier "nothing" is undefined'


def test_text_that_crashes_nvrtc_is_refused_and_the_next_compiles(nvrtc: Nvrtc) -> None:
    compiler = NvrtcCompiler("compute_90a")
    text = "template <int T> __global__ void f({}float* x, const float* y) {{ x[0] = y[T]; }}"
    with pytest.raises(DidymaError, match=r"(?s)kernel-text at `k.cu`.*a crash of NVRTC \(SIG"):
        compiler.ptx(text.format("-"), "k.cu", (), "f<8>")
    assert compiler.ptx(text.format(""), "k.cu", (), "f<8>").name == "_Z1fILi8EEvPfPKf"


def test_it_only_compiles(nvrtc: Nvrtc) -> None:
    with pytest.raises(EngineMissing, match="only compiles"):
        nvrtc.load(kernel("  y[0] = x[0];")).launch("k", [], {})
    with pytest.raises(EngineMissing, match="only compiles"):
        nvrtc.allocate(4)


def test_an_unknown_engine_lists_the_known() -> None:
    with pytest.raises(DidymaError, match=r"(?s)unknown-engine at `tpu`.*simt, host, host-fast"):
        engine("tpu")


@pytest.mark.parametrize("name", NAMES)
def test_probe_says_how_to_mend_what_is_missing(name: str) -> None:
    state = probe(name)
    assert state.name == name
    assert state.runs or "pip install" in state.mend
    assert state.why


def test_headers_are_kept_until_the_process_ends(
    nvrtc: Nvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second text begins as the first one, so that nothing is added."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "twice.h").write_text("__device__ float twice(float x) { return 2.0f * x; }")
    service = nvrtc_process.Service(next(cuda_libraries.paths("nvrtc")))
    text = '#include "twice.h"\n__global__ void NAME(float* x) { x[0] = twice(x[0]); }'
    options = ("--gpu-architecture=compute_90", f"-I{tmp_path}")
    kept: list[list[Path]] = []
    for name in ("first", "second"):
        job = Job(text.replace("NAME", name), "k.cu", {}, options, (), ("PTX",), keep=True)
        built = service.build(job)
        assert not built.failed
        assert name.encode() in built.parts["PTX"]
        kept.append(sorted(tmp_path.glob("didyma-headers-*/*.pch")))
    service.close()
    assert len(kept[0]) == 1
    assert kept[0] == kept[1]
    assert [*tmp_path.iterdir()] == [tmp_path / "twice.h"]
