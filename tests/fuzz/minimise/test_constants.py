"""Parts of a graph give way to constants where a fault needs constants."""

from __future__ import annotations

import numpy as np

from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.graph import shrink_to_constants
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.verify.graph import verify

TEXT = """module {
  func @main(%x: i32[3], %y: i32[3]) -> (%d) {
    %a = negative(%x) : i32[3]
    %b = multiply(%a, %x) : i32[3]
    %c = abs(%b) : i32[3]
    %d = add(%c, %y) : i32[3]
  }
}"""


def test_a_part_becomes_the_constant_that_it_comes_to() -> None:
    whole = Case(parse_module(TEXT), (), (1, 2))
    (want,) = graph.run(whole.module, whole.inputs())
    steps = shrink_to_constants(whole)
    best, case = whole, next(steps, None)
    while case is not None:
        verify(case.module)
        fails = any(n.op == "abs" for n in case.module.entry.nodes)  # what the fault needs
        best = case if fails else best
        try:
            case = steps.send(fails)
        except StopIteration:
            break
    assert [n.op for n in best.module.entry.nodes] == ["constant", "abs", "add"]
    assert [p.name for p in best.module.entry.params] == ["y"]
    (got,) = graph.run(best.module, best.inputs())
    assert np.array_equal(got, want)
