"""What kernels are built of: threads, blocks, barriers, shared memory, atomics, wide accesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from didyma.oracle.conformance.case import LaunchCase
from didyma.oracle.conformance.scalars import c
from didyma.refimpl.ir.expr import ceildiv, index, mul
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.loop import Expr, Var
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import BYTES, INTS, Array, DType

_ONE = index(1)


def cases() -> Iterator[LaunchCase]:
    """All cases of whole kernels."""
    yield from _tails()
    yield from _rounds()
    yield from _axes()
    yield from _reductions()
    yield from _fences()
    yield from _transposes()
    yield from _scans()
    yield from _atomics()
    yield from _shuffles()
    yield from _clusters()
    yield from _chains()
    yield from _wide()
    yield from _quotients()
    yield _local()
    yield _dims()
    yield _guarded()


def _case(
    name: str,
    source: str,
    buffers: Sequence[tuple[str, Array, Expr]],
    outputs: Mapping[str, Array],
    dims: Mapping[str, int],
    grid: tuple[Expr, Expr, Expr],
    block: tuple[int, int, int],
) -> LaunchCase:
    threads = block[0] * block[1] * block[2]
    params = [
        f"{'' if n in outputs else 'const '}{c(DType.of(a))} *__restrict__ {n}"
        for n, a, _ in buffers
    ] + [f"i64 {d}" for d in dims]
    head = f'extern "C" __global__ void __launch_bounds__({threads})\nkernel_({", ".join(params)})'
    kernel = Signature(
        "kernel_",
        tuple((n, DType.of(a)) for n, a, _ in buffers),
        tuple(size for _, _, size in buffers),
        tuple(outputs),
        tuple(dims),
        grid,
        block,
    )
    text = KernelText(f"{head} {{\n{source}}}\n", (kernel,), contract=False)
    initial = tuple(a for _, a, _ in buffers)
    return LaunchCase("structure", name, text, kernel, initial, tuple(outputs.values()), dict(dims))


def _tails() -> Iterator[LaunchCase]:
    body = """\
  const i64 i = (i64)blockIdx.x * 64 + (i64)threadIdx.x;
  if (i < n) {
    y[i] = x[i] * 2.0f + 1.0f;
  }
"""
    n = Var("n")
    for size in (0, 1, 63, 64, 65, 1000):
        x = np.arange(size, dtype=np.float32)
        buffers = (("x", x, n), ("y", np.full_like(x, -1), n))
        grid = (ceildiv(n, index(64)), _ONE, _ONE)
        dims = {"n": size}
        yield _case(f"tail of {size}", body, buffers, {"y": x * 2 + 1}, dims, grid, (64, 1, 1))
    untouched = np.arange(5, dtype=np.float32)
    body = "  y[threadIdx.x] = 0.0f;\n"
    grid = (_ONE, _ONE, n)
    yield _case("no blocks", body, (("y", untouched, index(5)),), {"y": untouched}, {"n": 0}, grid,
                (5, 1, 1))  # fmt: skip


def _rounds() -> Iterator[LaunchCase]:
    """A loop whose end each thread finds for itself, some at once."""
    n = Var("n")
    for what, condition in (("one test", "v > 1"), ("two tests", "v != 1 && v > 0")):
        body = f"""\
  const i64 i = (i64)blockIdx.x * 32 + (i64)threadIdx.x;
  if (i < n) {{
    i64 v = x[i];
    i64 steps = 0;
    while ({condition}) {{
      if (v % 2 == 0) {{
        v = v / 2;
      }} else {{
        v = 3 * v + 1;
      }}
      steps = steps + 1;
    }}
    y[i] = steps;
  }}
