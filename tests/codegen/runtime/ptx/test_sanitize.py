"""Right kernels are clean and agree with NumPy; each planted fault is found, with its line."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.sanitize import Argument, Sanitized, sanitize
from didyma.codegen.runtime.ptx.shape import Shape
from didyma.codegen.runtime.ptx.sources import Source, compiled, unoptimised
from didyma.refimpl.errors import DidymaError
from tests.codegen.runtime.ptx.kernels import CASES, PLANTED, Case

pytestmark = pytest.mark.usefixtures("ptx")


def judged(case: Case, text: str, schedules: int) -> Sanitized:
    source = Source(text, "k.cu")
    return sanitize(
        source, compiled(source, "k"), case.shape, case.args, schedules=schedules, seconds=10
    )


@pytest.mark.parametrize("name", CASES)
def test_a_right_kernel_is_clean_and_right(name: str) -> None:
    case = CASES[name]
    done = judged(case, case.source, 3)
    assert done.findings == ()
    after = dict(zip((a.name for a in case.args if a.value.ndim), done.outputs, strict=True))
    for output, want in case.want.items():
        np.testing.assert_allclose(after[output], want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    planted = PLANTED[name]
    done = judged(CASES[planted.case], planted.source, 2)
    found = [f for f in done.faults if f.kind in planted.kinds.split()]
    assert found, done.findings
    if planted.at:
        lines = planted.source.splitlines()
        near = [n for n, text in enumerate(lines, 1) if planted.at in text]
        assert any(abs(f.line - n) <= 3 for f in found for n in near), found


def test_equal_values_written_by_several_threads_are_a_note() -> None:
    source = 'extern "C" __global__ void k(const int* x, int* y) { y[0] = 7 + 0 * x[0]; }'
    case = Case(source, (1,), (64,), CASES["scan"].args[:2], {})
    done = judged(case, source, 1)
    assert [f.kind for f in done.findings if f.is_note] == ["same-value"]
    assert [f.kind for f in done.faults] == ["unwritten"]


def test_a_variable_that_no_path_sets_is_found_where_it_is_read() -> None:
    """NVRTC makes a constant of it, so that no code reads it."""
    text = """
extern "C" __global__ void k(const int* x, int* y) {
  int sum;
  if (x[0] > 1000000) {
    int lost;
    y[1] = lost;
  }
  y[threadIdx.x] = sum + x[threadIdx.x];
}"""
    case = Case(text, (1,), (64,), CASES["scan"].args[:2], {})
    source = Source(text, "k.cu")
    debug = compiled(source, "k", ("-G",))
    done = sanitize(source, debug, case.shape, case.args, schedules=1)
    found = [(f.line, f.detail) for f in done.faults if f.kind == "uninitialised"]
    assert found == [(8, "variable sum is read, which nothing has set")]
    clean = Source(text.replace("int sum", "int sum = 0"), "k.cu")
    done = sanitize(clean, compiled(clean, "k", ("-G",)), case.shape, case.args, schedules=1)
    assert [f.kind for f in done.faults] in ([], ["unwritten"])


def test_what_cannot_be_launched_is_refused() -> None:
    case = CASES["scan"]
    source = Source(case.source, "k.cu")
    kernel = compiled(source, "k")
    big = Case(case.source, (1,), (2048,), (), {})
    for shape, args, shared, code in (
        (big.shape, case.args, 0, "launch-failed"),
        (case.shape, case.args, 1 << 20, "launch-failed"),
        (case.shape, case.args[:2], 0, "input-count"),
        (case.shape, case.args[::-1], 0, "bad-option"),
        (case.shape, (*case.args[:2], Argument("n", np.array(200, np.float32))), 0, "bad-option"),
    ):
        with pytest.raises(DidymaError) as e:
            sanitize(source, kernel, shape, args, shared)
        assert e.value.code == code


def test_instances_of_templates_have_names() -> None:
    source = Source("template <int N> __global__ void f(int* x) { x[threadIdx.x] = N; }", "f.cu")
    assert compiled(source, "f<3>").program.kernel.params[0].size == 8
    plain = Source("__global__ void f(int* x) { x[threadIdx.x] = 1; }", "f.cu")
    assert compiled(plain, "f").name == compiled(plain, "").name == "_Z1fPi"
    with pytest.raises(DidymaError, match="name an instance"):
        compiled(source, "f")
    scoped = Source(
        "namespace a { __global__ void f(int* x) {} namespace { __global__ void g(int* x) {} } }"
        "__global__ void h(int* x) {} __global__ void h(float* x) {}", "f.cu",
    )  # fmt: skip
    assert compiled(scoped, "a::f").name == compiled(scoped, "f").name == "_ZN1a1fEPi"
    assert compiled(scoped, "g").name.endswith("1gEPi")
    with pytest.raises(DidymaError, match="one of _Z1hPi, _Z1hPf"):
        compiled(scoped, "h")
    with pytest.raises(DidymaError, match=r"kernel-text at `f\.cu:2`") as e:
        compiled(Source("// a comment\n__global__ void f() { nothing(); }", "f.cu"), "f")
    assert (e.value.file, e.value.line) == ("f.cu", 2)


@pytest.mark.parametrize("more", ["", " + 1"])
def test_what_comes_of_an_absent_lane_is_told_once(more: str) -> None:
    """Neither the copy that lies in memory nor the unoptimised translation tells it again."""
    text = f"""__global__ void f(const int* x, int* y) {{
      int v = x[threadIdx.x];
      if (threadIdx.x < 16) y[threadIdx.x] = __shfl_down_sync(0xffff, v, 4){more}; }}"""
    source = Source(text, "k.cu")
    kernel, also = compiled(source, "f"), unoptimised(source, "f")
    args = [
        Argument("x", np.zeros(32, np.int32)),
        Argument("y", np.zeros(16, np.int32), output=True),
    ]
    found = sanitize(source, kernel, Shape((1, 1, 1), (32, 1, 1)), args, also=also)
    assert [(f.kind, f.line) for f in found.findings] == [("inactive-lane", 3)]


def test_a_fault_in_a_header_has_the_line_of_the_file_that_calls_it_too() -> None:
    text = """#line 7 "helper.h"
__device__ __forceinline__ void put(float* p, float v) { *p = v; }
#line 3 "k.cu"
__global__ void k(float* y, int n) {
  put(y + threadIdx.x * n, 1);
}
"""
    source = Source(text, "k.cu")
    given = (Argument("y", np.zeros(32, np.float32)), Argument("n", np.array(2, np.int32)))
    shape, kernel = Shape((1, 1, 1), (32, 1, 1)), compiled(source, "k")
    far = sanitize(source, kernel, shape, given, schedules=1, seconds=10)
    assert [(f.kind, f.file, f.line) for f in far.faults] == [("out-of-bounds", "k.cu", 4)]
    assert far.faults[0].detail.endswith(", in helper.h:7")
    same = (given[0], Argument("n", np.array(0, np.int32)))
    race = sanitize(source, kernel, shape, same, schedules=1, seconds=10)
    assert [(f.line, f.other) for f in race.findings if f.other] == [(4, "k.cu:4")]
