"""Kernels of a user's own, in functions whose sizes have other names than those of the text.

A text is written for operands with symbols, and a function that names the kernel has numbers, other
symbols, or the same ones in another order in their places.  The text of a configuration is then run
on the host, whose results are a sum of what is known: an element, each size, and a buffer of zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from didyma.codegen.codegens import Asked
from didyma.codegen.emit.text_kernel import Reader
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.user_kernels import Configuration, UserKernel
from didyma.fuzz.parts.told import code_of, differ
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.expr import index, of_dim
from didyma.refimpl.ir.graph import KERNEL, PRIMITIVE, Function, Param, attrs
from didyma.refimpl.ir.kernel import KernelText, Signature, TextKernel
from didyma.refimpl.ir.loop import Block, Buffer, PrimFunc
from didyma.refimpl.ir.target import PORTABLE, SM_90A, Target
from didyma.refimpl.ir.types import DType, TensorType

SYMBOLS = ("n", "m", "k")
WORDS = (*SYMBOLS, "x", "y", "w", "i")  # names of operands, some of which are symbols elsewhere
BYTES = {"f64": 8, "f32": 4, "u8": 1, "i64": 8}
_MOST, _FAR = 65535, 1 << 40  # blocks along z that a target has, and more than any has


@dataclass(frozen=True, slots=True)
class Row:
    """A configuration, the bytes that its text shares, and the value of its parameter."""

    made: Configuration
    shared: int
    step: int


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with its rows, what asks for it, and what symbols of the text and of that are."""

    kernel: UserKernel
    rows: tuple[Row, ...]
    asked: Asked
    inside: Mapping[str, int]
    outside: Mapping[str, int]
    weights: Mapping[str, int]


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with the configurations of a kernel, in a function that names it."""
    c = _drawn(r)
    fits = [row for row in c.rows if not _lacks(row, c.asked.target)]
    points = {id(row): Point.of("own", step=row.step) for row in c.rows}
    yield from differ([*c.kernel.points(c.asked)], [points[id(row)] for row in fits], "points")
    left = [points[id(row)] for row in c.rows if row not in fits]
    out = [*c.kernel.left_out(c.asked)]
    yield from differ([p for p, _ in out], left, "points that are left out")
    for (_, why), row in zip(out, (row for row in c.rows if row not in fits), strict=False):
        yield from differ(why.startswith(_lacks(row, c.asked.target)), True, f"why, {why!r},")
    row = r.choice(c.rows)
    code = "" if row in fits else "target-lacks"
    got = code_of(c.kernel.at, c.asked, points[id(row)])
    yield from differ(got, code, f"{points[id(row)]} on {c.asked.target.name}")
    if r.random() < 0.3:
        yield from _left_to_others(c, points[id(row)])
    if not fits:
        yield from differ(code_of(c.kernel.kernel, c.asked), "target-lacks", "no configuration")
        return
    row = r.choice(fits)
    made = c.kernel.at(c.asked, points[id(row)])
    if row is fits[0]:
        yield from differ(c.kernel.kernel(c.asked), made, "the first kernel")
    if row.made.text.grid[2] == 1:
        yield from _run(c, row, made, engine)


def _left_to_others(c: Case, point: Point) -> Iterator[str]:
    """Yield what is wrong with a point that was not given, and with another kernel's function."""
    strange = Point.of("own", step=1 + max(w.step for w in c.rows))
    yield from differ(code_of(c.kernel.at, c.asked, strange), "bad-choice", "another point")
    other = Asked(_marked(c.asked.function, "another"), c.asked.loop, c.asked.target)
    nothing = c.kernel.kernel(other), {*c.kernel.points(other)}, {*c.kernel.left_out(other)}
    yield from differ(
        nothing, (None, set[Point](), set[Point]()), "what another function is offered"
    )
    yield from differ(code_of(c.kernel.at, other, point), "bad-choice", "its point")


def _lacks(row: Row, target: Target) -> str:
    """Return how the words begin that say what a target lacks; nothing where it has all."""
    t = row.made.text
    x, y, z = t.block
    if x * y * z > target.threads or any(a > b for a, b in zip(t.block, target.block, strict=True)):
        return "a block of "
    if row.shared > target.shared:
        return f"{row.shared} bytes of shared memory, of {target.shared}"
    return "a grid of " if t.grid[2] in (_MOST + 1, _FAR) else ""


