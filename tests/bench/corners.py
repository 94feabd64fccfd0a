"""Corner values through every op, dtype and level, judged by ``didyma.oracle.stages``.

    python -m tests.bench.corners [--engines simt,host] [--only add,sum] [--docs]

For an elementwise op, operand ``i`` varies along axis ``i`` over the corner values of its dtype, so
that all meet all.  Folds join every pair and many triples of corner values; other ops get uses that
they themselves propose, filled with corner values.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import numpy as np

from didyma.codegen.options import Options
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import check
from didyma.fuzz.values import array, corners
from didyma.oracle import compare
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Attrs, Function, Module, Node, Param
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind, Op, Sample
from tests.bench.page import commit, put, table

USES = 4  # of an op that is neither elementwise nor a fold, a dtype
MOST = 4096  # elements of a drawn use
WIDE = 20  # corner values of each operand where three meet
FOLDS = {
    "sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax", "cumulative_sum",
    "cumulative_prod",
}  # fmt: skip


class Dice:
    """A chooser that throws dice."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def below(self, n: int) -> int:
        """Return a number in [0, n)."""
        return int(self.rng.integers(n))


@dataclass(frozen=True, slots=True)
class Use:
    """An op on operands."""

    op: Op
    dtype: DType
    operands: tuple[Array, ...]
    attrs: Attrs

    @property
    def module(self) -> Module:
        """The op alone."""
        types = [TensorType(DType.of(a), a.shape) for a in self.operands]
        params = tuple(Param(f"x{i}", t) for i, t in enumerate(types))
        out = self.op.infer(types, dict(self.attrs))
        n = Node(("y",), self.op.name, tuple(p.name for p in params), (out,), self.attrs)
        return Module((Function("main", params, (n,), ("y",)),))


def values(op: Op, dtype: DType) -> Array:
    """Corner values of a dtype, and an op's own."""
    known = corners(dtype)
    if not dtype.is_float:
        return known
    with np.errstate(all="ignore"):
        own = np.array(op.corners, np.float64).astype(np.float32).astype(dtype.numpy)
    return np.concatenate([known, own])


