"""Findings judged again: as a record of JSON types, and as lines made from that record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from didyma.codegen.options import USUAL
from didyma.fuzz import given, shown
from didyma.fuzz.replay import Recorded
from didyma.oracle.report import Finding, Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Tensor
from didyma.show import verdict
from didyma.show.console import console, line

NO_OTHERS: Mapping[Path, Sequence[Finding]] = MappingProxyType({})
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


def origin(r: Recorded) -> None:
    """Print what wrote a finding, when, and with which choices that are not the usual ones."""
    out = console()
    wrote = f"written by didyma {r.version} on {r.date}" if r.version else "of an older didyma"
    seed = "" if r.campaign_seed is None else f", campaign seed {r.campaign_seed}"
    line(out, f"{wrote}{seed}")
    chosen = [(path, v) for path, v in r.options.choices().items() if v != USUAL[path]]
    options = ", ".join(f"{path} = {v}" for path, v in chosen) or "the usual ones"
    line(out, f"engines: {', '.join(r.engines)}; options: {options}")


def inputs(r: Recorded) -> None:
    """Print the inputs: small ones in full, large ones as their type and a summary."""
    _print_values(console(), _values(r))


def _values(r: Recorded) -> dict[str, str]:
    params = r.module.entry.params
    arrays = given.inputs(r.module, r.env, r.seeds, r.values)
    drawn = (
        "" if p.name in r.given else f" (drawn from seed {s})"
        for p, s in zip(params, r.seeds, strict=True)
    )
    texts = (shown.value(Tensor.of(a)) for a in arrays)
    return {p.name: t + d for p, t, d in zip(params, texts, drawn, strict=True)}


def _print_values(out: Console, values: Mapping[str, str]) -> None:
    for name, text in values.items():
        line(out, f"input {name}: {text}")


def record(
    many: Sequence[Replayed], others: Mapping[Path, Sequence[Finding]] = NO_OTHERS
) -> dict[str, Any]:
    """Return findings judged again as a record; those that disagree have the values of inputs.

    ``others`` are cases of domains without graphs, with what was found of each.
    """
    rows = [{"file": str(r.file), "exit_code": r.code, **_outcome(r)} for r in many]
    rows += [
        {"file": str(path), "exit_code": int(bool(found)), "findings": list(map(asdict, found)),
         "values": {}}
        for path, found in others.items()
    ]  # fmt: skip
    return {"agree": {0} <= {row["exit_code"] for row in rows} <= {0, 5}, "findings": rows}


def _outcome(r: Replayed) -> dict[str, Any]:
    if r.error is not None:
        return {"error": {"code": r.error.code, "where": r.error.where, "got": r.error.got}}
    values = {"values": _values(r.recorded)} if r.report.findings else {}
    return {**verdict.record(r.report, r.memory), **values}


def table(r: Mapping[str, Any]) -> None:
    """Print a line for each finding, then the message and the inputs of those that disagree."""
    out = console()
    rows = r["findings"]
    width = max([len("finding"), *(len(Path(row["file"]).name) for row in rows)])
    line(out, f"{'finding':{width}}  {'now':11}  what")
    for row in rows:
        name, now = Path(row["file"]).name, NOW[row["exit_code"]]
        line(out, f"{name:{width}}  {now:11}  {_summary(row)}".rstrip())
    counts = Counter(NOW[row["exit_code"]] for row in rows)
    line(
        out,
        ", ".join(f"{counts[now]} {now}" for now in NOW.values() if counts[now]) or "no findings",
    )
    for row in rows:
        if row.get("findings"):
            line(out, "")
            line(out, f"{row['file']}: {row['findings'][0]['message']}")
            _print_values(out, row["values"])


def _summary(row: Mapping[str, Any]) -> str:
    """Return the first disagreement in a line, or the error; empty where there is neither."""
    if "error" in row:
        return f"{row['error']['code']}: {row['error']['got']}"
    if not row["findings"]:
        return ""
    first = row["findings"][0]
    return f"{first['level']} ({first['kind']}) in {first['where']}"
