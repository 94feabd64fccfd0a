"""Values of sizes under a binding of their symbols, and the binding that shapes of inputs give."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import sympy

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims.expression import Dim, DimVar, free, symbol, text


def _floor(x: Sequence[Any]) -> Any:
    return math.floor(x[0])


def _ceil(x: Sequence[Any]) -> Any:
    return math.ceil(x[0])


# What the parts of a size, as numbers, yield; whether they are ints or fractions of any kind.
FOLDS: Mapping[Any, Callable[[Sequence[Any]], Any]] = {
    sympy.Add: sum,
    sympy.Mul: math.prod,
    sympy.Max: max,
    sympy.Min: min,
    sympy.floor: _floor,
    sympy.ceiling: _ceil,
}


def evaluate(d: Dim, env: Mapping[str, int]) -> int:
    """Return the value of a size under a binding of its symbols.

    Raises DidymaError ``unbound-dim`` if a symbol has no value, ``fractional-dim`` if the value is
    no integer and ``bad-dim`` for an operation that sizes do not have.

    >>> evaluate(2 * symbol("n") + 1, {"n": 4})
    9
    """
    if isinstance(d, int):
        return d
    value = _rational(d)(env)
    if type(value) is int:
        return value
    if value.denominator != 1:
        raise DidymaError("fractional-dim", text(d), got=str(value), want="an integer size")
    return int(value)


def values(shape: Iterable[Dim], env: Mapping[str, int]) -> tuple[int, ...]:
    """Return the values of several sizes under a binding of their symbols."""
    return tuple(evaluate(d, env) for d in shape)


@lru_cache(maxsize=4096)
def _rational(e: Any) -> Callable[[Mapping[str, int]], Any]:
    """Return what computes an expression, whose parts are looked at once and not at each value."""
    if e.is_Symbol:
        return partial(_bound, e.name)
    if e.is_Rational:
        number = e.p if e.is_Integer else Fraction(e.p, e.q)
        return lambda env: number
    args = [_rational(a) for a in e.args]
    if fold := FOLDS.get(type(e)):
        return lambda env: fold([a(env) for a in args])
    if isinstance(e, sympy.Mod):
        return lambda env: args[0](env) % args[1](env)
    if isinstance(e, sympy.Pow):
        return lambda env: Fraction(args[0](env)) ** args[1](env)
    raise DidymaError("bad-dim", str(e), got=str(e.func), want="+ * // min max over symbols")


def _bound(name: str, env: Mapping[str, int]) -> int:
    if name not in env:
        raise DidymaError(
            "unbound-dim", name, got=f"values for {sorted(env)}", want=f"a value for {name}"
        )
    return env[name]


def check_ranges(env: Mapping[str, int], declared: Iterable[DimVar]) -> None:
    """Raise ``dim-out-of-range`` for a binding outside its declared range."""
    for v in declared:
        if v.name in env and not v.lo <= env[v.name] <= v.hi:
            raise DidymaError(
                "dim-out-of-range",
                v.name,
                got=f"{v.name} = {env[v.name]}",
                want=f"{v.lo} <= {v.name} <= {v.hi}",
                help="declare a wider range, or see that the size stays within it",
            )


def bind(
    shapes: Iterable[tuple[str, Sequence[Dim], Sequence[int]]], declared: Iterable[DimVar]
) -> dict[str, int]:
    """Return the values of symbols that make declared shapes the actual ones.

    ``shapes`` are triples of a name, the declared shape and the actual shape.

    A symbol is bound by the first dim that is the symbol itself, or failing that by one linear in
    it whose other symbols are bound, in whatever order they stand; every other dim is then checked.
    Errors: ``rank-mismatch``, ``dim-mismatch``, ``dim-out-of-range``, ``unbound-dim``.

    >>> n = symbol("n")
    >>> bind([("x", (2 * n + 1, 3), (9, 3))], [DimVar("n", 1, 8)])
    {'n': 4}
    """
    pairs: list[tuple[str, int, Dim, int]] = []  # but for those of equal ints
    for name, want, got in shapes:
        if len(want) != len(got):
            raise DidymaError(
                "rank-mismatch", name, got=f"shape {tuple(got)}", want=f"rank {len(want)}"
            )
        axes = enumerate(zip(want, got, strict=True))
        pairs += [(name, i, w, g) for i, (w, g) in axes if not isinstance(w, int) or w != g]
    env: dict[str, int] = {}
    for _, _, w, g in pairs:
        if isinstance(w, sympy.Symbol):
            env.setdefault(w.name, g)
    rest = [p for p in pairs if free(p[2])]
    while rest:  # a symbol that is bound may leave one in a dim before it
        unsolved = [p for p in rest if not _solve(p, env)]
        if len(unsolved) == len(rest):
            break
        rest = unsolved
    declared = list(declared)
    check_ranges(env, declared)
    for name, i, w, g in pairs:
        if missing := [s for s in free(w) if s not in env]:
            raise DidymaError(
                "unbound-dim", f"{name}, axis {i}",
                got=f"size {g} for {text(w)}, which does not tell {', '.join(missing)}",
                want=f"an axis of size {missing[0]}, or of a size linear in it",
            )  # fmt: skip
        if evaluate(w, env) != g:
            raise DidymaError(
                "dim-mismatch",
                f"{name}, axis {i}",
                got=f"size {g}",
                want=f"{text(w)} = {evaluate(w, env)}",
            )
    return {v.name: env[v.name] for v in declared if v.name in env}


def _solve(pair: tuple[str, int, Dim, int], env: dict[str, int]) -> bool:
    """Bind the one symbol that a dim leaves, if it is linear in it; return whether none is left."""
    name, i, w, g = pair
    names = [s for s in free(w) if s not in env]
    if len(names) != 1:
        return not names
    s = symbol(names[0])
    known = sympy.sympify(w).subs({symbol(k): v for k, v in env.items()})
    slope = known.diff(s)
    if not slope.is_Integer or slope == 0:
        return False
    value = (g - known.subs(s, 0)) / slope
    if not value.is_Integer:
        raise DidymaError(
            "dim-mismatch", f"{name}, axis {i}", got=f"size {g}",
            want=f"{text(w)} for a whole number {names[0]}",
        )  # fmt: skip
    env[names[0]] = int(value)
    return True
