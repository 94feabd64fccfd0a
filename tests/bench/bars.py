"""Bars from both sides, on random kernels: correct implementations stay inside, faults do not.

    python -m tests.bench.bars [--kernels 200000] [--start 0] [--drops 2000] [--save FILE] [--docs]

Every kernel gets a contract, and four implementations drawn from what the contract allows
(``bed``).  Every value of each is judged.  Then one element of the result is spoiled, and the
bar should see it.  With ``--save`` a range of seeds that was run is not run again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from didyma.refimpl.interp import graph
from didyma.refimpl.ir.graph import Attr, Module
from didyma.refimpl.ir.types import FLOATS, Array, DType, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.bars import Bar, Contract
from tests.bench.bed import Implementation, lanes, stored, tree, ulp
from tests.bench.kernels import POOL, Kernel, draw
from tests.bench.page import Shards, put, table

SHARD = 2000
RUNS = 4  # implementations of each kernel
ULPS = (1.0, 2.0, 4.0)  # that a contract states of its intrinsics
WRONG = ("4 ulp", "NaN", "infinity", "sign of zero")


def depth(n: int) -> int:
    """Additions on the way through a tree."""
    return max(0, n - 1).bit_length()


def by_lanes(n: int) -> int:
    """Additions on the way through lanes, then a tree; of n terms or fewer."""

    def of(m: int) -> int:
        width = 1 << (max(0, (m - 1).bit_length()) // 2)
        return -(-m // width) - 1 + depth(width)

    return max([of(n), *(of(1 << k) for k in range(n.bit_length()))]) if n else 0


CHAINS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "any order": (
        bars.sequential,
        ("sequential", "reversed", "shuffled", "tree", "shuffled tree", "lanes", "wide"),
    ),
    "tree": (depth, ("tree", "shuffled tree", "wide")),
    "lanes": (by_lanes, ("lanes", "tree", "wide")),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What an implementation of a kernel promises, and may do."""

    contract: Contract
    orders: tuple[str, ...]
    jitter: bool
    keep: float


def terms(rng: np.random.Generator, kernel: Kernel) -> Terms:
    """Draw a contract."""
    chain, orders = CHAINS[str(rng.choice(("any order", "tree", "lanes"), p=(0.6, 0.2, 0.2)))]
    contract = Contract(
        chain,
        {"exp": float(rng.integers(1, 3)), "tanh_f32": 2.0} if rng.random() < 0.3 else {},
        default_ulp=float(rng.choice(ULPS, p=(0.3, 0.4, 0.3))),
        contraction=bool(rng.random() < 0.7),
    )
    small = any(t.dtype is not t.dtype.compute for t in kernel.function.types().values())
    keep = float(rng.choice((0.0, 0.5, 1.0), p=(0.7, 0.15, 0.15))) if small else 0.0
    return Terms(contract, orders, bool(rng.random() < 0.85), keep)


def implementation(rng: np.random.Generator, t: Terms) -> Implementation:
    """Draw a way to keep a contract."""
    order = t.orders[int(rng.integers(len(t.orders)))]
    fuse = t.contract.contraction and bool(rng.integers(2))
    return Implementation(rng, t.contract, order, fuse, t.jitter, t.keep)


@dataclass(slots=True)
class Tally:
    """Sums over kernels."""

    kernels: int = 0
    ops: int = 0
    elements: int = 0
    undecided: int = 0
    alarms: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    used: Counter[str] = field(default_factory=Counter[str])
    width: Counter[str] = field(default_factory=Counter[str])
    planted: Counter[str] = field(default_factory=Counter[str])
    seen: Counter[str] = field(default_factory=Counter[str])

    def json(self) -> dict[str, Any]:
        """What is kept of a range of seeds."""
        return {
            "kernels": self.kernels, "ops": self.ops, "elements": self.elements,
            "undecided": self.undecided, "alarms": self.alarms, "used": self.used,
            "width": self.width, "planted": self.planted, "seen": self.seen,
        }  # fmt: skip


