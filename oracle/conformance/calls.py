"""Kernels that hold functions and call them: loop programs, for whoever makes text of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import Array


@dataclass(frozen=True)
class LoopCase:
    """One run of a kernel: what its parameters hold before, and its outputs after."""

    name: str
    kernel: PrimFunc
    initial: tuple[Array, ...]
    expected: tuple[Array, ...]
    dims: Mapping[str, int]
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])


def cases() -> Iterator[LoopCase]:
    """All cases of calls."""
    yield from _norms()
    yield from _ends()
    yield from _turned()
    yield from _counts()
    yield from _rounds()
    yield from _wide()
    yield _sorted()
    yield _words()
    yield scalars()
    yield aliased()


def _case(
    name: str, text: str, inputs: tuple[Array, ...], outputs: tuple[Array, ...], **dims: int
) -> LoopCase:
    (kernel,) = parse_loop(text)
    untouched = tuple(np.full_like(a, 77) for a in outputs)
    return LoopCase(name, kernel, (*inputs, *untouched), outputs, dims)


def _norms() -> Iterator[LoopCase]:
    """Two deep, in a loop, with a register of the caller's caller."""
    text = """
kernel @norms(x: f32[n, 8], y: f32[n], z: f32[n]) writes (y, z) dims n in [0, 4096] {
  primfunc @add(row: f32[n, 8], sum: f32[] local) writes (sum)
      dims i in [0, 4095], k in [0, 7], n in [1, 4096] {
    let v = row[i, k]
    sum[] = sum[] + v * v
  }
  primfunc @norm(x: f32[n, 8], y: f32[n]) writes (y)
      dims n in [1, 4096], i in [0, 4095], from in [0, 4] {
    alloc sum: f32[] local
    sum[] = 0.0:f32
    for k in 4 {
      call @add(x, sum) dims (i, from + k, n)
    }
    y[i] = sum[]
  }
  for b in (n + 31) // 32 bound blockIdx.x {
    for t in 32 bound threadIdx.x {
      let i = b * 32 + t
      if i < n {
        call @norm(x, y) dims (n, i, 0)
        call @norm(x, z) dims (n, n - 1 - i, 4)
      }
    }
  }
}"""
    for n in (0, 1, 33):
        x = (np.arange(8 * n) % 13 - 6).astype(np.float32).reshape(n, 8)
        sums = (x * x).reshape(n, 2, 4).sum(2)
        wanted = sums[:, 0].copy(), sums[:, 1].copy()
        yield _case(f"norms of {n} rows", text, (x,), wanted, n=n)


def _ends() -> Iterator[LoopCase]:
    """One thread and parallel loops; what one call stores the next reads."""
    text = """
primfunc @ends(x: i32[n, m], y: i32[n, m], last: i32[n]) writes (y, last)
    dims n in [1, 64], m in [1, 64] {
  primfunc @running(x: i32[rows, n], y: i32[rows, n]) writes (y)
      dims rows in [1, 64], n in [1, 64], i in [0, 63] {
    y[i, 0] = x[i, 0]
    for j in n - 1 {
      y[i, j + 1] = y[i, j] + x[i, j + 1]
    }
  }
  primfunc @pick(y: i32[m, columns], out: i32[m]) writes (out)
      dims i in [0, 63], j in [0, 63], m in [1, 64], columns in [1, 64] {
    out[i] = y[i, j]
  }
  for i in n parallel {
    call @running(x, y) dims (n, m, i)
    call @pick(y, last) dims (i, m - 1, n, m)
  }
}"""
    for n, m in ((1, 1), (3, 17)):
        x = (np.arange(n * m) * 7 % 31 - 15).astype(np.int32).reshape(n, m)
        want = np.cumsum(x, 1, dtype=np.int32)
        yield _case(f"ends {n} {m}", text, (x,), (want, want[:, -1].copy()), n=n, m=m)


