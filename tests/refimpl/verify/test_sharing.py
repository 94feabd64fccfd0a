"""Which kernels may write a result over an operand."""

from __future__ import annotations

import random

import pytest

from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.verify import loop
from didyma.refimpl.verify.sharing import may_share
from tests.refimpl.verify.indices import Kernel

HEAD = "kernel @k(a: f32[{n}], b: f32[{n}], out: f32[{n}], q: i32[{n}]) writes (out, q) "


def shares(body: str, n: str = "40", dims: str = "", source: str = "a", out: str = "out") -> bool:
    (f,) = parse_loop(f"{HEAD.format(n=n)}{dims} {{ {body} }}")
    loop.verify(f)
    return may_share(f, out, source)


FLAT = """
for x in 2 bound blockIdx.x { for t in 32 bound threadIdx.x {
  let i = x * 32 + t
  if i < 40 { %s }
} }
"""


@pytest.mark.parametrize(
    ("line", "may"),
    [
        ("out[i] = a[i] + 1.0:f32", True),
        ("out[i] = a[39 - i]", False),
        ("out[39 - i] = a[39 - i]", True),
        ("out[i] = a[i] + b[39 - i]", True),
        ("out[i] = a[0]", False),
        ("out[i] = a[(i + 1) % 40]", False),
        ("out[i] = select(i < 20, a[i], b[i])", True),
        ("out[i] = select(i < 20, a[i], a[39 - i])", False),
        ("out[i] = b[i]", True),  # the operand is not read at all
        ("let v = a[i] out[i] = v q[i] = i32(v)", True),
        ("out[i] = a[i] q[i] = i32(a[i])", False),  # the second read comes too late
        ("q[i] = i32(a[i]) out[i] = a[i]", True),
        ("out[i // 2] = a[i // 2]", False),  # two threads meet
        ("out[i // 2 * 2 + i % 2] = a[i]", True),
        ("for k in 3 { out[i] = a[i] }", False),  # the second turn reads what the first wrote
        ("alloc s: f32[] local s[] = 0.0:f32 for k in 3 { s[] = s[] + a[i] } out[i] = s[]", True),
        ("alloc s: f32[] local s[] = 0.0:f32 for k in 40 { s[] = s[] + a[k] } out[i] = s[]", False),
        ("alloc c: i64[] local c[] = 0 while c[] < 3 { c[] = c[] + 1 out[i] = a[i] }", False),
        ("out[i] = 0.0:f32 out[i] = a[i]", False),
        ("if a[i] > 0.0:f32 { out[i] = a[i] } else { out[i] = b[i] }", True),
        ("atomic add(out[i], a[i])", False),
        ("out[i] = a[i] + out[i]", False),
        ("out[i64(b[i]) % 40] = a[i]", False),  # the index is data
    ],
)
def test_one_axis(line: str, may: bool) -> None:
    assert shares(FLAT % line) is may


def test_either_output() -> None:
    body = FLAT % "let v = a[i] out[i] = v q[i] = i32(v)"
    assert shares(body, out="q")  # of another dtype, as wide
    assert not shares(FLAT % "out[i] = a[i] q[i] = i32(a[i])", out="out")
    assert shares(FLAT % "out[i] = a[i] q[i] = i32(a[i])", out="q")


EXCHANGED = """
for x in 2 bound blockIdx.x { for t in 32 bound threadIdx.x {
  let i = x * 32 + t
  exchange v = a[i] by 1
  exchange k = i by 1
  %s
} }
"""


@pytest.mark.parametrize(
    ("line", "may"),
    [
        ("out[i] = v", True),
        ("out[i] = v + b[63 - i]", True),
        ("out[i] = v + a[i]", True),
        ("out[i] = v + a[63 - i]", False),
        ("out[i] = a[k]", False),  # the element of a neighbour
        ("out[k] = a[k]", False),  # an index that another thread gives is not known
    ],
)
def test_values_that_threads_exchange(line: str, may: bool) -> None:
    assert shares(EXCHANGED % line, n="64") is may