def elementwise(op: Op, dtype: DType) -> Iterator[Use]:
    """All corner values meet all."""
    arity = op.arity[0]
    dtypes = [DType.BOOL if op.name == "where" and i == 0 else dtype for i in range(arity)]
    operands: list[Array] = []
    for i, d in enumerate(dtypes):
        x = values(op, d)
        x = x[:: -(-x.size // WIDE)] if arity > 2 else x
        operands.append(x.reshape([-1 if j == i else 1 for j in range(arity)]))
    if not op.attrs:
        yield Use(op, dtype, tuple(operands), ())
        return
    for to in ALL:  # of the casts
        with suppress(DidymaError):
            op.infer([TensorType(dtype)], {"dtype": to})
            yield Use(op, dtype, tuple(operands), (("dtype", to),))


def folds(op: Op, dtype: DType) -> Iterator[Use]:
    """Every pair of corner values, and triples with each special value between."""
    x = values(op, dtype)
    pairs = np.stack(np.broadcast_arrays(x[:, None], x[None]), -1).reshape(-1, 2)
    few = x[:: max(1, x.size // 12)]
    threes = np.stack(np.meshgrid(few, few, few), -1).reshape(-1, 3)
    for terms in (pairs, threes):
        if op.name.startswith("arg"):
            yield Use(op, dtype, (terms,), freeze({"axis": 1, "keepdims": False}))
        elif op.name.startswith("cumulative"):
            named = {"axis": 1, "exclusive": False, "reverse": terms is threes}
            yield Use(op, dtype, (terms,), freeze(named))
        else:
            yield Use(op, dtype, (terms,), freeze({"axes": (1,), "keepdims": False}))


def products(op: Op, dtype: DType) -> Iterator[Use]:
    """Every pair of corner values multiplied, and added to a third."""
    x = values(op, dtype)
    one = np.ones_like(x)
    yield Use(op, dtype, (np.stack([x, one], 1), np.stack([x, one])), ())
    yield Use(op, dtype, (np.stack([x, x[::-1]], 1), np.stack([x, np.roll(x, 3)])), ())


def proposed(op: Op, dtype: DType, uses: int) -> Iterator[Use]:
    """Uses that the op proposes, filled with corner values."""
    found = 0
    for seed in range(60 * uses):
        if found == uses:
            return
        dice = Dice(seed)
        rank = dice.below(5)
        shape = tuple((2, 3, 1, 4, 5, 7)[dice.below(6)] for _ in range(rank))
        drawn = op.sample(dice, TensorType(dtype, shape))
        use = None if drawn is None else filled(op, dtype, drawn, seed)
        if use is not None:
            found += 1
            yield use


def filled(op: Op, dtype: DType, drawn: Sample, seed: int) -> Use | None:
    """A use with corner values, or None where it is too large."""
    attrs = dict(drawn.attrs)
    domains = op.apply(attrs).domains(drawn.operands)
    seeds = count(10 * seed + 8, 10)  # every tenth seed gives corner values
    operands: list[Array] = []
    for t, domain in zip(drawn.operands, domains, strict=True):
        shape = tuple(d for d in t.shape if isinstance(d, int))
        if len(shape) != t.rank or int(np.prod(shape)) > MOST:
            return None
        operands.append(array(next(seeds), t.dtype, shape, domain))
    return Use(op, dtype, tuple(operands), drawn.attrs)


def uses(op: Op, dtype: DType, drawn: int = USES) -> Iterator[Use]:
    """Uses of an op on a dtype; none where it does not take it."""
    if op.kind is Kind.ELEMENTWISE:
        if dtype in op.dtypes:
            yield from elementwise(op, dtype)
        return
    if op.name in FOLDS and dtype in op.dtypes:
        yield from folds(op, dtype)
    if op.name == "matmul" and dtype in op.dtypes:
        yield from products(op, dtype)
    yield from proposed(op, dtype, drawn)


@dataclass(slots=True)
class Row:
    """What became of the uses of one dtype."""

    ops: int = 0
    uses: int = 0
    checked: int = 0
    total: int = 0


def judge(use: Use, engines: Sequence[Engine], row: Row) -> list[str]:
    """Judge a use at every level; what is wrong with it."""
    report = check(use.module, use.operands, engines, Options())
    sums = compare.total(c for level in report.levels for c in level.comparisons)
    row.uses += 1
    row.checked += sums.checked
    row.total += sums.total
    attrs = dict(use.attrs)
    return [f"{use.op.name} {use.dtype} {attrs}: {f}" for f in report.findings[:1]]


def run(
    engines: Sequence[Engine], names: Sequence[str], dtypes: Sequence[DType], drawn: int = USES
) -> tuple[dict[DType, Row], list[str]]:
    """Judge all uses of ops on dtypes."""
    rows = {d: Row() for d in dtypes}
    wrong: list[str] = []
    for name in names:
        for d in dtypes:
            found = list(uses(OPS[name], d, drawn))
            rows[d].ops += bool(found)
            for use in found:
                wrong += judge(use, engines, rows[d])
    return rows, wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default="simt,host")
    parser.add_argument("--only", default="", help="names of ops, separated by commas")
    parser.add_argument("--docs", action="store_true", help="write docs/bars.md")
    args = parser.parse_args(argv)
    names = args.only.split(",") if args.only else sorted(OPS)
    engines = [engine(e) for e in args.engines.split(",")]
    began = time.perf_counter()
    rows, wrong = run(engines, names, ALL)
    seconds = time.perf_counter() - began
    print("\n".join(wrong))
    levels = f"graph, passes, loop, kernel, plan, program, {args.engines.replace(',', ', ')}"
    text = [
        f"`python -m tests.bench.corners --engines {args.engines}`, on `{commit()}`, in"
        f" {seconds:.0f} s; levels {levels}. {len(names)} ops, {len(wrong)} findings.",
        "",
        *table(
            ("operands", "ops", "uses", "elements judged", "checked share"),
            (
                (d, r.ops, r.uses, r.total, f"{r.checked / max(1, r.total):.5f}")
                for d, r in rows.items()
            ),
        ),
    ]
    print("\n".join(text))
    if args.docs:
        put("corners", text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