def _turned() -> Iterator[LoopCase]:
    """A tile in shared memory, filled and read by functions around a barrier."""
    text = """
kernel @turned(x: T[n, 32], y: T[n, 32]) writes (y) dims n in [0, 99] {
  primfunc @fill(x: T[n, 32], tile: T[2, 16] shared) writes (tile)
      dims b in [0, 98], t in [0, 31], n in [1, 99] {
    tile[t // 16, t % 16] = x[b, t]
  }
  primfunc @turn(tile: T[2, 16] shared, x: T[n, 32]) writes (x)
      dims n in [1, 99], t in [0, 31], b in [0, 98] {
    let from = 31 - t
    x[b, t] = tile[from // 16, from % 16]
  }
  for b in n bound blockIdx.x {
    alloc tile: T[2, 16] shared
    for t in 32 bound threadIdx.x {
      call @fill(x, tile) dims (b, t, n)
      barrier
      call @turn(tile, y) dims (n, t, b)
    }
  }
}"""
    for dtype in ("f32", "f16", "bf16", "i8", "f64", "bool"):
        typed = text.replace("T[", f"{dtype}[")
        kind = parse_loop(typed)[0].params[0].dtype.numpy
        x = (np.arange(5 * 32) % (2 if dtype == "bool" else 100)).astype(kind).reshape(5, 32)
        yield _case(f"turned {dtype}", typed, (x,), (np.ascontiguousarray(x[:, ::-1]),), n=5)


def _counts() -> Iterator[LoopCase]:
    """Atomics through calls, on memory of the device and of a block."""
    text = """
kernel @counts(x: i64[192], total: i64[4]) writes (total) {
  primfunc @count(x: i64[192], cells: i64[4] shared) writes (cells) dims at in [0, 191] {
    atomic add(cells[x[at] % 4], x[at])
  }
  primfunc @clear(cells: i64[4] shared) writes (cells) dims t in [0, 63] {
    if t < 4 {
      cells[t] = 0
    }
  }
  primfunc @hand(cells: i64[4] shared, total: i64[4]) writes (total) dims t in [0, 3] {
    atomic OP(total[t], cells[t])
  }
  for b in 3 bound blockIdx.x {
    alloc cells: i64[4] shared
    for t in 64 bound threadIdx.x {
      call @clear(cells) dims (t)
      barrier
      call @count(x, cells) dims (b * 64 + t)
      barrier
      if t < 4 {
        call @hand(cells, total) dims (t)
      }
    }
  }
}"""
    x = np.arange(192, dtype=np.int64) * 37 % 90
    blocks = [[part[part % 4 == c].sum() for c in range(4)] for part in x.reshape(3, 64)]
    for op, fold in (("add", np.sum), ("max", np.max)):
        want = np.asarray(fold(np.array(blocks), axis=0)) + (77 if op == "add" else 0)
        yield _case(f"counts by {op}", text.replace("OP", op), (x,), (want,))


def _rounds() -> Iterator[LoopCase]:
    """Loops without a known end, conditions with statements of their own, values that are dims."""
    text = """
kernel @rounds(x: i64[100], y: i64[100]) writes (y) {
  primfunc @collatz(v: i64[1] local, steps: i64[1] local) writes (v, steps) dims most in [0, 99] {
    while COND {
      if v[0] % 2 == 0 {
        v[0] = v[0] // 2
      } else {
        v[0] = 3 * v[0] + 1
      }
      steps[0] = steps[0] + 1
    }
  }
  for b in 4 bound blockIdx.x {
    for t in 32 bound threadIdx.x {
      if b * 32 + t < 100 {
        alloc v: i64[1] local
        alloc n: i64[1] local
        n[0] = 0
        v[0] = x[b * 32 + t]
        call @collatz(v, n) dims (min(max(v[0], 0), 99))
        y[b * 32 + t] = n[0] * 1000 + v[0]
      }
    }
  }
}"""
    x = np.arange(-20, 80, dtype=np.int64)
    want = np.array([_collatz(int(v)) for v in x])
    conditions = (
        "v[0] > 1 and steps[0] < most",
        "(let w = v[0] in w > 1) and (let s = steps[0] in s < most)",
    )
    for what, cond in zip(("plain", "with statements"), conditions, strict=True):
        yield _case(f"rounds {what}", text.replace("COND", cond), (x,), (want,))