CHAINED = """
kernel @k(a: f32[64], states: i32[3], totals: f32[4], out: f32[64]) writes (states, totals, out) {
  for b in 2 bound blockIdx.x { for t in 32 bound threadIdx.x {
    let i = b * 32 + t
    let x = a[i]
    chain add v = x from 0.0:f32 by states, totals
    out[i] = v + %s
  } }
}
"""


@pytest.mark.parametrize(("last", "may"), [("x", True), ("a[i]", True), ("a[63 - i]", False)])
def test_values_that_blocks_hand_on(last: str, may: bool) -> None:
    (f,) = parse_loop(CHAINED % last)
    loop.verify(f, SM_90A)
    assert may_share(f, "out", "a") is may


LANES = """
kernel @k(a: f32[1], w: f32[1, 1], out: f32[1]) writes (out) {
  for lane in 8 bound threadIdx.x { %s }
}
"""


@pytest.mark.parametrize(
    ("lines", "source", "may"),
    [
        ("if lane < 1 { out[lane] = a[lane] }", "a", True),
        ("if lane < 1 { out[lane] = a[0] }", "a", True),
        ("let v = a[0] if lane < 1 { out[lane] = v }", "a", False),  # all lanes read it
        ("let v = a[0] if lane == 7 { out[lane - 7] = v }", "a", False),
        ("let v = w[0, 0] if lane < 1 { out[lane] = v }", "w", False),
        ("if lane < 1 { let v = w[0, lane] out[lane] = v }", "w", True),
    ],
)
def test_one_element_that_several_threads_may_read(lines: str, source: str, may: bool) -> None:
    (f,) = parse_loop(LANES % lines)
    loop.verify(f)
    assert may_share(f, "out", source) is may


GRID = """
kernel @k(a: f32[n, m], t: f32[m, n], w: f32[m*n], h: f16[n, m], out: f32[n, m]) writes (out)
    dims n in [0, 64], m in [1, 64] {
  for x in (n + 7) // 8 bound blockIdx.x { for y in (m + 15) // 16 bound blockIdx.y {
    for r in 8 bound threadIdx.y { for c in 16 bound threadIdx.x {
      let i = x * 8 + r
      let j = y * 16 + c
      if i < n and j < m { %s }
    } }
  } }
}
"""


@pytest.mark.parametrize(
    ("line", "source", "may"),
    [
        ("out[i, j] = a[i, j]", "a", True),
        ("out[i, j] = w[i * m + j]", "w", True),
        ("out[i, j] = w[j * n + i]", "w", False),
        ("out[i, j] = t[j, i]", "t", False),
        ("out[i, j] = a[n - 1 - i, j]", "a", False),
        ("out[n - 1 - i, j] = a[n - 1 - i, j]", "a", True),
        ("out[i, j] = f32(h[i, j])", "h", False),  # half as wide
        ("out[i, 0] = a[i, 0]", "a", False),  # many threads write one element
    ],
)
def test_two_axes(line: str, source: str, may: bool) -> None:
    (f,) = parse_loop(GRID % line)
    loop.verify(f)
    assert may_share(f, "out", source) is may


def test_lanes_of_wide_accesses() -> None:
    body = """
    for x in (n + 127) // 128 bound blockIdx.x { for t in 32 bound threadIdx.x {
      let i = x * 32 + t
      if i * 4 < n { for v in 4 vectorized { out[i * 4 + v] = %s } }
    } }
    """
    dims = "dims n in [1, 4096]"
    assert shares(body % "a[i * 4 + v] * b[v]", "n", dims)
    assert not shares(body % "a[i * 4 + v] * a[v]", "n", dims)
    assert not shares(body % "a[i * 4 + 3 - v]", "n", dims)


