"""The judge in the ring: a pass that loses a term too small for bars is found and named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen import pipeline
from didyma.codegen.options import Options
from didyma.oracle.report import Report
from didyma.oracle.ring import PrimitivePayloads
from didyma.oracle.stages import judge
from didyma.oracle.subject import Subject
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Tensor
from didyma.refimpl.ops import ring
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.verify.graph import verify

SUM = "axes=(0,), keepdims=false"
TEXT = f"""module {{
  func @main(%x: f32[4096], %y: f32[4096]) -> (%z) {{
    %p = multiply(%x, %y) : f32[4096]
    %s = sum(%p, {SUM}) : f32[]
    %e = exp(%s) : f32[]
    %k = constant(value=f32[] 0.3) : f32[]
    %l = log(%k) : f32[]
    %z = multiply(%e, %l) : f32[]
  }}
}}"""
PRODUCT = "%p = multiply(%x, %y) : f32[4096]"
SHORTER = """%a = slice(%x, starts=(1,), steps=(1,), stops=(4096,)) : f32[4095]
    %b = slice(%y, starts=(1,), steps=(1,), stops=(4096,)) : f32[4095]
    %p = multiply(%a, %b) : f32[4095]"""
RNG = np.random.default_rng(0)
INPUTS = [np.abs(RNG.standard_normal(4096)).astype(np.float32) / 256 for _ in range(2)]


def module(text: str) -> Module:
    m = parse_module(text)
    verify(m)
    return m


def judged(s: Subject, *, in_ring: bool = True) -> Report:
    report = judge(s, INPUTS, in_ring=in_ring)
    assert all(f.level == "passes" for f in report.findings)
    return report


@pytest.fixture(scope="module")
def subject() -> Subject:
    c = pipeline.compile(module(TEXT), Options(), until="plan")
    return Subject(c.source, c.passes, c.fused, c.loops, c.kernels, c.program)


def test_sound_passes_agree_in_the_ring(subject: Subject) -> None:
    """Also where a constant, log(0.3), was folded before the run."""
    assert "log" not in {n.op for f in subject.fused.functions for n in f.nodes}
    (passes,) = (x for x in judged(subject).levels if x.name == "passes")
    assert not passes.findings
    assert (passes.ring_checked, passes.ring_total) == (1, 1)
    (passes,) = (x for x in judged(subject, in_ring=False).levels if x.name == "passes")
    assert passes.ring_total == 0


def test_a_pass_that_drops_a_term_is_blamed_in_the_ring_alone(subject: Subject) -> None:
    bad = module(TEXT.replace(PRODUCT, SHORTER))
    (name, first), *others = subject.passes
    s = replace(subject, passes=((name, first), ("drop", bad), ("again", bad), *others))
    s = replace(s, passes=(*s.passes[:3], ("last", bad)))
    assert not judged(s, in_ring=False).findings, "the bars should forgive one term of 4,096"
    (found,) = judged(s).findings
    assert (found.level, found.where, found.kind) == ("passes", "drop", "ring")
    assert "the values are" in found.message


def test_payloads_of_a_primitive_are_those_of_its_subgraph(subject: Subject) -> None:
    known = PrimitivePayloads(subject.fused, Contract())
    with np.errstate(all="ignore"):
        p, q = map(ring.embed, INPUTS)
        total = ring.exp(ring.sum_of(ring.multiply(p, q)))
    name = next(f.name for f in subject.fused.functions if any(n.op == "sum" for n in f.nodes))
    (z,) = known.of(name, INPUTS, {})
    assert known.of(name, INPUTS, {}) == (z,)
    nodes = [n for f in subject.fused.functions for n in f.nodes]
    (constant,) = (v for n in nodes if isinstance(v := n.attr.get("value"), Tensor))
    assert z.payload == ring.multiply(total, ring.embed(constant.array()))
