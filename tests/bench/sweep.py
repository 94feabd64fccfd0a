"""Every op of one operand on a million values a dtype: the reference, its bar, and an engine.

    python -m tests.bench.sweep [--values 1000000] [--engine host] [--only exp] [--docs]

8- and 16-bit dtypes are swept whole.  Of the others half of the values have every exponent in
turn, the rest lie where functions are steep, among them neighbours of whole numbers and of
multiples of pi/2.  Each value is held against ``truth``, which shares nothing with the op table:

* the exact result, correctly rounded, is inside the bar, and so is all that the contract's ulp
  allow on either side of it;
* the reference's value and the engine's are inside the bar;
* both are within the contract's ulp of the exact result, as counted without the bar.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import EngineBackend
from didyma.fuzz.values import corners
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Attr, Function, Module, Node, Param
from didyma.refimpl.ir.types import FLOATS, PLAIN, Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.spec import Kind, Op
from tests.bench import truth
from tests.bench.bed import ulp
from tests.bench.page import Shards, put, table

CHUNK = 1 << 16
CASTS = ("cast", "saturating_cast")
UNARY = tuple(op for op in OPS.values() if op.kind is Kind.ELEMENTWISE and op.arity == (1, 1))
KNOWN = {*CASTS, "bitcast", *truth.FUNCTIONS, *truth.OF_FLOATS, *truth.OF_INTS}


@dataclass(frozen=True, slots=True)
class Task:
    """One op on one dtype."""

    op: Op
    source: DType
    attrs: tuple[tuple[str, Attr], ...] = ()

    @property
    def result(self) -> DType:
        """Dtype of the result."""
        return self.op.infer([TensorType(self.source)], dict(self.attrs)).dtype


def tasks() -> Iterator[Task]:
    """Every op of one operand that has a truth, on every plain dtype it takes and gives."""
    for op in UNARY:
        for dtype in (d for d in op.dtypes if d in PLAIN and op.name in KNOWN):
            if op.attrs:
                yield from (Task(op, dtype, (("dtype", to),)) for to in targets(op, dtype))
            else:
                yield Task(op, dtype)


def targets(op: Op, source: DType) -> Iterator[DType]:
    """Plain dtypes that an op with the attribute ``dtype`` can give."""
    for to in PLAIN:
        with suppress(DidymaError):
            op.infer([TensorType(source)], {"dtype": to})
            yield to


def sample(task: Task, count: int, seed: int = 0) -> Array:
    """Values of a dtype: all there are, or ``count``."""
    dtype = task.source
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.nbytes <= 2:
        raw = np.arange(1 << (8 * dtype.nbytes), dtype=f"u{dtype.nbytes}")
        return np.asarray(raw.view(dtype.numpy))
    rng = np.random.default_rng(seed)
    known = corners(dtype)
    if not dtype.is_float:
        bits = rng.integers(0, 8 * dtype.nbytes, count, np.uint64)
        raw = rng.integers(0, 2**64 - 1, count, np.uint64) >> bits
        out: Array = raw.astype(f"u{dtype.nbytes}").view(dtype.numpy)
        out = np.where(rng.random(count) < 0.3, -out if dtype.is_signed else out, out)
        out[: known.size] = known
        return out
    return _floats(rng, task, count, known)


def _floats(rng: np.random.Generator, task: Task, count: int, known: Array) -> Array:
    dtype = task.source
    mantissa, exponents = (52, 2047) if dtype is DType.F64 else (23, 255)
    word = np.uint64 if dtype is DType.F64 else np.uint32
    half = count // 2
    exponent = np.arange(half, dtype=np.uint64) % exponents
    fraction = rng.integers(0, 1 << mantissa, half, np.uint64)
    top = np.uint64(mantissa + (11 if dtype is DType.F64 else 8))
    raw = rng.integers(0, 2, half, np.uint64) << top | exponent << np.uint64(mantissa) | fraction
    every = raw.astype(word).view(dtype.numpy)
    rest = count - half
    (domain,) = task.op.apply(dict(task.attrs)).domains([TensorType(dtype)])
    lo, hi = (domain.lo, domain.hi) if domain is not None else (-30.0, 30.0)
    inside = rng.uniform(lo, hi, rest)
    near = rng.integers(-1000, 1000, rest) * rng.choice((0.5, 1.0, np.pi / 2, np.pi / 4), rest)
    steep = near * (1 + rng.integers(-3, 4, rest) * 2.0**-mantissa)
    one = 1 + rng.standard_normal(rest) * 2.0 ** rng.integers(-mantissa, 1, rest)
    log = rng.choice((-1, 1), rest) * 2.0 ** rng.uniform(-12, 12, rest)
    kind = rng.integers(0, 8, rest)
    dense = np.select([kind < 3, kind == 3, kind == 4], [inside, steep, one], log)
    out = np.concatenate([every, dense.astype(dtype.numpy)])
    extra = np.array(task.op.corners, np.float64).astype(dtype.numpy)
    special = np.concatenate([known, extra, np.nextafter(extra, dtype.numpy.type(0))])
    out[: special.size] = special
    return out


def exact(task: Task, x: Array) -> tuple[Array, float]:
    """Exact values of an intrinsic, in longdouble, with the ulp allowed; or the only right ones, 0.

    Correctly rounded ops are of the second kind.
    """
    name, dtype, to = task.op.name, task.source, task.result
    if name in CASTS:
        return truth.cast(x, dtype, to, name == "saturating_cast"), 0
    if name == "bitcast":
        return x.view(to.numpy), 0
    if dtype.is_float:
        if name in truth.FUNCTIONS:
            f = truth.FUNCTIONS[name]
            if not f.ulp and dtype is DType.F64:
                return truth.rounded(name, x), 0
            if not f.ulp:
                return truth.nearest(truth.function(name, x, dtype), to), 0
            k = Contract().of(name, dtype.compute)
            return truth.function(name, x, dtype), k
        rule = truth.OF_FLOATS[name]
        values = [rule(v) for v in x.astype(np.float64).tolist()]
        return np.array(values, to.numpy if to is DType.BOOL else np.float64).astype(to.numpy), 0
    values_ = [truth.OF_INTS[name](int(v)) for v in x.tolist()]
    if to is DType.BOOL:
        return np.array([bool(v & 1) for v in values_]), 0
    return truth.wrapped([int(v) for v in values_], to), 0


def same(a: Array, b: Array) -> Array:
    """Equal, NaN to NaN, and zeros of one sign."""
    if a.dtype.kind not in "fV" and DType.of(a) not in FLOATS:
        return np.asarray(a == b)
    nan = np.isnan(a) & np.isnan(b)
    return np.asarray(nan | ((a == b) & (np.signbit(a) == np.signbit(b))))


def allowed(value: Array, k: float, to: DType) -> tuple[Array, Array]:
    """Least and largest stored result that is within ``k`` ulp of exact values."""
    wide = np.longdouble if to is DType.F64 else np.float64
    off = k * ulp(value, to.compute).astype(np.longdouble)
    if to is to.compute:
        low, high = (value - off).astype(wide), (value + off).astype(wide)
    else:
        low, high = truth.nearest(value - off, to), truth.nearest(value + off, to)
    return low.astype(np.longdouble), high.astype(np.longdouble)


def kernel(task: Task, name: str) -> Any:
    """The op alone, compiled for an engine: a function of ``CHUNK`` values."""
    t = TensorType(task.source, (CHUNK,))
    out = task.op.infer([t], dict(task.attrs))
    n = Node(("y",), task.op.name, ("x",), (out,), task.attrs)
    c = compile(Module((Function("main", (Param("x", t),), (n,), ("y",)),)), Options())
    backend = EngineBackend(engine(name), c)

    def run(x: Array) -> Array:
        padded = np.zeros(CHUNK, x.dtype)
        padded[: x.size] = x
        return np.asarray(backend.run_program([padded])[0])[: x.size]

    return run


def check(task: Task, x: Array, run: Any, seen: dict[str, float]) -> list[str]:
    """Hold a chunk of values against the truth; findings, and ulp seen."""
    to = task.result
    types = [TensorType(task.source, x.shape)]
    out = TensorType(to, x.shape)
    attrs = dict(task.attrs)
    with np.errstate(all="ignore"):
        bar = bars.store(task.op.apply(attrs).bar([bars.exact(x)], types, out, Contract()), to)
        value = task.op.apply(attrs).eval([x], out)
        got = run(x)
        want, k = exact(task, x)
        wrong: list[str] = []

        def note(what: str, bad: Array, shown: Array) -> None:
            if bad.any():
                i = int(np.flatnonzero(bad)[0])
                text = f"{task.op.name} {task.source}->{to} of {x[i]!r}: {what}: {shown[i]!r}"
                wrong.append(f"{text}, exact {want[i]!r}, bar {bar.c[i]!r} ± {bar.e[i]!r}"
                             f" ({int(bad.sum())} of {x.size})")  # fmt: skip

        for what, y in (("reference", value), ("engine", got)):
            note(f"{what} outside its bar", ~bars.judge(bar, y, to).ok, y)
        if task.op.name == "bitcast" and task.source.is_float:
            sure = ~np.isnan(x)  # of a NaN any sign and payload may be found
            value, got, want, x = value[sure], got[sure], want[sure], x[sure]
            bar = Bar(bar.c[sure], bar.e[sure])
        if k == 0:
            for what, y in (("reference", value), ("engine", got)):
                note(f"{what} is not the value", ~same(y, want), y)
            note("the value is outside the bar", ~bars.judge(bar, want, to).ok, want)
            return wrong
        finite = np.isfinite(want) & np.isfinite(truth.nearest(want, to).astype(np.float64))
        low, high = allowed(want, k, to)
        best = truth.nearest(want, to)
        note("the nearest number is outside the bar", ~bars.judge(bar, best, to).ok, best)
        note("the bar cuts off what is allowed", _cut(bar, want, low, high, finite, to), want)
        for what, y in (("reference", value), ("engine", got)):
            wide = y.astype(np.longdouble)
            inside = np.where(np.isnan(want), np.isnan(wide), (low <= wide) & (wide <= high))
            note(f"{what} is too far off", ~inside & (finite | ~np.isfinite(want)), y)
            off = np.abs(wide - want) / ulp(want, to)
            seen[what] = max(seen.get(what, 0.0), float(np.max(off[finite], initial=0)))
    return wrong


def _cut(bar: Bar, want: Array, low: Array, high: Array, finite: Array, to: DType) -> Array:
    """Where the bar leaves out a number within the contract's ulp, its ends being open."""
    c, e = bar.c.astype(np.longdouble), bar.e.astype(np.longdouble)
    inside = finite & (bar.e > 0) & (bar.e < np.inf) & np.isfinite(c)
    slack = 2.0**-9 * ulp(want, to)  # an ulp allowed is never quite reached: |y - f| < k ulp
    return inside & ((c - e > low + slack) | (c + e < high - slack))


