"""The ``repr`` of compiled programs, results and reports: at most 20 lines for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from didyma.codegen.memory.peak import peak
from didyma.codegen.pipeline import Compiled
from didyma.oracle.report import Agreement, Level, Report
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import Bar

LINES = 20
NAMES = 8  # of one kind, in a line
WIDTH = 96  # characters of a line
LONGEST = 200  # characters of a line of a report
FINDINGS = 3  # of a report


def executable(c: Compiled, engine: str) -> str:
    """Describe a compiled program: its interface, its kernels and the memory that it takes."""
    f = c.source.entry
    results = zip(f.results, f.result_types(), strict=True)
    lines = [
        f"Executable of @{f.name} on {engine}",
        f"  inputs   {_few([f'{p.name}: {p.type}' for p in f.params])}",
        f"  outputs  {_few([f'{name}: {t}' for name, t in results])}",
    ]
    if c.source.dims:
        lines.append(f"  sizes    {_few([f'{v.name} in [{v.lo}, {v.hi}]' for v in c.source.dims])}")
    lines.append(f"  kernels  {_few([k.name for k in c.program.kernels])}")
    lines.append(f"  memory   {_memory(c.program)}")
    return "\n".join(lines)


def _few(items: Sequence[str]) -> str:
    """Join the first items, as many as a line holds."""
    shown: list[str] = []
    for item in items[:NAMES]:
        if shown and len(", ".join([*shown, item])) > WIDTH - 24:
            break
        shown.append(item if len(item) <= WIDTH - 24 else item[: WIDTH - 25] + "…")
    more = len(items) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more else "")


def _memory(p: Program) -> str:
    ends = {v.name: v.lo for v in p.dims}, {v.name: v.hi for v in p.dims}
    if not p.dims:
        return f"at most {peak(p, {}):,} bytes at once, beside inputs and outputs"
    low, high = (f"{peak(p, env):,} bytes" for env in ends)
    return f"at most {low} at once at the least sizes, {high} at the largest"


def interpreted(names: Sequence[str], values: Sequence[Array], errors: Sequence[Bar]) -> str:
    """Describe results: type, widest bar, what is undecided, and an excerpt of the values."""
    shown = max(1, min(len(values), (LINES - 2) // 3))
    each = (LINES - 2) // shown - 1
    lines = [f"Interpreted: {len(values)} {'output' if len(values) == 1 else 'outputs'}"]
    for name, value, bar in list(zip(names, values, errors, strict=True))[:shown]:
        lines.append(f"  {name}: {DType.of(value)}{list(value.shape)}, {bar_words(value, bar)}")
        lines += _excerpt(value, each)
    if len(values) > shown:
        lines.append(f"  and {len(values) - shown} more")
    return "\n".join(lines)


def bar_words(value: Array, bar: Bar) -> str:
    """Say how wide the widest bar is, in units in the last place, and how many have none.

    >>> bar_words(np.float32([1, 2]), Bar(np.float64([1, 2]), np.float64([2**-23, np.inf])))
    'bars up to 1 ulp, 1 of 2 undecided'
    """
    undecided = int(np.count_nonzero(bar.e == np.inf))
    counts = f"{undecided} of {bar.e.size} undecided"
    widest = widest_ulp(bar, DType.of(value))
    if not widest:
        return f"exact, {counts}" if undecided < bar.e.size else f"nothing is decided, {counts}"
    unit = " ulp" if DType.of(value).is_float else ""
    return f"bars up to {widest:.3g}{unit}, {counts}"


def widest_ulp(bar: Bar, dtype: DType) -> float:
    """Return half the widest finite bar, in units in the last place of its centre; 0 of none."""
    sure: Array = np.isfinite(bar.e) & (bar.e > 0)
    if dtype.is_float:
        sure &= np.isfinite(bar.c)
    if not sure.any():
        return 0.0
    e = bar.e[sure]
    if not dtype.is_float:
        return float(e.max())
    with np.errstate(all="ignore"):
        step = np.spacing(np.abs(bar.c[sure]).astype(dtype.numpy)).astype(np.float64)
        return float(np.max(e / step, where=step > 0, initial=0.0))


def _excerpt(value: Array, most: int) -> Iterable[str]:
    """Return some lines of an array as NumPy prints it, corners only where it is large."""
    lines = np.array2string(value, threshold=24, edgeitems=2, max_line_width=WIDTH).splitlines()
    lines = [line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in lines if line]
    kept = lines if len(lines) <= most else [*lines[: most - 1], "…"]
    return ("    " + line for line in kept)


def report(r: Report) -> str:
    """Describe a report: the verdict, a line for each level, and the first findings."""
    s = r.setting
    many = f", {len(s.rounds)} round{'s' * (len(s.rounds) != 1)}" if s.rounds else ""
    seed = f", seed {s.seed}" if s.seed is not None else ""
    lines = [f"Report: {r.outcome}{many}{seed}"]
    if s.sizes:
        lines.append(f"  sizes: {sizes(s.sizes, s.sizes.keys() - s.given)}")
    if r.refused:
        lines.append(f"  the reference refuses {r.refusals} of them: {r.refused}")
    width = max((len(level.name) for level in r.levels), default=0)
    lines += [f"  {level.name:{width}}  {_level(level)}" for level in r.levels]
    lines += [f"  {level.name}: {level.note}" for level in r.levels if level.note]
    lines += [f"  {f}" for f in r.findings[:FINDINGS]]
    if len(r.findings) > FINDINGS:
        lines.append(f"  and {len(r.findings) - FINDINGS} more findings")
    return "\n".join(x if len(x) <= LONGEST else f"{x[: LONGEST - 1]}…" for x in lines)


def sizes(env: Mapping[str, int], default: Collection[str]) -> str:
    """List symbolic sizes, and say which were chosen by default.

    >>> sizes({"n": 3, "m": 4}, ["n"])
    'n = 3 (default), m = 4'
    """
    return ", ".join(f"{s} = {n}{' (default)' * (s in default)}" for s, n in env.items())


def _level(level: Level) -> str:
    if level.outcome is Agreement.UNCHECKED and np.isnan(level.off):
        return str(level.outcome)
    if not level.comparisons:
        return f"{level.outcome}, {level.checks:,} checks" if level.checks else str(level.outcome)
    worst = f"worst {level.worst:.3g} of its bar" if np.isfinite(level.worst) else "outside its bar"
    off = f", off by {level.off:.1e} of the largest value" if not np.isnan(level.off) else ""
    ring = f", {level.ring_share:.2%} in the ring" if level.ring_total else ""
    share = f"{level.checked_share:.2%} of {level.total:,} elements"
    return f"{level.outcome}, {share}, {worst}{off}{ring}"
