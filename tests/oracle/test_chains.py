"""Chains of additions are read off a kernel, and a short one shows what a long one hides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz.levels import subject
from didyma.oracle import chains, lanes
from didyma.oracle.stages import judge
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import (
    Binary,
    Block,
    Buffer,
    Compare,
    Const,
    Expr,
    For,
    Load,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.text import parse_loop, parse_module
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import map_expr, map_stmt
from didyma.refimpl.ops.bars import Contract

ROWS = """module {
  func @main(%x: f32[4, 4096]) -> (%y) {
    %y = sum(%x, axes=(1,), keepdims=false) : f32[4]
  }
}"""
COLUMNS = """module {
  dims n in [1, 5000]
  func @main(%x: f32[n, 8]) -> (%y) {
    %z = exp(%x) : f32[n, 8]
    %s = add(%x, %z) : f32[n, 8]
    %y = sum(%s, axes=(0,), keepdims=false) : f32[8]
  }
}"""
ALL = """module {
  func @main(%x: f16[100, 50]) -> (%y) {
    %y = mean(%x, axes=(0, 1), keepdims=false) : f16[]
  }
}"""
PRODUCT = """module {
  func @main(%x: f64[40, 100], %w: f64[100, 50]) -> (%y) {
    %y = matmul(%x, %w) : f64[40, 50]
  }
}"""
RUNNING = """module {
  func @main(%x: f32[3, 50]) -> (%y) {
    %y = cumulative_sum(%x, axis=1, exclusive=false, reverse=true) : f32[3, 50]
  }
}"""
FOLLOWED = """module {
  func @main(%x: f32[3, 50]) -> (%z) {
    %y = cumulative_sum(%x, axis=1, exclusive=false, reverse=true) : f32[3, 50]
    %z = fmod(%x, %y) : f32[3, 50]
  }
}"""
ADDED = """module {
  func @main(%x: f32[10], %i: i64[40], %u: f32[40]) -> (%y) {
    %y = scatter(%x, %i, %u, axis=0, reduction="add") : f32[10]
  }
}"""


def compiled(text: str) -> tuple[tuple[PrimFunc, ...], tuple[PrimFunc, ...]]:
    """Unscheduled loops and kernels of the only function."""
    c = compile(parse_module(text), Options())
    (name,) = c.kernels
    return (c.loops[name],), tuple(map(loops, c.kernels[name]))


def additions(
    kernels: tuple[PrimFunc, ...], sizes: Mapping[str, tuple[int, ...]], n: int = 0
) -> int:
    """Most additions that a term goes through, seen by running the kernels on one-hot operands.

    Every addition of floats is doubled: a term that comes out as 2**k went through k of them.
    """
    doubled = tuple(replace(k, body=_doubling(k.body)) for k in kernels)
    env = {"n": n} if n else {}
    most = 0
    terms = int(np.prod(sizes["x"]))
    for hot in range(0, terms, max(1, terms // 60)):
        buffers: dict[str, Array] = {}
        for p in (p for k in kernels for p in k.params):
            buffers.setdefault(p.name, np.zeros(sizes[p.name], p.dtype.numpy))
        buffers["x"].flat[hot] = 1
        for k in doubled:
            lanes.run(k, {p.name: buffers[p.name] for p in k.params}, env)
        top = max(float(np.max(buffers[o])) for o in kernels[-1].outputs)
        most = max(most, round(np.log2(top)))
    return most


def _doubling(body: Stmt) -> Stmt:

    def on_expr(e: Expr) -> Expr:
        e = map_expr(on_expr, e)
        if isinstance(e, Binary) and e.op == "add" and e.dtype.is_float:
            return Binary("mul", e, Const(2.0, e.dtype))
        return e

    def on_stmt(s: Stmt) -> Stmt:
        return map_stmt(s, on_expr, on_stmt)

    return on_stmt(body)


@pytest.mark.parametrize(
    ("text", "loop", "kernel"),
    [
        (ROWS, 4095, 15 + 8),
        (ALL, 4999, 19 + 8),
        (PRODUCT, 99, 15 + 6),
        (RUNNING, 49, 5 + 2),
        (FOLLOWED, 49, 5 + 2),  # what is stored is no sum
        (ADDED, 40, 40),
    ],
)
def test_chains_of_schedules(text: str, loop: int, kernel: int) -> None:
    loops, kernels = compiled(text)
    assert chains.longest(loops, {}) == loop
    assert chains.longest(kernels, {}) == kernel


@pytest.mark.parametrize("n", [1, 7, 2560, 2561, 5000])
def test_a_chain_hangs_on_the_sizes_at_hand(n: int) -> None:
    loops, kernels = compiled(COLUMNS)
    assert chains.longest(loops, {"n": n}) == n  # the sum of x and exp(x) is one more
    most = chains.longest(kernels, {"n": n})
    blocks, lanes, loads = 5, 128, 4  # that share a column, for up to 5,000 terms
    turns = loads * -(-n // (blocks * lanes * loads))
    assert most == 1 + (turns - 1) + 7 + (blocks - 1)


@pytest.mark.parametrize("n", [16, 17, 33, 100])
def test_a_chain_is_what_a_run_shows(n: int) -> None:
    text = f"""module {{
      func @main(%x: f64[2, {n}], %w: f64[{n}, 5]) -> (%y) {{
        %y = matmul(%x, %w) : f64[2, 5]
      }}
    }}"""
    for kernels in compiled(text):
        for k in kernels:
            assert {p.name for p in k.params} == {"x", "w", "y"}
        sizes = {"x": (2, n), "w": (n, 5), "y": (2, 5)}
        ones = tuple(replace(k, body=_ones(k.body)) for k in kernels)
        seen = additions(ones, sizes)
        most = chains.longest(kernels, {})
        assert most is not None
        # the first term of all is added to an exact zero, which is no addition, and is seen as one
        assert seen - 2 <= most <= seen


def _ones(body: Stmt) -> Stmt:
    """Read ones for every element of ``w``."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "w":
            return Const(1.0, e.dtype)
        return map_expr(on_expr, e)

    def on_stmt(s: Stmt) -> Stmt:
        return map_stmt(s, on_expr, on_stmt)

    return on_stmt(body)


