"""Branches, loops, scans and run-time sizes as ONNX models: run by others, and read again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from didyma.fuzz.graphs import BYTES, decode
from didyma.fuzz.peers import ort
from didyma.onnx.export import to_model
from didyma.onnx.load import load_model
from didyma.oracle.compare import compare
from didyma.oracle.primitives import exact
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import CONTROL, IF, SCAN, WHILE, Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from tests.codegen.control import modules

# A branch of more elements than the other, whose number the results after it mention.
SIZED = """module {
  dims n in [1, 8], r in [0, 16]
  func @then(%x: f32[n]) -> (%x) {}
  func @otherwise(%x: f32[n]) -> (%y) { %y = concat(%x, %x, axis=0) : f32[2*n] }
  func @main(%c: bool[], %x: f32[n]) -> (%a, %b) {
    %a = if(%c, %x, binds=("r",), otherwise="otherwise", then="then") : f32[r]
    %b = pad(%a, %z, high=(r,), low=(1,), mode="constant") : f32[2*r + 1]
  }
}
""".replace("    %b = pad", "    %z = constant(value=f32[] 0.5) : f32[]\n    %b = pad")

# What is positive, in order, and how far each is from the first.
POSITIVE = """module {
  dims n in [0, 8], u in [0, 8]
  func @main(%x: f32[n]) -> (%kept, %far) {
    %z = constant(value=f32[] 0.0) : f32[]
    %p = greater(%x, %z) : bool[n]
    %i = cast(%p, dtype=i64) : i64[n]
    %k = sum(%i, axes=(0,), keepdims=false) : i64[]
    () = bind(%k, dim="u")
    %s = cumulative_sum(%i, axis=0, exclusive=true, reverse=false) : i64[n]
    %off = constant(value=i64[] 1000) : i64[]
    %at = where(%p, %s, %off) : i64[n]
    %base = broadcast_to(%z, shape=(u,)) : f32[u]
    %kept = scatter(%base, %at, %x, axis=0, reduction="none") : f32[u]
    %far = iota(axis=0, dtype=f32, shape=(2, u)) : f32[2, u]
  }
}
"""

# Two states, two results a round, one operand scanned and one whole; the index is a size.
SCANNED = """module {
  dims n in [0, 6], i in [0, 5]
  func @step(%s: f32[3], %t: i64[], %x: f32[3], %w: f32[3]) -> (%a, %u, %m, %u) {
    %p = multiply(%x, %w) : f32[3]
    %a = add(%s, %p) : f32[3]
    %k = iota(axis=0, dtype=i64, shape=(i,)) : i64[i]
    %q = sum(%k, axes=(0,), keepdims=false) : i64[]
    %u = add(%t, %q) : i64[]
    %m = max(%a, axes=(0,), keepdims=false) : f32[]
  }
  func @main(%s: f32[3], %x: f32[n, 3], %w: f32[3]) -> (%a, %u, %m, %v) {
    %t = constant(value=i64[] 7) : i64[]
    %a, %u, %m, %v = scan(%s, %t, %x, %w, body="step", index="i", length=n, scanned=1, states=2)
      : f32[3], i64[], f32[n], i64[n]
  }
}
"""

# A branch in a scan in a loop: rounds add what is above the mean, or take away what is not.
DEEP = """module {
  func @more(%s: f32[], %x: f32[]) -> (%r) { %r = add(%s, %x) : f32[] }
  func @less(%s: f32[], %x: f32[]) -> (%r) { %r = subtract(%s, %x) : f32[] }
  func @step(%s: f32[], %x: f32[], %m: f32[]) -> (%r, %r) {
    %c = greater(%x, %m) : bool[]
    %r = if(%c, %s, %x, binds=(), otherwise="less", then="more") : f32[]
  }
  func @going(%k: i64[], %x: f32[4], %s: f32[], %n: i64[]) -> (%c) {
    %c = less(%k, %n) : bool[]
  }
  func @round(%k: i64[], %x: f32[4], %s: f32[], %n: i64[]) -> (%j, %ys, %r) {
    %one = constant(value=i64[] 1) : i64[]
    %j = add(%k, %one) : i64[]
    %m = mean(%x, axes=(0,), keepdims=false) : f32[]
    %r, %ys = scan(%s, %x, %m, body="step", index="", length=4, scanned=1, states=1)
      : f32[], f32[4]
  }
  func @main(%x: f32[4], %n: i64[]) -> (%y, %s) {
    %k = constant(value=i64[] 0) : i64[]
    %z = constant(value=f32[] 0.0) : f32[]
    %j, %y, %s = while(%k, %x, %z, %n, binds=(), body="round", carried=3, cond="going")
      : i64[], f32[4], f32[]
  }
}
"""

# The same value twice, a capture as a result, a constant as a result, and a value of rank 0.
PLAIN = """module {
  func @then(%x: f32[2], %y: f32[]) -> (%x, %x, %y, %c) { %c = constant(value=i32[] 3) : i32[] }
  func @otherwise(%x: f32[2], %y: f32[]) -> (%x, %z, %w, %c) {
    %z = negative(%x) : f32[2]
    %w = exp(%y) : f32[]
    %c = constant(value=i32[] 4) : i32[]
  }
  func @main(%c: bool[], %x: f32[2], %y: f32[]) -> (%p, %q, %r, %s) {
    %p, %q, %r, %s = if(%c, %x, %y, binds=(), otherwise="otherwise", then="then")
      : f32[2], f32[2], f32[], i32[]
  }
}
"""


def f32(*shape: int) -> Array:
    """Numbers of which none is near another's sign or the edge of a branch."""
    count = int(np.prod(shape, dtype=int))
    return (np.linspace(-2.25, 3.5, count) if count > 1 else np.full(count, 1.5)).astype(
        np.float32
    ).reshape(shape)  # fmt: skip


