"""Passes over branches, loops, scans and sizes bound at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from didyma.codegen.passes.blocks import blocks
from didyma.codegen.passes.fuse import fuse, separate
from didyma.codegen.passes.inline import inline
from didyma.codegen.passes.simplify import simplify
from didyma.codegen.passes.slices import unroll_slices
from didyma.codegen.passes.stacks import widen_stacks
from didyma.refimpl.interp.graph import run
from didyma.refimpl.ir.graph import CALL, CONTROL, PRIMITIVE, Module
from didyma.refimpl.ir.text import parse_module, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify.graph import verify
from tests.refimpl.interp import test_control as control_cases

Pass = Callable[[Module], Module]
CHAINS: dict[str, tuple[Pass, ...]] = {
    "all": (inline, simplify, unroll_slices, widen_stacks, fuse),
    "as written": (inline, unroll_slices, widen_stacks, fuse),
    "apart": (inline, simplify, unroll_slices, widen_stacks, separate),
}


def number(x: int | float | bool) -> Array:
    """A scalar: i64, f32 or bool."""
    return np.asarray(x, {int: np.int64, float: np.float32, bool: np.bool_}[type(x)])


def f32(*values: float) -> Array:
    """A vector."""
    return np.array(values, np.float32)


def cases() -> Iterator[tuple[Module, list[Array]]]:
    """Modules with inputs: loops of no round, of one, of many."""
    c = control_cases
    x, y = f32(1, 2, 3), f32(4, 5, 6)
    for k in (0, 1, 2, 5):
        rows = np.arange(3 * k, dtype=np.float32).reshape(k, 3)
        yield c.module(c.COUNTER), [x, y, number(k)]
        yield c.module(c.COUNTER.replace("%x, %y, %stop, b", "%x, %x, %stop, b")), [x, y, number(k)]
        yield c.module(c.GROWING), [x, number(k)]
        yield c.module(c.PREFIX), [number(5.0), rows, f32(1, 2, -1)]
        yield c.module(c.BOUND), [number(k)]
        yield c.module(c.NESTED), [number(0.5), number(k)]
        yield c.module(c.BRANCH), [number(k > 1), x, y]
        yield c.module(ORDER), [x, number(min(k, 3))]
        yield c.module(SHARED), [x, number(k > 1)]
        yield c.module(SCANS), [rows, number(k > 1)]


# A kernel that computes %b and %d at once may not stand before the node that binds what %d needs.
ORDER = """
  func @main(%x: f32[n], %k: i64[]) -> (%b, %d, %f) {
    %a = exp(%x) : f32[n]
    %b = negative(%a) : f32[n]
    %c = sum(%b, axes=(0,), keepdims=false) : f32[]
    %zero = constant(value=f32[] 0.0) : f32[]
    %more = greater(%c, %zero) : bool[]
    %one = cast(%more, dtype=i64) : i64[]
    %size = add(%one, %k) : i64[]
    () = bind(%size, dim="u")
    %e = iota(axis=0, dtype=f32, shape=(u,)) : f32[u]
    %s = sum(%e, axes=(0,), keepdims=false) : f32[]
    %d = add(%a, %s) : f32[n]
    %part = slice(%x, starts=(0,), steps=(1,), stops=(u,)) : f32[Min(n, u)]
    %f = sum(%part, axes=(0,), keepdims=false) : f32[]
  }
"""

SHARED = """
  func @scaled(%x: f32[n]) -> (%y) {
    %two = constant(value=f32[] 2.0) : f32[]
    %y = multiply(%x, %two) : f32[n]
  }
  func @then(%x: f32[n]) -> (%z) {
    %y = call @scaled(%x) : f32[n]
    %z = call @scaled(%y) : f32[n]
  }
  func @same(%x: f32[n]) -> (%x) { }
  func @main(%x: f32[n], %c: bool[]) -> (%a, %b) {
    %y = call @scaled(%x) : f32[n]
    %a = if(%c, %y, binds=(), otherwise="same", then="then") : f32[n]
    %b = if(%c, %a, binds=(), otherwise="then", then="same") : f32[n]
  }
