"""Judge what planners know of symbolic sizes: by their values at every binding of small ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, TypeAlias

import sympy

from didyma.codegen.memory.symbolic.certify import Sized, proportional
from didyma.codegen.memory.symbolic.ring import Ring
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.dims.polynomial import Poly

NAMES: tuple[str, ...] = ("n", "m", "k")
SIZES = 3  # of one ring
POWERS = 8  # of a symbol that sizes are proportional to, below
ALIGNMENTS = (1, 2, 3, 16)

Env: TypeAlias = Mapping[str, int]


def judged(r: Random) -> Iterator[str]:
    """Draw ranges and sizes; yield what a ring says of them that does not hold."""
    declared = [DimVar(n, low := r.randrange(3), low + r.choice((0, 1, 3, 5))) for n in NAMES]
    ring = Ring(declared, {n: n for n in NAMES})
    ranges = (range(v.lo, v.hi + 1) for v in declared)
    every = [dict(zip(NAMES, at, strict=True)) for at in product(*ranges)]
    n = dims.symbol(NAMES[0])
    factors: tuple[Dim, ...] = (1, 1, n, dims.mul(n, n))
    factor = r.choice(factors)
    sizes = [dims.mul(factor, _size(r, 2)) for _ in range(SIZES)]
    for d in sizes:
        p = ring.read(d)
        told = (*_valued(ring, p, d, every), *_growing(ring, p, d, every))
        told += (*_aligned(ring, p, d, every, r.choice(ALIGNMENTS)),)
        yield from (f"{dims.text(d)}, of {', '.join(map(str, declared))}: {x}" for x in told)
    polys = [ring.read(d) for d in sizes]
    for name in proportional(ring, [Sized(p, p, p) for p in polys]):
        if not _scales(name, sizes, every):
            text = ", ".join(map(dims.text, sizes))
            yield f"{text}: not all are proportional to one power of {name}"


def _size(r: Random, depth: int) -> Dim:
    """Return a size, of which parts may be negative."""
    if not depth or r.random() < 0.2:
        leaves: tuple[Dim, ...] = (*map(dims.symbol, NAMES), r.randint(1, 9))
        return r.choice(leaves)
    a, b = _size(r, depth - 1), _size(r, depth - 1)
    number = r.choice((2, 3, 4))
    match r.randrange(9):
        case 0 | 1:
            return dims.add(a, b)
        case 2 | 3:
            return dims.sub(dims.mul(a, b), dims.mul(number, b))
        case 4:
            return dims.mul(a, b)
        case 5:
            return dims.floordiv(a, number)
        case 6:
            return dims.maximum(a, b)
        case 7 if not isinstance(a, int):
            return dims.canonical(sympy.Mod(a, number))
        case _:
            return dims.minimum(a, dims.mul(number, b))


class _Met(int):
    """A number that notes how large, in either direction, whatever is computed of it becomes."""

    most: list[int]

    def __new__(cls, value: int, most: list[int]) -> _Met:
        """Note a number."""
        found = super().__new__(cls, value)
        found.most = most
        most.append(abs(value))
        return found

    def __add__(self, other: int) -> _Met:
        return _Met(int(self) + int(other), self.most)

    def __sub__(self, other: int) -> _Met:
        return _Met(int(self) - int(other), self.most)

    def __rsub__(self, other: int) -> _Met:
        return _Met(int(other) - int(self), self.most)

    def __mul__(self, other: int) -> _Met:
        return _Met(int(self) * int(other), self.most)

    def __neg__(self) -> _Met:
        return _Met(-int(self), self.most)

    def __floordiv__(self, other: int) -> _Met:
        return _Met(int(self) // int(other), self.most)

    def __mod__(self, other: int) -> _Met:
        return _Met(int(self) % int(other), self.most)

    __radd__, __rmul__ = __add__, __mul__


def _valued(ring: Ring, p: Poly, d: Dim, every: Sequence[Env]) -> Iterator[str]:
    """Yield where the source of a size has another value, or meets a number that it ought not."""
    code, most = compile(ring.source(p), "<size>", "eval"), ring.magnitude(p)
    least = ring.nonnegative(p)
    for env in every:
        met = list[int]()
        names: dict[str, Any] = {name: _Met(n, met) for name, n in env.items()}
        found, want = int(eval(code, names)), dims.evaluate(d, env)
        if found != want:
            yield f"{ring.source(p)} is {found}, not {want}, {env}"
        elif max(met) > max(most, *env.values()):
            yield f"{ring.source(p)} meets {max(met)}, and {most} is the most, {env}"
        elif least and want < 0:
            yield f"it is {want}, and proved not to be negative, {env}"
        else:
            continue
        return


def _growing(ring: Ring, p: Poly, d: Dim, every: Sequence[Env]) -> Iterator[str]:
    """Yield a symbol along which a size goes another way than is said."""
    ways = ring.directions(p)
    for name, env in product(NAMES, every):
        more = {**env, name: env[name] + 1}
        if more not in every:
            continue
        step, way = dims.evaluate(d, more) - dims.evaluate(d, env), ways.get(name)
        if step if way is None else step * way < 0:
            yield f"it changes by {step} where {name} grows, of direction {way}, {env}"
            return


def _aligned(ring: Ring, p: Poly, d: Dim, every: Sequence[Env], alignment: int) -> Iterator[str]:
    """Yield where a size that is aligned is not the least multiple from the size on."""
    source = ring.source(ring.aligned(p, alignment))
    code = compile(source, "<size>", "eval")
    for env in every:
        want = -(-dims.evaluate(d, env) // alignment) * alignment
        if (found := eval(code, dict(env))) != want:
            yield f"aligned to {alignment} it is {found}, not {want}, {env}"
            return


def _scales(name: str, sizes: Sequence[Dim], every: Sequence[Env]) -> bool:
    """Return whether twice a symbol is the same power of two times as much, for all sizes."""
    powers = set(range(POWERS))
    for env in every:
        twice = {**env, name: 2 * env[name]}
        if twice in every:
            pairs = [(dims.evaluate(d, env), dims.evaluate(d, twice)) for d in sizes]
            powers = {k for k in powers if all(a << k == b for a, b in pairs)}
    return bool(powers)
