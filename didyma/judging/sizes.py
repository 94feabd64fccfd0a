"""Sizes at which kernels go wrong: around tiles, warps and vectors; odd, one, zero and large."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from didyma import fitting
from didyma.judging import layouts
from didyma.judging.expressions import evaluate, names
from didyma.judging.task import Draw
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import Module

# A size of two warps and a rest, first; then one, zero, and both sides of warps and tiles.
_USUAL = (
    70, 1, 33, 0, 129, 3, 32, 257, 5, 64, 31, 2, 1000, 127, 7, 65, 128, 16, 255, 63, 4, 17, 513,
    8, 100, 15, 256, 1025, 9, 1024, 6, 48, 96, 192, 384, 512, 768, 2048,
)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.])(\d{1,4})(?![\w.])")
_FEW = (2, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025)
_EARLY = 3  # so that each of a few symbols has the value in one of the first rounds
_TRIES = 64
_ALONE = 4  # times as much as others may a round cost in which one size alone is large
_NEEDED = 16  # times as much at sizes that were chosen, and at all if else there are few
_TOO_FEW = 4  # choices of sizes
_FAR = 4096  # how far beyond the least size values that fulfil conditions are sought


def tiles(text: str, block: Sequence[int]) -> tuple[int, ...]:
    """Return numbers of a kernel's text that may be sizes of tiles, and its numbers of threads.

    >>> tiles("float s[48]; k += 128", (32, 1, 1))
    (32, 48, 128)
    """
    found = {int(n) for n in _NUMBER.findall(text)} | set(block)
    return tuple(sorted(n for n in found if 8 <= n <= 2048))


def candidates(v: DimVar, near: Sequence[int], draw: Draw) -> list[int]:
    """Return values of one size, the most telling first."""
    if v.name in draw.sizes:
        return list(draw.sizes[v.name])
    around = [m for t in near for m in (t + 1, t - 1, t, 2 * t + 1)]
    around.insert(_EARLY, 2 * max(near, default=0) + 1)  # what goes from a tile to the next but one
    mixed = [n for pair in zip(_USUAL, around, strict=False) for n in pair]
    row = (*mixed, *_USUAL, *around, v.lo, v.lo + 1, v.hi)
    return [n for n in dict.fromkeys(row) if v.lo <= n <= v.hi]


def bindings(m: Module, near: Sequence[int], draw: Draw) -> list[Mapping[str, int]]:
    """Return the sizes of each round: every symbol goes through its values, each in its own order.

    Sizes that break a condition of ``draw.where``, or at which a round has too many elements, are
    not drawn; it may have more where else there are few sizes.  A specification without symbols has
    one choice.  DidymaError ``bad-option`` where none is left.
    """
    inputs = control.input_symbols(m)
    free = [v for v in m.dims if v.name in inputs]
    if strange := [n for n in draw.sizes if n not in inputs]:
        known = ", ".join(v.name for v in free) or "none: no input has a symbolic size"
        raise DidymaError("bad-option", f"--size {strange[0]}", got=strange[0], want=known)
    for v in free:
        dims.check_ranges({v.name: min(draw.sizes.get(v.name, (v.lo,)))}, m.dims)
        dims.check_ranges({v.name: max(draw.sizes.get(v.name, (v.lo,)))}, m.dims)
    found = list(_drawn(m, free, near, draw))
    if len(found) < _TOO_FEW and not draw.where:  # for a specification that computes much
        found = list(_drawn(m, free, near, replace(draw, most=_NEEDED * draw.most))) or found
    if not found:
        raise DidymaError(
            "bad-option", f"--where {' and '.join(draw.where)}" if draw.where else "sizes",
            got=f"no sizes of {', '.join(v.name for v in free) or 'a specification without any'}",
            want=f"sizes at which a round has at most {draw.most} elements",
            help="--size NAME=N,N chooses them",
        )  # fmt: skip
    return [found[k % len(found)] for k in range(draw.rounds)]


def _drawn(
    m: Module, free: Sequence[DimVar], near: Sequence[int], draw: Draw
) -> Iterator[Mapping[str, int]]:
    rng = np.random.default_rng(draw.seed)
    rows = {v.name: _allowed(v, candidates(v, near, draw), draw) for v in free}
    seen, fitted = set[tuple[int, ...]](), set[tuple[int, ...]]()
    for k in range(draw.rounds * (_TRIES if free else 1)):
        env = {
            name: row[(k + i * 3) % len(row) if k < len(row) else int(rng.integers(len(row)))]
            for i, (name, row) in enumerate(rows.items())
            if row
        }
        if (key := tuple(env.values())) in seen or len(env) < len(free):
            continue
        seen.add(key)
        kept = free[k // len(free) % len(free)].name if free else ""
        smaller = _fitted(m, env, rows, draw, kept)
        if smaller is not None and (key := tuple(smaller.values())) not in fitted:
            fitted.add(key)
            yield smaller
        if len(seen) >= 4 * draw.rounds:
            return


def _allowed(v: DimVar, row: Sequence[int], draw: Draw) -> list[int]:
    """Return the values of a size that fulfil the conditions on it alone, or some small ones."""
    alone = [w for w in draw.where if not layouts.asks(w) and names(w) == {v.name}]

    def holds(n: int) -> bool:
        return all(evaluate(w, {v.name: n}, "--where") for w in alone)

    few = range(v.lo, min(v.hi or _FAR, v.lo + _FAR) + 1)
    return [n for n in row if holds(n)] or [n for n in few if holds(n)]


def below(
    m: Module, env: Mapping[str, int], name: str, near: Sequence[int], draw: Draw
) -> list[int]:
    """Return some values of a size below its own that fulfil all conditions, the least first.

    They are a few, about twice as large each as the one before, and just above usual tiles.
    """
    v = next(v for v in m.dims if v.name == name)
    row = [
        n for n in sorted({*_allowed(v, candidates(v, near, draw), draw)})
        if 0 < n < env[name] and _holds({**env, name: n}, draw)
    ]  # fmt: skip
    return [*dict.fromkeys(n for k in _FEW for n in [n for n in row if n >= k][:1])]


def _holds(env: Mapping[str, int], draw: Draw) -> bool:
    return all(evaluate(w, env, "--where") for w in draw.where if not layouts.asks(w))


def _fitted(
    m: Module, env: Mapping[str, int], rows: Mapping[str, Sequence[int]], draw: Draw, kept: str
) -> Mapping[str, int] | None:
    """Return sizes at which a round is small enough; None where none is.

    The largest give way, and the one that is ``kept`` after all others: else no round would have
    more than a tile of a size of which the cost is a power.  Alone, it may cost more, and so may
    sizes that the user chose, which give way last.
    """
    env = dict(env)
    for _ in range(_TRIES):
        less = {n: max((v for v in rows[n] if 0 < v < env[n]), default=0) for n in env}
        alone = len(env) > 1 and not any(v for n, v in less.items() if n != kept)
        chosen = bool(draw.sizes) and not any(v for n, v in less.items() if n not in draw.sizes)
        more = _NEEDED if chosen else _ALONE if alone else 1
        if not env or cost(m, env) <= draw.most * more:
            return env if _holds(env, draw) else None
        name = max(
            (n for n in env if less[n]),
            key=lambda n: (n not in draw.sizes, n != kept, env[n]),
            default="",
        )
        if not name:
            return None
        env[name] = less[name]
    return None


def cost(m: Module, env: Mapping[str, int]) -> int:
    """Return the elements of a round, and the terms of products as far as sizes tell."""
    inputs = sum(dims.evaluate(p.type.numel, env) for p in m.entry.params)
    terms = 1
    for n in env.values():
        terms *= max(n, 1)
    return max(inputs + fitting.elements(m, env), terms // 8)