"""

# One function that scans in each round of two scans, and in both branches of one `if`.
SCANS = """
  func @row(%x: f32[]) -> (%y) { %y = negative(%x) : f32[] }
  func @rows(%x: f32[3]) -> (%y) {
    %y = scan(%x, body="row", index="", length=3, scanned=1, states=0) : f32[3]
  }
  func @main(%x: f32[n, 3], %c: bool[]) -> (%y, %z, %w) {
    %y = scan(%x, body="rows", index="", length=n, scanned=1, states=0) : f32[n, 3]
    %z = scan(%y, body="rows", index="", length=n, scanned=1, states=0) : f32[n, 3]
    %total = sum(%y, axes=(0,), keepdims=false) : f32[3]
    %w = if(%c, %total, binds=(), otherwise="rows", then="rows") : f32[3]
  }
"""


@pytest.mark.parametrize("chain", list(CHAINS))
def test_passes_keep_every_bit(chain: str) -> None:
    for m, inputs in cases():
        want = run(m, inputs)
        for rewrite in CHAINS[chain]:
            m = rewrite(m)
            verify(m)
            assert parse_module(show(m)) == m
            got = run(m, inputs)
            assert [a.tobytes() for a in got] == [a.tobytes() for a in want]
        check_fused(m)


def check_fused(m: Module) -> None:
    """Blocks hold constants, calls to Primitives and control nodes; scans gather by themselves."""
    table = {f.name: f for f in m.functions}
    for f in blocks(m).values():
        assert {n.op for n in f.nodes} <= {CALL, "constant", *CONTROL}
        assert all(PRIMITIVE in table[n.callee].attr for n in f.nodes if n.op == CALL)
        assert all(n.attr["scanned"] == 0 for n in f.nodes if n.op == "scan")


def test_one_kernel_for_all_blocks() -> None:
    m = fuse(inline(control_cases.module(SHARED)))
    assert len(m.functions) == len(blocks(m)) + 2  # x * 2, and (x * 2) * 2


def settled(text: str) -> Module:
    """A module after simplification, without control nodes."""
    m = simplify(inline(control_cases.module(text)))
    verify(m)
    assert not {n.op for f in m.functions for n in f.nodes} & set(CONTROL)
    assert len(m.functions) == 1
    return m


@pytest.mark.parametrize("taken", ["true", "false"])
def test_a_branch_known_beforehand(taken: str) -> None:
    m = control_cases.module(f"""
  func @twice(%x: f32[n], %y: f32[n]) -> (%x, %y) {{
    %y1 = add(%y, %y) : f32[n]
  }}
  func @swap(%x: f32[n], %y: f32[n]) -> (%z, %x) {{
    %z = add(%y, %y) : f32[n]
  }}
  func @main(%x: f32[n], %y: f32[n]) -> (%c, %d) {{
    %t = constant(value=bool[] {taken}) : bool[]
    %b = logical_not(%t) : bool[]
    %a, %z = if(%b, %x, %y, binds=(), otherwise="swap", then="twice") : f32[n], f32[n]
    %c = exp(%a) : f32[n]
    %d = negative(%z) : f32[n]
  }}""")
    simple = settled(show(m).split("\n", 2)[2].rsplit("}", 1)[0])
    x, y = f32(1, 2), f32(3, 4)
    for a, b in zip(run(m, [x, y]), run(simple, [x, y]), strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_loop_never_entered() -> None:
    text = control_cases.COUNTER.replace("less(%i, %stop)", "less(%i, %i)")
    m = settled(text)
    assert m.entry.results[1:] == ("x", "y")
    start = control_cases.COUNTER.replace("less(%i, %stop)", "not_equal(%i, %zero)").replace(
        "%c = not", "%zero = constant(value=i64[] 0) : i64[]\n %c = not"
    )
    assert settled(start).entry.results[1:] == ("x", "y")


def test_a_scan_of_nothing() -> None:
    text = control_cases.PREFIX.replace("f32[n, 3]", "f32[0, 3]").replace("length=n", "length=0")
    m = settled(text)
    t, y, z = run(m, [number(2.0), np.zeros((0, 3), np.float32), f32(1, 2, 3)])
    assert (float(t), y.shape, z.shape) == (2, (0, 3), (0, 3))


def test_what_nobody_uses_goes() -> None:
    m = settled(
        """
  func @size(%k: i64[]) -> (%k) {
    %twice = add(%k, %k) : i64[]
  }
  func @main(%c: bool[], %k: i64[], %x: f32[n]) -> (%y) {
    %z = add(%x, %x) : f32[n]
    %j = if(%c, %k, binds=(), otherwise="size", then="size2") : i64[]
    %y = exp(%x) : f32[n]
  }
  """.replace("  func @main", "  func @size2(%k: i64[]) -> (%k) { }\n  func @main")
    )
    assert [n.op for n in m.entry.nodes] == ["exp"]
