"""Which schedule each function of a compiled program got, and who picked it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from didyma import tuning
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.schedule.recipes.point import parse_all as parse_choices
from didyma.codegen.schedule.steps.choose import by_function
from didyma.codegen.schedule.steps.text import show, show_step
from didyma.refimpl.ir.graph import COMPILER, structural_hash
from didyma.refimpl.ir.kernel import ClaimedKernel

Record: TypeAlias = Mapping[str, Any]

BY = {
    "heuristic": "picked by the model",
    "pinned": "pinned",
    "tuned": "picked by tuning, from the cache",
    "codegen": "made by a codegen",
    "steps": "pinned by a schedule of steps",
    "at-run": "the model's first; calls choose",
}  # who picked a schedule


def records(c: Compiled, options: Options, by: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each function: its kernels, its choice or steps, and who picked these.

    ``by`` says who picked the choices that options pin; without it the caller did.  ``variants``
    are the choices among which calls choose, by kernel.
    """
    pinned = parse_choices(options.kernels.choices)
    hashes = {name: structural_hash(c.fused.function(name)) for name in c.loops}
    steps = by_function(options.kernels.schedules, hashes)
    choices = tuning.picked(c, options)["choices"]
    found: list[dict[str, Any]] = []
    for name, kernels in c.kernels.items():
        variants = {k.name: c.variants[k.name] for k in kernels if k.name in c.variants}
        made = by.get(name, "pinned") if name in pinned else "heuristic"
        if name not in pinned and any(isinstance(k, ClaimedKernel) for k in kernels):
            made = "codegen"
        row: dict[str, Any] = {
            "function": name,
            "kernels": [k.name for k in kernels],
            "by": "steps" if name in steps else "at-run" if variants else made,
        }
        if name in steps:
            row["steps"] = [show_step(s) for s in steps[name].steps]
            row["schedule"] = show(steps[name].steps, name)
        else:
            row["choice"] = choices[name]["choice"]
        if variants:
            row["variants"] = {k: [str(v.point) for v in vs] for k, vs in variants.items()}
        found.append(row)
    taken = (f.name for f in c.fused.functions if COMPILER in f.attr and f.name in pinned)
    for name in taken:
        row = {"function": name, "kernels": [], "by": by.get(name, "pinned")}
        found.append({**row, "choice": choices[name]["choice"]})
    return found


def lines(rows: Sequence[Record]) -> Iterator[str]:
    """Yield the rows as lines of text."""
    for r in rows:
        what = f"{len(r['steps'])} steps" if "steps" in r else r["choice"]
        yield f"{r['function']}: {what} ({BY[r['by']]})"
        yield from (f"  {s}" for s in r.get("steps", ()))
        for kernel, variants in r.get("variants", {}).items():
            yield from (f"  {kernel} may run as {v}" for v in variants)


def schedules(rows: Sequence[Record]) -> dict[str, str]:
    """Return the schedules of steps as files, each of which ``dd.compile`` takes."""
    return {f"{r['function']}.dys": r["schedule"] for r in rows if "schedule" in r}
