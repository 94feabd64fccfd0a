"""Judge the choice among variants at run time, whatever a clock says.

A call that times variants must give the bits of the next call, which does not; and a pick must not
be taken for another function, other sizes or layouts of arguments, another target or other options.
A variant that gives NaN where the model's choice has none must not be picked, and no NaN may pass
where finite numbers are demanded: variants that are spoilt on purpose show whether that is seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.engine import Engine, Loaded
from didyma.codegen.select.at_run import AtRun, Launches, Outputs, Site, sites
from didyma.codegen.select.choosers import Entry, Pinned, Request
from didyma.codegen.select.keys import Bucket, arguments, bucket_of, function, hints, key_of
from didyma.oracle.compare import bitwise
from didyma.oracle.recorder import Recorder
from didyma.oracle.report import Level
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import values
from didyma.refimpl.ir.loop import Block, PrimFunc
from didyma.refimpl.ir.types import Array, DType

NAME = "at-run"
_PLAIN = (DType.F32, DType.F64)  # floats that NumPy has, too
OTHER = Options(kernels=KernelOptions(vectorise=False))  # makes other kernels

Runner: TypeAlias = Callable[[AtRun], Callable[..., list[Any]]]  # what runs a program, given that


def judged(c: Compiled, inputs: Sequence[Array], engine: Engine, runner: Runner) -> Level:
    """Return the level ``at-run`` of a compiled module that has variants."""
    level = Recorder(NAME, engine.name)
    level.guard(engine.name, partial(_calls, c, inputs, engine, runner, level))
    level.guard(engine.name, partial(_nans, c, inputs, engine, runner, level))
    for site in sites(c.program, c.text, c.loops, c.variants).values():
        level.checks += 1
        for what in _shared(site):
            level.find(site.function, "value", f"{what} has the same key")
        for wrong in _taken(site):
            level.find(site.function, "value", wrong)
    return level.level()


def _calls(
    c: Compiled, inputs: Sequence[Array], engine: Engine, runner: Runner, level: Recorder
) -> None:
    found = sites(c.program, c.text, c.loops, c.variants)
    chosen = AtRun(found, Options(), engine.name, clock=_clock(len(c.text.source)), wall=_seconds())
    run = runner(chosen)
    first, second = (run(engine, list(inputs)) for _ in range(2))
    rows = zip(c.source.entry.results, second, first, strict=True)
    level.compare(engine.name, [bitwise(*row) for row in rows])
    for name, at in chosen.picks:
        ranges = {d.name: range(d.lo, d.hi + 1) for d in found[name].loop.dims}
        if dict(at).keys() != ranges.keys() or any(n not in ranges[d] for d, n in at):
            level.find(found[name].function, "value", f"a pick for the sizes {dict(at)}")


def _nans(
    c: Compiled, inputs: Sequence[Array], engine: Engine, runner: Runner, level: Recorder
) -> None:
    """Run with variants that give NaN, all but the first of each, and then every one."""
    found = sites(c.program, c.text, c.loops, c.variants)
    others = _Spoilt(found, Options(), engine.name, wall=_seconds())
    runner(others)(engine, list(inputs))
    for (name, at), number in others.picks.items():
        site = found[name]
        if (site.variants[number].kernel.name, at) in others.spoilt:
            level.find(site.function, "value", f"variant {number} is picked, which gives NaN")
    finite = Options().changed({"kernels.finite": True})
    every = _Spoilt(found, finite, engine.name, wall=_seconds(), every=True)
    try:
        runner(every)(engine, list(inputs))
    except DidymaError as e:
        if e.code != "not-finite":
            raise
        return
    for name, _ in every.spoilt:
        level.find(name, "value", "a NaN passes where finite numbers are demanded")


@dataclass
class _Spoilt(AtRun):
    """Chooses among variants of which all but the first give NaN; or ``every`` one does.

    ``spoilt`` are the kernels, by the bucket of sizes, that gave a number before they were spoilt.
    On the clock ``now`` the first of the variants takes longest.
    """

    every: bool = False
    spoilt: set[tuple[str, Bucket]] = field(default_factory=set[tuple[str, Bucket]])
    now: float = 0.0

    def __post_init__(self) -> None:
        """Read the time off this object."""
        AtRun.__post_init__(self)
        self.clock = lambda: self.now

    def __call__(
        self,
        engine: Engine,
        kernels: Loaded,
        sizes: Mapping[str, int],
        outputs: Outputs,
        variants: Launches,
        stream: int = 0,
    ) -> None:
        """Launch as a chooser does, on kernels that are spoilt."""
        site = self.sites[variants[0][0]]
        own = {
            name: v.kernel
            for n, ((name, _), v) in enumerate(zip(variants, site.variants, strict=True))
            if n or self.every
        }
        at, first = bucket_of(site.loop, sizes), variants[0][0]

        def begun(name: str) -> None:
            self.now += 5.0 if name == first else 1.0

        def heard(name: str) -> None:
            self.spoilt.add((name, at))

        spoiling = _Spoiling(engine, kernels, own, begun, heard)
        super().__call__(engine, spoiling, sizes, outputs, variants, stream)


@dataclass(frozen=True, slots=True)
class _Spoiling:
    """Launches kernels, and writes NaN over the floats that some of them wrote.

    ``begun`` is called with the name of each that is launched, and ``heard`` with that of each that
    wrote a number there.
    """

    engine: Engine
    kernels: Loaded
    spoilt: Mapping[str, PrimFunc]
    begun: Callable[[str], None]
    heard: Callable[[str], None]

    def launch(
        self,
        kernel: str,
        buffers: Sequence[Any],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        """Run a kernel, and spoil what it wrote."""
        self.begun(kernel)
        self.kernels.launch(kernel, buffers, dims, stream, scalars)
        k = self.spoilt.get(kernel)
        for b, at in () if k is None else zip(k.params, buffers, strict=True):
            if k is None or b.name not in k.outputs or b.dtype not in _PLAIN:
                continue
            self.engine.join()
            wrote = self.engine.download(at, b.dtype, values(b.shape, dims))
            if np.all(np.isnan(wrote)):
                continue
            self.heard(k.name)
            nan = self.engine.upload(np.full_like(wrote, np.nan))
            self.engine.copy(at, nan)
            self.engine.free(nan)


def _clock(seed: int) -> Callable[[], float]:
    """Return a clock on which each run takes some time between 1 and 9 seconds."""
    chance, now = Random(seed), itertools.count()
    return lambda: 10.0 * next(now) + chance.uniform(0, 8)


def _seconds() -> Callable[[], float]:
    """Return a clock on which a second passes whenever it is asked."""
    now: Iterator[float] = itertools.count(0.0)
    return lambda: next(now)


def _shared(site: Site) -> Iterator[str]:
    """Yield what a pick must not be shared with, and is by the key of a function."""
    loop, env, options = site.loop, hints(site.loop), Options()
    usual = key_of(loop, "", env, options)
    others = {
        "another function": key_of(
            replace(loop, body=Block((loop.body, loop.body))), "", env, options
        ),
        "another target": key_of(loop, "another", env, options),
        "a compile with other options": key_of(loop, "", env, OTHER),
    }
    for d in loop.dims:
        if 2 * max(1, d.lo) < d.hi:
            few, many = ({**env, d.name: n} for n in (d.lo, d.hi))
            if key_of(loop, "", few, options) == key_of(loop, "", many, options):
                yield f"{d.name} = {d.lo} beside {d.hi}"
    for a in arguments(loop, env):
        layouts = {
            "another order of strides": replace(a, strides=a.strides[::-1]),
            "another offset": replace(a, offset=a.offset + 1),
            "another alignment": replace(a, alignment=1),
        }
        others |= {
            f"{how} of {a.name}": key_of(loop, "", env, options, {a.name: other})
            for how, other in layouts.items()
            if other != a
        }
    yield from (what for what, key in others.items() if key.digest == usual.digest)


def _taken(site: Site) -> Iterator[str]:
    """Yield which recorded choices are taken though they are not for a function at these sizes."""
    request = Request(site.function, site.loop, Options(), "host", "", hints(site.loop))
    last = site.variants[-1].choice
    try:
        Pinned({site.function: Entry(last, "the hash of another function")}).choose(request)
        yield "a recorded choice for another function is taken"
    except DidymaError:
        pass
    elsewhere = tuple((n, size + 1) for n, size in bucket_of(site.loop, hints(site.loop)))
    other = replace(last, points=())
    entry = Entry(last, function(site.loop), ((elsewhere, other),))
    if elsewhere and Pinned({site.function: entry}).choose(request) == other:
        yield "a recorded choice for other sizes is taken"
