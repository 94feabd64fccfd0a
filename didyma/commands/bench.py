"""``didyma bench``: count what programs do, compare records, time kernels on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from didyma.bench import counters, gpu, records
from didyma.bench.workloads import WORKLOADS, Workload
from didyma.codegen.runtime import disk
from didyma.commands import common
from didyma.refimpl.errors import DidymaError
from didyma.show import bench as show
from didyma.show.bench_plot import svg
from didyma.show.plan_plot import must_be_svg


def count(names: Sequence[str], save: Path | None, given: Sequence[str], json: bool) -> int:
    """Count what each workload does at its small size."""
    if save is not None:
        disk.must_take_file(save)
    options, compiler = common.options("didyma", given), counters.compiler()
    if compiler is None:
        print("no NVRTC: registers, spills and shared are left out", file=sys.stderr)
    rows = list[dict[str, Any]]()
    for w in _workloads(names):
        print(f"counting {w.name}", file=sys.stderr, flush=True)
        found = counters.count(w, options, compiler)
        rows.append({"name": w.name, "group": w.group, "extra_info": found})
    if save is not None:
        disk.write_file(save, records.record(rows))
    if json:
        common.print_json({"workloads": rows})
    else:
        show.counted(rows)
    return common.AGREE


def compare(before: Path, after: Path, fail_on: str, plot: Path | None, json: bool) -> int:
    """Compare two records; exit 1 if anything grew by more than the limits allow, or was lost."""
    if plot is not None:
        must_be_svg(plot)
    allowed = records.limits(fail_on)
    found = records.compare(records.read(before), records.read(after), allowed)
    grown = any(c.failed for c in found.changes)
    if not grown:  # else the verdict is known, whatever the other limits are of
        _must_be_quantities(allowed, found)
    if plot is not None:
        disk.write_file(plot, svg(found, f"{before.name} to {after.name}"))
    if json:
        common.print_json(show.comparison(found))
    else:
        show.changes(found)
    if not found.compared:
        return common.NOTHING_RAN
    return common.DISAGREE if grown or (fail_on and found.lost) else common.AGREE


def _must_be_quantities(allowed: dict[str, float], found: records.Comparison) -> None:
    """Raise ``bad-option`` for a limit of something that neither record has."""
    known = found.quantities
    unknown = [a for a in allowed if not any(records.covers(a, q) for q in known)]
    if unknown and found.compared:
        raise DidymaError(
            "bad-option", "--fail-on", got=", ".join(unknown),
            want=f"of what both records have: {', '.join(sorted(known))}",
        )  # fmt: skip


def on_gpu(
    names: Sequence[str], peers: Sequence[str], save: Path | None, given: Sequence[str], json: bool
) -> int:
    """Time the workloads on a GPU beside other libraries."""
    if save is not None:
        disk.must_take_file(save)
    for p in peers:
        if p not in gpu.PEERS:
            raise DidymaError(
                "bad-option", f"--peer {p}", got=p, want=f"one of {', '.join(gpu.PEERS)}"
            )
    options, rows = common.options("didyma", given), list[gpu.Timed]()
    for t in gpu.run(_workloads(names), peers or gpu.PEERS, options):
        print(f"{t.workload}, {t.contender}: {show.figures(t)}", file=sys.stderr, flush=True)
        rows.append(t)
    if save is not None:
        disk.write_file(save, records.record([_record(t) for t in rows if t.seconds]))
    if json:
        common.print_json({"timed": [asdict(t) for t in rows]})
    else:
        show.timed(rows)
    own = [t for t in rows if t.contender == gpu.OWN]
    wrong = any(t.off is not None and not t.off <= gpu.SUSPECT for t in own)
    if not any(t.seconds for t in own):
        return common.NOTHING_RAN
    return common.DISAGREE if wrong or any(t.reason for t in own) else common.AGREE


def _record(t: gpu.Timed) -> dict[str, Any]:
    extra = {"share": t.share, "baseline": t.contender == "torch"}
    name = f"{t.workload}[{t.contender}]"
    return {"name": name, "group": t.workload, "seconds": t.least, "extra_info": extra}


def _workloads(names: Sequence[str]) -> list[Workload]:
    for n in names:
        if n not in WORKLOADS:
            raise DidymaError(
                "bad-option", f"--workload {n}", got=n, want=f"one of {', '.join(WORKLOADS)}"
            )
    return [WORKLOADS[n] for n in names] or list(WORKLOADS.values())
