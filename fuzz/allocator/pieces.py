"""Judge the small pure functions of wrappers and launches by their definitions, on drawn values.

Programs ask for one value of each at a time: how arrays lie in memory, what inputs are refused, how
sizes follow from them, the geometry of a launch, and what an external function may return.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, product
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from didyma.codegen.layouts import layout
from didyma.codegen.runtime import externs, geometry
from didyma.codegen.runtime.didyma_runtime import checks, dtypes, maps, rows
from didyma.codegen.runtime.didyma_runtime.refused import Refused
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.kernel import Signature
from didyma.refimpl.ir.loop import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    LetExpr,
    Select,
    Var,
)
from didyma.refimpl.ir.types import Array, DType

Table: TypeAlias = Mapping[str, Callable[[int, int], int]]

# The NumPy dtype of each dtype's arrays, and its bits in memory.
KINDS: Mapping[str, tuple[Any, int]] = MappingProxyType({
    "f64": (np.float64, 64), "f32": (np.float32, 32), "f16": (np.float16, 16), "i8": (np.int8, 8),
    "bool": (np.bool_, 8), "i64": (np.int64, 64), "u16": (np.uint16, 16), "u64": (np.uint64, 64),
    "bf16": (ml_dtypes.bfloat16, 16), "f8e4m3": (ml_dtypes.float8_e4m3fn, 8),
    "f8e5m2": (ml_dtypes.float8_e5m2, 8), "f4e2m1": (ml_dtypes.float4_e2m1fn, 4),
    "i4": (ml_dtypes.int4, 4), "u4": (ml_dtypes.uint4, 4), "i2": (ml_dtypes.int2, 2),
    "u2": (ml_dtypes.uint2, 2),
})  # fmt: skip
OPERATORS: Table = MappingProxyType({
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: math.floor(a / b) if b else 0, "min": lambda a, b: a if a < b else b,
    "floormod": lambda a, b: a - b * math.floor(a / b) if b else 0,
    "max": lambda a, b: a if a > b else b,
})  # fmt: skip
COMPARISONS: Table = MappingProxyType({
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
})  # fmt: skip
ENV: Mapping[str, int] = MappingProxyType({"n": 5, "m": -3, "k": 0})
GRID, BLOCK, THREADS = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024  # that CUDA runs


def judged(r: Random) -> Iterator[str]:
    """Yield what is wrong with one function, at values that are drawn."""
    try:
        yield from r.choice(JUDGES)(r)
    except Exception as e:  # whatever it is, what is judged has failed
        yield f"{type(e).__name__}: {e}"


def _code(call: Callable[..., object], *args: object) -> str:
    """Return the code by which a call is refused; empty if it is not."""
    try:
        call(*args)
    except (Refused, DidymaError) as e:
        return str(e.code)
    return ""


def _differ(got: object, want: object, what: str) -> Iterator[str]:
    if got != want:
        yield f"{what} is {got}, not {want}"


def _values(r: Random, shape: Sequence[int], kind: Any = np.int32) -> Array:
    count = math.prod(shape)
    found = np.array([r.randrange(1, 100) for _ in range(count)], np.uint8).reshape(tuple(shape))
    made: Array = found.astype(np.dtype(kind))
    return made


def _shape(r: Random) -> tuple[int, ...]:
    return tuple(
        r.randrange(5) if r.random() < 0.1 else r.randint(1, 4) for _ in range(r.randrange(4))
    )


# ---- memory


def _packed(r: Random) -> Iterator[str]:
    """Elements lie one after another, those of less than a byte from the lowest bits on."""
    name = r.choice([*KINDS])
    (kind, bits), shape = KINDS[name], _shape(r)
    values = np.array([r.randrange(2) for _ in range(math.prod(shape))], np.uint8)
    values = values * r.randrange(1, 2 ** min(bits, 3)) if bits < 8 else values
    array = values.reshape(shape).astype(kind)
    words = array.reshape(-1).view(f"u{max(1, bits // 8)}").tolist()
    number = sum((w % 2**bits) << (bits * i) for i, w in enumerate(words))
    memory = number.to_bytes(-(-bits * len(words) // 8), "little")
    yield from _differ(dtypes.dtype_of(name), np.dtype(kind), f"the dtype of {name}")
    yield from _differ(dtypes.nbytes_of(name, shape), len(memory), f"bytes of {name} {shape}")
    yield from _differ(dtypes.to_memory(array).tobytes(), memory, f"{array!r} in memory")
    before = r.randrange(3)
    beside = bytes(before) + memory + b"\xff"
    text = b64encode(memory).decode()
    ways = (
        dtypes.from_memory(np.frombuffer(memory, np.uint8), name, shape),
        dtypes.constant(name, shape, text), dtypes.part(beside, name, shape, before),
    )  # fmt: skip
    for a in ways:
        yield from _differ((a.dtype, a.shape), (np.dtype(kind), shape), f"what {name} {shape} is")
        yield from _differ(a.tobytes(), array.tobytes(), f"what {name} {shape} stands for")
    digest = sha256(memory).hexdigest()
    yield from _differ(dtypes.checked(memory, digest, name), memory, "checked bytes")
    yield from _differ(_code(dtypes.checked, beside, digest, name), "hash-mismatch", "others")


def _strided(r: Random) -> Iterator[str]:
    """A view shows, at each index, the element that its strides and offset name."""
    shape = _shape(r)
    steps = [r.choice((0, 1, 2, 3, 5)) for _ in shape]
    offset = r.randrange(3)
    most = offset + sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if n) + 1
    array = _values(r, (most + 2,), r.choice((np.int32, np.float64, ml_dtypes.float8_e5m2)))
    if r.random() < 0.3:
        array = np.concatenate([array, array]).reshape(2, -1).T[:, 0]  # not in row-major order
    got = dtypes.strided(array, shape, steps, offset)
    yield from _differ((got.dtype, got.shape), (array.dtype, shape), "a view")
    for at in product(*map(range, shape)):
        place = offset + sum(i * s for i, s in zip(at, steps, strict=True))
        yield from _differ(float(got[at]), float(array[place]), f"{at} by {steps} from {offset}")
    twice = 0 not in shape and any(n > 1 and not s for n, s in zip(shape, steps, strict=True))
    if 0 not in shape:
        yield from _differ(got.flags.writeable, not twice, f"{shape} by {steps} is writeable")


def _rows(r: Random) -> Iterator[str]:
    """An input's memory is one row of elements, which is no copy where it can be."""
    whole = _values(r, (r.randint(1, 4), r.randint(1, 4), r.randint(2, 4)), np.int32)
    axes = r.sample(range(3), 3)
    part = whole.transpose(axes)[r.randrange(2) :, :: r.choice((1, 2)), : r.randint(1, 2)]
    found = rows.strides("x", part)
    moves = (0 not in part.shape and n > 1 for n in part.shape)
    want = tuple(s // 4 if m else None for m, s in zip(moves, part.strides, strict=True))
    yield from _differ(found, want, f"the strides of {part.shape}, {part.strides}")
    odd = np.zeros(40, np.uint8)[: r.choice((30, 32))].view(np.uint8)
    odd = np.lib.stride_tricks.as_strided(odd.view(np.uint16), (r.randint(1, 3),), (3,))
    code = "input-strides" if len(odd) > 1 else ""
    yield from _differ(_code(rows.strides, "x", odd), code, f"{len(odd)} by 3 bytes of 2")
    if 0 in part.shape:
        return
    steps = [s // 4 for s in part.strides]
    span = 1 + sum((n - 1) * s for n, s in zip(part.shape, steps, strict=True))
    first = (part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // 4
    before, more = r.randint(0, first + 1), r.randrange(3)
    row = rows.row(part, before + span + more, before)
    fits = before <= first and first + span + more <= whole.size
    yield from _differ(np.shares_memory(row, whole), fits, "a row in the memory of its input")
    for at in product(*map(range, part.shape)):
        place = before + sum(i * s for i, s in zip(at, steps, strict=True))
        yield from _differ(int(row[place]), int(part[at]), f"{at} of a row")
    if fits:
        held = rows.lent(row)
        yield from _differ(held is not None and held[0] is part, True, "what lends a row")
        yield from _differ(held and held[1], before, "the elements before what lends a row")
        whole.flags.writeable = r.random() < 0.5
        part.flags.writeable = whole.flags.writeable
        again = rows.row(part, span, 0)
        yield from _differ(again.flags.writeable, whole.flags.writeable, "a row may be written")
    else:
        yield from _differ(rows.lent(row), None, "what lends a copy")
    laid = rows.Laid(part.shape, steps, before)
    yield from _differ((laid.span, laid.numel), (before + span, part.size), "span and number")
    made = laid.array(part)
    yield from _differ(made.tolist(), part.tolist(), "an array that lies so")
    yield from _differ([s // 4 for s in made.strides], steps, "its strides")


def _laid(r: Random) -> Iterator[str]:
    """A base in row-major order has each element of an array where the array's strides put it."""
    shape = [r.choice((1, 2, 3, 4)) for _ in range(r.randint(1, 3))]
    packed = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    strides = [s * r.choice((1, 1, 2, 3)) + r.choice((0, 0, 0, 1)) for s in packed]
    strides = [r.choice((0, 1)) if r.random() < 0.1 else s for s in r.sample(strides, len(shape))]
    aligned = r.choice((1, 2, 4))
    room, misaligned = (r.randrange(9), r.choice((5, 40, 200))), r.randrange(aligned)
    found = layout.placed(shape, strides, room, misaligned, aligned)
    if isinstance(found, str):
        return
    what = f"{found} of {shape} by {strides}"
    yield from _differ(
        sorted(s.axis for s in found.layout), [*range(len(shape))], f"axes of {what}"
    )
    yield from _differ((misaligned - found.before) % aligned, 0, f"the alignment of {what}")
    beyond = math.prod(found.shape) - found.before - room[1]
    yield from _differ(found.before > room[0] or beyond > 0, False, f"elements outside of {what}")
    for at in product(*map(range, shape)):
        place = 0
        for s, size in zip(found.layout, found.shape, strict=True):
            place = place * size + (at[s.axis] if s.is_whole else s.start + s.step * at[s.axis])
        want = found.before + sum(i * s for i, s in zip(at, strides, strict=True))
        yield from _differ(place, want, f"the place of {at} in {what}")


# ---- what inputs are refused, and what they tell


def _taken(r: Random) -> Iterator[str]:
    """Inputs of another number, kind, dtype or rank are refused, in this order."""
    wanted = [(f"x{i}", r.choice(("f32", "bf16", "i4", "i64")), r.randrange(3)) for i in range(3)]
    wanted = wanted[: r.randint(1, 3)]
    given: list[Any] = [_values(r, (2,) * rank, KINDS[t][0]) for _, t, rank in wanted]
    yield from _differ([*map(id, checks.arrays(given, wanted))], [*map(id, given)], "inputs")
    at = r.randrange(len(given))
    _, t, rank = wanted[at]
    other = _values(r, (2,) * rank, np.int16)
    wrong: list[tuple[str, object]] = [
        ("not-an-array", r.choice(([1], 2.0, None))), ("input-dtype", other),
        ("rank-mismatch", _values(r, (2,) * (rank + 1), KINDS[t][0])),
    ]  # fmt: skip
    for code, x in wrong:
        changed = [*given[:at], x, *given[at + 1 :]]
        yield from _differ(_code(checks.arrays, changed, wanted), code, f"{code}: taken")
    for some in ([*given, other], given[1:]):
        code = _code(checks.arrays, some, wanted)
        yield from _differ(code, "input-count", f"{len(some)} inputs")
    held = [*given]
    yield from _differ(
        ([*map(id, checks.taken(held))], len(held)), ([*map(id, given)], 0), "a list"
    )
    yield from _differ(_code(checks.taken, tuple(given)), "bad-call", "a tuple")
    least = min([a.size for a in given if a.ndim] or [9])
    for numel in (least, r.randint(0, least), least + 1, -1):
        held = [*given]
        if all(0 <= numel <= a.size for a in given if a.ndim):
            got = [a.tolist() for a in checks.flat(held, wanted, numel)]
            want = [a.reshape(-1)[:numel].tolist() if a.ndim else a.tolist() for a in given]
            yield from _differ(got, want, f"the first {numel} elements")
        else:
            code = _code(checks.flat, held, wanted, numel)
            yield from _differ(code, "dim-mismatch", f"{numel} elements of {least}")


def _finite(r: Random) -> Iterator[str]:
    """Numbers that are not finite are refused, and arrays that lie in another way than in order."""
    name = r.choice(("f64", "f32", "f16", "bf16"))
    array = _values(r, (3, 4), KINDS[name][0])
    wanted = [("x", name, 2)]
    yield from _differ(_code(checks.finite, [array], wanted), "", "finite numbers")
    bad = array.copy()
    bad[r.randrange(3), r.randrange(4)] = r.choice((np.nan, np.inf, -np.inf))
    yield from _differ(_code(checks.finite, [bad], wanted), "not-finite", f"one of {name}")
    whole = np.zeros(64, np.uint8)
    start = -whole.__array_interface__["data"][0] % 16
    for way, code in ((0, ""), (4, "input-alignment"), (8, "input-alignment")):
        a = whole[start + way : start + way + 24].view(np.float32).reshape(2, 3)
        got = _code(checks.strict, [a], [("x", "f32", 2)])
        yield from _differ(got, code, f"an array {way} bytes above a multiple of 16")
    turned = whole[start : start + 24].view(np.float32).reshape(2, 3).T
    code = _code(checks.strict, [turned], [("x", "f32", 2)])
    yield from _differ(code, "input-strides", "a transposed array")


def _sizes(r: Random) -> Iterator[str]:
    """Sizes follow from the first line that tells them, and lie in their ranges."""
    lines = [(r.randint(-9, 9), r.randint(-2, 2), r.randint(-3, 3)) for _ in range(r.randint(1, 3))]
    told = [math.floor((got - b) / a) for got, a, b in lines if a]
    if told:
        yield from _differ(checks.solve("x", *lines[0], *lines[1:]), told[0], f"what {lines} tell")
    else:
        code = _code(checks.solve, "x", *lines[0], *lines[1:])
        yield from _differ(code, "unbound-dim", f"what {lines} tell")
    seen = [(None if r.random() < 0.4 else got, a, b) for got, a, b in lines]
    fit = [k for got, a, b in seen for k in range(-12, 13) if a and a * k + b == got]
    yield from _differ(rows.pitch(7, *seen), fit[0] if fit else 7, f"the pitch of {seen}")
    value, low, high = r.randint(-2, 6), r.randint(-1, 3), r.randint(2, 5)
    code = "" if value in range(low, high + 1) else "dim-out-of-range"
    yield from _differ(_code(checks.in_range, "n", value, low, high), code, f"{value} is in")
    if not code:
        yield from _differ(checks.within("n", value, low, high), value, "a size within")
    yield from _differ(_code(checks.within, "n", value, low, high), code, f"{value} within")
    code = "" if value == low else "dim-mismatch"
    yield from _differ(_code(checks.size, "x", 0, value, low, "n"), code, "a size")
    code = "" if value == low else "assertion"
    yield from _differ(_code(checks.equal, value, low, ""), code, "equal sizes")
    got = r.choice((None, value))
    code = "" if got in (None, low) else "input-strides"
    yield from _differ(_code(rows.stride, "x", 0, got, low, "n"), code, "a stride")
    a, b = r.randint(-9, 9), r.randint(-4, 4)
    pair = checks.floordiv(a, b), checks.floormod(a, b)
    want = OPERATORS["floordiv"](a, b), OPERATORS["floormod"](a, b)
    yield from _differ(pair, want, f"{a} divided by {b}")
    yield from _differ(_code(checks.routine, {"f": 1}, "g"), "unknown-routine", "g")
    yield from _differ(checks.routine({"g": 3, "f": 1}, "f"), 1, "the routine f")


# ---- launches


def _expr(r: Random, depth: int, env: Mapping[str, int] = ENV) -> tuple[Expr, int]:
    """Return an expression of sizes, and its value; a size may be another inside of a part."""
    if not depth or r.random() < 0.2:
        if r.random() < 0.5:
            name = r.choice([*env])
            return Var(name), env[name]
        n = r.randint(-3, 9)
        return Const(n, DType.I64), n
    a, x = _expr(r, depth - 1, env)
    if r.random() < 0.15:
        name = r.choice([*env])
        body, value = _expr(r, depth - 1, {**env, name: x})
        return LetExpr(Var(name), a, body), value
    b, y = _expr(r, depth - 1, env)
    if r.random() < 0.2:
        how: CompareOp = r.choice(("eq", "ne", "lt", "le", "gt", "ge"))
        (c, z), (d, w) = _expr(r, depth - 1, env), _expr(r, depth - 1, env)
        return Select(Compare(how, a, b), c, d), z if COMPARISONS[how](x, y) else w
    op: BinaryOp = r.choice(("add", "sub", "mul", "floordiv", "floormod", "min", "max"))
    return Binary(op, a, b), OPERATORS[op](x, y)


def _launched(r: Random) -> Iterator[str]:
    """A launch has the blocks, bytes and sizes that its signature says at the sizes of a call."""
    grid, values = zip(*(_expr(r, 2) for _ in range(3)), strict=True)
    (count, many), dtype = _expr(r, 2), r.choice((DType.F32, DType.I8, DType.F64))
    block = r.choice(BLOCK), r.choice((1, 1, 2)), r.choice((1, 1, 64, 65))
    block = (r.choice((1, 32, 1024, 1025)), *block[1:])
    s = Signature("k", (("x", dtype), ("y", DType.I16)), (count, index(3)), ("x",), ("k", "n"),
                  (grid[0], grid[1], grid[2]), block)  # fmt: skip
    blocks = tuple(max(0, v) for v in values)
    fits = all(n <= most for n, most in zip((*blocks, *block), (*GRID, *BLOCK), strict=True))
    fits = fits and math.prod(block) <= THREADS
    code = _code(geometry.geometry, s, ENV)
    yield from _differ(code, "" if fits else "launch-failed", f"{blocks} blocks of {block}")
    if not fits:
        return
    found = geometry.geometry(s, ENV)
    nbytes = (many * dtype.nbytes, 6)
    yield from _differ((found.grid, found.nbytes, found.dims), (blocks, nbytes, (0, 5)), "a launch")
    yield from _differ(found.empty, 0 in blocks, f"{blocks} blocks are none")
    every = geometry.Geometries(s)
    for n in (5, 6, 5):
        env = {**ENV, "n": n}
        if not _code(geometry.geometry, s, env):
            yield from _differ(every(env), geometry.geometry(s, env), f"a geometry at n = {n}")
    yield from _differ(_code(geometry.geometry, s, {"n": 5}), "unbound-dim", "no k")
    short = [nbytes[0] - 1, 6] if many > 0 else [nbytes[0], 5]
    for given, code in ((nbytes, ""), (short, "buffer-too-small"), ([9], "buffer-count")):
        got = _code(geometry.check_buffers, s, found, given)
        yield from _differ(got, code, f"buffers of {given} bytes, of {nbytes}")


def _maps(r: Random) -> Iterator[str]:
    """Arguments of a launch lie one after another, and a map says how its array lies in bytes."""
    buffers, many, rest = r.randint(1, 3), r.randrange(3), r.randrange(4)
    words = [*(1 for _ in range(buffers)), *(16 for _ in range(many)), *(1 for _ in range(rest))]
    begin = tuple(accumulate(words, initial=0))[:-1]
    yield from _differ(maps.starts(buffers, many, sum(words)), begin, f"{words} words begin at")
    d = maps.Described(0, *(r.randint(1, 9) for _ in range(7)))
    d = d._replace(near=r.choice((d.near, 64, 128)))
    images = d._replace(**{k: r.randint(1, 9) for k in d._fields[d._fields.index("images") :]})
    near, address = 2 * d.near, r.randrange(0, 1024, 16)
    fetched = 0 if near % 128 else 3  # whole lines of the cache, if rows begin at some
    first, bottom = address + 2 * d.offset, (0, 3, fetched, 0)
    box = ((64, d.rows, 1), (1, 1, 1))
    tiled = (1, 3, first, (d.x, d.y, d.z), (near, 2 * d.far), *box, *bottom)
    steps = (near, 2 * d.far, 2 * images.step)
    walk = ((images.left, images.top), (images.right, images.bottom), 64, d.rows)
    walked = (1, 4, first, (d.x, d.y, d.z, images.images), steps, *walk,
              (1, images.across, images.down, 1), *bottom)  # fmt: skip
    for x, name, want in ((d, "Tiled", tiled), (images, "Im2col", walked)):
        heard = list[object]()

        def call(name: str, at: Any, *told: Any, heard: list[object] = heard) -> None:
            plain = (getattr(v, "value", v) for v in told)
            heard += name, at.value % 64, *(v if isinstance(v, int) else tuple(v) for v in plain)

        maps.encoded(call, address, x)
        yield from _differ(heard, [f"cuTensorMapEncode{name}", 0, *want], f"what is told of {x}")


def _returned(r: Random) -> Iterator[str]:
    """An external function returns one array for each result, of its dtype and shape."""
    shapes = [_shape(r) for _ in range(r.randint(1, 3))]
    kinds = [np.dtype(r.choice((np.float32, np.int64))) for _ in shapes]
    want = [*zip(kinds, shapes, strict=True)]
    made = [_values(r, s, k) for k, s in want]
    given: Any = made if len(made) > 1 else r.choice((made, made[0], tuple(made)))
    got = externs.results(given, want, "f")
    yield from _differ([*map(id, got)], [*map(id, made)], "results")
    at = r.randrange(len(made))
    others = (made[at].astype(np.int8), made[at][None], made[at].tolist())
    for x in others:
        changed = [*made[:at], x, *made[at + 1 :]]
        same = not isinstance(x, np.ndarray) and (np.asarray(x).dtype, np.shape(x)) == want[at]
        code = _code(externs.results, changed, want, "f")
        yield from _differ(code, "" if same else "extern-result", f"{x!r} for {want[at]}")
    for some in ([*made, made[0]], made[1:]):
        code = _code(externs.results, some, want, "f")
        yield from _differ(code, "extern-result", f"{len(some)} results of {len(want)}")


JUDGES: tuple[Callable[[Random], Iterator[str]], ...] = (
    _packed, _strided, _rows, _laid, _taken, _finite, _sizes, _launched, _maps, _returned,
)  # fmt: skip
