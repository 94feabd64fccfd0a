"""What findings say when they are judged again, in lines that fit 80 columns where names do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from didyma.codegen.options import Options
from didyma.fuzz import given, shown
from didyma.fuzz.replay import Recorded
from didyma.oracle.report import Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Tensor
from didyma.show import verdict
from didyma.show.console import console, line

NOW = {0: "agrees", 1: "DISAGREES", 2: "refused", 5: "nothing ran"}


@dataclass(frozen=True, slots=True)
class Replayed:
    """A finding judged again: its exit code, and the report, or the error that refuses it."""

    file: Path
    recorded: Recorded
    code: int
    report: Report = field(default_factory=lambda: Report(()))
    memory: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: DidymaError | None = None

    @property
    def said(self) -> str:
        """The first disagreement in a line, or the error."""
        if self.error is not None:
            return f"{self.error.code}: {self.error.got}"
        found = self.report.findings
        return f"{found[0].level} ({found[0].kind}) in {found[0].where}" if found else ""


def origin(r: Recorded) -> None:
    """Print what wrote a finding, when, and with which choices that are not the usual ones."""
    out = console()
    wrote = f"written by didyma {r.version} on {r.date}" if r.version else "of an older didyma"
    seed = "" if r.campaign_seed is None else f", campaign seed {r.campaign_seed}"
    line(out, f"{wrote}{seed}")
    usual = Options()
    names = [f.name for f in dataclasses.fields(usual)]
    chosen = [n for n in names if getattr(r.options, n) != getattr(usual, n)]
    options = ", ".join(f"{n} = {getattr(r.options, n)}" for n in chosen) or "the usual ones"
    line(out, f"engines: {', '.join(r.engines)}; options: {options}")


def inputs(r: Recorded) -> None:
    """Print the inputs: small ones whole, of large ones the type and a summary."""
    out = console()
    params = r.module.entry.params
    arrays = given.inputs(r.module, r.env, r.seeds, r.values)
    for p, seed, a in zip(params, r.seeds, arrays, strict=True):
        drawn = "" if p.name in r.given else f" (drawn from seed {seed})"
        line(out, f"input {p.name}: {shown.value(Tensor.of(a))}{drawn}")


def table(many: Sequence[Replayed]) -> None:
    """Print a line for each finding, then the message and the inputs of those that disagree."""
    out = console()
    names = [r.file.name for r in many]
    width = max([len("finding"), *map(len, names)])
    line(out, f"{'finding':{width}}  {'now':11}  what")
    for r, name in zip(many, names, strict=True):
        line(out, f"{name:{width}}  {NOW[r.code]:11}  {r.said}".rstrip())
    counts = {word: sum(NOW[r.code] == word for r in many) for word in NOW.values()}
    line(out, ", ".join(f"{n} {word}" for word, n in counts.items() if n) or "no findings")
    for r in many:
        if r.report.findings:
            line(out, "")
            line(out, f"{r.file}: {r.report.findings[0].message}")
            inputs(r.recorded)


def record(many: Sequence[Replayed]) -> dict[str, Any]:
    """Return findings judged again as JSON has them."""
    return {
        "agree": {0} <= {r.code for r in many} <= {0, 5},
        "findings": [{"file": str(r.file), "exit_code": r.code, **_said(r)} for r in many],
    }


def _said(r: Replayed) -> dict[str, Any]:
    if r.error is not None:
        return {"error": {"code": r.error.code, "where": r.error.where, "got": r.error.got}}
    return verdict.record(r.report, r.memory)
