"""How kernels reach memory, at sizes that fill a GPU: ``python -m tests.bench.access``.

Each program is compiled for an H200, and the simulator runs a few blocks of each launch: the first
ones and the last.  From these come the bytes that all blocks of a kernel move, of arrays that are
large, and the sectors of 32 bytes that its accesses touch.  A kernel is *idle* if multiprocessors
are without a block while one moves much, *scattered* if its accesses touch many more sectors than
its elements fill, and a program is *repeated* if it moves more than it must.

Programs are drawn: ``--programs`` says how many, and ``--seed`` the first; or they are given, each
as ``--case "norm 0 f32 20000x64"``.  A line says how often a program moves what it must, and of
each kernel its blocks and how many times the sectors of its elements it touches.  The exit code is
1 if any program is at fault.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.runtime.geometry import geometry, signature
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.codegen.runtime.simt.access import SECTOR
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.types import DType

MOST = 8  # blocks of a launch that run
LARGE = 1 << 20  # bytes from which on an array counts
BUSY = 120  # blocks that give nearly every multiprocessor one
MUCH = 1 << 18  # bytes that a block moves while several kernels could begin
FULL = 0.25  # of the sectors that accesses touch are elements, at least
AGAIN = 1.1  # times what must be moved is moved, at most
HELD = 1 << 18  # bytes of a row that a block, or those of a cluster, hold
DTYPES = (DType.F32, DType.BF16, DType.F16, DType.F64)
Function: TypeAlias = Callable[[dd.Tensor], dd.Tensor]


def sums(axis: int) -> Function:
    """Return sums along an axis."""
    return lambda x: dd.sum(x, axis=axis)


def argmaxes(axis: int) -> Function:
    """Return places of the largest elements along an axis."""
    return lambda x: dd.argmax(x, axis=axis)


def softmaxes(axis: int) -> Function:
    """Return a softmax along an axis."""
    return lambda x: dd.softmax(x, axis=axis)


def norms(axis: int) -> Function:
    """Return a layer norm without weights along an axis, computed in f32 at least."""

    def norm(x: dd.Tensor) -> dd.Tensor:
        wide = dd.astype(x, dd.f32) if x.dtype in (dd.bf16, dd.f16) else x
        d = wide - dd.mean(wide, axis=axis, keepdims=True)
        y = d * dd.rsqrt(dd.mean(d * d, axis=axis, keepdims=True) + 1e-5)
        return dd.astype(y, getattr(dd, x.dtype.value))

    return norm


def without_means(axis: int) -> Function:
    """Return elements less the means of their rows and columns."""
    del axis
    return lambda x: x - dd.mean(x, axis=0, keepdims=True) - dd.mean(x, axis=1, keepdims=True)


def transposes(axis: int) -> Function:
    """Return a transposition."""
    del axis
    return dd.transpose


FUNCTIONS: Mapping[str, Callable[[int], Function]] = MappingProxyType(
    {
        "sum": sums, "argmax": argmaxes, "softmax": softmaxes, "norm": norms,
        "less means": without_means, "transpose": transposes,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A function of an array; with ``is_open`` the number of its rows is a symbol.

    What must be moved is moved ``passes`` times, at most.
    """

    name: str
    function: Function
    dtype: DType
    shape: tuple[int, ...]
    is_open: bool = False
    passes: float = 1.0

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape))
        return f"{self.name}, {size}, {self.dtype.value}{', open' if self.is_open else ''}"

    def program(self) -> dd.Program:
        """Trace the function."""
        rows, *rest = self.shape
        first = dd.dim("n", 1, 1 << 22) if self.is_open else rows
        element: Any = getattr(dd, self.dtype.value)
        types: list[Any] = [element[(first, *rest)]]
        made: dd.Program = dd.trace(*types)(self.function)
        return made


@dataclass(frozen=True, slots=True)
class Launch:
    """What all blocks of a kernel move, in bytes, and the sectors of large arrays over these."""

    kernel: str
    blocks: int
    moved: float
    spread: float