KERNELS = {
    # adding exact zeros is no addition
    "y[0] = 0.0:f32 + (x[0] + 0.0:f32)": 0,
    "y[0] = x[0] + (x[1] - x[2]) * (x[3] + x[4])": 2,
    "y[0] = fma(x[0], x[1], x[2]) + x[3]": 2,
    # what a condition hides counts
    "if x[0] > 0.0:f32 { y[0] = x[0] + x[1] } else { y[0] = x[0] + x[1] + x[2] }": 2,
    "y[0] = x[0]\n for i in 5 { if x[i] > 1.0:f32 { y[0] = y[0] + x[i] } }": 5,
    # a value that is started anew in each turn
    "alloc s: f32[] local { s[] = 0.0:f32 for i in 9 { alloc a: f32[] local {"
    " a[] = x[0] + x[1] s[] = s[] + a[] } } y[0] = s[] }": 9,
    "let s = x[0] + x[1] for i in 3 { y[i] = s + x[2] }": 2,
    "let s = x[0] + x[1] alloc a: f32[] local { a[] = 0.0:f32 for i in 3 { a[] = a[] + s } }": 3,
    # loops in loops, the inner one as long as the outer one is far
    "y[0] = x[0]\n for i in 4 { for j in i + 1 { y[0] = y[0] + x[j] } }": 16,
    "y[0] = x[0]\n for i in 0 { y[0] = y[0] + x[1] }": 0,
    # threads that add to one place
    "y[0] = 0.0:f32 for i in 8 parallel { atomic add(y[0], x[i]) }": 8,
    # two sums that swap
    "alloc a: f32[] local { alloc b: f32[] local { a[] = x[0] b[] = x[1] for i in 6 {"
    " alloc t: f32[] local { t[] = a[] + x[2] a[] = b[] b[] = t[] } } y[0] = a[] } }": 3,
}


@pytest.mark.parametrize("body", KERNELS)
def test_chains_of_statements(body: str) -> None:
    text = f"primfunc @f(x: f32[9], y: f32[9]) writes (y) {{ {body} }}"
    assert chains.longest(parse_loop(text), {}) == KERNELS[body]


