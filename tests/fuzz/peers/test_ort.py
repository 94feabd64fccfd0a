"""ONNX Runtime as a peer: it agrees within the bars, and a wrong model is seen."""

from __future__ import annotations

import random
import sys
from collections import Counter
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import didyma as dd
from didyma.fuzz.graphs import BYTES, decode
from didyma.fuzz.peers import ort, registry
from didyma.fuzz.peers.judge import by_kernel, end_to_end
from didyma.onnx.export import to_model
from didyma.oracle.report import Agreement
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import PLAIN, DType
from tests.didyma.onnx.models import model, value

needs_runtime = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is absent")

TEXT = """module {
  dims n in [1, 64]
  func @main(%x: f32[n, 3], %w: f32[3, 4], %b: bf16[4]) -> (%z, %s) {
    %y = matmul(%x, %w) : f32[n, 4]
    %c = cast(%b, dtype=f32) : f32[4]
    %z = add(%y, %c) : f32[n, 4]
    %s = cast(%z, dtype=bf16) : bf16[n, 4]
  }
}
"""


def _operands() -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = ((5, 3), (3, 4), (4,))
    found: list[Any] = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    found[2] = found[2].astype(DType.BF16.numpy)
    return found


@needs_runtime
def test_agrees() -> None:
    m = parse_module(TEXT)
    found = end_to_end(ort.OnnxRuntime(), m, _operands(), {"n": 5})
    assert found.findings == ()
    assert found.checked_share == 1


@needs_runtime
def test_a_wrong_model_is_seen() -> None:
    m = parse_module(TEXT)
    wrong = parse_module(TEXT.replace("add(%y, %c)", "subtract(%y, %c)"))
    model = to_model(ort.dress(wrong)).SerializeToString()
    dressed = ort.dress(m)
    inputs = [a.astype(np.float32) for a in _operands()]
    (finding, *_) = end_to_end(ort.OnnxRuntime(), dressed, inputs, {"n": 5}, model).findings
    assert finding.kind == "value"


_FOLDS = ("sum", "prod", "cumulative_sum", "cumulative_prod", "matmul", "conv")


def _tame(m: Module) -> bool:
    """Tell whether a graph keeps clear of what ONNX Runtime gets wrong in known ways.

    It folds integers in f64, and compares i64 in some extremes by their low halves.
    """
    types = [t for t in m.entry.types().values() if t.dtype.is_int]
    wide = any(t.dtype.nbytes > 2 for t in types)
    folds = types and any(n.op in _FOLDS for n in m.entry.nodes)
    signs = any(n.op in ("reciprocal", "copysign", "signbit") for n in m.entry.nodes)
    stored = any(t.dtype not in PLAIN for t in m.entry.types().values())
    return not (wide or folds or signs or stored)


@needs_runtime
def test_fuzzed_graphs_agree() -> None:
    peer = ort.OnnxRuntime()
    ends: Counter[str] = Counter()
    for seed in range(320):
        case = decode(random.Random(seed).randbytes(BYTES))
        if not _tame(case.module):
            continue
        found = end_to_end(peer, case.module, case.inputs(), dict(case.env))
        assert not found.findings, (seed, found.findings)
        ends["refused" if found.note else "agrees"] += 1
    assert ends["agrees"] >= 10
    assert ends["agrees"] > 2 * ends["refused"]


@needs_runtime
def test_a_broken_model_is_refused_with_a_code() -> None:
    with pytest.raises(DidymaError) as caught:
        ort.run_model(b"nonsense", {})
    assert caught.value.code == "peer-refused"


class Refusing:
    """A peer that supports nothing."""

    name = "refusing"
    contract = None

    def run(self, m: Module, inputs: object, model: bytes | None = None) -> list[Any]:
        raise DidymaError("peer-refused", self.name, got=m.entry.nodes[0].op, want="no op")


def test_a_peer_that_refuses_is_not_judged() -> None:
    report = dd.check(dd.trace(dd.f32[4])(dd.exp), engines="host", peers=[Refusing()], tries=2)
    assert (report.outcome, report.findings) == (Agreement.UNCHECKED, ())
    (level,) = (v for v in report.levels if v.name == "refusing")
    assert level.outcome is Agreement.UNCHECKED
    assert level.note == "not judged, since it refused (peer-refused): exp"


def test_without_the_package_the_engine_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EngineMissing) as caught:
        registry.peer("onnxruntime")
    assert caught.value.code == "engine-missing"
    assert caught.value.exit_code == 4


BRANCHES = """module {
  func @yes(%a: f32[4]) -> (%y) attrs(Primitive=1) {
    %y = exp(%a) : f32[4]
  }
  func @no(%a: f32[4]) -> (%y) attrs(Primitive=1) {
    %y = sqrt(%a) : f32[4]
  }
  func @then(%a: f32[4]) -> (%y) {
    %y = call @yes(%a) : f32[4]
  }
  func @else(%a: f32[4]) -> (%y) {
    %y = call @no(%a) : f32[4]
  }
  func @main(%c: bool[], %x: f32[4]) -> (%y) {
    %y = if(%c, %x, binds=(), otherwise="else", then="then") : f32[4]
  }
}
"""


@needs_runtime
@pytest.mark.parametrize("taken", [True, False])
def test_kernels_of_the_branch_that_is_taken_are_judged_alone(taken: bool) -> None:
    m = parse_module(BRANCHES)
    inputs = [np.array(taken), np.linspace(1, 2, 4, dtype=np.float32)]
    found = by_kernel(ort.OnnxRuntime(), m, inputs, {})
    assert found.findings == ()
    assert [c.checked for c in found.comparisons] == [4]


@needs_runtime
def test_results_of_sizes_that_the_run_finds_are_compared() -> None:
    text = """module {
      dims k in [0, 9]
      func @main(%n: i64[], %x: f32[]) -> (%y) {
        () = bind(%n, dim="k")
        %y = broadcast_to(%x, shape=(k,)) : f32[k]
      }
    }"""
    shape = helper.make_node("Reshape", ["n", "one"], ["shape"])
    expand = helper.make_node("Expand", ["x", "shape"], ["y"])
    inputs = [value("n", type=TensorProto.INT64), value("x")]
    wide = model([shape, expand], inputs, [value("y", "k")], one=np.array([1]))
    wide.ir_version = 8
    given = [np.array(3), np.array(0.5, np.float32)]
    m = parse_module(text)
    found = end_to_end(ort.OnnxRuntime(), m, given, {}, wide.SerializeToString())
    assert found.findings == ()
    assert [c.checked for c in found.comparisons if c.total] == [3]
