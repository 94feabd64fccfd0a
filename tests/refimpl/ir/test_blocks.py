"""Blocks mean the same to the definition, flattened, and on engines; what they touch is proved."""

from __future__ import annotations

import random

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime.registry import engine
from didyma.loops import LoopProgram
from didyma.oracle import chains
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import loop
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.blocks import without_blocks
from didyma.refimpl.ir.dims import evaluate
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.loop import BlockRealize, PrimFunc
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop as laws
from tests.codegen.emit.test_runs import launch, same
from tests.oracle.lanes import both

SUMS = """\
primfunc @sums(a: f32[n, 12], b: f32[n]) writes (b) dims n in [0, 9] {
  for x in (n + 3) // 4 parallel {
    for y in 4 {
      for q in 12 {
        block (i in n spatial = x * 4 + y, k in 12 reduce = 11 - q) where x * 4 + y < n \
reads (a[i +: 1, k +: 1]) writes (b[i +: 1]) init {
          b[i] = 1.0:f32
        } in {
          b[i] = b[i] * 0.5:f32 + a[i, k]
        }
      }
    }
  }
}
"""
FLAT = """\
primfunc @sums(a: f32[n, 12], b: f32[n]) writes (b) dims n in [0, 9] {
  for x in (n + 3) // 4 parallel {
    for y in 4 {
      for q in 12 {
        if x * 4 + y < n {
          let i = x * 4 + y
          let k = 11 - q
          if k == 0 {
            b[i] = 1.0:f32
          }
          b[i] = b[i] * 0.5:f32 + a[i, k]
        }
      }
    }
  }
}
"""
NESTED = """
kernel @nested(a: f32[n, 12], b: f32[n]) writes (b) dims n in [0, 9] {
  primfunc @tile(a: f32[n, 12], b: f32[n]) writes (b) dims u in [0, 8], n in [0, 9] {
    if u < n {
      block (i in n spatial = u) reads (a[i +: 1, 0 +: 12]) writes (b[i +: 1]) {
        alloc t: f32[4] local
        for p in 4 vectorized {
          block (j in 4 spatial = p) reads () writes (t[j +: 1]) {
            t[j] = 0.0:f32
          }
        }
        for s in 3 {
          block (r in n spatial = i, m in 3 reduce = s)
              reads (a[r +: 1, m * 4 +: 4]) writes (t[0 +: 4]) {
            for z in 4 {
              t[z] = t[z] + a[r, m * 4 + z]
            }
          }
        }
        fold (most: f32 = 0.0:f32) over (e in 4) by (v: f32) -> (max(most:f32, v:f32)) {
          yield (t[e])
        }
        b[i] = most:f32
      }
    }
  }
  for g in n bound blockIdx.x {
    call @tile(a, b) dims (g, n)
  }
}
"""
X = np.random.default_rng(0).standard_normal((5, 12), np.float32)


