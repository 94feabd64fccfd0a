"""Time workloads on a GPU beside other libraries, in one run, on random data.

Every time is the median of CUDA events around one call; between two calls the second-level cache is
overwritten.  What a workload moves at least, over that time, is its bandwidth, and the share of the
bandwidth of a large copy in the same run is what is reported.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import didyma as dd
from didyma.bench.peers import JAX, TORCH
from didyma.bench.workloads import Workload, least_bytes
from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import engine
from didyma.refimpl.errors import EngineMissing
from didyma.refimpl.ir.types import DType
from didyma.tuning import suited

PEERS = ("torch", "torch.compile", "torch.max-autotune", "jax")
OWN = "didyma"
ROUNDS, WARM = 20, 4
ROTATED = 320 << 20  # bytes that calls move before one of them takes the same arguments again
BUSY = 20_000_000  # cycles, some 10 ms, in which the host queues the rounds
SUSPECT = 1 / 32  # of the largest magnitude; a result farther from PyTorch's is called wrong

Thunk: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Timed:
    """One contender on one workload: the median in seconds and the least, or why there are none.

    ``share`` is that of the copy's bandwidth.  ``off`` is the largest difference from PyTorch's
    result as a share of its largest magnitude; None for a peer.
    """

    workload: str
    contender: str
    seconds: float | None
    least: float | None
    share: float | None
    off: float | None
    reason: str


def require() -> None:
    """Raise EngineMissing unless this machine has a GPU, PyCUDA, NVRTC and PyTorch."""
    engine("cuda")
    try:
        torch = import_module("torch")
    except ImportError:
        raise EngineMissing(
            "engine-missing", "didyma bench gpu", got="no PyTorch",
            want="PyTorch with CUDA, whose kernels are timed beside ours",
            help="python3 -m pip install torch",
        ) from None  # fmt: skip
    if not torch.cuda.is_available():
        raise EngineMissing(
            "engine-missing", "didyma bench gpu", got="a PyTorch that sees no GPU",
            want="PyTorch with CUDA", help="python3 -m pip install torch",
        )  # fmt: skip


def run(workloads: Sequence[Workload], peers: Sequence[str], options: Options) -> Iterator[Timed]:
    """Judge each workload at its small size, then time it at the large one beside the peers.

    Errors: EngineMissing as of ``require``.
    """
    require()
    options = suited(options, engine("cuda"))
    clock = Clock()
    for w in workloads:
        yield from _timed(w, peers, options, clock)


class Clock:
    """The clock, and the bandwidth of a copy of a gibibyte in this run, in bytes a second."""

    def __init__(self) -> None:
        torch = self.torch = import_module("torch")
        source = torch.randn(1 << 28, device="cuda")
        target = torch.empty_like(source)
        taken = statistics.median(self.seconds([lambda: target.copy_(source)]))
        self.bandwidth: float = 2 * source.nbytes / taken

    def seconds(self, calls: Sequence[Thunk]) -> list[float]:
        """Return the GPU's time for one call, of several, each of which has arguments of its own.

        The GPU is kept busy until the host has queued them all, so that it never waits for the
        host: a program of microseconds would show the host's time.
        """
        torch, results = self.torch, list[Any]([None] * len(calls))
        warm, timed = turns(len(calls))
        for i in warm:
            results[i] = calls[i]()
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in timed]
        torch.cuda._sleep(BUSY)
        for i, (start, end) in zip(timed, pairs, strict=True):
            start.record()
            results[i] = calls[i]()
            end.record()
        torch.cuda.synchronize()
        return [float(a.elapsed_time(b)) / 1e3 for a, b in pairs]


def copies(moved: int) -> int:
    """Return how many copies calls that move so many bytes take in turn: two at least.

    >>> copies(1 << 30), copies(100 << 20), copies(1 << 20)
    (2, 4, 320)
    """
    return max(2, -(-ROTATED // max(1, moved)))


def turns(count: int) -> tuple[list[int], list[int]]:
    """Return which of the copies the calls take that warm up, and those that are timed.

    A timed call takes a copy that none of the ``count - 1`` calls before it took.

    >>> turns(3)[0], turns(3)[1][:4]
    ([0, 1, 2, 0], [1, 2, 0, 1])
    """
    warm = max(WARM, count - ROUNDS)
    order = [i % count for i in range(warm + ROUNDS)]
    return order[:warm], order[warm:]


def _timed(w: Workload, peers: Sequence[str], options: Options, clock: Clock) -> Iterator[Timed]:
    program, moved = w.program(large=True), least_bytes(w, large=True)
    given = rotated(drawn(clock.torch, w), copies(moved))
    want = TORCH[w.name](clock.torch, *given[0])
    contenders = {OWN: partial(_own, w, program, options)}
    contenders |= {p: partial(_peer, p, w) for p in peers}
    for name, prepare in contenders.items():
        try:
            calls = prepare(given)
            rounds = clock.seconds(calls) if name != "jax" else _waited(calls)
            off = distance(calls[0](), want) if name == OWN else None
        except Exception as e:  # of the contender's library, which may raise anything
            yield Timed(w.name, name, None, None, None, None, f"{type(e).__name__}: {e}"[:300])
            continue
        seconds = statistics.median(rounds)
        share = moved / seconds / clock.bandwidth
        yield Timed(w.name, name, seconds, min(rounds), share, off, "")


def rotated(given: Sequence[Any], count: int) -> list[list[Any]]:
    """Return arguments, and copies of them, in memory of their own."""
    return [[*given], *([a.clone() for a in given] for _ in range(count - 1))]


def bound(f: Callable[..., Any], given: Sequence[Sequence[Any]]) -> list[Thunk]:
    """Return a call for each copy of the arguments."""
    return [partial(f, *args) for args in given]


def _own(
    w: Workload, program: dd.Program, options: Options, given: Sequence[Sequence[Any]]
) -> list[Thunk]:
    from didyma.codegen.runtime.cuda import Cuda

    for f in dd.check(w.program(), engines="cuda", options=options).findings:
        raise RuntimeError(f"wrong at the small size: {f.level} {f.where}: {f.message}")
    exe = dd.compile(program, engine=Cuda(checked=False), options=options)
    return bound(exe, given)


def _peer(name: str, w: Workload, given: Sequence[Sequence[Any]]) -> list[Thunk]:
    if name == "jax":
        jax = import_module("jax")
        call = jax.jit(partial(JAX[w.name], jax))
        return bound(call, [[jax.dlpack.from_dlpack(a) for a in args] for args in given])
    torch = import_module("torch")
    f = partial(TORCH[w.name], torch)
    if name == "torch":
        return bound(f, given)
    mode = "max-autotune" if name == "torch.max-autotune" else "default"
    torch.compiler.reset()
    return bound(torch.compile(f, mode=mode), given)


def drawn(torch: Any, w: Workload) -> list[Any]:
    """Draw arguments of the large size on the GPU, as ``workloads.arguments`` draws them."""
    torch.manual_seed(0)
    low, high = (0, w.indices[1]) if w.indices[1] else (-128, 128)

    def one(dtype: DType, shape: tuple[int, ...]) -> Any:
        if dtype.is_float:
            return torch.randn(shape, device="cuda", dtype=getattr(torch, dtype.numpy.name))
        if dtype is DType.BOOL:
            return torch.randint(0, 2, shape, device="cuda").bool()
        kind = getattr(torch, dtype.numpy.name)
        if w.distinct:
            return torch.randperm(high, device="cuda", dtype=kind)[: math.prod(shape)].view(shape)
        return torch.randint(low, high, shape, device="cuda", dtype=kind)

    return [one(dtype, shape) for dtype, shape in w.large]


def _waited(calls: Sequence[Thunk]) -> list[float]:
    """Return the wall time of a call, of several, of a library that has streams of its own."""
    found, results, (warm, timed) = list[float](), list[Any]([None] * len(calls)), turns(len(calls))
    for i in (*warm, *timed):
        start = time.perf_counter()
        results[i] = calls[i]()
        for x in _leaves(results[i]):
            x.block_until_ready()
        found.append(time.perf_counter() - start)
    return found[len(warm) :]


def _leaves(x: Any) -> list[Any]:
    return [*x] if type(x) in (tuple, list) else [x]


def distance(got: Any, want: Any) -> float:
    """Return the largest difference as a share of the largest magnitude, over all results."""
    found = 0.0
    for a, b in zip(_leaves(got), _leaves(want), strict=True):
        x, y = a.double(), b.double()
        found = max(found, float((x - y).abs().max() / y.abs().max().clamp_min(1e-30)))
    return found