"""
        x = np.arange(100, dtype=np.int64)
        buffers = (("x", x, n), ("y", np.full_like(x, -1), n))
        expected = np.array([_collatz(int(v)) for v in x])
        grid = (ceildiv(n, index(32)), _ONE, _ONE)
        yield _case(f"rounds by {what}", body, buffers, {"y": expected}, {"n": 100}, grid,
                    (32, 1, 1))  # fmt: skip


def _collatz(v: int) -> int:
    steps = 0
    while v > 1:
        v, steps = (3 * v + 1 if v % 2 else v // 2), steps + 1
    return steps


def _axes() -> Iterator[LaunchCase]:
    """Every coordinate of the grid and of the block, in three dimensions."""
    block, n, m, k = (4, 2, 3), Var("n"), Var("m"), Var("k")
    body = """\
  const i64 b = ((i64)blockIdx.z * m + (i64)blockIdx.y) * n + (i64)blockIdx.x;
  const i64 t = ((i64)threadIdx.z * 2 + (i64)threadIdx.y) * 4 + (i64)threadIdx.x;
  y[b * 24 + t] = (i64)blockIdx.x + 10 * (i64)blockIdx.y + 100 * (i64)blockIdx.z
    + 1000 * (i64)threadIdx.x + 10000 * (i64)threadIdx.y + 100000 * (i64)threadIdx.z;
"""
    for sizes in ((3, 2, 4), (1, 1, 1), (5, 1, 2)):
        gx, gy, gz = sizes
        z, y, x, tz, ty, tx = np.indices((gz, gy, gx, 3, 2, 4), np.int64)
        want = (x + 10 * y + 100 * z + 1000 * tx + 10000 * ty + 100000 * tz).reshape(-1)
        buffers = (("y", np.zeros_like(want), mul(n, m, k, index(24))),)
        dims = {"n": gx, "m": gy, "k": gz}
        yield _case(f"grid {sizes}", body, buffers, {"y": want}, dims, (n, m, k), block)


def _reductions() -> Iterator[LaunchCase]:
    """A tree in shared memory, one row per block; sums of small integers are exact in any dtype."""
    n = Var("n")
    for dtype in (DType.F32, DType.F64, DType.I32, DType.I64, DType.U8):
        t = c(dtype)
        plus = "{} + {}" if dtype.is_float else f"add_{t}({{}}, {{}})"
        body = f"""\
  __shared__ {t} part[128];
  {t} sum = 0;
  for (i64 j = (i64)threadIdx.x; j < n; j = j + 128) {{
    sum = {plus.format("sum", "x[(i64)blockIdx.x * n + j]")};
  }}
  part[threadIdx.x] = sum;
  __syncthreads();
  for (i64 half = 64; half > 0; half = half / 2) {{
    if ((i64)threadIdx.x < half) {{
      part[threadIdx.x] = {plus.format("part[threadIdx.x]", "part[(i64)threadIdx.x + half]")};
    }}
    __syncthreads();
  }}
  if (threadIdx.x == 0) {{
    y[blockIdx.x] = part[0];
  }}
"""
        for size in (1, 100, 1000):
            x = (np.arange(7 * size) % 11).astype(dtype.numpy).reshape(7, size)
            want = x.astype(np.int64).sum(1).astype(dtype.numpy)
            buffers = (("x", x, mul(index(7), n)), ("y", np.zeros_like(want), index(7)))
            name = f"reduction of {size} {dtype}"
            grid = (index(7), _ONE, _ONE)
            yield _case(name, body, buffers, {"y": want}, {"n": size}, grid, (128, 1, 1))


def _fences() -> Iterator[LaunchCase]:
    """What a block wrote before a fence is there for the block that counts last."""
    body = """\
  parts[blockIdx.x] = (i64)blockIdx.x + 1;
  device_fence();
  if (atomic_fetch_add_i32(&count[0], 1) == 6) {
    i64 sum = 0;
    for (i64 j = 0; j < 7; j = j + 1) {
      sum = sum + parts[j];
    }
    y[0] = sum;
  }