def one(seed: int, tally: Tally) -> None:
    """Judge implementations of the kernel of a seed, then plant faults."""
    kernel = draw(seed)
    rng = np.random.default_rng([seed, 1])
    t = terms(rng, kernel)
    f = replace(kernel.function, results=tuple(n.results[0] for n in kernel.nodes))
    given = [bars.exact(a) for a in kernel.inputs]
    found = graph.bars(f, Module((f,)), given, {}, t.contract, stored=t.keep > 0)
    tally.kernels += 1
    tally.ops += len(kernel.nodes)
    tally.used.update(f"{n.op} {n.types[0].dtype}" for n in kernel.nodes)
    out = np.zeros(())
    for _ in range(RUNS):
        doer = implementation(rng, t)
        values = doer.run(kernel.nodes, kernel.named)
        for n, bar in zip(kernel.nodes, found, strict=True):
            name, dtype = n.results[0], n.types[0].dtype
            out = stored(values[name], dtype) if dtype.is_float else values[name]
            verdict = bars.judge(bar, out, dtype)
            tally.elements += out.size
            tally.undecided += int(np.count_nonzero(verdict.undecided))
            if not verdict.ok.all():
                at = tuple(int(i) for i in np.argwhere(~verdict.ok)[0])
                what = f"{name}{list(at)}: got {out[at]!r}, want {bar.c[at]!r} ± {bar.e[at]:.3g}"
                tally.alarms.append((seed, f"{what}; {t}; {doer.order}\n{kernel}"))
                return
    plant(rng, found[-1], out, kernel.nodes[-1].types[0].dtype, tally)


def plant(rng: np.random.Generator, bar: Bar, out: Array, dtype: DType, tally: Tally) -> None:
    """Spoil one element of a result in each way, and see whether the bar finds it."""
    wide = out.astype(bar.c.dtype)

    def judged(kind: str, at: tuple[int, ...], value: Any) -> None:
        spoilt = wide.copy()
        spoilt[at] = value
        ok = bars.judge(bar, stored(spoilt, dtype), dtype).ok[at]
        tally.planted[f"{kind} {dtype}"] += 1
        tally.seen[f"{kind} {dtype}"] += int(not ok)

    def pick(mask: Array) -> tuple[int, ...] | None:
        places = np.argwhere(mask)
        return tuple(int(i) for i in places[rng.integers(len(places))]) if len(places) else None

    at = pick(np.isfinite(wide))
    if at is not None:
        step = ulp(wide, dtype)[at]
        judged("4 ulp", at, wide[at] + rng.choice((-4, 4)) * step)
        if bar.e[at] < np.inf:
            tally.width[f"{dtype} {float(bar.e[at] / step):.3g}"] += 1
    at = pick(np.ones(wide.shape, np.bool_))
    if at is not None:
        judged("NaN", at, 1.0 if np.isnan(wide[at]) else np.nan)
        judged("infinity", at, -wide[at] if np.isinf(wide[at]) else rng.choice((-np.inf, np.inf)))
    at = pick((wide == 0) & (bar.c == 0) & (bar.e == 0))
    if at is not None:
        judged("sign of zero", at, -wide[at])


# A term lost from a long sum -----------------------------------------------------------------


LOST = 4096
CHAIN = 32