@pytest.mark.parametrize(
    ("test", "below", "others", "may"),
    [
        ("i < n // 4", "4 * i + v", "3 * (n // 4) + i", True),
        ("i < n // 4", "4 * i + v", "3 * (n // 4) + i - 1", False),  # the last lane's
        ("i < n // 4", "4 * i + v + 1", "3 * (n // 4) + i", False),  # the first one left
        ("i < n // 4 + 1", "4 * i + v", "3 * (n // 4) + i", False),
        ("n // 4 < i", "3 * (n // 4) + i", "4 * i", False),  # true, but not looked for
        ("i <= n // 4", "4 * i + v", "3 * (n // 4) + i", False),  # likewise
        ("i < n // 4 and i < 9", "4 * i + v", "3 * (n // 4) + i", False),  # as for i = 9
        ("i < 9 * t", "4 * i + v", "36 * t + i", False),  # other threads have another t
        ("i % 2 < 1", "4 * i + v", "3 * (n // 4) + i", False),
        ("t < 8", "4 * t + v", "24 + t", False),  # each block does so
    ],
)
def test_whole_vectors_and_the_rest(test: str, below: str, others: str, may: bool) -> None:
    body = f"""
    for x in (n // 4 + n % 4 + 31) // 32 bound blockIdx.x {{ for t in 32 bound threadIdx.x {{
      let i = x * 32 + t
      if i < n // 4 + n % 4 {{
        if {test} {{ for v in 4 vectorized {{ out[{below}] = a[{below}] }} }}
        else {{ out[{others}] = a[{others}] }}
      }}
    }} }}
    """
    assert shares(body, "n", "dims n in [1, 4096]") is may


def test_branches_that_other_rounds_take_are_not_apart() -> None:
    line = "for k in 2 { if i + k < 20 { out[i] = a[i] } else { out[i] = b[i] + a[39 - i] } }"
    assert not shares(FLAT % line)


@pytest.mark.parametrize("constant", ["inf", "nan", "0.5"])
def test_floats_on_the_way(constant: str) -> None:
    assert shares(f"for i in 40 parallel {{ let v = a[i] + {constant}:f32 out[i] = v }}")


@pytest.mark.parametrize(
    "line",
    [
        "out[i - min(i, 3)] = a[i - min(i, 3)]",  # 0 four times
        "let k = max(i, 3) out[i - k] = a[i - k]",
        "out[i - i64(i32(i))] = a[i - i64(i32(i))]",
        "let f = f64(i) out[i - i64(f)] = a[i - i64(f)]",
        "let v = i64(q[i]) out[i + v] = a[i + v]",  # the element's index is data
        "out[i % 0] = a[i % 0]",  # x mod 0 is 0
        "out[n * (i // n) + i % n] = a[n * (i // n) + i % n]",  # all 0 where n is
        "out[i % 8 + ((n - 9) // 3 + 3) * (i // 8)] = a[i % 8 + ((n - 9) // 3 + 3) * (i // 8)]",
        "if i % 4 == 0 { out[i * 4611686018427387904] = a[i * 4611686018427387904] }",  # wraps to 0
        "while a[i] > 0.0:f32 { out[i] = 0.0:f32 }",  # would end after a round
    ],
)
def test_an_index_that_other_threads_may_have_is_refused(line: str) -> None:
    head = "primfunc @k(a: f32[40], q: i32[40], out: f32[40]) writes (out) dims n in [0, 20]"
    (f,) = parse_loop(f"{head} {{ for i in 40 parallel {{ {line} }} }}")
    loop.verify(f)
    assert not may_share(f, "out", "a")


@pytest.mark.parametrize(
    "line",
    [
        "out[i + min(n, 3)] = a[i + min(n, 3)]",
        "let k = min(i, 3) out[k + 4 * i] = a[k + 4 * i]",  # k is in no element twice
        "let v = q[0] out[i + v] = a[i + v]",
    ],
)
def test_an_index_with_an_unknown_in_it(line: str) -> None:
    """What is unknown is compared with itself, and taken for another thing in every iteration."""
    head = "primfunc @k(a: f32[40], q: i64[1], out: f32[40]) writes (out) dims n in [0, 20]"
    (f,) = parse_loop(f"{head} {{ for i in 9 parallel {{ {line} }} }}")
    assert may_share(f, "out", "a") == ("min(n" in line)


def test_no_kernel_that_may_share_does_harm() -> None:
    """Random indices: what is allowed has each element loaded by the one thread that stores it."""
    r = random.Random(5)
    allowed = harmful = 0
    for _ in range(1500):
        k = Kernel(r)
        may, harms = may_share(k.parsed(), "out", "a"), k.harms()
        assert not (may and harms), k.text
        allowed += may
        harmful += harms
    assert allowed > 100
    assert harmful > 400
