"""Kernels of text that callers hand to a compile, for a function of which all is known.

A text is written for drawn buffers and symbols, and a function of loops that has the same ones.  So
it is known which kernel the claim must become; or one thing is spoilt, and then the claim must be
refused by the code that docs promise.  Nothing runs the texts, whose readers are judged alone, but
the kernels that fill their workspace with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from didyma.codegen.claims import claimed, launched
from didyma.codegen.emit.intrinsics import c_type
from didyma.codegen.options import Options
from didyma.oracle import lanes
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import structural_hash
from didyma.refimpl.ir.kernel import ClaimedKernel, TextKernel
from didyma.refimpl.ir.loop import Block, Buffer, PrimFunc
from didyma.refimpl.ir.target import PORTABLE, SM_90A, Target
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import DType

NAMES = ("first", "second")  # of the functions that a program has
DTYPES = (DType.F32, DType.F64, DType.I32, DType.I64, DType.U8, DType.BOOL)
OTHER: dict[DType, DType] = dict(zip(DTYPES, (*DTYPES[1:], DTYPES[0]), strict=True))
SIZES = {"n": 3, "m": 2, "k": 1}  # of the symbols, while zeros are stored
LAWS = frozenset(
    (
        "too many threads", "no threads", "fewer blocks than none", "zeros of another buffer",
        "fewer additions than none",
    )
)  # fmt: skip
_MODULE = parse_module(
    """module {
  func @first(%x: f32[4]) -> (%y) {
    %y = negative(%x) : f32[4]
  }
  func @second(%x: f32[4]) -> (%y) {
    %y = exp(%x) : f32[4]
  }
  func @main(%x: f32[4]) -> (%z) {
    %y = call @first(%x) : f32[4]
    %z = call @second(%y) : f32[4]
  }
}"""
)


@dataclass(frozen=True, slots=True)
class Claim:
    """Texts by keys, the loops that they are for, and what is ``spoilt``, if anything is.

    Then they must be refused by an error of the ``code``, on the ``line`` unless that is 0.
    """

    name: str
    loop: PrimFunc
    kernels: tuple[tuple[str, TextKernel], ...]
    symbols: tuple[str, ...]
    target: Target
    code: str = ""
    spoilt: str = ""
    line: int = 0


def drawn(r: Random) -> Claim:
    """Return a claim, which is wrong in one of two."""
    symbols = tuple(r.sample(sorted(SIZES), r.randint(0, 3)))
    loop = _loop(r, r.choice(NAMES))
    symbols = tuple(s for s in symbols if s in {d.name for d in loop.dims})
    cluster = r.choice((1, 1, 2, 4))
    target = SM_90A if cluster > 1 else r.choice((PORTABLE, SM_90A))
    text = _written(r, loop, symbols, cluster)
    key = r.choice((loop.name, _hash(loop.name)))
    right = Claim(loop.name, loop, ((key, text),), symbols, target)
    return _spoilt(r, right, cluster) if r.random() < 0.5 else right


def _hash(name: str) -> str:
    return structural_hash(next(f for f in _MODULE.functions if f.name == name))


def _loop(r: Random, name: str) -> PrimFunc:
    """Return a function of one to three inputs and one or two outputs, whose body does nothing."""
    inputs = [f"a{k}" for k in range(r.randint(1, 3))]
    outputs = tuple(f"y{k}" for k in range(r.randint(1, 2)))
    buffers = tuple(Buffer(b, r.choice(DTYPES), _shape(r)) for b in (*inputs, *outputs))
    free = sorted(dims.free(d for b in buffers for d in b.shape))
    r.shuffle(free)
    return PrimFunc(name, buffers, outputs, Block(()), tuple(DimVar(s, 0, 9) for s in free))


def _shape(r: Random) -> tuple[Dim, ...]:
    some: list[Dim] = [1, 2, 5, *map(dims.symbol, SIZES)]
    return tuple(r.choice(some) for _ in range(r.randint(0, 2)))


def _written(r: Random, loop: PrimFunc, symbols: tuple[str, ...], cluster: int) -> TextKernel:
    """Return a text for a function; its workspace has names that buffers of the function may."""
    reads = tuple(f"x{k}" for k in range(len(loop.inputs)))
    writes = tuple(f"z{k}" for k in range(len(loop.outputs)))
    free: list[Dim] = [dims.symbol(d.name) for d in loop.dims]
    kept = tuple(
        Buffer(r.choice(("w", "a0", "y0")), r.choice(DTYPES), (r.choice([2, 3, *free]),))
        for _ in range(r.choice((0, 1, 1)))
    )
    zeroed = tuple(b.name for b in kept if r.random() < 0.7)
    types = [*(b.dtype for b in loop.params), *(b.dtype for b in kept)]
    names = (*reads, *writes, *(b.name for b in kept))
    args = [
        f"{'const ' if name in reads else ''}{c_type(t)} *{name}"
        for name, t in zip(names, types, strict=True)
    ]
    args += [f"i64 {s}" for s in symbols]
    stores = [f"  {name}[0] = 1;" for name in (*writes, *(b.name for b in kept))]
    r.shuffle(stores)
    clusters = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
    head = f'extern "C" __global__ void {clusters}own({", ".join(args)}) {{'
    above = r.choice(("", "// a kernel\n", "\n\n"))
    source = above + "\n".join([head, *stores, "}"]) + "\n"
    along: Dim = r.choice([cluster * r.choice((0, 1, 3)), *free])
    grid: tuple[Dim, Dim, Dim] = (along, r.choice((1, 2)), 1)
    block = (r.choice((1, 32, 64)), 1, 1)
    return TextKernel(source, reads, writes, grid, block, kept, zeroed=zeroed)


def _spoilt(r: Random, c: Claim, cluster: int) -> Claim:
    """Return a claim with one thing wrong, and the code by which it must be refused."""
    ((key, t),) = c.kernels
    first, *rest = c.loop.params
    other = replace(c.loop, params=(replace(first, dtype=OTHER[first.dtype]), *rest))
    head, stores = t.source.split(") {\n", 1)
    result = f", {c_type(c.loop.params[len(t.reads)].dtype)} *{t.writes[0]}"
    numbers = "".join(f", i64 {s}" for s in c.symbols)
    mapped = f"{head.removesuffix(numbers)}, const __grid_constant__ tensor_map b"
    idle = t.source.replace(f"  {t.writes[0]}[0] = 1;", "  ;")
    sources = {
        "a symbol that there is not": f"{head}, i64 strange) {{\n{stores}",
        "one buffer more": t.source.replace("own(", "own(const f32 *more, "),
        "another name of an operand": t.source.replace(f"*{t.reads[0]},", "*other,"),
        "a result is not written": idle,
        "a map that nobody describes": f"{mapped}{numbers}) {{\n{stores}",
        "a constant result": idle.replace(result, f", const{result[1:]}"),
        "a read that may be written": t.source.replace("own(const ", "own("),
    }
    text = {what: replace(t, source=s) for what, s in sources.items()} | {
        "a read counts as written": replace(t, reads=t.reads[:-1], writes=(t.reads[-1], *t.writes)),
        "too many threads": replace(t, block=(2048, 1, 1)),
        "no threads": replace(t, block=(0, 1, 1)),
        "fewer blocks than none": replace(t, grid=(-cluster, 1, 1)),
        "zeros of another buffer": replace(t, zeroed=("nowhere",)),
        "fewer additions than none": replace(t, chain=-1),
    }
    line = t.source[: t.source.index("extern")].count("\n") + 1
    what = r.choice(
        [
            *text,
            "an unknown function",
            "two kernels",
            "another dtype",
            "part of a cluster",
            "target",
        ]
    )
    match what:
        case "an unknown function":
            return replace(c, kernels=(("third", t),), code="unknown-primitive", spoilt=what)
        case "two kernels":
            both = ((c.name, t), (_hash(c.name), t))
            return replace(c, kernels=both, code="bad-kernel", spoilt=what)
        case "another dtype":
            return replace(c, loop=other, code="bad-kernel", spoilt=what, line=line)
        case "part of a cluster" if cluster > 1:
            odd = replace(t, grid=(cluster + 1, 1, 1))
            return replace(c, kernels=((key, odd),), code="bad-kernel", spoilt=what)
        case "target" if cluster > 1:
            return replace(c, target=PORTABLE, code="target-lacks", spoilt=what)
        case _ if what in LAWS:
            return replace(c, kernels=((key, text[what]),), code="P-text", spoilt=what)
        case _ if what in text:
            of = ((key, text[what]),)
            return replace(c, kernels=of, code="bad-kernel", spoilt=what, line=line)
        case _:
            return c


def judged(c: Claim) -> Iterator[Finding]:
    """Yield what is wrong with what becomes of a claim."""
    loops = {name: replace(c.loop, name=name) for name in NAMES}
    told = f"{c.spoilt or 'nothing'} is wrong with {c.kernels} for {c.loop}"
    try:
        made = claimed(_MODULE, loops, dict(c.kernels), c.target)
    except DidymaError as e:
        if e.code != c.code or (c.line and e.line != c.line):
            yield _finding("refused", f"{e}\nwant {c.code} on line {c.line}: {told}")
        return
    except Exception as e:
        yield _finding("error", f"{type(e).__name__}: {e}\n{told}")
        return
    if c.code:
        yield _finding("accepted", told)
        return
    if [*made] != [c.name]:
        yield _finding("name", f"{[*made]}, want {c.name}: {told}")
        return
    yield from _differs(c, made[c.name], loops[c.name])
    yield from _unfilled(c, made[c.name])


def _differs(c: Claim, k: ClaimedKernel, loop: PrimFunc) -> Iterator[Finding]:
    """Yield in what a kernel is another than what was handed."""
    ((_, t),) = c.kernels
    names = {b.name for b in loop.params}
    kept = [(b.dtype, b.shape) for b in k.text.workspace]
    rows = (
        ("meaning", k.meaning, loop),
        ("symbols", tuple(v.name for v in k.dims), c.symbols),
        ("text", (k.text.source, k.text.grid, k.text.block), (t.source, t.grid, t.block)),
        ("workspace", kept, [(b.dtype, b.shape) for b in t.workspace]),
        ("names", names & {b.name for b in k.text.workspace}, set[str]()),
        ("zeros", len({*k.text.zeroed} & {b.name for b in k.text.workspace}), len(t.zeroed)),
    )
    for what, got, want in rows:
        if got != want:
            yield _finding(what, f"{got}, want {want}")


def _unfilled(c: Claim, k: ClaimedKernel) -> Iterator[Finding]:
    """Yield what is wrong with the kernels that come before a text and store zeros."""
    *zeros, last = launched(k, Options())
    if last is not k or len(zeros) != len(k.text.zeroed):
        yield _finding("zeros", f"{len(zeros)} kernels before the text, want {len(k.text.zeroed)}")
        return
    for name, z in zip(k.text.zeroed, zeros, strict=True):
        assert isinstance(z, PrimFunc)
        (b,) = (b for b in k.text.workspace if b.name == name)
        held = {name: np.ones(dims.values(b.shape, SIZES), b.dtype.numpy)}
        lanes.run(z, held, {v.name: SIZES[v.name] for v in z.dims})
        if held[name].any():
            yield _finding("zeros", f"{name} of {c.kernels} is {held[name]}")


def _finding(kind: str, message: str) -> Finding:
    return Finding("emit", "claimed text", kind, message)
