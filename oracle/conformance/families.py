"""Whole kernels whose instructions only some GPUs have: copies and matrices, on integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from didyma.oracle.conformance.case import LaunchCase
from didyma.oracle.conformance.scalars import c as c_type
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.fragments import COLUMNS, PRODUCTS, ROWS, Product
from didyma.refimpl.ir.kernel import Images, KernelText, Signature, TensorMap
from didyma.refimpl.ir.types import BYTES, Array, DType

_LANES = ("", "", "xy", "", "xyzw")


def cases() -> Iterator[LaunchCase]:
    """All cases; each says which family an engine needs for it."""
    yield from map(_copies, BYTES)
    yield from (_rows(d) for d in BYTES if d.nbytes <= 4 and d is not DType.BOOL)
    yield from map(_product, PRODUCTS.values())
    yield _tf32()
    for n, d in product(range(32, 257, 32), (DType.F16, DType.BF16, DType.F32, DType.I8)):
        yield _group_product(n, d)
    for n, d in product(range(80, 257, 32), (DType.F16, DType.BF16)):
        yield _group_product(n, d)
    yield from map(_pairs, (DType.F16, DType.BF16))
    yield _votes()
    yield from map(_boxes, (DType.F16, DType.BF16))
    yield from map(_pixels, (DType.F16, DType.BF16))
    yield from map(_stored_boxes, (DType.F16, DType.BF16))
    yield from map(_given, (DType.F32, DType.F64))
    yield _flushed()
    yield _flushed_exponentials()


def _case(
    name: str, needs: str, body: str, given: Mapping[str, Array], want: Array, threads: int,
    maps: tuple[TensorMap, ...] = (), cluster: int = 1,
) -> LaunchCase:  # fmt: skip
    """Return a case of one block, or of so many in a cluster, that writes ``y``."""
    arrays = {**given, "y": np.zeros_like(want)}
    pointers = (f"{c_type(DType.of(a))} *{n}" for n, a in arrays.items())
    described = (f"const __grid_constant__ tensor_map {m.name}" for m in maps)
    params = ", ".join((*pointers, *described))
    one = index(1)
    kernel = Signature(
        "kernel_", tuple((n, DType.of(a)) for n, a in arrays.items()),
        tuple(index(a.size) for a in arrays.values()), ("y",), (), (index(cluster), one, one),
        (threads, 1, 1), maps=maps, cluster=cluster,
    )  # fmt: skip
    bounds = f"__launch_bounds__({threads})"
    bounds += f" __cluster_dims__({cluster}, 1, 1)" if cluster > 1 else ""
    head = f'extern "C" __global__ void {bounds}\nkernel_({params})'
    text = KernelText(f"{head} {{\n{body}}}\n", (kernel,), contract=False)
    return LaunchCase("families", name, text, kernel, tuple(arrays.values()), (want,), needs=needs)


def _numbers(dtype: DType, count: int) -> Array:
    top = 2 if dtype is DType.BOOL else 100
    return (np.arange(count) * 7 % top).astype(dtype.numpy)


def _copies(dtype: DType) -> LaunchCase:
    """Every width of a dtype: from the other end of a part, and of some elements of another."""
    t, parts, lines, at = c_type(dtype), list[Array](), list[str](), 0
    widths = [n for n in (4, 8, 16) if n >= dtype.nbytes]
    x = _numbers(dtype, 8 * 16 // dtype.nbytes)
    for n, some in product(widths, (False, True)):
        many = n // dtype.nbytes
        rows = x[: 8 * many].reshape(8, many)
        if some:
            call = f"cp_async{n}_zfill_{t}(&s[{at} + i * {many}], &x[i * {many}], i % {many + 1})"
            kept = np.arange(many) < (np.arange(8) % (many + 1))[:, None]
            part = np.zeros(8 * n, np.uint8).view(dtype.numpy).reshape(8, many)
            part[kept] = rows[kept]
        else:
            call, part = f"cp_async{n}_{t}(&s[{at} + i * {many}], &x[(7 - i) * {many}])", rows[::-1]
        lines.append(f"  {call};\n")
        parts.append(part.reshape(-1))
        at += 8 * many
    body = f"""\
  __shared__ __align__(16) {t} s[{at}];
  const i64 i = threadIdx.x;
{"".join(lines)}  cp_async_commit();
  cp_async_wait(0);
  __syncthreads();
  for (i64 k = i * {at // 8}; k < (i + 1) * {at // 8}; ++k) {{
    y[{at - 1} - k] = s[k];
  }}