def drops(seed: int, count: int, tally: Tally) -> None:
    """Sums of 4,096 terms, one of them left out, under chains of at most 32 additions."""
    rng = np.random.default_rng([seed, 2])
    contract = Contract(chain=lambda n: min(CHAIN, n))
    for i in range(count):
        dtype = FLOATS[i % 4]
        kind = ("normal", "uniform")[i // 4 % 2]
        op = ("sum", "mean", "matmul")[i // 8 % 3]
        shape = (1, LOST)
        x = rng.standard_normal(shape) if kind == "normal" else rng.uniform(0, 1, shape)
        x = stored(x, dtype)
        if op == "matmul":
            y = stored(rng.uniform(0.5, 2, (LOST, 1)), dtype)
            terms_ = x.astype(dtype.compute.numpy) * y.T.astype(dtype.compute.numpy)
        else:
            y, terms_ = None, x.astype(dtype.compute.numpy)
        bar, to = _sum_bar(op, x, y, dtype, contract)
        scale = terms_.dtype.type(LOST if op == "mean" else 1)
        lost = terms_.copy()
        lost[0, rng.integers(LOST)] = 0
        for order in (_in_lanes, _in_tree):
            for what, values in (("whole", terms_), ("lost", lost)):
                out = (order(values) / scale).reshape(bar.c.shape)
                ok = bool(bars.judge(bar, stored(out, to), to).ok.all())
                if what == "whole" and not ok:
                    tally.alarms.append((seed, f"{op} of {LOST} {dtype}, {kind}"))
                if what == "lost":
                    tally.planted[f"lost {dtype} {kind}"] += 1
                    tally.seen[f"lost {dtype} {kind}"] += int(not ok)


def _sum_bar(
    op: str, x: Array, y: Array | None, dtype: DType, contract: Contract
) -> tuple[Bar, DType]:
    """Bar of a sum, as it is computed: f16 and bf16 are summed, and kept, in f32."""
    args = [x] if y is None else [x, y]
    compute = dtype.compute
    types = [TensorType(compute, a.shape) for a in args]
    attrs: dict[str, Attr] = {} if y is not None else {"axes": (1,), "keepdims": True}
    given = [bars.exact(a.astype(compute.numpy), compute) for a in args]
    return OPS[op].apply(attrs).bar(given, types, OPS[op].infer(types, attrs), contract), compute


def _in_lanes(x: Array) -> Array:
    return tree(lanes(x, 1, 256), 1)


def _in_tree(x: Array) -> Array:
    return tree(x, 1)


# The page ------------------------------------------------------------------------------------


def added(many: Sequence[dict[str, Any]], name: str) -> Counter[str]:
    """Sum of a counter over ranges."""
    total: Counter[str] = Counter()
    for d in many:
        total.update(d[name])
    return total


def quantile(width: Counter[str], share: float, dtype: str = "") -> float:
    """Half-width of a bar in ulp that a share of the bars stay below."""
    rows = sorted((float(k.split()[1]), n) for k, n in width.items() if k.startswith(dtype))
    left = share * sum(n for _, n in rows)
    for w, n in rows:
        left -= n
        if left <= 0:
            return w
    return 0.0


def share(shards: Shards, kind: str) -> str:
    """Share of planted faults of a kind that were seen."""
    planted, seen = (added(shards.done, n) for n in ("planted", "seen"))
    p = sum(n for k, n in planted.items() if k.startswith(kind))
    s = sum(n for k, n in seen.items() if k.startswith(kind))
    return f"{s / p:.4f} of {p}" if p else "-"


def lines(shards: Shards) -> Iterator[str]:
    """Tables of all ranges run."""
    kernels, elements = int(shards.total("kernels")), int(shards.total("elements"))
    undecided, seconds = shards.total("undecided"), shards.total("seconds")
    alarms = sum(len(d["alarms"]) for d in shards.done)
    width = added(shards.done, "width")
    yield f"`python -m tests.bench.bars --kernels {kernels}`: {shards.commits()}."
    yield ""
    rows: list[tuple[str, object]] = [
        ("kernels", kernels),
        ("ops a kernel, mean", f"{shards.total('ops') / max(1, kernels):.2f}"),
        ("implementations of each", RUNS),
        ("elements judged", elements),
        ("false alarms", alarms),
        ("checked share", f"{1 - undecided / max(1, elements):.5f}"),
        ("kernels a second", f"{kernels / max(seconds, 1e-9):.0f}"),
    ]
    yield from table(("", ""), rows)
    yield ""
    used = added(shards.done, "used")
    rarest = min((used[f"{op} {d}"], op, d) for op in sorted({*POOL}) for d in FLOATS)
    yield f"The rarest op, `{rarest[1]}` of {rarest[2]}, stood in {rarest[0]} kernels."
    yield ""
    yield "Half-width of the bar of a random element of the result, in ulp:"
    yield ""
    yield from table(
        ("", "all", *FLOATS),
        (
            (what, *(f"{quantile(width, share, d):g}" for d in ("", *FLOATS)))
            for what, share in (("median", 0.5), ("75 % are below", 0.75), ("90 %", 0.9))
        ),
    )
    yield ""
    yield "Faults in one element of a result, and the share that the bar sees:"
    yield ""
    head = ("fault", "all", *FLOATS)
    kinds = (*WRONG, "lost")
    body = [(k, share(shards, k), *(share(shards, f"{k} {d}") for d in FLOATS)) for k in kinds]
    yield from table(head, body)
    yield ""
    yield "*lost*: a term left out of a sum, mean or product of matrices of 4,096 terms:"
    yield ""
    yield from table(
        ("terms", *FLOATS),
        ((kind, *(share(shards, f"lost {d} {kind}") for d in FLOATS))
         for kind in ("normal", "uniform")),
    )  # fmt: skip


def run(part: range, dropped: int) -> Tally:
    """Run a range of seeds."""
    tally = Tally()
    with np.errstate(all="ignore"):
        for seed in part:
            one(seed, tally)
        drops(part.start, dropped, tally)
    return tally


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 if there are false alarms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=4000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--drops", type=int, default=240, help="sums a range of seeds")
    parser.add_argument("--save", type=Path, help="file of outcomes, one line a range")
    parser.add_argument("--docs", action="store_true", help="write docs/bars.md")
    args = parser.parse_args(argv)
    shards = Shards(args.save)
    for part in shards.missing(args.start, args.kernels, SHARD):
        began = time.perf_counter()
        tally = run(part, args.drops)
        shards.keep(part, {**tally.json(), "seconds": time.perf_counter() - began})
        for seed, what in tally.alarms:
            print(f"seed {seed}: {what}\n", flush=True)
    print("\n".join(lines(shards)))
    if args.docs:
        put("kernels", lines(shards))
    return 1 if any(d["alarms"] for d in shards.done) else 0


if __name__ == "__main__":
    sys.exit(main())