"""
    seven, one, y = np.zeros(7, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64)
    buffers = (("parts", seven, index(7)), ("count", one, _ONE), ("y", y, _ONE))
    left: dict[str, Array] = {"parts": np.arange(1, 8), "count": one + 7, "y": y + 28}
    yield _case("a fence", body, buffers, left, {}, (index(7), _ONE, _ONE), (1, 1, 1))


def _transposes() -> Iterator[LaunchCase]:
    """A padded tile in shared memory, with tails on both axes."""
    rows, cols = Var("rows"), Var("cols")
    for dtype in (DType.F32, DType.F16, DType.I8, DType.F64):
        t = c(dtype)
        body = f"""\
  __shared__ {t} tile[72];
  const i64 r = (i64)blockIdx.y * 8 + (i64)threadIdx.y;
  const i64 q = (i64)blockIdx.x * 8 + (i64)threadIdx.x;
  if (r < rows && q < cols) {{
    tile[(i64)threadIdx.y * 9 + (i64)threadIdx.x] = x[r * cols + q];
  }}
  __syncthreads();
  const i64 s = (i64)blockIdx.x * 8 + (i64)threadIdx.y;
  const i64 p = (i64)blockIdx.y * 8 + (i64)threadIdx.x;
  if (s < cols && p < rows) {{
    y[s * rows + p] = tile[(i64)threadIdx.x * 9 + (i64)threadIdx.y];
  }}
"""
        for shape in ((16, 8), (13, 21), (1, 5)):
            x = (np.arange(shape[0] * shape[1]) % 120).astype(dtype.numpy).reshape(shape)
            want = np.ascontiguousarray(x.T)
            size = mul(rows, cols)
            buffers = (("x", x, size), ("y", np.zeros_like(want), size))
            grid = (ceildiv(cols, index(8)), ceildiv(rows, index(8)), _ONE)
            dims = {"rows": shape[0], "cols": shape[1]}
            name = f"transpose of {shape} {dtype}"
            yield _case(name, body, buffers, {"y": want}, dims, grid, (8, 8, 1))


def _scans() -> Iterator[LaunchCase]:
    """Barriers in a loop, two shared arrays, values kept in registers across barriers."""
    body = """\
  __shared__ i32 left[96];
  __shared__ i64 right[96];
  const i64 t = (i64)threadIdx.x;
  i32 mine = x[(i64)blockIdx.x * 96 + t];
  for (i64 step = 1; step < 96; step = step * 2) {
    left[t] = mine;
    right[t] = (i64)mine;
    __syncthreads();
    if (t >= step) {
      mine = add_i32(mine, left[t - step]);
      mine = sub_i32(mine, cast_i64_i32(right[t - step] - (i64)left[t - step]));
    }
    __syncthreads();
  }
  y[(i64)blockIdx.x * 96 + t] = mine;
"""
    x = np.random.default_rng(0).integers(-1000, 1000, (5, 96)).astype(np.int32)
    want = np.cumsum(x, 1).astype(np.int32)
    n = Var("n")
    buffers = (("x", x, mul(n, index(96))), ("y", np.zeros_like(x), mul(n, index(96))))
    yield _case("scan", body, buffers, {"y": want}, {"n": 5}, (n, _ONE, _ONE), (96, 1, 1))


def _atomics() -> Iterator[LaunchCase]:
    """Many threads on four cells; every result is exact in any order."""
    for dtype in PORTABLE.atomics:
        t = c(dtype)
        body = f"""\
  const i64 i = (i64)blockIdx.x * 64 + (i64)threadIdx.x;
  atomic_add_{t}(&add[i % 4], x[i]);
  atomic_mul_{t}(&mul[i % 4], x[i] < 3 ? x[i] : 1);
  atomic_min_{t}(&low[i % 4], x[i]);
  atomic_max_{t}(&high[i % 4], x[i]);
