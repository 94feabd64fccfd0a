"""Statements that change no value: checked by the definition, by lanes and by every engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from didyma.codegen.emit.cuda import emit
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.registry import engine
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import loop as laws
from didyma.refimpl.verify.sharing import may_share
from tests.codegen.emit.test_golden import hints
from tests.codegen.emit.test_runs import launch
from tests.oracle.lanes import both

COPY = """
kernel @copy(x: f32[8], y: f32[8]) writes (y) {
  for t in 4 bound threadIdx.x {
    STATEMENT
    y[t] = x[t]
  }
}
"""


def kernel(statement: str) -> PrimFunc:
    (f,) = parse_loop(COPY.replace("STATEMENT", statement))
    laws.verify(f)
    assert parse_loop(show((f,))) == (f,)
    return f


def given() -> dict[str, Array]:
    return {"x": np.arange(8, dtype=np.float32), "y": np.zeros(8, np.float32)}


def on(name: str) -> Callable[[PrimFunc], Array]:
    return lambda f: launch(engine(name), f, given(), {})[1]


def interpreted(f: PrimFunc) -> Array:
    held = given()
    both.run(f, held, {})
    return held["y"]


RUNS = {"interpreters": interpreted, "host": on("host"), "simt": on("simt")}
HARMLESS = (
    "evaluate exp(x[t + 4])",
    "prefetch x[t + 4]",
    'assert t < 4, "no more threads"',
    'attr cache = "pass" { evaluate x[t + 4] }',
    'attr remark = "odd */ and \\\\" { evaluate t }',
    "attr unroll = 2 { for k in 3 { y[t] = 1.0:f32 } }",
)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("statement", HARMLESS)
def test_no_value_changes(statement: str, run: str) -> None:
    assert RUNS[run](kernel(statement)).tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


SMALL = 'assert x[t] < 3.0:f32, "small numbers"'


def test_an_assertion_that_fails_is_a_fault_of_interpreters() -> None:
    with pytest.raises(LoopFault, match="small numbers") as e:
        interpreted(kernel(SMALL))
    assert e.value.kind == "assert"


@pytest.mark.parametrize("name", ["host", "simt"])
def test_an_assertion_that_fails_is_a_fault_of_the_launch(name: str) -> None:
    with pytest.raises(KernelFault) as e:
        on(name)(kernel(SMALL))
    (fault,) = e.value.faults
    assert fault.kind == "assert"
    assert "small numbers" in fault.source
    assert fault.node.startswith("assert x[t] < 3.0")


def test_a_thread_whose_assertion_fails_does_nothing_more() -> None:
    """It neither waits at a barrier nor reports one, and what it would write is not written."""
    f = kernel('assert x[t] != 2.0:f32, "not two"\n    barrier')
    with pytest.raises(KernelFault) as e:
        on("host")(f)
    assert [x.kind for x in e.value.faults] == ["assert"]


@pytest.mark.parametrize("run", ["interpreters", "simt"])
@pytest.mark.parametrize("statement", ["prefetch x[t + 5]", "evaluate x[t + 5]"])
def test_what_is_hinted_or_dropped_is_in_bounds(statement: str, run: str) -> None:
    with pytest.raises((LoopFault, KernelFault), match="out-of-bounds"):
        RUNS[run](kernel(statement))


def test_hints_do_not_keep_a_kernel_from_working_in_place() -> None:
    assert may_share(kernel("prefetch x[t + 4]"), "y", "x")
    assert may_share(kernel('attr remark = "one" { evaluate 1 }'), "y", "x")
    assert not may_share(kernel("evaluate x[t + 4]"), "y", "x")


def test_a_dropped_load_inside_an_attribute_is_a_load() -> None:
    wrapped = kernel('attr remark = "one" { for k in 2 { y[t] = x[t + k] } }')
    assert not may_share(wrapped, "y", "x")


def test_nvrtc_compiles_hints() -> None:
    engine("nvrtc").load(emit([hints()]))