"""
    want = np.concatenate(parts)[::-1].copy()
    return _case(f"copies {dtype}", "cp_async", body, {"x": x}, want, 8)


def _rows(dtype: DType) -> LaunchCase:
    """Every load of matrices of a dtype, whose rows lie apart; their order is not that of threads.

    PTX ISA, "Warp-level matrix load instruction: ldmatrix".
    """
    t, wide, step = c_type(dtype), 16 // dtype.nbytes, 4 // dtype.nbytes
    x = _numbers(dtype, 32 * wide)
    rows = x.reshape(32, wide)
    lines, parts, at = list[str](), list[Array](), 0
    for n, turned in product((1, 2, 4), (False, True)):
        lanes = n * step
        if lanes == 1 or (turned and dtype.nbytes != 2):
            continue
        name = f"ldmatrix{n}_{'trans_' * turned}{t}"
        lines.append(f"  const {t}x{lanes} v{at} = {name}(&s[i * 5 % 32 * {wide}]);\n")
        names = _LANES[lanes] if lanes <= 4 else [f"s{k:x}" for k in range(lanes)]
        lines += [f"  y[{32 * at} + i * {lanes} + {k}] = v{at}.{p};\n" for k, p in enumerate(names)]
        thread, matrix, e = np.ogrid[:32, :n, :step]
        row, column = thread // 4, thread % 4 * step + e
        if turned:
            row, column = column, row
        parts.append(rows[(matrix * 8 + row) * 5 % 32, column].reshape(-1))
        at += lanes
    body = f"""\
  __shared__ __align__(16) {t} s[{32 * wide}];
  const i64 i = threadIdx.x;
  for (i64 k = i; k < {32 * wide}; k += 32) {{
    s[k] = x[k];
  }}
  __syncthreads();
{"".join(lines)}"""
    return _case(f"rows of matrices {dtype}", "mma", body, {"x": x}, np.concatenate(parts), 32)


def _product(p: Product) -> LaunchCase:
    """The product of two matrices of integers, which are loaded by ``ldmatrix``, added to a third.

    ``b`` lies column by column.
    """
    t, acc, half = c_type(p.operands), c_type(p.sums), p.k // 2
    a, b = (_numbers(p.operands, side * p.k).reshape(side, p.k) for side in (ROWS, COLUMNS))
    a, b = (np.where(v > 8, v % np.asarray(7, v.dtype), v) for v in (a, b))
    c = _numbers(p.sums, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    wide = [v.astype(np.float64) for v in (a, b, c)]
    want = (wide[0] @ wide[1].T + wide[2]).astype(p.sums.numpy)
    places = list(zip("xyzw", ("at", "at + 1", "at + 64", "at + 65"), strict=True))
    body = f"""\
  __shared__ __align__(16) {t} s[{ROWS * p.k}];
  __shared__ __align__(16) {t} u[{COLUMNS * p.k}];
  const i64 i = threadIdx.x;
  const i64 at = i / 4 * 8 + i % 4 * 2;
  for (i64 k = i; k < {ROWS * p.k}; k += 32) {{
    s[k] = a[k];
  }}
  for (i64 k = i; k < {COLUMNS * p.k}; k += 32) {{
    u[k] = b[k];
  }}
  __syncthreads();
  const {t}x{p.fragments[0][1]} v = ldmatrix4_{t}(&s[i % 16 * {p.k} + i / 16 * {half}]);
  const {t}x{p.fragments[1][1]} w = ldmatrix2_{t}(&u[i % 8 * {p.k} + i / 8 % 2 * {half}]);
  {acc}x4 z;
{_lines(f"  z.{q} = c[{k}];" for q, k in places)}
  z = mma_{p.name}(v, w, z);
{_lines(f"  y[{k}] = z.{q};" for q, k in places)}
"""
    given = {"a": a, "b": b, "c": c}
    return _case(f"product {p.name}", "mma", body, given, want, 32)


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(lines)


def _pairs(dtype: DType) -> LaunchCase:
    """Two numbers rounded at once: halfway cases, subnormal ones and what has no number."""
    t = c_type(dtype)
    bits = np.array([
        0x3F808000, 0x3F818000, 0x3F801000, 0x3F803000, 0x33800000, 0x477FF000,
        0x7F7FFFFF, 0x7F800000, 0xC0490FDB, 0x80000001, 0xFF800000, 0,
    ], np.uint32)  # fmt: skip
    x = bits.view(np.float32)
    with np.errstate(over="ignore"):
        want = x.astype(dtype.numpy)
    body = f"""\
  const {t}x2 pair = narrow2_{t}(x[2 * threadIdx.x], x[2 * threadIdx.x + 1]);
  y[2 * threadIdx.x] = pair.x;
  y[2 * threadIdx.x + 1] = pair.y;
