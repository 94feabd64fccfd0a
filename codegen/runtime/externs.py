"""External functions on engines: run by a given implementation, or else by their bodies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen import plugins
from didyma.codegen.guards import guarded, named
from didyma.codegen.routines import Routine
from didyma.codegen.runtime import carried
from didyma.codegen.runtime.carried import Carried, Carries
from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.didyma_runtime.externs import listed
from didyma.codegen.runtime.engine import Engine, reader
from didyma.codegen.runtime.engine import Routine as Call
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.interp.scalar_ring import value_of
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.external import External, alone, externals
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.types import Array, DType, nbytes_of

# What a user gives: from the arrays of the inputs to that of the result, or a sequence of several.
# Equal inputs must give equal bits.
Implementation: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class InPlace:
    """An implementation that writes its results: ``call(*inputs, out=y)``, a tuple for several.

    The arrays that it gets hold bytes that mean nothing.
    """

    call: Callable[..., Any]

    def __call__(
        self, *inputs: Any, types: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
    ) -> tuple[Array, ...]:
        """Return results of these dtypes and shapes; what the call returns is ignored."""
        made = tuple(_unwritten(dtype, shape) for dtype, shape in types)
        self.call(*inputs, out=made[0] if len(made) == 1 else made)
        return made


@dataclass(frozen=True, slots=True)
class OnDevice:
    """An implementation that engine ``cuda`` runs where arrays lie: ``call(function, ys, xs)``.

    It is given the function, and its results and operands as ``DeviceArray``; its work goes on
    CUDA's default stream.  On other engines the function's body is run in its place.
    """

    call: Callable[[Function, Sequence[DeviceArray], Sequence[DeviceArray]], None]

    def __call__(self, f: Function, ys: Sequence[DeviceArray], xs: Sequence[DeviceArray]) -> None:
        """Write the results, or start the work that will."""
        self.call(f, ys, xs)


def on_device(
    buffers: Sequence[Any], types: Sequence[tuple[DType, tuple[int, ...]]]
) -> list[DeviceArray]:
    """Return buffers of engine ``cuda`` as arrays of these dtypes and shapes."""
    return [DeviceArray(b.address, *t, 0, b) for b, t in zip(buffers, types, strict=True)]


def _unwritten(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    count = math.prod(shape) * dtype.itemsize
    return np.full(count, POISON, np.uint8).view(dtype).reshape(shape)


DEVICE = "cuda"  # the engine that runs an ``OnDevice``
POISON = 0xA5  # each byte of an array that nobody has written


@dataclass(frozen=True, slots=True)
class Bound:
    """An external function of a module, with its implementation if one was given."""

    module: Module
    external: External
    implementation: Implementation | None = None

    @property
    def runs_anywhere(self) -> bool:
        """Whether an implementation was given, and not for one engine alone."""
        return not isinstance(self.implementation, (OnDevice, type(None)))

    @property
    def carried(self) -> Carried | None:
        """The implementation, if it can go along with the program."""
        return self.implementation if isinstance(self.implementation, Carried) else None

    def __call__(self, inputs: Sequence[Array], sizes: Mapping[str, int]) -> tuple[Array, ...]:
        """Return the results.

        DidymaError ``failed-part`` where an implementation raises, ``extern-result`` where it
        returns something else.
        """
        if self.implementation is None or isinstance(self.implementation, OnDevice):
            env = {s: sizes[s] for s in self.external.sizes}
            return tuple(graph.run(self.module, inputs, env))
        f = self.external.function
        want = [(t.dtype.numpy, dims.values(t.shape, sizes)) for t in f.result_types()]
        with named(f"extern {f.name}", "a routine that raises nothing"):
            if isinstance(self.implementation, Carried):
                return carried.results(self.implementation, inputs, want)
            if isinstance(self.implementation, InPlace):
                return self.implementation(*inputs, types=want)
            return results(self.implementation(*inputs), want, f.name)

    def routine(
        self,
        engine: Engine,
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        attrs: Mapping[str, Any],
    ) -> None:
        """Run on buffers of an engine: download the inputs, upload the results."""
        f = self.external.function
        down = reader(engine).download
        sizes = dict(zip(self.external.sizes, attrs.get("sizes", ()), strict=True))
        if isinstance(self.implementation, OnDevice) and engine.name == DEVICE:
            ys, xs = (
                [(t.dtype, dims.values(t.shape, sizes)) for t in types]
                for types in (f.result_types(), [p.type for p in f.params])
            )
            self.implementation(f, on_device(outputs, ys), on_device(inputs, xs))
            return
        arrays = [
            value_of(down(b, p.type.dtype, dims.values(p.type.shape, sizes)))
            for b, p in zip(inputs, f.params, strict=True)
        ]
        for target, result in zip(outputs, self(arrays, sizes), strict=True):
            source = engine.upload(result)
            engine.copy(target, source)
            engine.free(source)

    def on(
        self, engine: Engine, inputs: Sequence[Array], sizes: Mapping[str, int]
    ) -> tuple[Array, ...]:
        """Return the results of a call on an engine, if that runs it where arrays lie."""
        if not isinstance(self.implementation, OnDevice) or engine.name != DEVICE:
            return self(inputs, sizes)
        want = [
            (t.dtype, dims.values(t.shape, sizes)) for t in self.external.function.result_types()
        ]
        given = [engine.upload(a) for a in inputs]
        made = [engine.allocate(nbytes_of(*t)) for t in want]
        self.routine(engine, made, given, {"sizes": [sizes[s] for s in self.external.sizes]})
        out = tuple(reader(engine).download(b, *t) for b, t in zip(made, want, strict=True))
        for b in (*given, *made):
            engine.free(b)
        return out


def results(
    made: Any, want: Sequence[tuple[np.dtype[Any], tuple[int, ...]]], name: str
) -> tuple[Array, ...]:
    """Return what an implementation of a function made as arrays of these dtypes and shapes.

    DidymaError ``extern-result`` where they are others.
    """
    each: list[Any] = [*made] if isinstance(made, (tuple, list)) else [made]
    found = tuple(np.asarray(a) for a in each)
    got = [(a.dtype, a.shape) for a in found]
    if got != want:
        raise DidymaError(
            "extern-result", f"@{name}", got=listed(got), want=listed(want),
            help="an implementation returns one array for each result of the function",
        )  # fmt: skip
    return found


def bound(
    m: Module, implementations: Mapping[str, Implementation] | None = None
) -> dict[str, Bound]:
    """Return the external functions of a module by name.

    An implementation is given by the name of a function, or of a compiler for all its functions;
    more are registered in the groups ``didyma.externs`` and ``didyma.routines``.
    Errors: ``unknown-extern`` for a name that is neither, ``bad-part``, ``failed-part``.
    """
    given: dict[str, Any] = dict(implementations or {})
    found = externals(m)
    if not found and not given:
        return {}
    names = {name for x in found.values() for name in (x.function.name, x.compiler)}
    if strange := sorted(given.keys() - names):
        raise DidymaError(
            "unknown-extern", strange[0], got=strange[0],
            want=f"one of: {', '.join(sorted(names)) or 'none, as nothing is marked Compiler'}",
            help="name a function marked Compiler, or the compiler that it is marked with",
        )  # fmt: skip
    given = registered(names) | given
    return {
        name: Bound(alone(m, name), x, _made(given.get(name, given.get(x.compiler)), x))
        for name, x in found.items()
    }


def _made(given: Any, x: External) -> Implementation | None:
    """Return the implementation of a function; a generator makes it.

    Errors: ``failed-part`` where the generator raises or returns something else; ``bad-part`` for
    an object that is neither an implementation nor a generator, and for a generator's class.
    """
    kind = given.__name__ if isinstance(given, type) else type(given).__name__
    if isinstance(given, type) and hasattr(given, "carried"):
        raise _bad(x, f"the class {kind}", f"give {kind}(), an instance")
    if given is not None and not callable(given) and not isinstance(given, Carries):
        raise _bad(x, f"a {kind}, which has no method carried", "")
    if isinstance(given, Carries):
        make = guarded(f"extern {x.compiler}", given.carried, "a Carried", is_carried)
        found: Implementation = make(x)
        return found
    implementation: Implementation | None = given
    return implementation


def _bad(x: External, got: str, help: str) -> DidymaError:
    want = "a function of arrays, a dd.Carried, or an object whose method carried makes one"
    return DidymaError("bad-part", f"extern {x.compiler}", got=got, want=want, help=help)


def is_carried(x: object) -> bool:
    """Return whether something is an implementation that goes along with a program."""
    return isinstance(x, Carried)


def routines(externs: Mapping[str, Bound]) -> dict[str, Call]:
    """Return what a wrapper's ``call`` takes as ``externs``."""
    return {x.external.routine: x.routine for x in externs.values()}


def registered(names: set[str]) -> dict[str, Any]:
    """Return the implementations, and what makes some, that are registered under some names."""
    known = plugins.of_groups((plugins.EXTERNS, plugins.ROUTINES))
    externs, routines = (names & {*known.get(g, ())} for g in (plugins.EXTERNS, plugins.ROUTINES))
    found: dict[str, Any] = {n: plugins.value(plugins.EXTERNS, n) for n in sorted(externs)}
    found |= {n: plugins.part(plugins.ROUTINES, n, Routine).call for n in sorted(routines)}
    return {name: x for name, x in found.items() if x is not None}
