"""A module as a script: calls on random inputs, and how long they take."""

from __future__ import annotations

import json
import statistics
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .checks import Wanted
from .dtypes import OWN, Array, dtype_of
from .refused import Refused
from .rows import Laid
from .watch import Around, Launch, Watch, dumped

_FLAGS = {
    "benchmark": "print times of calls and of each kernel",
    "json": "print JSON",
    "finite": "refuse NaN and infinity in inputs and in what kernels compute",
    "strict": "refuse inputs that would be copied before kernels read them",
    "ranges": "make each launch a range of NVTX, by the package nvtx",
    "synchronous": "wait for each launch before the next line runs",
}
_OF_CALLS = ("finite", "strict", "synchronous")  # what a call may be asked by name


def parser(wanted: Sequence[Wanted], ranges: Mapping[str, tuple[int, int]]) -> ArgumentParser:
    """Return what reads the command line of a module, and says how it is used."""
    rows = ["inputs:", *(f"  {name}: {dtype}, {rank} axes" for name, dtype, rank in wanted)]
    rows += ["", "sizes:", *(f"  {k}: {lo} to {hi}" for k, (lo, hi) in ranges.items())]
    made = ArgumentParser(
        prog=f"python {sys.argv[0]}",
        usage=f"python {sys.argv[0]} [FLAG ...]{''.join(f' [{k}=SIZE]' for k in ranges)}",
        description="Call the program on random inputs.",
        epilog="\n".join(rows),
        formatter_class=RawDescriptionHelpFormatter,
    )
    for name, what in _FLAGS.items():
        made.add_argument(f"--{name}", action="store_true", help=what)
    made.add_argument(
        "--dump", type=Path, metavar="FOLDER", help="write the results of each launch as .npy files"
    )
    made.add_argument("sizes", nargs="*", metavar="dim=SIZE", help="a size; by default 2")
    return made


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
    """Run a module on random inputs, as ``parser`` says.

    The exit code is 4 where the engine or a package is missing, and 2 for what else is refused.
    """
    asked = parser(wanted, ranges).parse_args()
    sizes = _sizes(asked.sizes, ranges)
    inputs = random_inputs(wanted, shapes(*sizes.values()))  # names may have been mended
    run = partial(call, **_named(asked))
    try:
        results = run(list(inputs))
        found: dict[str, Any] = {"sizes": sizes}
        if asked.benchmark:
            found |= benchmark(lambda: run(list(inputs)))
            count = min(found["calls"], 100)
            found["kernels"] = launches(lambda watch: run(list(inputs), watch=watch), count)
    except Refused as e:
        _refuse(str(e), 4 if e.code == "engine-missing" else 2)
    if not asked.benchmark:
        rows = zip(wanted, inputs, strict=True)
        found["inputs"] = [_shown(name, dtype, a) for (name, dtype, _), a in rows]
        found["outputs"] = [_shown(str(i), str(a.dtype), a) for i, a in enumerate(results)]
    print(json.dumps(found, indent=2) if asked.json else "\n".join(_lines(found)))


def _refuse(message: str, code: int = 2) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(code)


def _sizes(words: Sequence[str], ranges: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    sizes = {k: min(max(lo, 2), hi) for k, (lo, hi) in ranges.items()}
    for k, _, v in (w.partition("=") for w in words):
        if k not in ranges or not v.isdecimal():
            _refuse(f"{k}={v}: want one of {', '.join(ranges) or 'no dims'} = a number")
        sizes[k] = int(v)
    return sizes


def _named(asked: Namespace) -> dict[str, Any]:
    """Return what a call is asked by name."""
    found: dict[str, Any] = {k: True for k in _OF_CALLS if getattr(asked, k)}
    if asked.ranges:
        found["around"] = _ranges()
    if asked.dump is not None:
        if asked.benchmark:
            _refuse("--dump: want no --benchmark, which calls the program many times")
        try:
            asked.dump.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            _refuse(f"--dump {asked.dump}: want a folder that takes files: {e.strerror}")
        found["watch"] = dumped(asked.dump)
    return found


def _shown(name: str, dtype: str, a: Array) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(a.shape)}


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was found as lines for people."""
    for side in ("inputs", "outputs"):
        for v in found.get(side, ()):
            yield f"{side.removesuffix('puts'):<4} {v['name']}: {v['dtype']}{v['shape']}"
    if "calls" in found:
        sizes = "".join(f", {k} = {n}" for k, n in found["sizes"].items())
        times = (f"{name} {1e6 * t:.2f}" for name, t in found["seconds"].items())
        yield f"{found['calls']} calls{sizes}, microseconds: {', '.join(times)}"
        yield f"{'launches':>8} {'bytes':>12} {'us':>10} {'GB/s':>8}  kernel"
    for k in found.get("kernels", ()):
        rate = f"{1e6 * k['seconds']:>10.2f} {k['gb_per_second']:>8.2f}"
        yield f"{k['launches']:>8} {k['bytes']:>12} {rate}  {k['kernel']}"


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
        how = "python3 -m pip install nvtx"
        _refuse(str(Refused("extra-missing", "--ranges", "no package nvtx", "nvtx", how)), 4)
    found: Around = nvtx.annotate
    return found
