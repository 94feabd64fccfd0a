"""Shapes and dtypes that no workload has, timed on a GPU beside PyTorch: odd, tiny, symbolic, f64.

    python3 -m tests.gpu.shapes

Prints a row for each: the median in microseconds, the share of a copy's bandwidth, the time of the
faster of PyTorch and ``torch.compile`` over ours, and how far the results are apart, as a share of
their largest magnitude.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import didyma as dd
from didyma.bench import gpu
from didyma.codegen.runtime.cuda import Cuda
from didyma.refimpl.ir.types import DType

F64, F32, F16, BF16 = DType.F64, DType.F32, DType.F16, DType.BF16
FLOATS = (F32, BF16, F16, F64)


@dataclass(frozen=True, slots=True)
class Case:
    """A function of both libraries on arguments of some shapes; the first axis may be open."""

    name: str
    own: Callable[..., Any]
    peer: Callable[..., Any]
    dtype: DType
    shapes: tuple[tuple[int, ...], ...]
    is_open: bool = False


def cases(torch: Any) -> Iterator[Case]:
    """Yield what is timed."""
    vectors, row = ((48_000_003,),) * 2, ((48_000, 1003), (1003,))

    def add(a: Any, b: Any) -> Any:
        return a + b

    def turned(x: Any) -> Any:
        return x.t().contiguous()

    for d in FLOATS:
        yield Case("a + b", add, add, d, vectors)
    yield Case("a + b, n open", add, add, BF16, vectors, is_open=True)
    for d in (F32, BF16):
        yield Case("x + row", add, add, d, row)
    softmax = partial(dd.softmax, axis=-1), partial(torch.softmax, dim=-1)
    for n in (1000, 1001, 4099, 50257):
        for d in (BF16, F32):
            yield Case("softmax", *softmax, d, ((60_000_000 // n, n),))
    yield Case("softmax", *softmax, BF16, ((64, 1 << 18),))
    yield Case("softmax", *softmax, F16, ((4096, 4096),))
    yield Case("softmax", *softmax, F64, ((4096, 4096),))
    for axis in (1, 0):
        own, peer = partial(dd.sum, axis=axis), partial(torch.sum, dim=axis)
        yield Case(f"sum along axis {axis}", own, peer, F32, ((60_000, 1001),))
    yield Case("transpose", dd.transpose, turned, F32, ((8191, 8193),))
    yield Case("a + b", add, add, F32, ((17,),) * 2)
    yield Case("softmax", *softmax, F32, ((3, 5),))


def program(c: Case) -> dd.Program:
    """Trace a case."""
    n = dd.dim("n", 1, 1 << 27)
    shapes = [(n, *s[1:]) if c.is_open else s for s in c.shapes]

    def one(x: dd.Tensor) -> Any:
        return c.own(x)

    def two(a: dd.Tensor, b: dd.Tensor) -> Any:
        return c.own(a, b)

    types = [getattr(dd, c.dtype.value)[s] for s in shapes]
    made: dd.Program = dd.trace(*types)(one if len(types) == 1 else two)
    return made


def main() -> int:
    """Time every case; 4 without a GPU."""
    gpu.require()
    torch, on = import_module("torch"), Cuda(checked=False)
    clock = gpu.Clock()
    for c in cases(torch):
        kind = getattr(torch, c.dtype.numpy.name)
        given = [torch.randn(s, device="cuda", dtype=kind) for s in c.shapes]
        exe: Any = dd.compile(program(c), engine=on)
        torch.compiler.reset()
        peers = (c.peer, torch.compile(c.peer, dynamic=c.is_open or None))
        off = gpu.distance(exe(*given), c.peer(*given))
        moved = sum(x.nbytes for x in (*given, exe(*given)))
        sets = gpu.rotated(given, gpu.copies(moved))
        own, *others = (statistics.median(clock.seconds(gpu.bound(f, sets))) for f in (exe, *peers))
        shape = " and ".join("x".join(map(str, s)) for s in c.shapes[:1])
        print(
            f"{c.name}, {shape}, {c.dtype.value}: {1e6 * own:.1f} us,"
            f" share {moved / own / clock.bandwidth:.2f}, {min(others) / own:.2f} times the best"
            f" peer, off by {off:.1e}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