def run(task: Task, count: int, name: str) -> dict[str, Any]:
    """Sweep one op on one dtype."""
    began = time.perf_counter()
    x = sample(task, count)
    runner = kernel(task, name)
    seen: dict[str, float] = {}
    wrong: list[str] = []
    for at in range(0, x.size, CHUNK):
        wrong += check(task, x[at : at + CHUNK], runner, seen)
    return {
        "op": task.op.name, "source": str(task.source), "to": str(task.result), "values": x.size,
        "wrong": wrong[:5], "seen": seen, "seconds": time.perf_counter() - began,
    }  # fmt: skip


def lines(done: Sequence[dict[str, Any]], shards: Shards, name: str) -> Iterator[str]:
    """Tables of what was swept."""
    yield f"`python -m tests.bench.sweep --engine {name}`: {shards.commits()} values."
    yield ""
    by_dtype = [
        (d, [r for r in done if r["source"] == d and not (r["op"] == "cast" and r["to"] == d)])
        for d in map(str, PLAIN)
    ]
    yield from table(
        ("operand", "values of an op", "pairs of op and result", "values in all", "findings"),
        (
            (d, max(r["values"] for r in rows), len(rows), sum(r["values"] for r in rows),
             sum(len(r["wrong"]) for r in rows))
            for d, rows in by_dtype if rows
        ),
    )  # fmt: skip
    yield ""
    missing = sorted({op.name for op in UNARY} - KNOWN)
    yield f"Ops of one operand that have no truth to be held to: {', '.join(missing) or 'none'}."
    yield ""
    yield f"Largest error in ulp of the result, of the reference and of `{name}`:"
    yield ""
    names = [n for n, f in truth.FUNCTIONS.items() if f.ulp]
    found = {(r["op"], r["source"]): r["seen"] for r in done}

    def cell(op: str, d: DType) -> str:
        seen = found.get((op, str(d)))
        return "-" if not seen else f"{seen['reference']:.3f}, {seen['engine']:.3f}"

    yield from table(("function", *FLOATS), ((n, *(cell(n, d) for d in FLOATS)) for n in names))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 if anything is outside its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--engine", default="host")
    parser.add_argument("--only", default="", help="names of ops, separated by commas")
    parser.add_argument("--save", type=Path, help="file of outcomes, one line an op and dtype")
    parser.add_argument("--docs", action="store_true", help="write docs/bars.md")
    args = parser.parse_args(argv)
    shards = Shards(args.save)
    have = {(r["op"], r["source"], r["to"]) for r in shards.done}
    only = set(args.only.split(",")) - {""}
    for i, task in enumerate(tasks()):
        if only and task.op.name not in only:
            continue
        if (task.op.name, str(task.source), str(task.result)) in have:
            continue
        outcome = run(task, args.values, args.engine)
        shards.keep(range(i, i + outcome["values"]), outcome)
        for what in outcome["wrong"]:
            print(what, flush=True)
    print("\n".join(lines(shards.done, shards, args.engine)))
    if args.docs:
        put("sweep", lines(shards.done, shards, args.engine))
    return 1 if any(r["wrong"] for r in shards.done) else 0


if __name__ == "__main__":
    sys.exit(main())