"""
    return _case(f"pairs of {t}", "wgmma", body, {"x": x}, want, x.size // 2)


def _votes() -> LaunchCase:
    """Three warps, of which no thread, one thread and every thread says so."""
    x = np.arange(96)
    said = ((x == 37) | (x >= 64)).astype(np.int32)
    body = """\
  y[threadIdx.x] = any_b8(x[threadIdx.x] != 0) ? 5 : 3;
"""
    return _case("votes", "tma", body, {"x": said}, np.where(x < 32, 3, 5).astype(np.int32), 96)


def _boxes(dtype: DType) -> LaunchCase:
    """Two boxes, one after the other in one place, of an array that ends inside of them.

    Four warps fetch them, and eight take them out of their order, who meet at a barrier of theirs.
    The block is a cluster by itself: what comes to blocks of that, and to their barriers, is its
    own.
    """
    t = c_type(dtype)
    x = _numbers(dtype, 408)
    corners = ((8, 1, 1), (0, 3, 0))
    row, column = np.ogrid[:8, :64]
    want = np.zeros((2, 8, 64), dtype.numpy)
    for box, (c0, c1, c2) in zip(want, corners, strict=True):
        inside = (row + c1 < 5) & (column + c0 < 24)
        box[inside] = x[(8 + 200 * c2 + 40 * (row + c1) + column + c0)[inside]]
    first, then = (", ".join(map(str, c)) for c in corners)
    body = f"""\
  __shared__ __align__(1024) {t} s[512];
  __shared__ {t} part[512];
  __shared__ __align__(8) u64 full[1];
  __shared__ __align__(8) u64 empty[1];
  if (threadIdx.x == 0) {{
    mbarrier_init(&full[0], 1);
    mbarrier_init(&empty[0], 256);
  }}
  __syncthreads();
  if (threadIdx.x < 128) {{
    setmaxnreg_dec(40);
    if (threadIdx.x < 32) {{
      tensor_map3_{t}(&map[0], &x[8], 24, 5, 2, 40, 200, 8);
    }}
    if (threadIdx.x == 0) {{
      mbarrier_expect(&full[0], 1024);
      tma_load3_{t}(&s[0], &map[0], {first}, &full[0]);
      mbarrier_wait(&empty[0], 0);
      mbarrier_expect(&full[0], 1024);
      tma_share3_{t}(&s[0], &map[0], {then}, &full[0], 1);
    }}
  }} else {{
    setmaxnreg_inc(232);
    const u32 i = threadIdx.x - 128;
    for (u32 turn = 0; turn < 2; ++turn) {{
      mbarrier_wait(&full[0], turn);
      for (u32 n = i; n < 512; n += 256) {{
        const u32 at = n * 2;
        part[511 - n] = s[(at ^ (at >> 7 & 7) << 4) / 2];
      }}
      named_barrier(1, 256);
      for (u32 n = i; n < 512; n += 256) {{
        y[turn * 512 + n] = part[511 - n];
      }}
      named_barrier(1, 256);
      if (turn == 0) {{
        mbarrier_arrive_at(&empty[0], turn);
      }} else {{
        mbarrier_arrive(&empty[0]);
      }}
    }}
  }}
