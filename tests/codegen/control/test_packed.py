"""Packed elements in branches, loops and scans, at every level: rows end anywhere in a byte."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.codegen.options import GraphOptions, MemoryOptions, Options
from didyma.codegen.passes.stacks import widen_stacks
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import values
from didyma.fuzz.levels import judged
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import PACKED, Array, DType
from didyma.refimpl.verify.graph import verify

ROWS = ("", "1", "3", "8", "2, 3", "64", "n")

# Each row, and what was chosen of it and of the row before, are stacked; the latter is kept, too.
SCAN = """
module {
  dims k in [0, 9], n in [0, 9]
  func @step(%s: T[ROW], %x: T[ROW], %c: bool[]) -> (%new, %new, %c, %x) {
    %new = where(%c, %s, %x) : T[ROW]
  }
  func @main(%s: T[ROW], %x: T[k, ROW], %c: bool[]) -> (%last, %all, %same) {
    %last, %all, %cs, %same =
      scan(%s, %x, %c, body="step", index="", length=k, scanned=1, states=1)
      : T[ROW], T[k, ROW], bool[k], T[k, ROW]
  }
}
"""

# A scan in a body of another, whose stacks are stacked.
NESTED = """
module {
  func @inner(%x: T[3], %c: bool[]) -> (%y) {
    %z = flip(%x, axes=(0,)) : T[3]
    %y = where(%c, %x, %z) : T[3]
  }
  func @outer(%x: T[2, 3], %c: bool[]) -> (%y) {
    %y = scan(%x, %c, body="inner", index="", length=2, scanned=1, states=0) : T[2, 3]
  }
  func @main(%x: T[5, 2, 3], %c: bool[]) -> (%y, %z) {
    %y = scan(%x, %c, body="outer", index="", length=5, scanned=1, states=0) : T[5, 2, 3]
    %z = scan(%y, %c, body="outer", index="", length=5, scanned=1, states=0) : T[5, 2, 3]
  }
}
"""

# A branch of two sizes, and a loop that makes its value longer by three elements a round.
GROWS = """
module {
  dims u in [3, 6], g in [0, 20]
  func @one(%x: T[3]) -> (%y) { %y = flip(%x, axes=(0,)) : T[3] }
  func @two(%x: T[3]) -> (%y) { %y = concat(%x, %x, axis=0) : T[6] }
  func @going(%i: i64[], %y: T[g], %x: T[3], %k: i64[]) -> (%go) {
    %go = less(%i, %k) : bool[]
  }
  func @round(%i: i64[], %y: T[g], %x: T[3], %k: i64[]) -> (%j, %z) {
    %one = constant(value=i64[] 1) : i64[]
    %j = add(%i, %one) : i64[]
    %z = concat(%y, %x, axis=0) : T[g + 3]
  }
  func @main(%x: T[3], %c: bool[], %k: i64[]) -> (%y, %g) {
    %y = if(%c, %x, binds=("u",), otherwise="two", then="one") : T[u]
    %i = constant(value=i64[] 0) : i64[]
    %j, %g = while(%i, %y, %x, %k, binds=("g",), body="round", carried=2, cond="going")
      : i64[], T[g]
  }
}
"""


def module(text: str, dtype: DType, row: str = "") -> Module:
    """One of the texts, for a dtype."""
    text = text.replace("T[", f"{dtype}[").replace("k, ROW", f"k, {row}" if row else "k")
    m = parse_module(text.replace("ROW", row).replace("" if "n" in row else ", n in [0, 9]", ""))
    verify(m)
    return m


def compiled(m: Module) -> list[Compiled]:
    """Compile a module, planned and simplified or not."""
    plain = Options(
        memory=MemoryOptions(planner="linear_scan"),
        graph=GraphOptions(simplify=False, fuse=False),
    )
    return [compile(m, options) for options in (Options(), plain)]


def agree(made: list[Compiled], inputs: list[Array]) -> None:
    """Every level and both engines give the graph's own results."""
    for c in made:
        report = judged(c, inputs, [engine("host"), engine("simt")])
        assert report.agree, [f.message for level in report.levels for f in level.findings][:3]


@pytest.mark.parametrize(
    ("dtype", "row"),
    [(d, row) for d in PACKED for row in ROWS if d is DType.I4 or row in ("3", "n")],
)
def test_scans(dtype: DType, row: str) -> None:
    m = module(SCAN, dtype, row)
    made = compiled(m)
    shape = [int(d.replace("n", "7")) for d in row.split(", ") if d]
    for k, c in ((0, True), (1, False), (6, False), (6, True)):
        s = values.array(k, dtype, tuple(shape))
        x = values.array(k + 1, dtype, (k, *shape))
        agree(made, [s, x, np.array(c)])
        last, all_, same = graph.run(m, [s, x, np.array(c)])
        assert same.tobytes() == x.tobytes()
        assert all_.tobytes() == (np.stack([s] * k).tobytes() if c and k else x.tobytes())
        assert last.tobytes() == (s if c or not k else x[-1]).tobytes()


@pytest.mark.parametrize("dtype", [DType.I4, DType.U2, DType.F4E2M1])
def test_scans_in_scans(dtype: DType) -> None:
    made = compiled(module(NESTED, dtype))
    x = values.array(3, dtype, (5, 2, 3))
    for c in (True, False):
        agree(made, [x, np.array(c)])


@pytest.mark.parametrize("dtype", PACKED)
def test_sizes_that_change(dtype: DType) -> None:
    made = compiled(module(GROWS, dtype))
    x = values.array(4, dtype, (3,))
    for c, k in ((True, 0), (False, 3), (True, 4)):
        agree(made, [x, np.array(c), np.array(k)])


@pytest.mark.parametrize(
    ("dtype", "row", "wide"),
    [
        (DType.I4, "3", "i8"),
        (DType.U2, "6", "u8"),
        (DType.F4E2M1, "", "f8e4m3"),
        (DType.I4, "n", "i8"),
        (DType.I4, "2, 3", ""),
        (DType.U2, "8", ""),
    ],
)
def test_rows_that_share_a_byte_are_stacked_wide(dtype: DType, row: str, wide: str) -> None:
    m = module(SCAN, dtype, row)
    assert (widen_stacks(m) is m) == (not wide)
    (scan,) = (n for n in compile(m).passes[-2][1].entry.nodes if n.op == "scan")
    assert [str(t.dtype) for t in scan.types] == [
        str(dtype),
        wide or str(dtype),
        "bool",
        wide or str(dtype),
    ]