"""
        x = (np.arange(192) * 37 % 90 + 1).astype(dtype.numpy)
        factor = np.where(x < 3, x, 1)
        start = np.full(4, 5, dtype.numpy)
        cells = [np.arange(192) % 4 == i for i in range(4)]
        want = {
            "add": [5 + x[s].sum() for s in cells],
            "mul": [5 * factor[s].prod() for s in cells],
            "low": [min(5, x[s].min()) for s in cells],
            "high": [max(5, x[s].max()) for s in cells],
        }
        buffers = [("x", x, index(192)), *((n, start, index(4)) for n in want)]
        outputs = {n: np.array(v, dtype.numpy) for n, v in want.items()}
        grid = (index(3), _ONE, _ONE)
        yield _case(f"atomics {dtype}", body, buffers, outputs, {}, grid, (64, 1, 1))
    body = """\
  const i32 number = atomic_fetch_add_i32(&next[threadIdx.x % 2], 2) + (i32)threadIdx.x % 2;
  taken[number] = taken[number] + 1;
"""
    buffers = [("next", np.zeros(2, np.int32), index(2)),
               ("taken", np.zeros(192, np.int32), index(192))]  # fmt: skip
    outputs = {"next": np.full(2, 192, np.int32), "taken": np.ones(192, np.int32)}
    yield _case("numbers taken", body, buffers, outputs, {}, (index(3), _ONE, _ONE), (64, 1, 1))
    for dtype in (DType.F32, DType.F64):
        t = c(dtype)
        body = f"""\
  atomic_min_{t}(&low[threadIdx.x % 2], x[threadIdx.x]);
  atomic_max_{t}(&high[threadIdx.x % 2], x[threadIdx.x]);
"""
        x = np.array([0.0, 1.0, -0.0, np.nan, 0.0, -np.inf, -0.0, 5.0], dtype.numpy)
        buffers = [("x", x, index(8)), ("low", np.array([0, 1], dtype.numpy), index(2)),
                   ("high", np.array([-0.0, 1], dtype.numpy), index(2))]  # fmt: skip
        nan = np.nan
        outputs = {"low": np.array([-0.0, nan], dtype.numpy),
                   "high": np.array([0.0, nan], dtype.numpy)}  # fmt: skip
        grid = (_ONE, _ONE, _ONE)
        yield _case(f"atomic corners {dtype}", body, buffers, outputs, {}, grid, (8, 1, 1))


def _shuffles() -> Iterator[LaunchCase]:
    """Lanes of two warps, in a block of three axes, twice in a row; values differ."""
    number = np.arange(64)
    for dtype in (DType.F64, DType.F32, *INTS, DType.BOOL):
        t = c(dtype)
        body = f"""\
  const i64 i = (i64)threadIdx.x + (i64)threadIdx.y * 8 + (i64)threadIdx.z * 32;
  const {t} other = shuffle_xor_{t}(x[i], 5);
  y[i] = other;
  z[i] = shuffle_xor_{t}(other, 16);
"""
        x = number % 3 == 0 if dtype is DType.BOOL else (number - 32).astype(dtype.numpy)
        if dtype.is_float:
            x = np.where(number % 9 == 4, -0.0, np.where(number % 9 == 5, np.inf, x))
        x = x.astype(dtype.numpy)
        outputs = {"y": x[number ^ 5], "z": x[number ^ 5 ^ 16]}
        buffers = [("x", x, index(64)), *((n, np.zeros_like(x), index(64)) for n in outputs)]
        grid = (_ONE, _ONE, _ONE)
        yield _case(f"shuffles {dtype}", body, buffers, outputs, {}, grid, (8, 4, 2))


def _clusters() -> Iterator[LaunchCase]:
    """A block that is a cluster by itself: what lies in another's memory lies in its own."""
    for dtype in BYTES:
        t = c(dtype)
        body = f"""\
  __shared__ {t} tile[32];
  const i64 i = threadIdx.x;
  cluster_barrier();
  cluster_store_{t}(&tile[i], i - i, x[i]);
  cluster_barrier();
  y[i] = cluster_load_{t}(&tile[31 - i], 0);
"""
        x = np.arange(32).astype(dtype.numpy)
        buffers = [(n, a, index(32)) for n, a in (("x", x), ("y", np.zeros_like(x)))]
        grid = (_ONE, _ONE, _ONE)
        yield _case(f"clusters {dtype}", body, buffers, {"y": x[::-1]}, {}, grid, (32, 1, 1))