def _collatz(v: int) -> int:
    steps, most = 0, min(max(v, 0), 99)
    while v > 1 and steps < most:
        v, steps = (3 * v + 1 if v % 2 else v // 2), steps + 1
    return steps * 1000 + v


def _wide() -> Iterator[LoopCase]:
    """Four lanes at once in a callee, and a call in each of four lanes."""
    inside = """
kernel @wide(x: f32[1024], y: f32[1024]) writes (y) {
  primfunc @four(a: f32[1024], b: f32[1024]) writes (b) dims group in [0, 255] {
    for l in 4 vectorized {
      b[group * 4 + l] = a[group * 4 + l] * 2.0:f32
    }
  }
  for t in 256 bound threadIdx.x {
    call @four(x, y) dims (t)
  }
}"""
    around = """
kernel @wide(x: f32[1024], y: f32[1024]) writes (y) {
  primfunc @one(a: f32[1024], b: f32[1024]) writes (b) dims at in [0, 1023] {
    b[at] = a[at] * 2.0:f32
  }
  for t in 256 bound threadIdx.x {
    for l in 4 vectorized {
      call @one(x, y) dims (t * 4 + l)
    }
  }
}"""
    x = np.arange(1024, dtype=np.float32)
    yield _case("lanes in a callee", inside, (x,), (2 * x,))
    yield _case("calls in lanes", around, (x,), (2 * x,))


def _sorted() -> LoopCase:
    """A thread's own array, changed by two functions, one of which runs the other in its loops."""
    text = """
kernel @sorted(x: i32[64, 5], y: i32[64, 5]) writes (y) {
  primfunc @exchange(a: i32[5] local) writes (a) dims i in [0, 4], j in [0, 4] {
    if a[i] > a[j] {
      alloc kept: i32[] local
      kept[] = a[i]
      a[i] = a[j]
      a[j] = kept[]
    }
  }
  primfunc @sort(a: i32[5] local) writes (a) {
    for i in 4 {
      for j in 4 - i {
        call @exchange(a) dims (i, i + j + 1)
      }
    }
  }
  for t in 64 bound threadIdx.x {
    alloc mine: i32[5] local
    for k in 5 {
      mine[k] = x[t, k]
    }
    call @sort(mine)
    for i in 5 {
      y[t, i] = mine[i]
    }
  }
}"""
    x = np.random.default_rng(2).integers(-50, 50, (64, 5)).astype(np.int32)
    return _case("sorted", text, (x,), (np.sort(x, 1),))


def _words() -> LoopCase:
    """Names that C has taken, and names of caller and callee that are each other's."""
    text = """
primfunc @main(int: i64[3], float: i64[3]) writes (float) {
  primfunc @double(float: i64[3], int: i64[3]) writes (int) dims i_1 in [0, 2], i in [0, 9] {
    let double = float[i_1] * 2
    int[i_1] = double + i
  }
  for i in 3 {
    let i_1 = 2 - i
    call @double(int, float) dims (i_1, i + 1)
  }
}"""
    x = np.array([5, 6, 7])
    return _case("words", text, (x,), (2 * x + np.array([3, 2, 1]),))


def scalars() -> LoopCase:
    """Numbers of several widths by value, in a kernel and in a function that it calls."""
    text = """
primfunc @scalars(x: f32[n], y: f32[n],
                  alpha: f32, beta: f64, step: i8, k: i64, mask: u32, on: bool)
    writes (y) dims n in [1, 64] {
  primfunc @scaled(x: f32[n], y: f32[n], by: f32, turn: i64) writes (y)
      dims n in [1, 64], i in [0, 63] {
    y[i] = y[i] * 2.0:f32 + by * x[i] + f32(turn)
  }
  for i in n {
    y[i] = select(on, f32(beta), f32(mask))
    for j in k {
      call @scaled(x, y) scalars (alpha + f32(step), j * k) dims (n, i)
    }
  }
}"""
    (kernel,) = parse_loop(text)
    x = np.arange(7, dtype=np.float32)
    given = {"alpha": 0.5, "beta": -1.25, "step": -3, "k": 2, "mask": 2**32 - 1, "on": True}
    want = (-1.25 * 2 + -2.5 * x + 0) * 2 + -2.5 * x + 2
    outputs = (want.astype(np.float32),)
    return LoopCase("scalars", kernel, (x, np.full_like(x, 77)), outputs, {"n": 7}, given)


def aliased() -> LoopCase:
    """One buffer given twice, once to be written: what is stored is what is loaded next."""
    text = """
kernel @aliased(x: f32[64], y: f32[64]) writes (x, y) {
  primfunc @after(old: f32[64], new: f32[64], y: f32[64]) writes (new, y) dims t in [0, 15]
      attrs(noalias=false) {
    for v in 4 vectorized {
      new[t * 4 + v] = old[t * 4 + v] + 1.0:f32
      y[t * 4 + v] = old[t * 4 + v] * 2.0:f32
    }
  }
  for t in 16 bound threadIdx.x {
    call @after(x, x, y) dims (t)
  }
}"""
    (kernel,) = parse_loop(text)
    x = np.arange(64, dtype=np.float32)
    return LoopCase("aliased", kernel, (x, np.full_like(x, 77)), (x + 1, 2 * (x + 1)), {})
