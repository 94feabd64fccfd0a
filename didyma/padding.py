"""Programs that are compiled for a few sizes of a dim, and run on inputs padded to the next one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.options import Options
from didyma.codegen.passes.padded import padded
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.externs import Implementation
from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array
from didyma.running import Executable, compile, ordered, require
from didyma.tracer.arrays import AnyArray, arguments
from didyma.tracer.tracing import Program

Buckets: TypeAlias = "float | Sequence[int]"  # the most that may be waste, or the sizes themselves
MOST = 4096  # buckets of a dim


@dataclass(frozen=True, slots=True, repr=False)
class Bucketed:
    """A program with a compile for each bucket of its sizes; call it with arrays.

    ``sizes`` are the buckets of each dim, increasing.  A bucket is compiled when a call needs it.
    """

    program: Program
    sizes: Mapping[str, tuple[int, ...]]
    make: Callable[[Program], Executable]
    made: dict[tuple[int, ...], tuple[Executable, tuple[Dim, ...]]] = field(
        default_factory=dict[tuple[int, ...], tuple[Executable, tuple[Dim, ...]]]
    )

    def __call__(self, /, *inputs: AnyArray, **named: AnyArray) -> Array | tuple[Array, ...]:
        """Run on arrays, by position or by the input's name: one result, or several as a tuple.

        Inputs are padded with zeros to the least bucket that holds them, and results are cut to
        their sizes; they are NumPy arrays.  An input that fills its bucket is not copied.

        Errors: as of ``Executable``; ``dim-out-of-range`` beyond the last bucket.
        """
        entry = self.program.module.entry
        arrays = arguments(entry, ordered(entry.params, inputs, named))
        if len(arrays) != len(entry.params):
            raise DidymaError(
                "input-count", f"@{entry.name}", got=counted(len(arrays), "input"),
                want=f"{len(entry.params)}",
            )  # fmt: skip
        rows = [(p.name, p.type.shape, a.shape) for p, a in zip(entry.params, arrays, strict=True)]
        env = dims.bind(rows, self.program.module.dims)
        run, given = self._bucket(self.bucket(env))
        wide = env | dict(zip(self.sizes, self.bucket(env), strict=True))
        shapes = [dims.values(p.type.shape, wide) for p in entry.params]
        filled = [_filled(a, s) for a, s in zip(arrays, shapes, strict=True)]
        out = run(*filled, *(np.array(dims.evaluate(d, env), np.int64) for d in given))
        found = out if isinstance(out, tuple) else (out,)
        types = entry.result_types()
        cut = [_cut(r, t.shape, env) for r, t in zip(found, types, strict=True)]
        return cut[0] if len(cut) == 1 else tuple(cut)

    def bucket(self, env: Mapping[str, int]) -> tuple[int, ...]:
        """Return the least buckets that hold sizes; ``dim-out-of-range`` beyond the last."""
        found: list[int] = []
        for name, sizes in self.sizes.items():
            holds = next((s for s in sizes if s >= env[name]), None)
            if holds is None:
                raise DidymaError(
                    "dim-out-of-range", f"{name} = {env[name]}", got=f"{env[name]}",
                    want=f"at most {sizes[-1]}, the last bucket",
                )  # fmt: skip
            found.append(holds)
        return tuple(found)

    @property
    def waste(self) -> Mapping[str, float]:
        """The largest share of a bucket of each dim that may be padding, for the dim's range."""
        ranges = {v.name: v for v in self.program.module.dims}
        return {name: _waste(sizes, ranges[name].lo) for name, sizes in self.sizes.items()}

    def executable(self, **sizes: int) -> Executable:
        """Return what runs inputs of some sizes: the program at their buckets.

        Its last inputs are sizes, where a fold over a padded axis needs them.
        """
        return self._bucket(self.bucket(sizes))[0]

    def _bucket(self, sizes: tuple[int, ...]) -> tuple[Executable, tuple[Dim, ...]]:
        found = self.made.get(sizes)
        if found is None:
            p = padded(self.program.module, dict(zip(self.sizes, sizes, strict=True)))
            made = self.make(Program(p.module, None, self.program.kernels))
            found = self.made.setdefault(sizes, (made, p.given))
        return found

    def __repr__(self) -> str:
        rows = [
            f"  {name:<8} {len(sizes)} from {sizes[0]} to {sizes[-1]}, at most"
            f" {self.waste[name]:.0%} padding"
            for name, sizes in self.sizes.items()
        ]
        return "\n".join([f"Bucketed {self.program.module.entry.name}", *rows])


