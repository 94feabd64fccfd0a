"""A module as a script: calls on random inputs, and how long they take."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from .checks import Wanted
from .dtypes import OWN, Array, dtype_of
from .refused import Refused
from .rows import Laid
from .watch import Around, Launch, Watch

_FLAGS = {
    "--benchmark": "times of calls and of each kernel, as JSON",
    "--finite": "refuse NaN and infinity in inputs and in what kernels compute",
    "--ranges": "each launch is a range of NVTX, by the package nvtx",
    "--synchronous": "each launch has ended before the next line runs",
    "--help": "print this and exit",
}


def usage(wanted: Sequence[Wanted], ranges: Mapping[str, tuple[int, int]]) -> str:
    """Return how a module is called on the command line."""
    dims = "".join(f" [{k}=SIZE]" for k in ranges)
    rows = [
        f"usage: python {sys.argv[0]} [FLAG ...]{dims}",
        "",
        "Call the program on random inputs.",
    ]
    rows += ["", "inputs:", *(f"  {name}: {dtype}, {rank} axes" for name, dtype, rank in wanted)]
    rows += ["", "sizes:", *(f"  {k}: {lo} to {hi}" for k, (lo, hi) in ranges.items())]
    rows += ["", "flags:", *(f"  {name:<14} {what}" for name, what in _FLAGS.items())]
    return "\n".join(rows)


def random_inputs(
    wanted: Sequence[Wanted], shapes: Sequence[Sequence[int]], seed: int = 0
) -> list[Array]:
    """Return small numbers of the wanted dtypes, shapes and strides."""
    rng = np.random.default_rng(seed)
    pairs = zip(wanted, shapes, strict=True)
    made = [(shape, _random(rng, dtype, shape)) for (_, dtype, _), shape in pairs]
    return [shape.array(a) if isinstance(shape, Laid) else a for shape, a in made]


def _random(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    signed = dtype[0] != "u" and dtype not in ("bool", "f8e8m0")
    values = rng.random(tuple(shape)) * 4 - 2 * signed
    if dtype in OWN:
        return values.astype(OWN[dtype])
    bits = np.zeros(values.shape, np.uint16 if dtype == "bf16" else np.uint8)
    if dtype == "bf16":
        bits[...] = values.astype(np.float32).view(np.uint32) >> 16
    return bits.view(dtype_of(dtype))  # zeros of rarer dtypes


def main(
    call: Callable[..., list[Array]],
    wanted: Sequence[Wanted],
    shapes: Callable[..., Sequence[Sequence[int]]],
    ranges: Mapping[str, tuple[int, int]],
) -> None:
    """Run a module on random inputs: ``python MODULE [--benchmark] [--finite] [dim=size …]``.

    With ``--ranges`` each launch is a range of NVTX, for profilers, by the package ``nvtx``; with
    ``--synchronous`` it has ended before the next line runs.
    """
    words = sys.argv[1:]
    flags = {w for w in words if w.startswith("-")}
    if flags & {"--help", "-h"}:
        print(usage(wanted, ranges))
        return
    if strange := flags - {*_FLAGS}:
        raise SystemExit(f"{min(strange)}: want {', '.join(_FLAGS)} or dim=size")
    sizes = {k: min(max(lo, 2), hi) for k, (lo, hi) in ranges.items()}
    for k, _, v in (w.partition("=") for w in words if w not in flags):
        if k not in ranges or not v.isdecimal():
            raise SystemExit(f"{k}={v}: want one of {', '.join(ranges) or 'no dims'} = a number")
        sizes[k] = int(v)
    inputs = random_inputs(wanted, shapes(*sizes.values()))  # names may have been mended
    asked: dict[str, Any] = {k: True for k in ("finite", "synchronous") if f"--{k}" in flags}
    run = partial(call, **asked, **({"around": _ranges()} if "--ranges" in flags else {}))
    try:
        results = run(list(inputs))
        if "--benchmark" in flags:
            found = benchmark(lambda: run(list(inputs)))
            rows = launches(lambda watch: run(list(inputs), watch=watch), min(found["calls"], 100))
            print(json.dumps({"sizes": sizes, **found, "kernels": rows}, indent=2))
            return
    except Refused as e:
        raise SystemExit(str(e)) from None
    for (name, dtype, _), a in zip(wanted, inputs, strict=True):
        print(f"in   {name}: {dtype}{list(a.shape)}")
    for i, r in enumerate(results):
        print(f"out  {i}: {r.dtype}{list(r.shape)}")


def benchmark(run: Callable[[], object], seconds: float = 1.0) -> dict[str, Any]:
    """Return times of calls in seconds: quantiles of at least 5 calls and about so many seconds.

    A tenth as many calls run before, and do not count.
    """
    start = time.perf_counter()
    run()
    calls = max(5, min(10_000, int(seconds / max(1e-7, time.perf_counter() - start))))
    for _ in range(calls // 10):
        run()
    times: list[float] = []
    for _ in range(calls):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    tenths = statistics.quantiles(times, n=10)
    found = {"min": min(times), "p10": tenths[0], "median": tenths[4], "p90": tenths[8]}
    return {"calls": calls, "seconds": found | {"max": max(times)}}


def launches(run: Callable[[Watch], object], calls: int) -> list[dict[str, Any]]:
    """Return for each kernel, the slowest first, what it takes in one of some calls.

    ``seconds`` is the median over calls of all its launches in one, and ``bytes`` are those of the
    buffers that they are given, each buffer counted once a launch.
    """
    times: dict[str, list[float]] = {}
    counted: dict[str, tuple[int, int]] = {}
    for _ in range(calls):
        told: list[Launch] = []
        run(told.append)
        names = dict.fromkeys(x.kernel for x in told)
        for name in names:
            mine = [x for x in told if x.kernel == name]
            times.setdefault(name, []).append(sum(x.seconds for x in mine))
            counted[name] = len(mine), sum(x.nbytes for x in mine)
    rows = [
        {"kernel": name, "launches": count, "bytes": nbytes, "seconds": seconds}
        | {"gb_per_second": nbytes / seconds / 1e9}
        for name, (count, nbytes) in counted.items()
        for seconds in [statistics.median(times[name])]
    ]
    return sorted(rows, key=lambda row: -row["seconds"])


def _ranges() -> Around:
    """Return what makes a context that is a range of NVTX, by a name."""
    try:
        nvtx = import_module("nvtx")
    except ImportError:
        raise SystemExit("--ranges: want the package nvtx: python3 -m pip install nvtx") from None
    found: Around = nvtx.annotate
    return found
