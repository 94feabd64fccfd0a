"""Choose among the variants of a dispatch when it first runs at some sizes, by timing them.

Each variant is run on clones of the buffers that it writes, never on those of the program.  What is
picked holds for a bucket of sizes, and is kept in the cache for other processes.  After the
multi-kernels of TorchInductor (``torch/_inductor/codegen/multi_kernel.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.options import Options
from didyma.codegen.runtime.engine import Engine, KernelFault, Loaded, reader
from didyma.codegen.select.cache import Cache, Pick
from didyma.codegen.select.choice import Choice, digest
from didyma.codegen.select.keys import Bucket, Key, bucket_of, hints, key_of
from didyma.codegen.select.race import Clock, decide
from didyma.codegen.select.variants import Variant
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.loop import Buffer, PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array

Launches: TypeAlias = Sequence[tuple[str, Sequence[Any]]]  # kernels by name, with their buffers
Outputs: TypeAlias = Sequence[tuple[Any, int]]  # buffers that are written, with their bytes

SECONDS = 0.1  # for the timing of one dispatch, of which some rounds are timed in any case


@dataclass(frozen=True, slots=True)
class Site:
    """The variants of one loop nest of a function; ``loop`` is the function before scheduling."""

    loop: PrimFunc
    variants: tuple[Variant, ...]

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.variants[0].function

    @property
    def nest(self) -> int:
        """The number of the loop nest."""
        return self.variants[0].nest

    def key(self, target: str, sizes: Mapping[str, int], options: Options) -> Key:
        """Return under which conditions a pick holds: those of the function, and the variants."""
        key = key_of(self.loop, target, hints(self.loop, sizes), options)
        texts = digest(" ".join(v.digest for v in self.variants))
        return replace(key, function=f"{key.function}/{self.nest}/{texts}")

    def number(self, choice: Choice) -> int | None:
        """Return the number of the variant that a choice of the function names for this nest."""
        point = choice.points[self.nest] if self.nest < len(choice.points) else None
        return next((n for n, v in enumerate(self.variants) if v.point == point), None)


def sites(
    p: Program,
    text: KernelText,
    loops: Mapping[str, PrimFunc],
    variants: Mapping[str, tuple[Variant, ...]],
) -> dict[str, Site]:
    """Return the sites of a program, whose kernels are ``text``, by what the text calls the first.

    ``loops`` are the functions before scheduling, ``variants`` as of ``variants.several``.
    """
    names = {k.name: s.name for k, s in zip(p.kernels, text.kernels, strict=True)}
    each = ((names[name], row) for name, row in variants.items() if name in names)
    return {name: Site(loops[row[0].function], row) for name, row in each}


@dataclass(frozen=True, slots=True)
class Timing:
    """A variant that was tried in a bucket of sizes.

    ``seconds`` is the median of one run, and ``reason`` says why there is none.  ``speedup`` is the
    time of the first variant, which the model prefers, as a multiple of this one's.
    """

    function: str
    nest: int
    bucket: Bucket
    kernel: str
    choice: str
    seconds: float | None
    speedup: float | None
    picked: bool
    reason: str = ""


@dataclass
class AtRun:
    """Launches for each dispatch the variant picked for the present sizes; picks it if need be.

    ``sites`` are by the name of their first kernel in the text.  A pick is, in this order, what the
    option ``kernels.force`` says, what this object picked before, what was ``recorded`` by function
    and bucket, what the ``cache`` has, and else the fastest.  ``clock`` times variants, and
    ``wall`` says when ``seconds`` are over.  ``timings`` has a row for each variant that was tried.

    DidymaError ``unknown-variant`` where no variant is what is forced.
    """

    sites: Mapping[str, Site]
    options: Options
    target: str
    clock: Clock = time.perf_counter
    cache: Cache | None = None
    recorded: Mapping[tuple[str, Bucket], Choice] = field(
        default_factory=dict[tuple[str, Bucket], Choice]
    )
    seconds: float = SECONDS
    wall: Clock = time.monotonic
    timings: list[Timing] = field(default_factory=list[Timing])
    picks: dict[tuple[str, Bucket], int] = field(default_factory=dict[tuple[str, Bucket], int])

    def __post_init__(self) -> None:
        force = self.options.kernels.force
        if force and all(_forced(site, force) is None for site in self.sites.values()):
            known = {v.point.recipe: None for s in self.sites.values() for v in s.variants}
            want = f"a number, or one of {', '.join(known)}" if known else "nothing: none is chosen"
            raise DidymaError("unknown-variant", "kernels.force", got=force, want=want)

    def __call__(
        self,
        engine: Engine,
        kernels: Loaded,
        sizes: Mapping[str, int],
        outputs: Outputs,
        variants: Launches,
        stream: int = 0,
    ) -> None:
        """Launch the pick, as ``calls.numbered`` does.

        DidymaError ``not-finite`` with the option ``kernels.finite``, for a NaN or an infinity.
        """
        name = variants[0][0]
        site = self.sites[name]
        key = (name, bucket_of(site.loop, sizes))
        if key not in self.picks:
            trial = _Trial(engine, kernels, sizes, outputs, variants)
            self.picks[key] = self._pick(site, key[1], trial)
        number = self.picks[key]
        kernel, buffers = variants[number]
        kernels.launch(kernel, buffers, sizes, stream)
        if self.options.kernels.finite:
            _demand_finite(site.variants[number], engine, buffers, sizes)

    def _pick(self, site: Site, at: Bucket, trial: _Trial) -> int:
        number = _forced(site, self.options.kernels.force)
        if number is None and (choice := self.recorded.get((site.function, at))):
            number = site.number(choice)
        if number is None and self.cache is not None:
            number = self._cached(site, trial)
        return self._timed(site, at, trial) if number is None else number

    def _cached(self, site: Site, trial: _Trial) -> int | None:
        assert self.cache is not None
        found = self.cache.get(site.key(self.target, trial.sizes, self.options).digest)
        return None if found is None else site.number(Choice.parse(found.choice))

    def _timed(self, site: Site, at: Bucket, trial: _Trial) -> int:
        """Time the variants, and keep the pick: that of another process, if it was first."""
        with trial.cloned() as run:
            reasons = _reasons(site, run, trial)
            runs = {str(n): run(n) for n, why in enumerate(reasons) if not why}
            if "0" not in runs:
                return 0  # the program meets the fault of the model's choice, and reports it
            best, seconds = decide(
                runs, "0", self.clock, self.seconds, lambda name: trial.refill(), self.wall,
                trial.engine.join,
            )  # fmt: skip
        number = self._keep(site, trial, int(best), seconds)
        for n, v in enumerate(site.variants):
            spent = seconds.get(str(n))
            gain = seconds["0"] / spent if spent else None
            row = (site.function, site.nest, at, v.kernel.name, str(v.choice), spent, gain)
            self.timings.append(Timing(*row, picked=n == number, reason=reasons[n]))
        return number

    def _keep(self, site: Site, trial: _Trial, best: int, seconds: Mapping[str, float]) -> int:
        if self.cache is None:
            return best
        key, v = site.key(self.target, trial.sizes, self.options), site.variants[best]
        pick = Pick(
            key.digest, str(v.choice), v.digest, key.function, self.target, key.text,
            seconds[str(best)], seconds["0"],
        )  # fmt: skip
        try:
            kept = self.cache.add(pick)
        except DidymaError as e:
            if e.code != "unwritable":
                raise
            return best  # this process picks for itself
        number = site.number(Choice.parse(kept.choice))
        return best if number is None else number

    def choices(self) -> dict[str, dict[Bucket, Choice]]:
        """Return what was picked so far, by function and bucket, the latest last."""
        found: dict[str, dict[Bucket, Choice]] = {}
        for (name, at), number in self.picks.items():
            site = self.sites[name]
            v, row = site.variants[number], found.setdefault(site.function, {})
            points = row[at].points if at in row else v.choice.points
            row[at] = Choice((*points[: v.nest], v.point, *points[v.nest + 1 :]))
        return found


@dataclass
class _Trial:
    """A dispatch as it is about to run: its variants, their buffers, clones of what is written."""

    engine: Engine
    kernels: Loaded
    sizes: Mapping[str, int]
    outputs: Outputs
    variants: Launches
    _clones: list[Any] = field(default_factory=list[Any])

    @contextmanager
    def cloned(self) -> Generator[Callable[[int], Callable[[], None]]]:
        """Yield what makes the run of a variant, by its number, on clones of what it writes."""
        self.engine.join()
        try:
            for _, nbytes in self.outputs:
                self._clones.append(self.engine.allocate(nbytes))
            self.refill()
            yield self._run
        finally:
            self.engine.join()
            for clone in self._clones:
                self.engine.free(clone)

    def refill(self) -> None:
        """Copy to the clones what the buffers have, which a variant may read."""
        for (buffer, _), clone in zip(self.outputs, self._clones, strict=True):
            self.engine.copy(clone, buffer)

    def buffers(self, number: int) -> list[Any]:
        """Return the buffers of a variant, with clones in the place of those that it writes."""
        pairs = list(zip((b for b, _ in self.outputs), self._clones, strict=True))
        return [next((c for b, c in pairs if b is a), a) for a in self.variants[number][1]]

    def _run(self, number: int) -> Callable[[], None]:
        buffers = self.buffers(number)

        def run() -> None:
            self.kernels.launch(self.variants[number][0], buffers, self.sizes)

        return run


def _forced(site: Site, force: str) -> int | None:
    """Return the number of the variant that an option forces; None if it forces none of these."""
    if force.isdecimal():
        return int(force) % len(site.variants)
    each = enumerate(site.variants)
    return next((n for n, v in each if force in (v.point.recipe, v.kernel.name)), None)


def _reasons(site: Site, run: Callable[[int], Callable[[], None]], trial: _Trial) -> list[str]:
    """Return why each variant must not be picked, or an empty text, after one run of each.

    A variant is out if it fails, or has NaN or an infinity where the model's choice has none, or
    the other way round.
    """
    found: list[str] = []
    usual: list[Array] = []
    for number, v in enumerate(site.variants):
        trial.refill()
        try:
            run(number)()
            trial.engine.join()
        except (DidymaError, KernelFault) as e:
            found.append(" ".join(str(e).split()))
            continue
        special = [
            _special(a) for _, a in _floats(v, trial.engine, trial.buffers(number), trial.sizes)
        ]
        usual = usual or special
        same = all(np.array_equal(a, b) for a, b in zip(usual, special, strict=True))
        found.append("" if same else "NaN or infinity elsewhere than the model's choice")
    return found


def _floats(
    v: Variant, engine: Engine, buffers: Sequence[Any], sizes: Mapping[str, int]
) -> list[tuple[Buffer, Array]]:
    """Return the floats that a variant wrote, by the parameters of its kernel."""
    k = v.kernel
    pairs = [
        (b, a)
        for b, a in zip(k.params, buffers, strict=True)
        if b.name in k.outputs and b.dtype.is_float
    ]
    return [(b, reader(engine).download(a, b.dtype, dims.values(b.shape, sizes))) for b, a in pairs]


def _special(a: Array) -> Array:
    """Return 0 for each finite number, 1 for NaN, 2 and 3 for the infinities."""
    with np.errstate(invalid="ignore"):  # a NaN that signals
        wide = a.astype(np.float64)
    infinite = np.where(np.isinf(wide), np.where(wide > 0, 2, 3), 0)
    return np.where(np.isnan(wide), 1, infinite)


def _demand_finite(
    v: Variant, engine: Engine, buffers: Sequence[Any], sizes: Mapping[str, int]
) -> None:
    engine.join()
    for b, a in _floats(v, engine, buffers, sizes):
        if count := int(np.count_nonzero(_special(a))):
            raise DidymaError(
                "not-finite", f"{b.name} of {v.kernel.name}",
                got=f"{count} of {a.size} elements NaN or infinite", want="finite numbers",
                help="without the option kernels.finite they are results like others",
            )  # fmt: skip
