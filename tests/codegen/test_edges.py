"""Modules at the edge of what a compile meets: nothing to concatenate, no round of a loop."""

from __future__ import annotations

import pytest
import sympy

from didyma.codegen.options import GraphOptions, Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.dims import evaluate, symbol
from didyma.refimpl.ir.expr import add, floordiv, index, mul, of_dim
from didyma.refimpl.ir.loop import Var
from didyma.refimpl.ir.text import parse_module

PART_WITHOUT_ELEMENTS = """
module {
  func @main(%a: u64[8, 4], %b: u64[16, 4], %c: u64[0, 4]) -> (%d) {
    %a1 = negative(%a) : u64[8, 4]
    %d = concat(%a1, %b, %c, axis=0) : u64[24, 4]
  }
}"""
SLICE_OF_A_CONSTANT = """
module {
  dims r0 in [0, 3]
  func @main(%n: i64[]) -> (%y) {
    %x = constant(value=f32[3, 5, 0] base64 "") : f32[3, 5, 0]
    () = bind(%n, dim="r0")
    %y = slice(%x, starts=(0, 0, 0), steps=(1, 1, 1), stops=(r0, 5, 0)) : f32[r0, 5, 0]
  }
}"""
NO_ROUND = """
module {
  dims r0 in [0, 0]
  func @step(%a0: u32[], %a1: u32[], %a2: u32[]) -> (%a2, %a2) {
  }
  func @main(%x: u32[LENGTH], %s: u32[]) -> (%last) {
    %last, %rows = scan(%s, %x, %s, body="step", index="INDEX", length=LENGTH, scanned=1, states=1)
      : u32[], u32[LENGTH]
  }
}"""


@pytest.mark.parametrize("simplify", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        PART_WITHOUT_ELEMENTS,
        SLICE_OF_A_CONSTANT.replace("f32[r0, 5, 0]", "f32[Min(3, r0), 5, 0]"),
        NO_ROUND.replace("LENGTH", "0").replace("INDEX", "r0"),
        NO_ROUND.replace("LENGTH", "r0").replace("INDEX", ""),
    ],
    ids=["empty part", "constant slice", "static", "symbolic"],
)
def test_it_compiles(text: str, simplify: bool) -> None:
    compile(parse_module(text), Options(graph=GraphOptions(simplify=simplify)))


def test_a_whole_number_with_a_fraction_in_it() -> None:
    n = symbol("n")
    half = n * (n + 1) / 2
    assert evaluate(half, {"n": 5}) == 15
    v = Var("n")
    assert of_dim(sympy.expand(half)) == floordiv(add(v, mul(v, v)), index(2))