def _marked(f: Function, name: str) -> Function:
    return Function(f.name, f.params, f.nodes, f.results, attrs({PRIMITIVE: 1, KERNEL: name}))


def _drawn(r: Random) -> Case:
    inside = {s: r.randint(1, 4) for s in r.sample(SYMBOLS, r.randint(1, 3))}
    names = r.sample(WORDS, r.randint(2, 4))
    names = [n for n in names if n not in inside] or ["x"]
    if len(names) == 1:
        names.append("z")
    outside, put = _put(r, inside)
    extents: list[Dim] = [2, 3, *map(dims.symbol, inside)]
    shapes: list[tuple[Dim, ...]] = [tuple(map(dims.symbol, inside))]
    shapes += [tuple(r.choices(extents, k=r.randint(0, 2))) for _ in names[2:]]
    types = tuple(TensorType(DType.I64, s) for s in shapes)
    actual = [TensorType(DType.I64, tuple(dims.substitute(d, put) for d in s)) for s in shapes]
    free = sorted({*outside})
    r.shuffle(free)
    ranges = tuple(DimVar(s, 0, 99) for s in free)
    params = tuple(Param(f"a{k}", t) for k, t in enumerate(actual))
    function = _marked(Function("f", params, (), ("y",)), "own")
    result = Buffer("b", DType.I64, actual[0].shape)
    loop = PrimFunc(
        "f",
        (*(Buffer(p.name, DType.I64, p.type.shape) for p in params), result),
        ("b",), Block(()), ranges,
    )  # fmt: skip
    weights = {s: r.randint(1, 9) for s in r.sample(sorted(inside), r.randint(0, len(inside)))}
    work = r.choice(("w", "i", "total", *SYMBOLS)) if r.random() < 0.6 else ""
    work = "" if work in inside or work in names else work
    zeroed = bool(work) and r.random() < 0.7
    rows = tuple(_row(r, step, names, inside, weights, work, zeroed)
                 for step in r.sample(range(1, 20), r.randint(1, 3)))  # fmt: skip
    kernel = UserKernel("own", types, tuple(row.made for row in rows))
    target = r.choice((PORTABLE, SM_90A))
    return Case(kernel, rows, Asked(function, loop, target), inside, outside, weights)


def _put(r: Random, inside: Mapping[str, int]) -> tuple[dict[str, int], dict[str, Dim]]:
    """Return symbols of a function with their values, and what it has for those of a text."""
    outside, put = dict[str, int](), dict[str, Dim]()
    taken = r.sample(SYMBOLS, len(inside))
    as_they_are = r.random() < 0.2
    for (s, value), other in zip(inside.items(), taken, strict=True):
        if as_they_are:
            outside[s], put[s] = value, dims.symbol(s)
        elif r.random() < 0.3:
            put[s] = value
        elif value > 1 and r.random() < 0.3:
            outside[other], put[s] = value - 1, dims.symbol(other) + 1
        else:
            outside[other], put[s] = value, dims.symbol(other)
    return outside, put