@dataclass(frozen=True, slots=True)
class Reached:
    """The launches of a program, and the bytes of its argument and its result."""

    case: Case
    launches: tuple[Launch, ...]
    least: int

    @property
    def moved(self) -> float:
        """The bytes that all launches move, over those that must be moved."""
        return sum(x.moved for x in self.launches) / self.least

    @property
    def faults(self) -> list[str]:
        """What is wrong."""
        found = [
            f"{x.kernel} is idle: {x.blocks} blocks" for x in self.launches
            if x.blocks < BUSY and x.moved > MUCH * x.blocks
        ]  # fmt: skip
        found += [
            f"{x.kernel} is scattered: {x.spread:.2f}" for x in self.launches
            if x.spread * FULL > 1
        ]  # fmt: skip
        return found + [f"repeated: {self.moved:.2f}"] * (self.moved > AGAIN * self.case.passes)


def reached(case: Case) -> Reached:
    """Compile a program, and run some blocks of its launches."""
    traffic, program = Traffic(), case.program()
    options = Options(target=SM_90A).changed({"memory.views": False})
    some = None if case.is_open else MOST  # of a grid for an open size, blocks may have no work
    exe = dd.compile(program, engine=Simt(blocks=some, traffic=traffic), options=options)
    x = np.random.default_rng(0).standard_normal(case.shape, np.float32)
    given = x.astype(case.dtype.numpy)
    result = exe(given)
    dims = {"n": case.shape[0]} if case.is_open else {}
    text = exe.compiled.text
    launches = tuple(_launch(traffic, text, k, dims) for k in traffic.launches)
    return Reached(case, launches, given.nbytes + np.asarray(result).nbytes)


def _launch(traffic: Traffic, text: KernelText, kernel: str, dims: Mapping[str, int]) -> Launch:
    g = geometry(signature(text, kernel), dims)
    moved = traffic.read + traffic.written
    head = text.source.split(f"\n{kernel}(")[1].split(")")[0]
    sizes = zip(re.findall(r"__restrict__ (\w+)", head), g.nbytes, strict=True)
    large = [(kernel, name) for name, nbytes in sizes if nbytes >= LARGE]
    nbytes = sum(moved[key] for key in large)
    sectors = SECTOR * sum(traffic.sectors[key] for key in large)
    blocks = math.prod(g.grid)
    share = blocks / max(1, traffic.blocks[kernel])
    return Launch(kernel, blocks, nbytes * share, sectors / max(1, nbytes))


def drawn(seed: int) -> Case:
    """Draw a function, a dtype and a shape of 4 to 32 MiB whose rows are short, odd or long."""
    rng = np.random.default_rng(seed)
    name, axis = str(rng.choice([*FUNCTIONS])), int(rng.integers(2))
    dtype = DTYPES[rng.integers(len(DTYPES))]
    short = int(2 ** rng.uniform(1, 12))
    long = int(2 ** rng.uniform(22, 25)) // (short * dtype.nbytes)
    shape = (short, long) if rng.random() < 0.5 else (long, short)
    is_open = bool(rng.random() < 0.2)
    held = _holds(axis, shape, dtype) and not (axis == 0 and is_open)
    again = name == "less means" or (name in ("softmax", "norm") and not held)
    passes = 2.0 if again else 1.0
    return Case(f"{name} {axis}", FUNCTIONS[name](axis), dtype, shape, is_open, passes)


def _holds(axis: int, shape: tuple[int, int], dtype: DType) -> bool:
    """Return whether registers hold rows: many of those that lie side by side must fit a block."""
    nbytes = shape[axis] * dtype.nbytes
    return nbytes <= (HELD if axis == 1 else HELD // 32)


def named(text: str) -> Case:
    """Return the case of a name, an axis, a dtype and a shape."""
    name, axis, dtype, size = text.rsplit(" ", 3)
    shape = tuple(map(int, size.split("x")))
    return Case(f"{name} {axis}", FUNCTIONS[name](int(axis)), DType(dtype), shape)


def main() -> int:
    """Print what each program does, and return 1 if any is at fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", action="append", default=[])
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.programs)
    cases = [named(c) for c in given.case] or [drawn(seed) for seed in seeds]
    bad = 0
    for case in cases:
        found = reached(case)
        wrong = found.faults
        bad += bool(wrong)
        kernels = (f"{x.blocks} blocks {x.spread:.2f}" for x in found.launches if x.spread)
        print(f"{case}: {found.moved:.2f}", *kernels, *wrong, sep="; ", flush=True)
    print(f"{bad} of {len(cases)} at fault")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
