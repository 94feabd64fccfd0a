"""What the ring sees, and what bars see, of faults in folds; and that no legal order differs.

    python -m tests.bench.ring [--trials 2000] [--orders 1000000] [--docs]

A fold of n terms is computed with one fault: a term dropped, counted twice, taken from the fold
beside it (misplaced), or, of a dot product, two factors swapped.  The faulty fold is added up in
float64 and rounded once, as the most precise implementation would, and judged by the bars of two
contracts, and by its payload.

``--orders`` is the number of folds that are computed in the ring in two legal ways each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars, ring
from didyma.refimpl.ops.bar_sums import dot_bar, sum_bar
from didyma.refimpl.ops.bars import Bar, Contract
from tests.bench.page import ROOT, put, table

PAGE = ROOT / "docs" / "ring.md"
SIZES = (1 << 6, 1 << 12, 1 << 16, 1 << 20)
FAULTS = ("dropped", "doubled", "misplaced", "swapped")
FOLDS = ("sum", "dot product")
WORK = 1 << 25  # terms at most that are drawn for one size
EACH = 8  # faults of each kind in one fold
BLOCK = 8


def depth(n: int) -> int:
    """Additions on the way through a tree."""
    return max(0, n - 1).bit_length()


CONTRACTS = {
    "bars, any order": Contract(),
    "bars, tree": Contract(chain=depth),
}
JUDGES = (*CONTRACTS, "ring")


@dataclass
class Seen:
    """How many faults were planted, and how many each judge saw; ``alarms`` of sound folds."""

    planted: int
    by: dict[str, int]
    alarms: int = 0


def bar_of(factors: Sequence[Array], contract: Contract) -> Bar:
    """Return the bar of a sum, or of a dot product, of exact terms."""
    if len(factors) == 1:
        return sum_bar(bars.exact(factors[0]), (0,), False, DType.F32, contract)
    products = factors[0].astype(np.float64) * factors[1].astype(np.float64)
    none, mass, whole = np.zeros(()), np.abs(products).sum(), np.asarray(False)
    return dot_bar(products.sum(), none, mass, len(products), DType.F32, contract, whole)


@dataclass(frozen=True)
class Factor:
    """Numbers, and their payloads."""

    values: Array
    payloads: Array

    @staticmethod
    def of(values: Array) -> Factor:
        return Factor(values, np.asarray(ring.embed(values)))

    def map(self, f: Callable[[Array], Array]) -> Factor:
        return Factor(f(self.values), f(self.payloads))


def spoiled(fault: str, factors: Sequence[Factor], rng: np.random.Generator) -> list[Factor]:
    """Return the factors of the terms of a fold with a fault."""
    i, j = rng.choice(len(factors[0].values), 2, replace=False)

    def swap(a: Array) -> Array:
        a = a.copy()
        a[[i, j]] = a[[j, i]]
        return a

    def drop(a: Array) -> Array:
        return np.delete(a, i)

    def double(a: Array) -> Array:
        return np.append(a, a[i])

    def misplace(f: Factor) -> Factor:
        other = Factor.of(rng.standard_normal(1).astype(np.float32))
        return Factor(*(np.append(drop(a), b) for a, b in zip(_pair(f), _pair(other), strict=True)))

    match fault:
        case "swapped":
            return [*factors[:-1], factors[-1].map(swap)]
        case "misplaced":
            return [misplace(f) for f in factors]
        case _:
            return [f.map(drop if fault == "dropped" else double) for f in factors]


def _pair(f: Factor) -> tuple[Array, Array]:
    return f.values, f.payloads


def fold(factors: Sequence[Factor]) -> tuple[np.float32, int]:
    """Return a fold in float64, rounded once, and its payload."""
    wide = factors[0].values.astype(np.float64)
    payload = factors[0].payloads
    for f in factors[1:]:
        wide = wide * f.values
        payload = ring.multiply(payload, f.payloads)
    return np.float32(wide.sum()), int(ring.sum_of(payload))


def planted(kind: str, n: int, trials: int) -> dict[str, Seen]:
    """Plant each fault in many folds, several times in each, and count who sees it."""
    rng = np.random.default_rng(n)
    faults = FAULTS[:3] if kind == "sum" else FAULTS
    found = {fault: Seen(0, dict.fromkeys(JUDGES, 0)) for fault in faults}
    for _ in range(-(-trials // EACH)):
        drawn = [rng.standard_normal(n).astype(np.float32) for _ in range(1 + (kind != "sum"))]
        factors = [Factor.of(a) for a in drawn]
        bounds = {name: bar_of(drawn, c) for name, c in CONTRACTS.items()}
        right, expected = fold(factors)
        for fault, seen in found.items():
            seen.alarms += sum(not _inside(b, right) for b in bounds.values())
            for _ in range(EACH):
                value, payload = fold(spoiled(fault, factors, rng))
                seen.planted += 1
                seen.by["ring"] += payload != expected
                for name, b in bounds.items():
                    seen.by[name] += not _inside(b, value)
    return found


def _inside(b: Bar, value: np.float32) -> bool:
    return bool(bars.judge(b, np.asarray(value), DType.F32).ok)


def narrow(n: int, trials: int) -> Seen:
    """Add up in bfloat16, which is a fault of precision, and count who sees it."""
    rng = np.random.default_rng(n)
    seen = Seen(0, dict.fromkeys(JUDGES, 0))
    for _ in range(trials):
        x = rng.standard_normal(n).astype(ml_dtypes.bfloat16)
        total = ml_dtypes.bfloat16(0)
        for term in x:
            total = ml_dtypes.bfloat16(total + term)
        seen.planted += 1
        for name, contract in CONTRACTS.items():
            b = bar_of([x.astype(np.float32)], contract)
            seen.by[name] += not _inside(b, np.float32(total))
    return seen  # the payloads are added up as they are: the ring does not round


# Legal orders ---------------------------------------------------------------------------------


def _shuffled(p: Array, rng: np.random.Generator) -> Array:
    """Return a sum over the last axis, term by term in an order of each row's own."""
    rows = rng.permuted(p, axis=-1)
    total = rows[:, 0]
    for k in range(1, rows.shape[1]):
        total = ring.add(rows[:, k], total)
    return np.asarray(total)


