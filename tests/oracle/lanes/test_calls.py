"""Calls in loop programs: what they mean, the faults seen through them, and calls written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import loop as laws
from tests.oracle.lanes.both import run


def sound(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    laws.verify(f)
    assert parse_loop(show(f)) == (f,)
    return f


def both(f: PrimFunc, buffers: dict[str, Array], env: dict[str, int]) -> dict[str, Array]:
    """What a function leaves in its buffers, with calls and with calls written out."""
    written = expand(f)
    laws.verify(written)
    assert written.functions == ()
    results: list[dict[str, Array]] = []
    for g in (f, written):
        results.append({n: a.copy() for n, a in buffers.items()})
        run(g, results[-1], env)
    assert {n: a.tobytes() for n, a in results[0].items()} == {
        n: a.tobytes() for n, a in results[1].items()
    }
    return results[0]


def fault(f: PrimFunc, buffers: dict[str, Array], env: dict[str, int]) -> LoopFault:
    """The fault of a function, the same with calls written out but for names."""
    found: list[LoopFault] = []
    for g in (f, expand(f)):
        with pytest.raises(LoopFault) as caught:
            run(g, {n: a.copy() for n, a in buffers.items()}, env)
        found.append(caught.value)
    assert found[0].kind == found[1].kind
    return found[0]


def zeros(*names: str, n: int = 4) -> dict[str, Array]:
    return {name: np.zeros(n, np.float32) for name in names}


ROWS = """
primfunc @rows(x: f32[n, 3], y: f32[n], z: f32[n]) writes (y, z) dims n in [1, 9] {
  primfunc @add(a: f32[m, 3], sum: f32[] local) writes (sum)
      dims i in [0, 8], j in [0, 2], m in [1, 9] {
    alloc t: f32[] local
    t[] = a[i, j] * a[i, j]
    sum[] = sum[] + t[]
  }
  primfunc @row(x: f32[n, 3], o: f32[n]) writes (o) dims n in [1, 9], r in [0, 8] {
    alloc acc: f32[] local
    acc[] = 0.0:f32
    for j in 3 {
      call @add(x, acc) dims (r, j, n)
    }
    o[r] = acc[]
  }
  for r in n KIND {
    call @row(x, y) dims (n, n - 1 - r)
    call @row(x, z) dims (n, r)
  }
}
"""


@pytest.mark.parametrize("kind", ["", "parallel"])
def test_a_call_in_a_call(kind: str) -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    f = sound(ROWS.replace("KIND", kind))
    got = both(f, {"x": x, **zeros("y", "z", n=5)}, {"n": 5})
    assert got["y"].tolist() == (x * x).sum(1).tolist() == got["z"].tolist()


def test_locals_are_fresh_in_every_call() -> None:
    f = sound("""
      primfunc @f(x: f32[4], y: f32[4]) writes (y) {
        primfunc @once(x: f32[4], y: f32[4]) writes (y) dims k in [0, 3] {
          alloc a: f32[] local
          if k == 0 {
            a[] = x[k]
          }
          y[k] = a[]
        }
        for k in 4 {
          call @once(x, y) dims (k)
        }
      }""")
    assert fault(f, zeros("x", "y"), {}).kind == "uninitialised"


def test_the_state_of_a_buffer_is_one() -> None:
    """What the caller has not stored a callee may not read, and the other way round."""
    text = """
      primfunc @f(y: f32[4]) writes (y) {
        primfunc @set(a: f32[2] local) writes (a) dims at in [0, 1] {
          a[at] = 1.0:f32
        }
        primfunc @get(a: f32[2] local, y: f32[4]) writes (y) dims at in [0, 1], i in [0, 3] {
          y[i] = y[i] + a[at]
        }
        for i in 4 parallel {
          alloc s: f32[2] local
          call @set(s) dims (0)
          call @get(s, y) dims (AT, i)
        }
      }"""
    assert both(sound(text.replace("AT", "0")), zeros("y"), {})["y"].tolist() == [1] * 4
    f = fault(sound(text.replace("AT", "1")), zeros("y"), {})
    assert (f.kind, f.detail) == ("uninitialised", "s, element 1")


def test_races_between_iterations_are_seen_through_calls() -> None:
    text = """
      primfunc @f(x: f32[4], y: f32[4]) writes (y) {
        primfunc @one(a: f32[4], b: f32[4]) writes (b) dims i in [0, 3], j in [0, 3] {
          b[i] = a[j]
        }
        for i in 4 parallel {
          call @one(x, y) dims (AT, i)
        }
      }"""
    both(sound(text.replace("AT", "3 - i")), zeros("x", "y"), {})
    f = fault(sound(text.replace("AT", "i // 2")), zeros("x", "y"), {})
    assert (f.kind, f.detail.split(":")[0], f.where) == ("race", "y, element 0", "b[i] = a[j]")


def test_two_calls_that_write_one_buffer() -> None:
    """A store that stands once in the text is two that may race, if it is called twice."""
    text = """
      primfunc @f(x: f32[8], y: f32[8]) writes (y) {
        primfunc @fill(a: f32[8], b: f32[8]) writes (b) dims from in [0, 4], i in [0, 1] {
          for k in 4 parallel {
            b[from + k] = a[k] + f32(i)
          }
        }
        for i in 2 parallel {
          call @fill(x, y) dims (AT, i)
        }
      }"""
    got = both(sound(text.replace("AT", "4 * i")), zeros("x", "y", n=8), {})
    assert got["y"].tolist() == [0] * 4 + [1] * 4
    assert fault(sound(text.replace("AT", "3 * i")), zeros("x", "y", n=8), {}).kind == "race"


def test_a_read_after_a_callee_s_stores() -> None:
    """A slice that a callee stores is found to be read only when the rest of the text is known."""
    text = """
      primfunc @f(x: f32[4], y: f32[4], z: f32[4]) writes (y, z) {
        primfunc @copy(a: f32[4], b: f32[4]) writes (b) {
          for k in 4 parallel {
            b[k] = a[k]
          }
        }
        call @copy(x, y)
        for i in 4 parallel {
          z[i] = y[3 - i]
        }
      }"""
    x = {"x": np.arange(4, dtype=np.float32), **zeros("y", "z")}
    assert both(sound(text), x, {})["z"].tolist() == [3, 2, 1, 0]


def test_a_loop_in_a_callee_shares_the_caller_s_registers() -> None:
    text = """
      primfunc @f(x: f32[4], y: f32[4]) writes (y) {
        primfunc @fill(a: f32[4], s: f32[4] local) writes (s) {
          for k in 4 parallel {
            s[AT] = a[k]
          }
        }
        for i in 4 parallel {
          alloc s: f32[4] local
          call @fill(x, s)
          y[i] = s[i // 2]
        }
      }"""
    x = {"x": np.arange(4, dtype=np.float32), **zeros("y")}
    assert both(sound(text.replace("AT", "k")), x, {})["y"].tolist() == [0, 0, 1, 1]
    assert fault(sound(text.replace("AT", "k // 2")), x, {}).kind == "race"


def test_two_buffers_of_one_name() -> None:
    """A callee's own buffer is not the caller's, be it of its name, and a row of memory."""
    f = sound("""
      primfunc @f(x: f32[4], y: f32[4]) writes (y) {
        primfunc @g(x: f32[4], o: f32[] local) writes (o) dims i in [0, 3] {
          alloc s: f32[4] local
          for k in 4 parallel {
            s[k] = x[k]
          }
          o[] = o[] + s[i]
        }
        for i in 4 parallel {
          alloc s: f32[] local
          s[] = 1.0:f32
          call @g(x, s) dims (i)
          y[i] = s[]
        }
      }""")
    x = {"x": np.arange(4, dtype=np.float32), **zeros("y")}
    assert both(f, x, {})["y"].tolist() == [1, 2, 3, 4]


def test_bounds_are_those_of_the_caller_s_buffer() -> None:
    f = sound("""
      primfunc @f(x: f32[4], y: f32[n]) writes (y) dims n in [1, 9] {
        primfunc @copy(a: f32[4], b: f32[m]) writes (b) dims m in [1, 9] {
          for k in m parallel {
            b[k] = a[k]
          }
        }
        call @copy(x, y) dims (n)
      }""")
    both(f, {**zeros("x"), **zeros("y", n=3)}, {"n": 3})
    found = fault(f, {**zeros("x"), **zeros("y", n=5)}, {"n": 5})
    assert (found.kind, found.detail) == ("out-of-bounds", "x, axis 0: index 4 outside [0, 4)")


DIMS = """
primfunc @f(i: i64[4], y: f32[4]) writes (y) {
  primfunc @set(y: f32[4]) writes (y) dims at in [1, 2] {
    y[at] = 1.0:f32
  }
  for k in 4 KIND {
    if GUARD {
      call @set(y) dims (VALUE)
    }
  }
}
"""


@pytest.mark.parametrize("kind", ["", "parallel"])
@pytest.mark.parametrize("value", ["k", "i[k]", "i[k] + k - k"])
def test_dims_lie_in_their_ranges_where_the_call_is_made(kind: str, value: str) -> None:
    i = {"i": np.arange(4), **zeros("y")}
    text = DIMS.replace("KIND", kind).replace("VALUE", value)
    for guard, fits in (("k < 3 and k > 0", True), ("k > 0", False), ("k < 2", False)):
        f = sound(text.replace("GUARD", guard))
        if fits:
            assert both(f, i, {})["y"].tolist() == [0, 1, 1, 0]
            continue
        with pytest.raises(LoopFault) as caught:
            run(f, {n: a.copy() for n, a in i.items()}, {})
        assert caught.value.kind == "dim-out-of-range"
        assert caught.value.detail == "at outside [1, 2]"


def test_dims_are_evaluated_once() -> None:
    f = sound("""
      primfunc @f(i: i64[2], y: i64[4]) writes (i, y) {
        primfunc @set(i: i64[2], y: i64[4]) writes (i, y) dims at in [0, 3] {
          i[0] = 3
          y[at] = i[0]
        }
        call @set(i, y) dims (i[0] + i[1])
      }""")
    given: dict[str, Array] = {"i": np.array([0, 1]), "y": np.zeros(4, np.int64)}
    assert both(f, given, {})["y"].tolist() == [0, 3, 0, 0]


def test_conditions_and_rounds_of_a_callee_are_per_lane() -> None:
    f = sound("""
      primfunc @f(x: i64[6], y: i64[6]) writes (y) {
        primfunc @collatz(v: i64[] local, c: i64[] local) writes (v, c) dims most in [0, 99] {
          c[] = 0
          while v[] > 1 and c[] < most {
            v[] = select(v[] % 2 == 0, v[] // 2, 3 * v[] + 1)
            c[] = c[] + 1
          }
        }
        for i in 6 parallel {
          if x[i] > 0 {
            alloc v: i64[] local
            alloc c: i64[] local
            v[] = x[i]
            call @collatz(v, c) dims (i * 2)
            y[i] = c[]
          }
        }
      }""")
    x: dict[str, Array] = {"x": np.array([7, 7, 0, 7, 8, 7]), "y": np.full(6, -1)}
    assert both(f, x, {})["y"].tolist() == [0, 2, -1, 6, 3, 10]


SHARED = """
kernel @k(x: f32[2, 8], y: f32[2, 8]) writes (y) {
  primfunc @swap(s: f32[8] shared, y: f32[2, 8]) writes (y) dims b in [0, 1], t in [0, 7] {
    y[b, t] = s[7 - t]
  }
  primfunc @keep(x: f32[2, 8], s: f32[8] shared) writes (s) dims b in [0, 1], t in [0, 7] {
    s[t] = x[b, t]
  }
  for b in 2 bound blockIdx.x {
    alloc s: f32[8] shared
    for t in 8 bound threadIdx.x {
      call @keep(x, s) dims (b, t)
      BARRIER
      call @swap(s, y) dims (b, t)
    }
  }
}
"""


def test_shared_memory_between_calls() -> None:
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    given: dict[str, Array] = {"x": x, "y": np.zeros((2, 8), np.float32)}
    got = both(sound(SHARED.replace("BARRIER", "barrier")), given, {})
    assert (got["y"] == x[:, ::-1]).all()
    f = fault(sound(SHARED.replace("BARRIER", "")), given, {})
    assert (f.kind, f.detail.split(",")[0]) == ("race", "s")


def test_a_library_s_routine_between_calls() -> None:
    f = sound("""
      primfunc @f(x: f32[4], y: f32[4]) writes (y) {
        primfunc @g(b: f32[4]) writes (b) {
          b[0] = b[0] + 1.0:f32
        }
        call @g(y)
        extern "double"(x) -> (y)
        call @g(y)
      }""")

    def double(
        outputs: Sequence[Array], inputs: Sequence[Array], attrs: Mapping[str, Attr]
    ) -> None:
        del attrs
        outputs[0][...] = 2 * inputs[0]

    buffers = {"x": np.arange(4, dtype=np.float32), **zeros("y")}
    run(f, buffers, {}, {"double": double})
    assert buffers["y"].tolist() == [1, 2, 4, 6]


@pytest.mark.parametrize("names", [("x", "y"), ("y", "x")])
def test_names_of_caller_and_callee_do_not_meet(names: tuple[str, str]) -> None:
    """Each of the callee's names is one of the caller's, for something else."""
    a, b = names
    f = sound(f"""
      primfunc @f(x: f32[4], y: f32[4]) writes (y) dims n in [0, 3] {{
        primfunc @g({a}: f32[4], {b}: f32[4]) writes ({b}) dims i in [0, 3] {{
          let k = 3 - i
          alloc n: f32[] local
          n[] = {a}[k] + (let t = f32(i) in t * t)
          for j in 2 {{
            {b}[i] = n[] + f32(j)
          }}
        }}
        for j in n {{
          let i = j + 1
          let t = 2.0:f32
          call @g(x, y) dims (i)
          alloc k: f32[] local
          k[] = y[i]
          y[i] = k[] * t
        }}
      }}""")
    x = {"x": np.arange(4, dtype=np.float32), **zeros("y")}
    assert both(f, x, {"n": 3})["y"].tolist() == [0, 2 * 4, 2 * 6, 2 * 10]


def test_what_calls_nothing_is_itself() -> None:
    (f,) = parse_loop("primfunc @f(y: f32[4]) writes (y) { y[0] = 1.0:f32 }")
    assert expand(f) is f
    g = replace(f, name="g", functions=(f,))
    assert expand(g) == replace(g, functions=())


def test_functions_are_part_of_a_function() -> None:
    f = sound(ROWS.replace("KIND", ""))
    fewer = replace(f, functions=f.functions[:1])
    assert f != fewer
    assert hash(f) == hash(replace(fewer, functions=f.functions))