"""
    given = {"x": x, "map": np.zeros(16, np.uint64)}
    return _case(f"boxes of {t}", "tma", body, given, want, 384)


def _given(dtype: DType) -> LaunchCase:
    """Numbers that four blocks give each other in five turns, in two places, and read reversed."""
    t, blocks, turns, threads = c_type(dtype), 4, 5, 64
    x = _numbers(dtype, blocks * turns).reshape(turns, blocks)
    want = np.repeat(x[:, None, ::-1], blocks, 1)
    body = f"""\
  __shared__ {t} s[{2 * blocks}];
  __shared__ __align__(8) u64 full[2];
  const u32 i = threadIdx.x;
  const u32 rank = blockIdx.x;
  if (i == 0) {{
    mbarrier_init(&full[0], {blocks + 1});
    mbarrier_init(&full[1], {blocks + 1});
  }}
  cluster_barrier();
  for (u32 turn = 0; turn < {turns}; ++turn) {{
    const u32 now = turn % 2;
    __syncthreads();
    if (i == 0) mbarrier_expect(&full[now], {blocks * dtype.nbytes});
    if (i < {blocks}) {{
      const {t} own = x[turn * {blocks} + rank];
      mbarrier_give_{t}(&s[now * {blocks} + rank], i, own, &full[now]);
      mbarrier_arrive_at(&full[now], i);
    }}
    mbarrier_wait(&full[now], turn / 2 % 2);
    if (i < {blocks}) {{
      const u32 other = {blocks - 1} - i;
      y[(turn * {blocks} + rank) * {blocks} + i] = s[now * {blocks} + other];
    }}
  }}
  cluster_barrier();
"""
    given = {"x": x.ravel()}
    return _case(f"numbers of {t}", "mbarrier", body, given, want.ravel(), threads, (), blocks)


def _pixels(dtype: DType) -> LaunchCase:
    """Pixels of two images by strides, in order, each read three columns beyond; then nothing."""
    t = c_type(dtype)
    x = _numbers(dtype, 2 * 5 * 7 * 24).reshape(2, 5, 7, 24)
    bordered = np.pad(x, ((0, 0), (1, 1), (2, 2), (0, 56)))
    rows = bordered[:, 0:5:2, 3:10:3, 16:].reshape(-1, 64)  # of three lines and columns
    want = np.concatenate([rows[4:], np.zeros((2, 64), dtype.numpy)])
    body = f"""\
  __shared__ __align__(1024) {t} s[1024];
  __shared__ __align__(8) u64 full[1];
  if (threadIdx.x == 0) mbarrier_init(&full[0], 1);
  __syncthreads();
  if (threadIdx.x == 0) {{
    mbarrier_expect(&full[0], 2048);
    tma_im2col_{t}(&s[0], &m, 16, 1, 1, 0, 3, 0, &full[0]);
  }}
  mbarrier_wait(&full[0], 0);
  for (u32 n = threadIdx.x; n < 1024; n += 128) {{
    const u32 at = n * 2;
    y[n] = s[(at ^ (at >> 7 & 7) << 4) / 2];
  }}