def test_what_cannot_be_told_is_none() -> None:
    text = """primfunc @f(x: f32[9], i: i64[1], y: f32[9]) writes (y) {
      for k in i[0] { y[0] = y[0] + x[k] }
    }"""
    assert chains.longest(parse_loop(text), {}) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_dropped_term_of_a_long_sum_is_found_by_the_kernel_alone(seed: int) -> None:
    """The kernel leaves out its last term: its chain of 23 shows what one of 4,095 would not."""
    c = compile(parse_module(ROWS), Options().changed({"kernels.vectorise": False}))
    (name,) = c.kernels
    (kernel,) = map(loops, c.kernels[name])

    def on_expr(e: Expr) -> Expr:

        if isinstance(e, Load) and e.buffer == "x":
            last = Compare("eq", e.index[1], Const(4095, e.index[1].dtype))
            return Select(last, Const(0.0, e.dtype), e)
        return map_expr(on_expr, e)

    def on_stmt(s: Stmt) -> Stmt:
        return map_stmt(s, on_expr, on_stmt)

    faulty = replace(kernel, body=on_stmt(kernel.body))
    s = subject(c)
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.01, 1, (4, 4096)).astype(np.float32)
    x[:, -1] = 0.02  # small enough to pass as rounding if a chain were as long as the sum
    sound = judge(s, [x])
    assert sound.agree, sound.findings
    report = judge(replace(s, kernels={name: (faulty,)}), [x])
    assert [f.level for f in report.findings if f.kind == "value"][:1] == ["kernel"]
    unscheduled = judge(replace(s, kernels={name: (faulty,)}, loops={name: kernel}), [x])
    assert next(level for level in unscheduled.levels if level.name == "loop").agree


def test_a_bound_that_names_itself_often_is_read_once() -> None:
    """Doubled forty times, it would be read 4**40 times if each end were asked for anew."""
    i = Var("n")
    extent: Expr = i
    for _ in range(40):
        extent = Binary("min", Binary("add", i, extent), Const(7, i.dtype))
    zero = Const(0.0, DType.F32)
    body = Store("acc", (), Binary("add", Load("acc", (), DType.F32), Load("x", (), DType.F32)))
    loop = For(Var("k0"), extent, Block((body,)))
    scalars = (Buffer("x", DType.F32, ()), Buffer("acc", DType.F32, ()))
    f = PrimFunc("f", scalars, ("acc",), Block((Store("acc", (), zero), loop)))
    assert chains.longest([f], {"n": 3}) == 6  # the first of 7 adds to an exact zero


@pytest.mark.parametrize("name", ["i0", "k", "lane", "bx"])
def test_a_size_of_a_name_that_a_kernel_uses_itself(name: str) -> None:
    c = compile(parse_module(RUNNING), Options())
    (kernels,) = c.kernels.values()
    alone = chains.longest(kernels, {})
    assert alone is not None
    assert alone >= 7
    assert chains.longest(kernels, {name: 0}) == alone


def test_bits_seen_as_floats_are_terms() -> None:
    text = """module {
      func @main(%x: u32[3, 50]) -> (%y) {
        %f = bitcast(%x, dtype=f32) : f32[3, 50]
        %y = sum(%f, axes=(1,), keepdims=false) : f32[3]
      }
    }"""
    c = compile(parse_module(text), Options())
    (loop,), (kernels,) = c.loops.values(), c.kernels.values()
    assert chains.longest([loop], {}) == 49
    shortest = chains.longest(kernels, {})
    assert shortest is not None
    assert shortest >= 5  # of 50 terms, however they are paired


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("acc[] = acc[] + x[i] * x[i]", 0),
        ("acc[] = acc[] * exp(x[i])", 9 * (1 + 2 * 4)),  # a product, and an exponential of 4 ulp
        ("acc[] = acc[] + (old[] - 2.0:f32) * (old[] - 2.0:f32)", 9 * 4),
        ("old[] = acc[] * x[i]", 0),
    ],
)
def test_corrections_of_running_values_round(body: str, most: int) -> None:
    text = f"""primfunc @f(x: f32[9], y: f32[9]) writes (y) {{
      alloc acc: f32[] local {{ alloc old: f32[] local {{
        acc[] = x[0] old[] = x[1] for i in 9 {{ {body} }} y[0] = acc[] + old[] }} }}
    }}"""
    assert chains.rescalings(parse_loop(text), {}, Contract()) == most