def _chains() -> Iterator[LaunchCase]:
    """Blocks of two lines that fold what those before them give, with bits that order decides."""
    blocks = 2 * 300
    for dtype, (op, fold) in product(
        (DType.F64, DType.F32, *INTS), (("add", np.add), ("mul", np.multiply))
    ):
        t = c(dtype)
        body = f"""\
  const i64 i = chain_ticket(states);
  const {t} before = chain_{op}_{t}(states, totals, i, gridDim.x, x[600], x[i]);
  y[i * 64 + threadIdx.x] = before;
"""
        number = np.arange(blocks + 1)
        x = 1 + (number % 7) / 1e3 * (-1) ** number if dtype.is_float else 1 + number % 7 * 2
        x = x.astype(dtype.numpy)
        lines = np.insert(x[:blocks].reshape(2, 300), 0, x[blocks], axis=1)
        known = fold.accumulate(lines, axis=1, dtype=x.dtype)
        totals = np.stack([lines[:, 1:], known[:, 1:]], axis=-1).reshape(-1)
        states = np.insert(np.full(blocks, 2, np.int32), 0, blocks)
        y = np.repeat(known[:, :-1].reshape(-1), 64)
        outputs = {"states": states, "totals": totals, "y": y}
        buffers = [(n, np.zeros_like(a), index(a.size)) for n, a in outputs.items()]
        buffers = [("x", x, index(x.size)), *buffers]
        grid = (index(300), index(2), _ONE)
        yield _case(f"chains {op} {dtype}", body, buffers, outputs, {}, grid, (64, 1, 1))


def _wide() -> Iterator[LaunchCase]:
    lanes = {
        2: "xy",
        4: "xyzw",
        8: tuple(f"s{k}" for k in range(8)),
        16: tuple(f"s{k:x}" for k in range(16)),
    }
    for dtype, k in product(BYTES, lanes):
        t = c(dtype)
        moved = [(5 * at + 3) % k for at in range(k)]  # lane -> where it comes from
        assigned = "\n".join(
            f"    w.{lanes[k][at]} = v.{lanes[k][source]};" for at, source in enumerate(moved)
        )
        body = f"""\
  const i64 i = (i64)blockIdx.x * 32 + (i64)threadIdx.x;
  if (i < n) {{
    prefetch_{t}(&x[i * {k}]);
    const {t}x{k} v = load{k}_{t}(&x[i * {k}]);
    {t}x{k} w;
{assigned}
    store{k}_{t}(&y[i * {k}], w);
    const {t}x{k} again = load{k}_pass_{t}(&x[i * {k}]);
    store{k}_pass_{t}(&z[i * {k}], again);
  }}
"""
        x = (np.arange(k * 75) % 100).astype(dtype.numpy)
        want = np.ascontiguousarray(x.reshape(-1, k)[:, moved]).reshape(-1)
        n = Var("n")
        count, empty = mul(n, index(k)), np.zeros_like(x)
        buffers = (("x", x, count), ("y", empty, count), ("z", empty.copy(), count))
        grid, name = (ceildiv(n, index(32)), _ONE, _ONE), f"wide {dtype} by {k}"
        yield _case(name, body, buffers, {"y": want, "z": x}, {"n": 75}, grid, (32, 1, 1))