"""
    images = Images(2, 840, (-2, -1), (0, 0), (3, 2))
    array = TensorMap("m", "x", 0, (24, 7, 5), (24, 168), 16, images)
    return _case(f"pixels of {t}", "tma", body, {"x": x.ravel()}, want.ravel(), 128, (array,))


def _stored_boxes(dtype: DType) -> LaunchCase:
    """Two boxes of an array that ends inside of them, stored one after the other from one place."""
    t = c_type(dtype)
    x = _numbers(dtype, 1024)
    corners = ((8, 1, 1), (0, 3, 0))
    row, column = np.ogrid[:8, :64]
    want = np.zeros(408, dtype.numpy)
    for box, (c0, c1, c2) in zip(x.reshape(2, 8, 64), corners, strict=True):
        inside = (row + c1 < 5) & (column + c0 < 24)
        want[(8 + 200 * c2 + 40 * (row + c1) + column + c0)[inside]] = box[inside]
    body = f"""\
  __shared__ __align__(1024) {t} s[512];
  if (threadIdx.x < 32) tensor_map3_{t}(&map[0], &y[8], 24, 5, 2, 40, 200, 8);
  for (u32 turn = 0; turn < 2; ++turn) {{
    if (threadIdx.x == 0) tma_wait(0);
    __syncthreads();
    for (u32 n = threadIdx.x; n < 512; n += 128) {{
      const u32 at = n * 2;
      s[(at ^ (at >> 7 & 7) << 4) / 2] = x[turn * 512 + n];
    }}
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {{
      tma_store3_{t}(&map[0], turn == 0 ? 8 : 0, 1 + 2 * turn, 1 - turn, &s[0]);
      tma_commit();
    }}
  }}
  if (threadIdx.x == 0) tma_stored(0);
"""
    given = {"x": x, "map": np.zeros(16, np.uint64)}
    return _case(f"stored boxes of {t}", "tma", body, given, want, 128)


def _flushed() -> LaunchCase:
    """Powers of two of whole numbers; those that are below the least normal number are zero."""
    x = np.array([-np.inf, -150, -149, -127, -126, -10, 0, 3, 10, np.inf], np.float32)
    want = np.where(x < -126, np.float32(0), np.exp2(x.astype(np.float64)).astype(np.float32))
    body = "  y[threadIdx.x] = exp2_flush_f32(x[threadIdx.x]);\n"
    return _case("powers of two", "", body, {"x": x}, want, x.size)


def _flushed_exponentials() -> LaunchCase:
    """Exponentials, in 4 ulp down to that of -40; those that are no normal numbers are zero."""
    x = np.array([-np.inf, -1e30, -150, -104, -90, 0, np.nan, -0.0], np.float32)
    x = np.concatenate([x, -np.geomspace(2.0**-30, 40, 120, dtype=np.float32)])
    want = np.where(x < -88, np.float32(0), np.exp(x.astype(np.float64)).astype(np.float32))
    body = "  y[threadIdx.x] = exp_flush_f32(x[threadIdx.x]);\n"
    return replace(_case("exponentials", "", body, {"x": x}, want, x.size), steps=4)


def _group_product(columns: int, dtype: DType) -> LaunchCase:
    """Products of four warps, added to a third matrix, with operands in each layout in turn.

    PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": lines of 128 bytes, in which
    128-byte swizzling exchanges pieces of 16 bytes, so that bits 4 to 6 of an address change by
    bits 7 to 9.  Operands of f32, which tf32 has, too, and of i8 lie in lines of terms alone.
    """
    t, size = c_type(dtype), dtype.nbytes
    k, line, kind = 32 // size, 128 // size, "tf32" if dtype is DType.F32 else dtype
    a, b = (_numbers(dtype, n * k).reshape(n, k) for n in (64, columns))
    total = DType.I32 if dtype.is_int else DType.F32
    if dtype.is_int:
        a, b = a - 50, b - 49
    c = _numbers(total, 64 * columns).reshape(64, columns)
    want = a.astype(total.numpy) @ b.astype(total.numpy).T + c
    by_term = f"row * {line} + k"
    places = {"ak": by_term, "am": "k * 64 + row", "bk": by_term,
              "bn": "row / 64 * 4096 + k * 64 + row % 64"}  # fmt: skip

    def fill(array: str, given: str, rows: int, layout: str) -> str:
        return f"""\
  for (u32 n = i; n < {rows * k}; n += 128) {{
    const u32 row = n / {k};
    const u32 k = n % {k};
    const u32 at = ({places[given + layout]}) * {size};
    {array}[(at ^ (at >> 7 & 7) << 4) / {size}] = {given}[n];
  }}