YES, NO = np.array(True), np.array(False)
CASES: Mapping[str, tuple[str, Sequence[Sequence[Array]]]] = {
    "branch": (modules.BRANCH, [[f32(8), f32(8)], [f32(8) / 4, f32(8)]]),
    "swap": (modules.SWAP, [[f32(4), f32(4)], [f32(4), f32(4) * 40]]),
    "scan": (modules.SCAN, [[f32(n, 3), f32(3)] for n in (1, 2, 6)]),
    "nested": (modules.NESTED, [[f32(n, 4), f32(4)] for n in (1, 3)]),
    "grows": (modules.GROWS, [[f32(n), f32(m)] for n, m in ((1, 1), (2, 9), (4, 20))]),
    "sized": (SIZED, [[c, f32(n)] for c in (YES, NO) for n in (1, 5)]),
    "positive": (POSITIVE, [[f32(n)] for n in (1, 8)] + [[-np.ones(3, np.float32)]]),
    "scanned": (SCANNED, [[f32(3), f32(n, 3), f32(3)] for n in (1, 5)]),
    "deep": (DEEP, [[f32(4), np.array(n)] for n in (0, 1, 3)]),
    "plain": (PLAIN, [[c, f32(2), f32()] for c in (YES, NO)]),
}
EMPTY: Mapping[str, Sequence[Array]] = {  # sizes of 0, which not every peer takes
    "scan": [f32(0, 3), f32(3)],
    "nested": [f32(0, 4), f32(4)],
    "positive": [f32(0)],
    "scanned": [f32(3), f32(0, 3), f32(3)],
}
RUNS = [(name, k) for name, (_, runs) in CASES.items() for k in range(len(runs))]


def exported(m: Module) -> onnx.ModelProto:
    """Express a module; onnx's own checker must find its types and shapes lawful."""
    model = to_model(m)
    checked: Any = onnx.checker
    checked.check_model(model, full_check=True)
    return model


def judged(m: Module, inputs: Sequence[Array], got: Sequence[Any]) -> None:
    """Require that results lie in the bars of a peer that states nothing of itself."""
    with np.errstate(all="ignore"):
        bars = graph.bars(
            m.entry, m, [exact(a) for a in inputs], None, ort.OnnxRuntime.contract, stored=True
        )
    types = m.entry.result_types()
    for name, bar, out, t in zip(m.entry.results, bars, got, types, strict=True):
        array = np.asarray(out)
        assert array.dtype == t.dtype.numpy
        assert compare(name, bar, array, t.with_shape(*bar.c.shape)).message == ""


def feeds(m: Module, inputs: Sequence[Array]) -> dict[str, Array]:
    return dict(zip((p.name for p in m.entry.params), inputs, strict=True))


@pytest.mark.parametrize(("name", "k"), RUNS)
def test_the_reference_evaluator_runs_it(name: str, k: int) -> None:
    text, runs = CASES[name]
    m = parse_module(text)
    evaluator: Any = ReferenceEvaluator(exported(m))
    judged(m, runs[k], evaluator.run(None, feeds(m, runs[k])))


@pytest.mark.parametrize(("name", "k"), RUNS)
def test_onnx_runtime_runs_it(name: str, k: int) -> None:
    pytest.importorskip("onnxruntime")
    text, runs = CASES[name]
    m = parse_module(text)
    judged(m, runs[k], ort.run_model(exported(m), feeds(m, runs[k])))


@pytest.mark.parametrize("name", CASES)
def test_it_is_read_again(name: str) -> None:
    text, runs = CASES[name]
    m = parse_module(text)
    again = load_model(exported(m))
    assert [p.name for p in again.entry.params] == [p.name for p in m.entry.params]
    for inputs in [*runs, *([EMPTY[name]] if name in EMPTY else [])]:
        judged(m, inputs, graph.run(again, inputs))


@pytest.mark.parametrize(
    ("name", "op"), [("sized", IF), ("swap", WHILE), ("scan", SCAN), ("grows", WHILE)]
)
def test_what_runs_is_read_again_as_such(name: str, op: str) -> None:
    again = load_model(exported(parse_module(CASES[name][0])))
    assert op in {n.op for f in again.functions for n in f.nodes}


def test_fuzzed_control_flow_is_read_again() -> None:
    came = 0
    for seed in range(1000, 1250):
        case = decode(random.Random(seed).randbytes(BYTES))
        m = case.module
        if not any(n.op in CONTROL for f in m.functions for n in f.nodes):
            continue
        try:
            again = load_model(to_model(m))
        except DidymaError as e:
            if e.code != "shape-mismatch":  # two expressions of one size, not recognised as equal
                raise
            continue
        with np.errstate(all="ignore"):
            judged(m, case.inputs(), graph.run(again, case.inputs()))
        came += 1
    assert came >= 15