def bucketed(
    program: Program,
    buckets: Mapping[str, Buckets],
    *,
    engine: str | Engine = "host",
    options: Options | None = None,
    externs: Mapping[str, Implementation] | None = None,
    choose: Any = "heuristic",
) -> Bucketed:
    """Compile a program for a few sizes of some dims, and pad inputs to the next of them.

    ``buckets`` gives for each dim the sizes to compile for, or the largest share of a bucket that
    may be padding, such as 0.25: buckets then grow by at most a third each, so that there are few.
    Kernels and memory plans of a bucket are those of fixed sizes, and calls of many sizes are
    replayed by few tapes or CUDA graphs.  Folds over a padded axis do not see what is padded:
    their results are inside the program's error bars, and what else a program computes is as it
    was to the last bit.  The rest of the arguments is as of ``dd.compile``.

    Errors: those of ``dd.compile``; ``bad-bucket`` for a dim that no input has, or for sizes that
    are none; ``not-padded`` for a program whose results padding would change.

    >>> import numpy as np
    >>> import didyma as dd
    >>> n = dd.dim("n", 1, 100)
    >>> @dd.trace
    ... def f(x: dd.f32[n, 3]) -> dd.f32[n, 3]:
    ...     return dd.softmax(x, axis=0)
    >>> run = dd.bucketed(f, {"n": 0.5})
    >>> run.sizes["n"]
    (2, 6, 14, 30, 62, 100)
    >>> run
    Bucketed f
      n        6 from 2 to 100, at most 50% padding
    >>> bool(np.all(run(np.zeros((4, 3), np.float32)) == 0.25))
    True
    """
    m = require(program, "dd.bucketed").module
    sizes = chosen(m, buckets)

    def make(p: Program) -> Executable:
        return compile(p, engine=engine, options=options, externs=externs, choose=choose)

    found = Bucketed(program, sizes, make)
    padded(m, {name: row[0] for name, row in sizes.items()})  # refused here rather than by a call
    return found


def chosen(m: Module, buckets: Mapping[str, Buckets]) -> dict[str, tuple[int, ...]]:
    """Return the buckets of each dim, increasing; ``bad-bucket``."""
    inputs = control.input_symbols(m)
    known = {v.name: v for v in m.dims if v.name in inputs}
    for name in buckets:
        if name not in known:
            raise DidymaError(
                "bad-bucket", "buckets", got=repr(name), want=f"one of {', '.join(known) or 'none'}"
            )
    return {name: _sizes(known[name], wish) for name, wish in buckets.items()}


def _sizes(v: DimVar, wish: Buckets) -> tuple[int, ...]:
    """Return the buckets of a dim, increasing; ``bad-bucket``."""
    if isinstance(wish, float) and 0 <= wish < 1:
        grown = tuple(itertools.islice(_growing(v, wish), MOST + 1))
        if len(grown) > MOST:
            raise DidymaError(
                "bad-bucket", f"buckets of {v.name}", got=f"more than {MOST} buckets for {wish}",
                want=f"at most {MOST} from {v.lo} to {v.hi}",
                help="allow more padding, or declare the dim with a narrower range",
            )  # fmt: skip
        return grown
    sizes = tuple[Any, ...]() if isinstance(wish, (float, int, str)) else tuple(wish)
    whole = all(isinstance(s, int) and v.lo <= s <= v.hi for s in sizes)
    if not sizes or not whole or list(sizes) != sorted({*sizes}):
        raise DidymaError(
            "bad-bucket", f"buckets of {v.name}", got=repr(wish),
            want=f"a share from 0 to below 1, or increasing sizes from {v.lo} to {v.hi}",
        )  # fmt: skip
    return sizes


def _growing(v: DimVar, waste: float) -> Iterator[int]:
    """Yield the fewest sizes of which at most a share is padding, whatever they hold."""
    size = v.lo - 1
    while size < v.hi:
        least = size + 1
        size = min(v.hi, max(least, int(least / (1 - waste))))
        yield size


def _waste(sizes: Sequence[int], lo: int) -> float:
    """Return the largest share of a bucket that is padding, at any size from ``lo`` on."""
    least = (lo, *(s + 1 for s in sizes[:-1]))
    return max((s - n) / s if s else 0.0 for n, s in zip(least, sizes, strict=True))


def _filled(a: Array, shape: tuple[int, ...]) -> Array:
    """Return an array with zeros behind its elements; itself where it has the shape already."""
    if a.shape == shape:
        return a
    out = np.zeros(shape, a.dtype)
    out[tuple(map(slice, a.shape))] = a
    return out


def _cut(a: Array, shape: Sequence[Dim], env: Mapping[str, int]) -> Array:
    """Return the first elements of each axis, in row-major order; sizes from data stay."""
    known = [dims.evaluate(d, env) if {*dims.free(d)} <= env.keys() else None for d in shape]
    return np.ascontiguousarray(a[tuple(map(slice, known))]) if a.ndim else a


__all__ = ["Bucketed", "bucketed"]
