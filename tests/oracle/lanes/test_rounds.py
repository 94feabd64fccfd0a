"""Loops that only fold terms: bits, payloads and faults as by the definition, in few steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from didyma.oracle import lanes
from didyma.refimpl.interp import loop, scalar, scalar_ring
from didyma.refimpl.interp.scalar import Arithmetic, Fn
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.loop import BinaryOp, PrimFunc
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import ring
from tests.oracle.lanes import both

RNG = np.random.default_rng(31)

SUMS = """
acc[] = acc[] + x[i, k] * y[k, j]
acc[] = acc[] - x[i, k]
acc[] = acc[] * y[k, j]
acc[] = acc[] / y[k, j]
acc[] = max(acc[], x[i, k] * y[k, j])
acc[] = acc[] + exp(x[i, k])
acc[] = acc[] + x[i, 3] * 0.5:f32
acc[] = acc[] + 0.1:f32
acc[] = acc[] + select(k > i, x[i, k], 1.0:f32) * y[k, j]
acc[] = acc[] + other[] * x[i, k]
acc[] = acc[] + several[k % 2] * x[i, k]
acc[] = acc[] + x[i, k] * acc[]
acc[] = x[i, k] + acc[]
let h = k // 2 { acc[] = acc[] + x[i, h] * y[k, j] }
for l in 3 { acc[] = acc[] + x[i, (k + l) % 7] * y[k, l] }
for l in 3 { acc[] = acc[] + x[i, (k + l) % 7] }
for l in k { acc[] = acc[] + x[i, l] * y[k, l % 3] }
for l in 2 { let h = k + l { acc[] = acc[] + x[i, h // 2] * y[h // 2, 0] } }
acc[] = acc[] + x[i, k] * y[k, j]; other[] = other[] + y[k, 0]
acc[] = acc[] + x[i, k]; other[] = other[] + acc[]
several[j % 2] = several[j % 2] + x[i, k]
several[1] = several[1] + x[i, k]; several[0] = several[0] * 2.0:f32
"""
FRAMES = {
    "threads": "for i in 4 bound blockIdx.x { for j in 3 bound threadIdx.x { BODY } }",
    "masked": "for i in 4 parallel { for j in 3 parallel { if i + j < 4 { BODY } } }",
    "loaded mask": "for i in 4 parallel { for j in 3 parallel { if x[i, j] > 0.0:f32 { BODY } } }",
    "no lanes": "for i in 4 { for j in 3 { BODY } }",
    "one lane": "for i in 4 { for j in 3 parallel { BODY } }",
}


def program(frame: str, body: str, rounds: str = "7") -> str:
    """Return the text of a function, whose statements stand on lines of their own."""
    inner = f"""alloc acc: f32[] local {{ alloc other: f32[] local {{ alloc several: f32[2] local {{
      acc[] = 0.3:f32; other[] = 0.7:f32; several[0] = 0.1:f32; several[1] = 0.2:f32;
      for k in {rounds} {{ {body} }}; z[i, j] = acc[] + other[] + several[0] + several[1]
    }} }} }}"""
    head = "primfunc @f(x: f32[4, 7], y: f32[7, 3], z: f32[4, 3]) writes (z)"
    text = f"{head} {{ {FRAMES[frame].replace('BODY', inner)} }}"
    return text.replace("{", "{\n").replace("}", "\n}\n").replace(";", "\n")


def parsed(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    return f


def arrays(text: str, *, in_ring: bool) -> dict[str, Array]:
    """Return values whose sums hang on their order, and some without a payload."""
    rng, found = np.random.default_rng(5), dict[str, Array]()
    for p in parsed(text).params:
        shape = dims.values(p.shape, {})
        values = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape)).astype(np.float32)
        if in_ring:
            payloads = ring.exp(ring.embed(values))
            payloads[rng.random(shape) < 0.05] = ring.UNKNOWN
            values = np.asarray(scalar_ring.joined(values, payloads))
        found[p.name] = values
    return found


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("body", SUMS.strip().splitlines())
def test_folds_have_the_bits_and_payloads_of_the_definition(frame: str, body: str) -> None:
    text = program(frame, body)
    f = parsed(text)
    ways: tuple[Arithmetic, ...] = (scalar, scalar_ring)
    for arithmetic in ways:
        with np.errstate(all="ignore"):
            fast, slow = (arrays(text, in_ring=arithmetic is scalar_ring) for _ in range(2))
        lanes.run(f, fast, {}, arithmetic=arithmetic)
        loop.run(f, slow, {}, arithmetic=arithmetic)
        assert both.same_bytes(fast["z"], slow["z"])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("acc[] = acc[] + x[i, k + 1] * y[k, j]", "out-of-bounds"),
        ("acc[] = acc[] + x[i, k - i]", "out-of-bounds"),
        ("alloc new: f32[] local { new[] = new[] + x[i, k] }", "uninitialised"),
    ],
)
def test_folds_have_the_faults_of_the_definition(body: str, kind: str) -> None:
    text = program("threads", body)
    different, fault = both.differences(parsed(text), arrays(text, in_ring=False), {})
    assert not different
    assert fault is not None
    assert fault.kind == kind


TILE = """primfunc @f(x: f32[2, 8], z: f32[2, 8]) writes (z) {
  for b in 2 bound blockIdx.x {
    alloc tile: f32[8] shared {
      for t in 8 bound threadIdx.x {
        alloc acc: f32[] local {
          acc[] = 0.0:f32
          tile[t] = x[b, t]
          BARRIER
          for k in 8 { acc[] = acc[] + tile[k] * x[b, k] }
          z[b, t] = acc[]
        }
      }
    }
  }
}"""


def test_rounds_that_read_what_other_threads_store_race_unless_a_barrier_is_between() -> None:
    for barrier, kind in (("barrier", None), ("", "race")):
        text = TILE.replace("BARRIER", barrier)
        given = arrays(text, in_ring=False)
        different, fault = both.differences(parsed(text), given, {})
        assert not different
        assert (fault and fault.kind) == kind


def test_a_thread_may_read_in_all_rounds_what_it_stores_itself() -> None:
    text = TILE.replace("BARRIER", "").replace("tile[k] *", "tile[t] *")
    both.run(parsed(text), arrays(text, in_ring=False), {})


@pytest.mark.parametrize("frame", ["threads", "loaded mask"])
def test_terms_are_computed_at_once(frame: str) -> None:
    counts: list[BinaryOp] = []

    def binary_fn(op: BinaryOp, dtype: DType) -> Fn:
        f = scalar.binary_fn(op, dtype)

        def counted(*args: Any) -> Any:
            counts.append(op)
            return f(*args)

        return counted

    counting = cast("Arithmetic", SimpleNamespace(**{**vars(scalar), "binary_fn": binary_fn}))
    numbers = list[int]()
    for rounds in (50, 500):
        text = program(frame, "acc[] = acc[] + exp(x[i, k % 7] - y[k % 7, j])", str(rounds))
        counts.clear()
        lanes.run(parsed(text), arrays(text, in_ring=False), {}, arithmetic=counting)
        numbers.append(len(counts))
    assert numbers[0] == numbers[1] < 40