def parsed(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    assert parse_loop(show((f,))) == (f,)
    return f


def verified(text: str) -> PrimFunc:
    laws.verify(f := parsed(text))
    return f


def run(f: PrimFunc) -> Array:
    buffers = {"a": X.copy(), "b": np.zeros(5, np.float32)}
    both.run(f, buffers, {"n": 5})
    return buffers["b"]


def test_the_text_of_a_block_and_of_what_it_is_flattened_to() -> None:
    f = verified(SUMS)
    assert show((f,)).rstrip() == SUMS.rstrip()
    assert show((without_blocks(f),)).rstrip() == FLAT.rstrip()


def test_a_block_begins_where_its_reduce_variables_are_0() -> None:
    want = np.float32(0.5) + X[:, 0]  # q == 11 is the last iteration
    assert same(run(verified(SUMS)), want)


def test_blocks_in_blocks() -> None:
    want = np.maximum(X.reshape(5, 3, 4).sum(1, dtype=np.float32).max(1), 0)
    assert np.allclose(run(verified(NESTED)), want, rtol=1e-6)


@pytest.mark.parametrize("text", [SUMS, NESTED])
def test_a_block_is_what_it_is_flattened_to(text: str) -> None:
    f = verified(text)
    g = without_blocks(f)
    laws.verify(g)
    assert not any(isinstance(s, BlockRealize) for h in (g, *g.functions) for s in stmts(h.body))
    assert same(run(f), run(g))
    assert same(run(f), run(expand(f)))
    assert chains.longest([f], {"n": 5}) == chains.longest([g], {"n": 5})


@pytest.mark.parametrize("name", ["host", "simt"])
@pytest.mark.parametrize("text", [SUMS, NESTED])
def test_engines_run_blocks(text: str, name: str) -> None:
    f = verified(text)
    _, found = launch(engine(name), f, {"a": X.copy(), "b": np.zeros(5, np.float32)}, {"n": 5})
    assert same(found, run(f))


def test_a_text_with_blocks_is_a_program_that_takes_schedules() -> None:
    program = LoopProgram(verified(SUMS))
    assert program.inputs == ("a",)
    report = dd.check(program, schedules={"sums": "schedule @sums {\n  bind x to blockIdx.x\n}"})
    assert report.outcome == "agree"


WINDOW = """
primfunc @window(a: i32[{size}], b: i32[n]) writes (b) dims n in [{lo}, 6] {{
  for x in {extent} {{
    block (i in n spatial = {value}) {where}
        reads (a[{read} +: {count}]) writes (b[{write} +: 1]) {{
      for k in 3 {{
        if i + k < {limit} {{
          b[i] = a[{index}]
        }}
      }}
    }}
  }}
}}
"""


def test_a_verified_block_never_leaves_its_domain_or_its_regions() -> None:
    """Random blocks, most of them wrong: what the verifier accepts runs without such a fault."""
    r = random.Random(0)
    accepted = faulty = 0
    for _ in range(250):
        choices = {
            "size": ("n", "n + 2", "8"), "lo": ("0", "1"), "extent": ("n", "n + 1", "3", "n // 2"),
            "value": ("x", "x", "x * 2", "n - 1 - x", "x - 1", "x % 2"),
            "where": ("", "where x < n", "where x * 2 < n", "where x > 0"),
            "read": ("i", "i", "0", "i + 1", "i * 2"), "count": ("1", "3", "n", "i + 1"),
            "write": ("i", "i", "i", "0"), "limit": ("n", "3", "8"),
            "index": ("i", "i + k", "k", "i + k", "i * 2", "i * k"),
        }  # fmt: skip
        text = WINDOW.format(**{name: r.choice(given) for name, given in choices.items()})
        f = parsed(text)
        leaves = any(_leaves(f, n) for n in range(f.dims[0].lo, 7))
        faulty += leaves
        if (code := _refusal(f)) is None:
            accepted += 1
            assert not leaves, text
        else:
            assert code in ("L-domain", "L-region"), text
    assert accepted > 10
    assert faulty > 100


def _refusal(f: PrimFunc) -> str | None:
    try:
        laws.verify(f)
    except DidymaError as e:
        return e.code
    return None


def _leaves(f: PrimFunc, n: int) -> bool:
    """Return whether a block leaves its domain or its regions; indices may leave buffers, too."""
    sizes = {b.name: evaluate(b.shape[0], {"n": n}) for b in f.params}
    buffers = {name: np.zeros(size, np.int32) for name, size in sizes.items()}
    try:
        loop.run(f, buffers, {"n": n})
    except LoopFault as e:
        return e.kind in ("region", "dim-out-of-range")
    return False


@pytest.mark.parametrize(
    ("change", "kind", "detail"),
    [
        (("a[i +: 1, k +: 1]", "a[i +: 1, 0 +: 11]"), "region", "a, element (0, 11) is read"),
        (
            (") writes (b[i +: 1])", ", b[0 +: n]) writes (b[0 +: 2])"),
            "region",
            "b, element (2,) is wr",
        ),
        (("reduce = 11 - q", "reduce = 12 - q"), "dim-out-of-range", "k = 12 outside [0, 12)"),
    ],
)
def test_the_definition_sees_a_block_leave_its_regions(
    change: tuple[str, str], kind: str, detail: str
) -> None:
    text = SUMS.replace(*change)
    with pytest.raises(DidymaError, match=r"L-(region|domain)"):
        verified(text)
    with pytest.raises(LoopFault) as e:
        loop.run(parsed(text), {"a": X.copy(), "b": np.zeros(5, np.float32)}, {"n": 5})
    assert e.value.kind == kind
    assert e.value.detail.startswith(detail)
