"""Plain CUDA C in which the threads of a warp exchange values, by what each of them then holds.

A compiler of C runs threads one by one (``fuzz/foreign``), so it knows no exchange.  Here all
values are small whole numbers, which every type holds, and each statement is one of a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from didyma.codegen.emit.plain import plain
from didyma.codegen.emit.plain_expressions import Outside
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.parts.told import differ
from didyma.refimpl.ir.expr import ONE, index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import DType

WARP, MOST = 32, 1 << 16
# The types of C, with their literals.
TYPES = {"int": "{}", "float": "{}.0f", "double": "{}.0", "unsigned": "{}u", "long long": "{}LL"}
FLOATS = ("float", "double")
FUSED = {"float": ("fmaf", "__fmaf_rn", "fma"), "double": ("fma",)}
OUTSIDE = (
    "v = __shfl_xor_sync(0xffffffff, v, t);", "v = __shfl_xor_sync(0xffffffff, v);",
    "struct pair w;", "v = fmaf(v, v);", "v = __shfl_down_sync(0xffffffff, v, 1);",
    "half w = v;", "v = v ? : v;", "int w[t];",
)  # fmt: skip


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with a kernel on an engine, and whether another one is read."""
    threads = r.choice((WARP, 2 * WARP))
    kind = r.choice([*TYPES])
    held = [r.randint(0, 9) for _ in range(threads)]
    rows, want = list[str](), held
    for _ in range(r.randint(1, 5)):
        row, want = _statement(r, kind, want)
        rows.append(row)
    asked = [r.random() < 0.5] if r.random() < 0.4 else []
    if asked:
        rows.append("v = on ? v : v + 1;")
        want = want if asked[0] else [v + 1 for v in want]
    whole, odd = _text(kind, rows), r.choice(OUTSIDE)
    yield from _accepted(_text(kind, [*rows, odd]), odd)
    made = plain(whole)
    told = (("on", DType.BOOL),) if asked else ()
    yield from differ(made.scalars, told, f"numbers of {whole}")
    dtype = {"int": DType.I32, "float": DType.F32, "double": DType.F64, "unsigned": DType.U32}
    t = dtype.get(kind, DType.I64)
    s = Signature(
        made.name, (("x", t), ("y", t)), (index(threads), index(threads)), ("y",), (),
        (ONE, ONE, ONE), (threads, 1, 1), made.scalars,
    )  # fmt: skip
    buffers = [engine.upload(np.array(row, t.numpy)) for row in (held, [0] * threads)]
    try:
        text = KernelText(made.source, (s,), contract=False)
        engine.load(text).launch(made.name, buffers, {}, scalars=asked)
        got = engine.download(buffers[1], t, (threads,)).tolist()
    finally:
        for b in buffers:
            engine.free(b)
    yield from differ(got, want, f"what {threads} threads hold after {whole}")


def _text(kind: str, rows: list[str]) -> str:
    lines = "".join(f"  {row}\n" for row in rows)
    more = ", bool on" if any(" on " in row for row in rows) else ""
    return (
        f'extern "C" __global__ void k(const {kind} *x, {kind} *y{more}) {{\n'
        f"  int t = threadIdx.x;\n  {kind} v = x[t];\n{lines}  y[t] = v;\n}}\n"
    )


def _accepted(text: str, odd: str) -> Iterator[str]:
    """Yield that a text is read which has a line that is outside of what is read."""
    try:
        plain(text)
    except Outside:
        return
    yield f"{odd} is read"


def _statement(r: Random, kind: str, held: list[int]) -> tuple[str, list[int]]:
    """Return a statement that changes ``v``, and what each thread holds after it."""
    a, b = r.randint(1, 3), r.randint(0, 9)
    x, y = TYPES[kind].format(a), TYPES[kind].format(b)
    mask = r.choice((1, 2, 4, 8, 16, 3, 31))
    other = [held[t ^ mask] for t in range(len(held))]
    whole = r.choice(("0xffffffff", "0xffffffffu", "-1"))
    exchange = f"__shfl_xor_sync({whole}, v, {mask})"
    given = f"__shfl_xor_sync({whole}, v + {x}, {mask})"
    some = [
        (f"v += {exchange};", [p + q for p, q in zip(held, other, strict=True)]),
        (f"v = {exchange};", other),
        (f"v = max(v, {exchange});", [max(p, q) for p, q in zip(held, other, strict=True)]),
        (f"v = {given};", [q + a for q in other]),
        (f"{kind} w{r.randrange(1 << 30)} = v; v = v * {x} + {y};", [p * a + b for p in held]),
    ]
    if kind in FLOATS:
        name = r.choice(FUSED[kind])
        some += [
            (f"v = {name}(v, {x}, {y});", [p * a + b for p in held]),
            (f"v = {name}({exchange}, {x}, v);",
             [q * a + p for p, q in zip(held, other, strict=True)]),
            (f"v = __fdividef(v * {x}, {x});" if kind == "float" else f"v = v * {x} / {x};", held),
        ]  # fmt: skip
    row, after = r.choice(some)
    return (row, after) if max(after) < MOST else ("v += 0;", held)