def _split(p: Array, rng: np.random.Generator) -> Array:
    """Return a sum over the last axis, in parts of random lengths."""
    terms: int = p.shape[1]
    cut = int(rng.integers(1, terms))
    return np.asarray(ring.add(ring.sum_of(p[:, cut:], 1), ring.sum_of(p[:, :cut], 1)))


def _softmax(p: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a weighted softmax in two passes, and online in blocks, each with its own maximum."""
    weights = rng.permuted(p, axis=-1)
    x = p.astype(np.float64)  # any numbers: which maximum is taken does not matter
    best = np.take_along_axis(p, np.argmax(x, 1)[:, None], 1)
    e = ring.exp(ring.subtract(p, best))
    want = ring.divide(ring.sum_of(ring.multiply(e, weights), 1), ring.sum_of(e, 1))
    top, total, mass = p[:, 0], np.zeros(len(p), np.uint64), np.zeros(len(p), np.uint64)
    for k in range(0, p.shape[1], BLOCK):
        part, w = p[:, k : k + BLOCK], weights[:, k : k + BLOCK]
        new = part[np.arange(len(p)), np.argmax(part.astype(np.float64), 1)]
        rescale = ring.exp(ring.subtract(top, new))
        e = ring.exp(ring.subtract(part, new[:, None]))
        total = ring.fma(total, rescale, ring.sum_of(ring.multiply(e, w), 1))
        mass = ring.fma(mass, rescale, ring.sum_of(e, 1))
        top = new
    return np.asarray(want), np.asarray(ring.divide(total, mass))


def _variance(p: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a sum of squares about the mean in two passes, and by Welford's updates."""
    n = ring.embed(p.shape[1])
    centred = ring.subtract(p, ring.divide(ring.sum_of(p, 1), n)[:, None])
    want = ring.sum_of(ring.multiply(centred, centred), 1)
    mean, squares = np.zeros(len(p), np.uint64), np.zeros(len(p), np.uint64)
    for k, column in enumerate(rng.permuted(p, axis=-1).T):
        off = ring.subtract(column, mean)
        mean = ring.add(mean, ring.divide(off, ring.embed(k + 1)))
        squares = ring.fma(off, ring.subtract(column, mean), squares)
    return np.asarray(want), np.asarray(squares)


def _sum(p: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    return np.asarray(ring.sum_of(p, 1)), _shuffled(p, rng)


def _dot(p: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    products = ring.multiply(p, ring.negate(p[:, ::-1]))
    return np.asarray(ring.sum_of(products, 1)), _split(products, rng)


FORMS: dict[str, Callable[[Array, np.random.Generator], tuple[Array, Array]]] = {
    "sum, in any order": _sum,
    "dot product, in two parts": _dot,
    "softmax, online": _softmax,
    "variance, by Welford": _variance,
}
TERMS = 32


def orders(count: int) -> dict[str, tuple[int, int, int]]:
    """Compute folds in two legal ways; return the numbers of all, unknown and different ones."""
    found: dict[str, tuple[int, int, int]] = {}
    for seed, (name, form) in enumerate(FORMS.items()):
        rng = np.random.default_rng(seed)
        folds = unknown = differ = 0
        while folds < count // len(FORMS):
            x = rng.standard_normal((2000, TERMS)) * 2.0 ** rng.integers(-20, 20, (2000, 1))
            want, got = form(ring.embed(x.astype(np.float32)), rng)
            known = (want != ring.UNKNOWN) & (got != ring.UNKNOWN)
            folds += len(x)
            unknown += int(np.count_nonzero(~known))
            differ += int(np.count_nonzero(known & (want != got)))
        found[name] = folds, unknown, differ
    return found


# The page ------------------------------------------------------------------------------------


def percent(seen: Seen, name: str) -> str:
    """Share of the planted faults that a judge saw."""
    return f"{100 * seen.by[name] / seen.planted:.2f} %".replace("100.00", "100").replace(".00", "")


def row(n: int, seen: Seen) -> tuple[object, ...]:
    """Cells of a row of the table."""
    return f"{n:,}", f"{seen.planted:,}", *(percent(seen, j) for j in JUDGES)


def lines(trials: int, count: int) -> Iterator[str]:
    """Tables of all that is measured."""
    yield f"`python -m tests.bench.ring --trials {trials} --orders {count}`:"
    yield ""
    body: list[tuple[object, ...]] = []
    missed = total = alarms = 0
    for kind in FOLDS:
        by_size = {n: planted(kind, n, min(trials, EACH * WORK // n)) for n in SIZES}
        for fault in by_size[SIZES[0]]:
            for n, found in by_size.items():
                body.append((f"{kind}, {fault}", *row(n, found[fault])))
                alarms += found[fault].alarms
                total += found[fault].planted
                missed += found[fault].planted - found[fault].by["ring"]
    body += [
        ("sum, in bfloat16", *row(n, narrow(n, min(trials, (1 << 20) // n)))) for n in SIZES[:2]
    ]
    yield from table(("fold and fault", "terms", "faults", *JUDGES), body)
    yield ""
    yield f"The ring missed {missed} of {total:,} terms in a wrong place or number."
    yield ""
    yield f"Of the sound folds, {alarms} lay outside their bars."
    yield ""
    ways = [(name, *map("{:,}".format, n)) for name, n in orders(count).items()]
    yield from table(("two legal ways", "folds", "unknown", "differences"), ways)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 if two legal ways differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--docs", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    a = parser.parse_args(argv)
    with np.errstate(all="ignore"):
        found = list(lines(a.trials, a.orders))
    print("\n".join(found))
    if a.docs:
        put("tests.bench.ring", found, Path(PAGE))
    return int(any(not line.endswith(" 0 |") for line in found[-len(FORMS) :]))


if __name__ == "__main__":
    sys.exit(main())
