"""Several forms of one text, compiled together."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from didyma.codegen.runtime import cuda_libraries, nvrtc_forms, nvrtc_process
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.sanitize import Argument, sanitize
from didyma.codegen.runtime.ptx.sources import Source, compiled, forms
from didyma.codegen.runtime.registry import probe
from didyma.refimpl.errors import DidymaError

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
BODY = "{ __shared__ float s[4]; s[threadIdx.x] = V; x[threadIdx.x] = s[threadIdx.x]; }"


@pytest.mark.parametrize(
    ("text", "name", "for_host"),
    [
        (f'extern "C" __global__ void k(float* x) {BODY}', "k", False),
        (f"#include <cmath>\n__global__ void k(float* x) {BODY} int main() {{ }}", "k", True),
        (f"template <int N> __global__ void k(float* x) {BODY}", "k<2>", False),
    ],
)
def test_forms_of_a_text_are_compiled_together(text: str, name: str, for_host: bool) -> None:
    values = ("1.0f", "nothing", "2.0f")
    made = forms([text.replace("V", v) for v in values], (name,), (), for_host=for_host)
    assert made[1] is None  # C++ that NVRTC refuses
    for kernels, want in ((made[0], 1.0), (made[2], 2.0)):
        assert kernels is not None
        (kernel,) = kernels
        assert [a.size for a in kernel.shared] == [16]  # none of the other forms' memory
        given = Argument("x", np.zeros(4, np.float32), output=True)
        shape = Shape((1, 1, 1), (4, 1, 1))
        done = sanitize(Source(text, "k.cu"), kernel, shape, [given], 0, 1)
        assert not done.findings
        assert (done.outputs[0] == want).all()


def test_a_form_whose_inline_ptx_is_wrong_spoils_no_other() -> None:
    text = f'extern "C" __global__ void k(float* x) {BODY}'
    values = ("1.0f", '2.0f; asm("@%undeclared bra AWAY;")', "3.0f")
    made = forms([text.replace("V", v) for v in values], ("k",), (), for_host=False)
    assert [kernels is None for kernels in made] == [False, True, False]


def test_forms_take_what_was_kept_of_the_text_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "twice.h").write_text("#define TWICE 2.0f")
    text = f'// A text\n#include "twice.h"\n\n#define W 4\n__global__ void k(float* x) {BODY}'
    service = nvrtc_process.service(next(cuda_libraries.paths("nvrtc")))
    service.close()
    compiled(Source(text.replace("V", "TWICE"), "k.cu"), "k", (f"-I{tmp_path}",), keep=True)
    (kept,) = tmp_path.glob("didyma-headers-*/*.pch")
    edited = [text.replace("V", "W"), text.replace("V", "W").replace("W 4", "W 5")]
    begins = nvrtc_forms.beginning(text)
    made = forms(edited, ("k",), (f"-I{tmp_path}",), for_host=False, kept=begins)
    assert all(made)
    assert [*tmp_path.glob("didyma-headers-*/*.pch")] == [kept]
    service.close()


def test_device_memory_that_nothing_names_is_left_out() -> None:
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".global .align 4 .u32 idle;\n.global .align 4 .u32 far = 7;\n"
        ".global .align 8 .u64 near = far;\n"
        ".entry k(.param .u64 x) { .reg .u64 %p; ld.global.u64 %p, [near]; ret; }"
    )
    kernel = compiled(Source(text, "k.ptx"), "k")
    assert {*kernel.program.variables} == {"near", "far"}


def test_a_kernel_that_is_no_instance_is_named() -> None:
    text = "template <int N> __global__ void f(int* y) { *y = N; }"
    for name in ("f<4>x", "g<4>"):
        with pytest.raises(DidymaError, match=re.escape(f"unknown-kernel at `{name}`")):
            compiled(Source(text, "k.cu"), name)


def test_ptx_without_a_kernel_is_refused() -> None:
    with pytest.raises(DidymaError, match=r"bad-ptx at `k.ptx`\n.*no \.entry"):
        compiled(Source(".version 8.0\n", "k.ptx"), "")
