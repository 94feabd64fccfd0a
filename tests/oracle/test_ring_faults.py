"""The ring sees terms that bars cannot: each level is given a fault that stays within its bars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen import pipeline
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.simt import Simt
from didyma.fuzz import levels
from didyma.oracle import lanes
from didyma.oracle.report import Report
from didyma.oracle.stages import judge
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.interp.scalar_ring import POISON, embedded, joined
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop, parse_module, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops import ring

TERMS = 4096
DOT = f"""module {{
  func @main(%x: f32[2, {TERMS}], %w: f32[2, {TERMS}]) -> (%y) {{
    %p = multiply(%x, %w) : f32[2, {TERMS}]
    %y = sum(%p, axes=(1,), keepdims=false) : f32[2]
  }}
}}"""
# Terms 7 to 9 are smaller than the rounding of the others.
PRODUCT = "x[i0, k0] * w[i0, k0]"
IN_LOOPS = {
    "dropped": (PRODUCT, f"select(k0 == 7, 0.0:f32, {PRODUCT})"),
    "doubled": (PRODUCT, f"select(k0 == 7, 2.0:f32, 1.0:f32) * ({PRODUCT})"),
    "swapped": ("w[i0, k0]", "w[i0, select(k0 == 7, 9, select(k0 == 9, 7, k0))]"),
    "wrong": ("w[i0, k0]", "w[i0, select(k0 == 7, 8, k0)]"),
}
IN_TEXT = {
    "dropped": ("x[i0 * 4096 + k0_1]", "(k0_1 == 7 ? 0.0f : x[i0 * 4096 + k0_1])"),
    "doubled": ("x[i0 * 4096 + k0_1]", "(k0_1 == 7 ? 2.0f : 1.0f) * x[i0 * 4096 + k0_1]"),
    "swapped": ("w[i0 * 4096 + k0_1]", "w[i0 * 4096 + (k0_1 == 7 ? 9 : k0_1 == 9 ? 7 : k0_1)]"),
    "wrong": ("w[i0 * 4096 + k0_1]", "w[i0 * 4096 + (k0_1 == 7 ? 8 : k0_1)]"),
}


@pytest.fixture(scope="module")
def dot() -> Compiled:
    return pipeline.compile(parse_module(DOT), Options().changed({"kernels.vectorise": False}))


@pytest.fixture(scope="module")
def given() -> list[Array]:
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal((2, TERMS)).astype(np.float32) for _ in range(2))
    x[:, 7:10] *= 1e-7
    return [x, w]


def judged(c: Compiled, given: list[Array], *, ring: bool) -> Report:
    return levels.judged(c, given, [Simt()], details=False, ring=ring)


def found(r: Report) -> list[tuple[str, str]]:
    return [(f.level, f.kind) for f in r.findings]


def edited(f: PrimFunc, old: str, new: str) -> PrimFunc:
    """Return a function with one change of its text."""
    assert old in show(f)
    (f,) = parse_loop(show(f).replace(old, new))
    return f


def test_every_level_agrees_and_knows_every_payload(dot: Compiled, given: list[Array]) -> None:
    report = judged(dot, given, ring=True)
    assert not report.findings
    assert {v.name: (v.ring_checked, v.ring_total) for v in report.levels if v.ring_total} == {
        "passes": (2, 2), "loop": (2, 2), "kernel": (2, 2), "program": (2, 2), "simt": (4, 4),
    }  # fmt: skip
    assert not any(v.ring_total for v in judged(dot, given, ring=False).levels)


@pytest.mark.parametrize("fault", IN_LOOPS)
def test_loops_with_a_fault_in_one_term_differ_in_the_ring_alone(
    fault: str, dot: Compiled, given: list[Array]
) -> None:
    s = levels.subject(dot)
    ((name, f),) = s.loops.items()
    s = replace(s, loops={name: edited(f, *IN_LOOPS[fault])})
    assert not judge(s, given, details=False).findings
    assert found(judge(s, given, details=False, in_ring=True)) == [("loop", "ring")]


@pytest.mark.parametrize("fault", IN_TEXT)
def test_text_with_a_fault_in_one_term_differs_in_the_ring_alone(
    fault: str, dot: Compiled, given: list[Array]
) -> None:
    old, new = IN_TEXT[fault]
    assert old in dot.text.source
    text = KernelText(dot.text.source.replace(old, new), dot.text.kernels, dot.text.origins)
    wrong = replace(dot, text=text)
    assert not judged(wrong, given, ring=False).findings
    assert found(judged(wrong, given, ring=True)) == [("simt", "ring")]


# A dot product of each trial; the terms at ``j`` and ``l`` are those that a fault is about.
TRIALS = """primfunc @dots(x: f32[{k}], w: f32[{k}], j: i64[{n}], l: i64[{n}], y: f32[{n}])
    writes (y) {{
  for t in {n} parallel {{
    alloc acc: f32[] local
    acc[] = 0.0:f32
    for k in {k} {{
      acc[] = acc[] + {term}
    }}
    y[t] = acc[]
  }}
}}"""
TERMS_OF_TRIALS = {
    "right": "x[k] * w[k]",
    "dropped": "select(k == j[t], 0.0:f32, x[k] * w[k])",
    "doubled": "select(k == j[t], 2.0:f32, 1.0:f32) * x[k] * w[k]",
    "swapped": "x[k] * w[select(k == j[t], l[t], select(k == l[t], j[t], k))]",
    "wrong": "x[k] * w[select(k == j[t], l[t], k)]",
}


@pytest.mark.parametrize("fault", TERMS_OF_TRIALS)
def test_random_faults_in_one_of_many_terms_change_the_payload(fault: str) -> None:
    n, k = 4000, 64
    rng = np.random.default_rng(sum(fault.encode()))
    (f,) = parse_loop(TRIALS.format(n=n, k=k, term=TERMS_OF_TRIALS[fault]))
    x, w = (rng.standard_normal(k).astype(np.float32) for _ in range(2))
    j = rng.integers(0, k, n)
    other = (j + rng.integers(1, k, n)) % k
    y = np.asarray(joined(np.zeros(n, np.float32), POISON))
    buffers = {"x": embedded(x), "w": embedded(w), "j": j, "l": other, "y": y}
    lanes.run(f, buffers, {}, arithmetic=scalar_ring)
    want = ring.sum_of(ring.multiply(ring.embed(x), ring.embed(w)))
    seen = np.count_nonzero(y["payload"] != want) / n
    assert seen == 0 if fault == "right" else seen >= 0.999


# A fold of ``n`` dot products of 2**20 terms, each by 1024 lanes: trial ``t`` scales its term
# ``j[t]`` and takes the factors of two terms from elsewhere.
MILLION = """primfunc @dots(x: f32[1048576], w: f32[1048576], j: i64[{n}], l: i64[{n}],
    scale: f32[{n}], at_j: i64[{n}], at_l: i64[{n}], part: f32[{n}, 1024], y: f32[{n}])
    writes (part, y) {{
  for t in {n} parallel {{
    for lane in 1024 parallel {{
      alloc acc: f32[] local
      acc[] = 0.0:f32
      for turn in 1024 {{
        let k = turn * 1024 + lane
        let from = select(k == j[t], at_j[t], select(k == l[t], at_l[t], k))
        acc[] = acc[] + x[k] * w[from] * select(k == j[t], scale[t], 1.0:f32)
      }}
      part[t, lane] = acc[]
    }}
  }}
  for u in {n} parallel {{
    alloc total: f32[] local
    total[] = 0.0:f32
    for i in 1024 {{
      total[] = total[] + part[u, i]
    }}
    y[u] = total[]
  }}
}}"""


def test_a_fault_in_a_fold_of_a_million_terms_changes_the_payload() -> None:
    n, k = 5, 1 << 20
    rng = np.random.default_rng(20)
    x, w = (rng.standard_normal(k).astype(np.float32) for _ in range(2))
    j, other = rng.permutation(k)[: 2 * n].reshape(2, n)
    scale = np.array([1, 0, 2, 1, 1], np.float32)  # right, dropped, doubled, swapped, wrong
    at_j = np.where(np.arange(n) < 3, j, other)
    at_other = np.where(np.arange(n) == 3, j, other)
    empty = [np.asarray(joined(np.zeros(s, np.float32), POISON)) for s in ((n, 1024), n)]
    (f,) = parse_loop(MILLION.format(n=n))
    names = [p.name for p in f.params]
    given = [embedded(x), embedded(w), j, other, embedded(scale), at_j, at_other, *empty]
    lanes.run(f, dict(zip(names, given, strict=True)), {}, arithmetic=scalar_ring)
    want = ring.sum_of(ring.multiply(ring.embed(x), ring.embed(w)))
    assert (empty[1]["payload"] == want).tolist() == [True, False, False, False, False]


def test_random_bits_that_are_computed_beforehand_agree() -> None:
    m = parse_module("""module {
      func @main() -> (%f) {
        %seed = constant(value=u64[] 11333371569883544198) : u64[]
        %bits = random_bits(%seed, dtype=u32, shape=(3,), stream=1) : u32[3]
        %f = cast(%bits, dtype=f32) : f32[3]
      }
    }""")
    assert not levels.check(m, [], [Simt()], details=False, ring=True).findings
