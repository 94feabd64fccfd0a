"""Targets: what laws take from them, which engines have them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.registry import engine, targets
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.target import PORTABLE, SM_90A, TARGETS
from didyma.refimpl.ir.text import parse_loop, parse_program
from didyma.refimpl.verify import loop, program
from tests.errors.test_codes import says

SMALL = replace(PORTABLE, name="small", threads=64, shared=128, stack=1024, atomics=())
KERNEL = """kernel @k(x: f32[256], y: f32[256]) writes (y) {
  for b in 2 bound blockIdx.x {
    for t in 128 bound threadIdx.x {
      y[b * 128 + t] = x[b * 128 + t]
    }
  }
}
"""
STACK = """program @main {
  inputs (%x)
  types {
    %x: f32[512]
    %y: f32[512]
  }
  lines {
    arena %a of 2048 stack
    place %y in %a at 0
    copy %y from %x
    return (%y)
  }
}
"""


class Plain(Host):
    """An engine of a caller's own that has the portable target alone."""

    name = "plain"
    targets = (PORTABLE,)


def opposite(x: dd.Tensor) -> dd.Tensor:
    return -x


def negated() -> dd.Program:
    return dd.trace(dd.f32[300])(opposite)


def test_a_target_covers_what_asks_for_less() -> None:
    assert all(t.covers(PORTABLE) for t in TARGETS.values())
    assert PORTABLE.covers(SMALL)
    assert not SMALL.covers(PORTABLE)
    assert not replace(SM_90A, architecture="sm_80").covers(SM_90A)
    assert not replace(SM_90A, families=("mma",)).covers(SM_90A)
    assert {name: t.name for name, t in TARGETS.items()} == {n: n for n in TARGETS}


def test_laws_take_the_limits_of_a_target() -> None:
    (k,) = parse_loop(KERNEL)
    loop.verify(k)
    with says("L-threads", "128 threads", "1 to 64"):
        loop.verify(k, SMALL)
    p = parse_program(STACK)
    program.verify(p)
    with says("P-stack", "at most 1024"):
        program.verify(p, target=SMALL)


def test_a_compile_keeps_the_laws_of_its_target() -> None:
    m = negated().module
    assert compile(m, Options(target="sm_90a")).text == compile(m).text
    with says("L-threads", "1 to 64"):
        compile(m, Options(target=SMALL))


def test_engines_of_the_cpu_imitate_every_target() -> None:
    x = np.arange(300, dtype=np.float32)
    for name in ("simt", "host"):
        assert targets(engine(name)) == tuple(TARGETS.values())
        run = dd.compile(negated(), engine=name, options=dd.Options(target="sm_90a"))
        assert np.array_equal(np.asarray(run(x)), -x)


@pytest.mark.parametrize("target", ["sm_90a", SM_90A])
def test_an_engine_without_the_target_is_refused(target: str | dd.Target) -> None:
    options = dd.Options(target=target)
    with says("wrong-target", "engine plain", "a program for sm_90a", "portable"):
        dd.compile(negated(), engine=Plain(), options=options)
    with says("wrong-target", "engine plain"):
        dd.check(negated(), engines=["host", Plain()], options=options)
    assert dd.check(negated(), engines=[Plain()], tries=1).agree


def test_a_target_is_recorded_by_its_name() -> None:
    assert Options(target=SM_90A).record()["target"] == "sm_90a"
    assert Options.recorded(Options(target=SM_90A).record()).device == SM_90A
    assert Options.recorded({"version": 2}).device == PORTABLE
    with pytest.raises(DidymaError, match="unknown-target"):
        Options(target="sm_10")
