"""Intrinsics: each of Didyma's has every half, and one of a caller's own is used and judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma import testing
from didyma.codegen import plugins
from didyma.codegen.emit import prelude
from didyma.codegen.emit.intrinsics import TABLE
from didyma.fuzz.emission.expressions import INEXACT
from didyma.oracle.conformance import exact
from didyma.refimpl.interp import scalar, scalar_ring
from didyma.refimpl.interp.scalar import Arithmetic
from didyma.refimpl.ir.loop import INTRINSICS
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.ring import UNKNOWN
from tests.errors.test_codes import says

BOTH: tuple[prelude.Target, ...] = ("host", "cuda")


def twice(a: Any, b: Any) -> Any:
    return a + 2 * b


MULTIPLY = dd.Intrinsic(
    "twice", 2, twice, 1.0, dict.fromkeys(BOTH, "FN T twice_T(T a, T b) { return a + (b + b); }")
)
TEXT = """extern "C" __global__ void sums(const f32 *y, const f32 *x, f32 *z) {
  z[threadIdx.x] = twice_f32(x[threadIdx.x], y[threadIdx.x]);
}
"""
KERNEL = dd.TextKernel(TEXT, ("y", "x"), ("z",), (1, 1, 1), (32, 1, 1), intrinsics=(MULTIPLY,))
NAME = "fused_multiply_add_0"


@dd.trace(dd.f32[32], dd.f32[32])
def sums(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return x + 2.0 * y


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_CALLED", {})


@pytest.mark.parametrize("name", INTRINSICS)
def test_every_intrinsic_has_every_half(name: str) -> None:
    """Operands, meaning, ring rule, C types, C text for each prelude, and an exact value."""
    for dtype in (DType.F32, DType.F64):
        args = [np.full(2, 0.5, dtype.numpy)] * INTRINSICS[name].operands
        with np.errstate(all="ignore"):
            plain = scalar.intrinsic_fn(name, dtype)(*args)
            ring = scalar_ring.intrinsic_fn(name, dtype)(*map(scalar_ring.embedded, args))
        assert np.array_equal(scalar_ring.value_of(np.asarray(ring)), plain, equal_nan=True)
        types = TABLE[f"{name}_{dtype}"]
        assert types.args == (dtype.value,) * INTRINSICS[name].operands
        assert types.result == ("b8" if INTRINSICS[name].predicate else dtype.value)
        assert all(f"{name}_{dtype}" in prelude.load(target).definitions for target in BOTH)
    if INTRINSICS[name].operands == 1 and not INTRINSICS[name].predicate:
        assert name in exact.UNARY
        assert (name in INEXACT) == (name not in exact.EXACT)


def test_a_text_calls_an_intrinsic_and_is_judged() -> None:
    report = dd.check(sums, kernels={NAME: KERNEL}, tries=2, ring=True)
    assert report.agree, report.findings
    other = replace(KERNEL, source=TEXT.replace("x[threadIdx.x], ", "y[threadIdx.x], "))
    assert {f.level for f in dd.check(sums, kernels={NAME: other}, tries=1).findings} == {
        "simt",
        "host",
    }


def test_c_that_leaves_the_meaning_is_found_by_the_kernel_and_alone() -> None:
    text = {**MULTIPLY.text, "host": "FN T twice_T(T a, T b) { return a; }"}
    wrong = replace(MULTIPLY, text=text)
    report = dd.check(sums, kernels={NAME: replace(KERNEL, intrinsics=(wrong,))}, tries=1)
    assert {f.level for f in report.findings} == {"host"}
    testing.assert_intrinsic(wrong, engines="simt", count=128)
    with pytest.raises(AssertionError, match="host: twice_f32x4"):
        testing.assert_intrinsic(wrong, engines=["host"], count=128)


def test_an_intrinsic_is_found_by_its_name() -> None:
    named = replace(KERNEL, intrinsics=("twice",))
    with says("unknown-part", "twice"):
        dd.compile(sums, kernels={NAME: named})
    with dd.register("intrinsics", "twice", MULTIPLY):
        run = dd.compile(sums, kernels={NAME: named})
        x = np.arange(32, dtype=np.float32)
        assert np.array_equal(np.asarray(run(x, x)), 3 * x)
        testing.assert_intrinsic("twice", count=128)


def test_a_predicate_is_judged() -> None:
    c = "FN b8 less_T(T a, T b) { return a < b; }"
    text: dict[str, str] = {"host": c, "cuda": c}
    less = dd.Intrinsic("less", 2, np.less, 0.0, text, predicate=True)
    testing.assert_intrinsic(less, engines=["host", "simt"], count=128)
    wrong = replace(less, text=text | {"host": c.replace("<", "<=")})
    with pytest.raises(AssertionError, match="host: less_f32"):
        testing.assert_intrinsic(wrong, engines=["host"], count=512)


def test_misuse_is_refused() -> None:
    with says("bad-kernel", "twice_f32"):
        dd.compile(sums, kernels={NAME: replace(KERNEL, intrinsics=())})
    with says("registered-twice", "exp", "didyma"):
        dd.compile(
            sums, kernels={NAME: replace(KERNEL, intrinsics=(replace(MULTIPLY, name="exp"),))}
        )
    with says("registered-twice", "twice", "another intrinsic"):
        dd.compile(sums, kernels={NAME: replace(KERNEL, intrinsics=(MULTIPLY, MULTIPLY))})
    for less in (replace(MULTIPLY, text={"host": ""}), replace(MULTIPLY, operands=0)):
        with says("bad-part", "twice", "host and cuda"):
            testing.assert_intrinsic(less)


LOOPS = """primfunc @f(x: f32[n], twice_f32: f32[n], z: f32[n]) writes (z) dims n in [1, 64] {
  for i in n {
    z[i] = twice(x[i], sqrt(twice_f32[i]))
  }
}
"""
STEPS = "schedule @f {\n  split i by 4\n  vectorize i_inner\n}"


def loops(folder: Path) -> dd.LoopProgram:
    (folder / "f.dym").write_text(LOOPS)
    found = dd.load(folder / "f.dym")
    assert isinstance(found, dd.LoopProgram)
    assert f"{found}\n" == LOOPS
    return found


@pytest.mark.parametrize("engine", ["host", "simt"])
def test_loops_call_an_intrinsic_that_is_registered(tmp_path: Path, engine: str) -> None:
    """A buffer has the name of the function in C, and the schedule makes vectors."""
    x, y = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) ** 2
    with dd.register("intrinsics", "twice", MULTIPLY):
        f = loops(tmp_path)
        for given in ({}, {"f": STEPS}):
            run = dd.compile(f, engine=engine, schedules=given)
            assert np.array_equal(np.asarray(run(x, y)), 3 * x)
            assert dd.check(f, schedules=given, engines=[engine]).agree
    with says("parse", "twice"):
        loops(tmp_path)


def test_c_that_leaves_the_meaning_is_found_in_loops(tmp_path: Path) -> None:
    """What is rounded correctly is compared with the definition, bit for bit."""
    text = {**MULTIPLY.text, "host": "FN T twice_T(T a, T b) { return a; }"}
    with dd.register("intrinsics", "twice", replace(MULTIPLY, ulp=0.5, text=text)):
        report = dd.check(loops(tmp_path), engines=["host", "simt"])
    assert {x.level for x in report.findings} == {"host"}


def test_loops_that_misuse_an_intrinsic_are_refused(tmp_path: Path) -> None:
    with dd.register("intrinsics", "twice", MULTIPLY):
        (tmp_path / "f.dym").write_text(LOOPS.replace("twice(x[i], ", "twice("))
        with says("L-intrinsic", "2 operands"):
            dd.load(tmp_path / "f.dym")


@pytest.mark.parametrize("ring", [False, True])
def test_loops_run_in_the_ring(ring: bool) -> None:
    """The values are the same, and nobody knows the payloads of a caller's own."""
    arithmetic: Arithmetic = scalar_ring if ring else scalar
    x = np.array([1, 2], np.float32)
    operands = [scalar_ring.embedded(x)] * 2 if ring else [x] * 2
    got = arithmetic.intrinsic_fn(MULTIPLY, DType.F32)(*operands)
    assert np.array_equal(scalar_ring.value_of(got), 3 * x)
    if ring:
        assert (scalar_ring.payload_of(got) == UNKNOWN).all()
