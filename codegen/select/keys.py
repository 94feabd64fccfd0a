"""Keys: under which conditions a pick holds, as data and as a hash."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from didyma.codegen import plugins
from didyma.codegen.options import Options
from didyma.codegen.select.choice import digest
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import ALIGNMENT
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import DType

Bucket: TypeAlias = tuple[tuple[str, int], ...]  # the largest size of each dim, sorted

HINT = 1024  # what a symbolic size is taken to be where nothing else is said


@dataclass(frozen=True, slots=True)
class Argument:
    """How an argument of a function lies in memory.

    ``sizes`` and ``strides`` count elements, and ``offset`` the elements before the first one.  The
    first element is at a multiple of ``alignment`` bytes.
    """

    name: str
    dtype: DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    alignment: int = ALIGNMENT

    @staticmethod
    def contiguous(name: str, dtype: DType, sizes: tuple[int, ...]) -> Argument:
        """Return an argument in row-major order without gaps.

        >>> Argument.contiguous("x", DType.F32, (2, 3, 4)).strides
        (12, 4, 1)
        """
        strides = tuple(math.prod(sizes[n + 1 :]) for n in range(len(sizes)))
        return Argument(name, dtype, sizes, strides)


@dataclass(frozen=True, slots=True)
class Key:
    """Under which conditions a pick holds: two keys are equal only if one pick serves both.

    ``function`` is a hash of the loop program, and ``target`` what the pick was measured on.  Sizes
    of ``arguments`` that depend on symbolic dims are those at the ends of the ``bucket``, which
    gives the largest value of each dim that shares the pick.  ``options`` is a hash of the
    options and of the names of the parts that others register.
    """

    function: str
    target: str
    arguments: tuple[Argument, ...]
    bucket: tuple[tuple[str, int], ...]
    options: str

    @property
    def text(self) -> str:
        """All fields as JSON."""
        return json.dumps(self.record(), sort_keys=True)

    @property
    def digest(self) -> str:
        """A hash of all fields."""
        return digest(self.text)

    def record(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        rows = [asdict(a) | {"dtype": str(a.dtype)} for a in self.arguments]
        return {
            "function": self.function, "target": self.target, "arguments": rows,
            "bucket": dict(self.bucket), "options": self.options,
        }  # fmt: skip


def key_of(
    loop: PrimFunc,
    target: str,
    env: Mapping[str, int],
    options: Options,
    layouts: Mapping[str, Argument] | None = None,
) -> Key:
    """Return the key of a function at some sizes of its dims.

    Arguments lie in row-major order at aligned addresses, but those of ``layouts``.
    """
    sizes = bucket(loop, env)
    given = layouts or {}
    rows = tuple(given.get(a.name, a) for a in arguments(loop, sizes))
    return Key(function(loop), target, rows, tuple(sorted(sizes.items())), conditions(options))


def function(loop: PrimFunc) -> str:
    """Return a hash of a loop program; its name and those of its values in the graph are no part.

    The names of parameters are, since kernels print them.
    """
    return digest(show(replace(loop, name="f", attrs=())))


def conditions(options: Options) -> str:
    """Return a hash of what decides what kernels there are: options, and registered parts.

    A part that is registered competes with Didyma's own, so a pick holds only beside the same ones.
    """
    record = {k: v for k, v in options.record()["kernels"].items() if k not in _OTHER}
    if parts := plugins.of_groups(_PARTS):
        record["parts"] = parts
    return digest(json.dumps(record, sort_keys=True))


_PARTS = (plugins.CODEGENS, plugins.TEMPLATES, plugins.RECIPES, plugins.ROUTINES)


# Choices that launch kernels, or say what was picked and how.
_OTHER = frozenset({"streams", "choices", "variants", "force", "finite"})


def arguments(loop: PrimFunc, env: Mapping[str, int]) -> tuple[Argument, ...]:
    """Return the arguments of a function at some sizes, all in row-major order."""
    return tuple(
        Argument.contiguous(b.name, b.dtype, tuple(dims.values(b.shape, env))) for b in loop.params
    )


def bucket(loop: PrimFunc, env: Mapping[str, int]) -> dict[str, int]:
    """Return the largest size of each dim that shares picks with a size: the next power of two.

    It is never outside the dim's declared range.
    """
    return {d.name: _rounded(d, env[d.name]) for d in loop.dims}


def bucket_of(loop: PrimFunc, sizes: Mapping[str, int]) -> Bucket:
    """Return ``bucket`` as data that sorts; a dim without a size has its hint."""
    return tuple(sorted(bucket(loop, hints(loop, sizes)).items()))


def _rounded(d: DimVar, size: int) -> int:
    return min(d.hi, max(d.lo, 1 << max(0, size - 1).bit_length()))


def hints(loop: PrimFunc, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return a size for each dim: the one ``given``, or else the nearest to ``HINT`` in its range.

    >>> from didyma.refimpl.ir.loop import Block
    >>> f = PrimFunc("f", (), (), Block(()), (DimVar("n", 1, 8), DimVar("m", 1, 1 << 20)))
    >>> hints(f, {"n": 3})
    {'n': 3, 'm': 1024}
    """
    known = given or {}
    return {d.name: known.get(d.name, min(d.hi, max(d.lo, HINT))) for d in loop.dims}