def _quotients() -> Iterator[LaunchCase]:
    names = {2: "xy", 4: "xyzw", **{k: [f"s{n:x}" for n in range(k)] for k in (8, 16)}}
    rng = np.random.default_rng(0)
    special = np.array([0.0, -0.0, np.inf, 1e-40, -1e-38, 3e38, 1.0, 7.0], np.float32)
    for k, lanes in names.items():
        assigned = "\n".join(f"    r.{p} = w.{p};" for p in lanes)
        body = f"""\
  const i64 i = (i64)blockIdx.x * 32 + (i64)threadIdx.x;
  if (i < n) {{
    const f32x{k} v = load{k}_f32(&x[i * {k}]);
    const f32x{k} w = quotients{k}_f32(v, b[i]);
    f32x{k} r;
{assigned}
    store{k}_f32(&y[i * {k}], r);
  }}
"""
        x, b = (rng.standard_normal(m, np.float32) for m in (75 * k, 75))
        x[::9], b[::7] = np.resize(special, x[::9].shape), np.resize(special[3:], b[::7].shape)
        with np.errstate(all="ignore"):
            want = (x.reshape(-1, k) / b[:, None]).reshape(-1)
        n = Var("n")
        count = mul(n, index(k))
        buffers = (("x", x, count), ("b", b, n), ("y", np.zeros_like(x), count))
        grid = (ceildiv(n, index(32)), _ONE, _ONE)
        yield _case(f"quotients of {k}", body, buffers, {"y": want}, {"n": 75}, grid, (32, 1, 1))


def _local() -> LaunchCase:
    """Arrays of a thread's own, nested loops, branches."""
    body = """\
  f32 window[5];
  for (i64 j = 0; j < 5; j = j + 1) {
    window[j] = x[(i64)threadIdx.x + j];
  }
  f32 best = window[0];
  i64 at = 0;
  for (i64 j = 1; j < 5; j = j + 1) {
    if (window[j] > best) {
      best = window[j];
      at = j;
    } else {
      if (window[j] == best) {
        at = -1;
      }
    }
  }
  y[threadIdx.x] = best;
  z[threadIdx.x] = at;
"""
    x = np.random.default_rng(1).integers(0, 9, 68).astype(np.float32)
    rows = np.lib.stride_tricks.sliding_window_view(x, 5)
    where: list[int] = []
    for row in rows:
        at, best = 0, row[0]
        for j, v in enumerate(row[1:], 1):
            if v > best:
                at, best = j, v
            elif v == best:
                at = -1
        where.append(at)
    outputs = {"y": rows.max(1), "z": np.array(where, np.int64)}
    buffers = (("x", x, index(68)), ("y", np.zeros(64, np.float32), index(64)),
               ("z", np.zeros(64, np.int64), index(64)))  # fmt: skip
    return _case("local arrays", body, buffers, outputs, {}, (_ONE, _ONE, _ONE), (64, 1, 1))


def _dims() -> LaunchCase:
    """Dims beyond 32 bits, and more of them than registers pass."""
    names = "abcdefgh"
    body = "".join(f"  y[{i}] = {d};\n" for i, d in enumerate(names))
    values = {d: 2**40 * i + i for i, d in enumerate(names)}
    want = np.array(list(values.values()), np.int64)
    buffers = (("y", np.zeros_like(want), index(8)),)
    return _case("dims", body, buffers, {"y": want}, values, (_ONE, _ONE, _ONE), (1, 1, 1))


def _guarded() -> LaunchCase:
    """A conditional reads only the side it takes: the other is out of bounds."""
    body = """\
  const i64 i = (i64)threadIdx.x - 3;
  assert_b8(i >= -3);
  y[threadIdx.x] = i >= 0 && i < 4 ? x[i] : -1.0f;
"""
    x = np.array([1, 2, 3, 4], np.float32)
    want = np.array([-1, -1, -1, 1, 2, 3, 4, -1, -1, -1], np.float32)
    buffers = (("x", x, index(4)), ("y", np.zeros_like(want), index(10)))
    return _case("guarded load", body, buffers, {"y": want}, {}, (_ONE, _ONE, _ONE), (10, 1, 1))