def _row(
    r: Random, step: int, names: list[str], inside: Mapping[str, int],
    weights: Mapping[str, int], work: str, zeroed: bool,
) -> Row:  # fmt: skip
    """Return a configuration, whose blocks have ``step`` threads, or more than there may be.

    Its first operand is added, and its last name is that of the result.
    """
    used = [s for s in r.sample(SYMBOLS, 3) if s in inside]
    shape = [s for s in inside if s in used]
    count = " * ".join(shape) or "1"
    shared, declared = 0, ""
    for k in range(r.choice((0, 1, 1, 2))):
        kind, rows = r.choice([*BYTES]), r.choice((3, 100, 6144, 9000, 60000))
        aligned = r.choice(("", "__align__(16) "))
        shared += BYTES[kind] * rows
        declared += f"  __shared__ {aligned}{kind} s{k}[{rows}];\n"
    first, *others, last = names
    terms = [f"{first}[at]", *(f"{weights[s]} * {s}" for s in used if s in weights)]
    body = f"    {last}[at] = {' + '.join([*terms, *([f'{work}[at]'] if work else [])])};\n"
    body = (f"    {work}[at] = {work}[at] + {step};\n" if work else "") + body
    pointers = [f"const i64 *{n}" for n in (first, *others)] + [f"i64 *{last}"]
    pointers += [f"i64 *{work}"] if work else []
    mark = r.choice(("", "const "))
    args = ", ".join([*pointers, *(f"{mark}i64 {s}" for s in used)])
    above = r.choice(("", "// n and m\n"))
    source = (
        f'{above}extern "C" __global__ void own({args}) {{\n{declared}'
        f"  const i64 at = blockIdx.x * {step} + threadIdx.x;\n"
        f"  if (at < {count}) {{\n{body}  }}\n}}\n"
    )
    extent: Dim = 1
    for s in shape:
        extent = extent * dims.symbol(s)
    block = (step, 1, 1) if r.random() < 0.8 else r.choice(((step, 1025, 1), (2048, 1, 1)))
    layers = r.choice((_MOST, _MOST + 1, _FAR)) if r.random() < 0.2 else 1
    grid: tuple[Dim, Dim, Dim] = (extent, 1, layers)
    space = (Buffer(work, DType.I64, (extent,)),) if work else ()
    text = TextKernel(
        source, (first, *others), (last,), grid, block, space, extent, (), (work,) * zeroed
    )
    return Row(Configuration((("step", step),), text, tuple(used)), shared, step)


def _run(c: Case, row: Row, t: TextKernel, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with the text of a configuration, run for the sizes of the function."""
    given = row.made.text
    what = f"{t.source} of {given.source} with {dict(c.outside)}"
    yield from differ(t.source.count("\n"), given.source.count("\n"), f"lines of {what}")
    head = Reader(t.source, "a kernel").head()
    yield from differ({*head.symbols} <= {*c.outside}, True, f"symbols {head.symbols} of {what}")
    pointers = [name for name, _, _ in head.pointers]
    names = [*t.reads, *t.writes, *(b.name for b in t.workspace)]
    yield from differ(pointers, names, f"pointers of {what}")
    count = dims.values(given.grid[:1], c.inside)[0]
    yield from differ(dims.values(t.grid, c.outside), (count, 1, 1), f"blocks of {what}")
    chain = (0 if t.chain is None else t.chain,)
    yield from differ(dims.values(chain, c.outside), (count,), f"the chain of {what}")
    sizes = [dims.values(b.shape, c.outside) for b in t.workspace]
    yield from differ(sizes, [(count,)] * len(given.workspace), f"the workspace of {what}")
    yield from differ(len(t.zeroed), len(given.zeroed), f"zeros of {what}")
    size = max(64, count)
    held = {name: np.arange(size, dtype=np.int64) for name in pointers}
    zeros = {b.name: b.name in t.zeroed for b in t.workspace}
    held |= {b: np.full(size, 0 if z else 7, np.int64) for b, z in zeros.items()}
    s = Signature(
        head.name, tuple((n, DType.I64) for n in pointers), (index(size),) * len(pointers),
        (*t.writes, *zeros), head.symbols,
        (of_dim(t.grid[0]), of_dim(t.grid[1]), of_dim(t.grid[2])), t.block,
    )  # fmt: skip
    buffers = [engine.upload(a) for a in held.values()]
    try:
        engine.load(KernelText(t.source, (s,))).launch(head.name, buffers, c.outside)
        at = pointers.index(t.writes[0])
        got = engine.download(buffers[at], DType.I64, (size,))
    finally:
        for b in buffers:
            engine.free(b)
    extent = 1
    for name, n in c.inside.items():
        extent *= n if name in row.made.symbols else 1
    want = np.arange(size, dtype=np.int64)
    want[:extent] += sum(w * c.inside[s] for s, w in c.weights.items() if s in row.made.symbols)
    want[:extent] += sum(row.step + (0 if z else 7) for z in zeros.values())
    yield from differ(got.tolist(), want.tolist(), f"results of {what}")