"""

    def turn(number: int, layout: tuple[str, str]) -> str:
        return f"""\
{fill("left", "a", 64, layout[0])}{fill("right", "b", columns, layout[1])}\
  proxy_fence();
  __syncthreads();
  for (u32 n = 0; n < {columns // 2}; ++n) {{
    sums[n] = c[{_SUM.format(columns)}];
  }}
  wgmma_fence();
  wgmma_m64n{columns}k{k}_{kind}_{"".join(layout)}(sums, &left[0], &right[0]);
  wgmma_commit();
  wgmma_wait(0);
  __syncthreads();
  for (u32 n = 0; n < {columns // 2}; ++n) {{
    y[{number * 64 * columns} + {_SUM.format(columns)}] = sums[n];
  }}
"""

    def held(number: int, layout: str) -> str:
        return f"""\
  __align__(16) {t} mine{number}[8];
  for (u32 n = 0; n < 8; ++n) {{
    mine{number}[n] = a[{_HELD}];
  }}
""" + turn(number, ("k", layout)).replace("_k", "_r").replace("&left[0]", f"&mine{number}[0]")

    every = columns % 32 == 0  # others are products of what threads hold, in one layout
    if size != 2:
        turns = [turn(0, ("k", "k"))]
    else:
        turns = [turn(*layout) for layout in enumerate(product("km", "kn" if every else ""))]
        turns += [held(len(turns) + n, layout) for n, layout in enumerate("kn" if every else "n")]
    body = f"""\
  __shared__ __align__(1024) {t} left[{64 * line}];
  __shared__ __align__(1024) {t} right[{columns * line}];
  const u32 i = threadIdx.x;
  {c_type(total)} sums[{columns // 2}];
{_cleared("left", 64 * line)}{_cleared("right", columns * line)}  __syncthreads();
{"".join(turns)}"""
    name = f"products of four warps {dtype} by {columns}"
    want = np.stack([want] * len(turns))
    return _case(name, "wgmma", body, {"a": a, "b": b, "c": c}, want, 128)


# Where the element ``n`` of the first operand that thread ``i`` holds is in it.
_HELD = "(i / 32 * 16 + i % 32 / 4 + n / 2 % 2 * 8) * 16 + n / 4 * 8 + i % 4 * 2 + n % 2"
# Where the sum ``n`` of thread ``i`` is in a matrix of as many columns.
_SUM = "(i / 32 * 16 + i % 32 / 4 + n / 2 % 2 * 8) * {} + n / 4 * 8 + i % 4 * 2 + n % 2"


def _cleared(array: str, size: int) -> str:
    return f"  for (u32 n = i; n < {size}; n += 128) {{\n    {array}[n] = 0;\n  }}\n"


def _tf32() -> LaunchCase:
    """Halfway, above and below it, of both signs; what becomes infinite; zeros and NaN."""
    e = 2.0**-11
    rows: Sequence[tuple[float, float]] = (
        (1 + e, 1 + 2 * e), (1 + 3 * e, 1 + 4 * e), (1 + e - 2.0**-23, 1), (1.5, 1.5),
        (2.0**-126 * (1 + e), 2.0**-126 * (1 + 2 * e)), (2.0**-137, 2.0**-136), (2.0**-138, 0.0),
        (3.4028235e38, np.inf), (np.inf, np.inf), (0.0, 0.0), (np.nan, np.nan),
    )  # fmt: skip
    signs = np.repeat(np.array([1, -1], np.float32), len(rows))
    x, want = (np.tile([r[k] for r in rows], 2).astype(np.float32) * signs for k in (0, 1))
    body = "  y[threadIdx.x] = tf32_f32(x[threadIdx.x]);\n"
    return _case("tf32", "mma", body, {"x": x}, want, len(rows) * 2)
