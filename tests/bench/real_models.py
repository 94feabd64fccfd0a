"""Real models at every level: ``python -m tests.bench.real_models FOLDER... [--docs]``.

Every ``.onnx`` file within the folders is judged as ``didyma check`` judges it, on the engines that
need no GPU and with ONNX Runtime as a peer, at default sizes, in the default rounds of inputs.
``--keep FILE`` holds what was measured, one JSON line a model, so that a long run can be resumed;
``--docs`` writes the page.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.options import Options
from didyma.commands import common
from didyma.commands.judge import Task, Verdict, guarded
from didyma.files import read_module
from didyma.oracle.report import Level, Report
from didyma.refimpl.errors import DidymaError
from tests.bench.page import ROOT, commit, put, table

PAGE = ROOT / "docs" / "onnx-models.md"
SECTION = "tests.bench.real_models"
ENGINES = ("host", "simt")
PEER = "onnxruntime"
SEED = 1
HEAD = (
    "model", "nodes", "open sizes", "kernels", "planned peak (B)", "unplanned (B)",
    "levels that agree", "rounds", "checked share", "off", "peer", "checked by kernel, end to end",
    "seconds",
)  # fmt: skip
Row: TypeAlias = Mapping[str, Any]


def measure(file: Path, name: str, given: Sequence[str], timeout: float) -> Row:
    """Judge a model; return what was measured, or the reason why it was refused."""
    start = time.perf_counter()
    row: dict[str, Any] = {"model": name, "commit": commit()}
    try:
        m = read_module(file)
        row |= {"nodes": sum(len(f.nodes) for f in m.functions)}
        env = common.bindings(m, given)
        free = frozenset(env) - {g.partition("=")[0] for g in given}
        data = file.read_bytes()
        task = Task(m, env, SEED, ENGINES, Options(), (PEER,), data, free)
        row |= _judged(guarded(task, timeout))
    except DidymaError as e:
        notes = getattr(e, "__notes__", [])
        said = f"{e.code}: {e.got}; {notes[0] if notes else e.where}"
        row["refused"] = said.replace(str(file), name)
    return row | {"seconds": round(time.perf_counter() - start)}


def _judged(v: Verdict) -> Row:
    own = [x for x in v.report.levels if not x.name.startswith(PEER)]
    peer = [x for x in v.report.levels if x.name.startswith(PEER)]
    return {
        **v.memory,
        "levels": [x.name for x in own if x.agree],
        "wrong": [f"{f.level}: {f.where}: {f.message}" for f in v.report.findings],
        "share": _share(own),
        "rounds": len(v.report.setting.rounds),
        "off": max((x.off for x in own if not np.isnan(x.off)), default=None),
        "peer": str(Report(tuple(peer)).outcome),
        "peer_shares": [_share([x]) for x in reversed(peer)],
        "refusal": v.report.refused,
    }


def _share(levels: Sequence[Level]) -> float:
    """Return the share of elements that could be decided."""
    total = sum(x.total for x in levels)
    return sum(x.checked for x in levels) / total if total else 0.0


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    judged = [r for r in rows if "levels" in r]
    yield from table(HEAD, map(_cells, judged))
    troubles = [f"- `{r['model']}`: {text}" for r in rows for text in _troubles(r)]
    if troubles:
        yield ""
        yield "Models that are refused or that differ:"
        yield ""
        yield from troubles
    yield ""
    commits = sorted({f"`{r['commit']}`" for r in rows})
    yield f"Measured on commits {', '.join(commits)}."


def _cells(r: Row) -> tuple[object, ...]:
    sizes = ", ".join(f"{k} = {n}" for k, n in r.get("dims", {}).items())
    peak = [f"{r[k]:,}" if k in r else "-" for k in ("planned_peak", "unplanned_total")]
    shares = ", ".join(f"{x:.4f}" for x in r["peer_shares"])
    off = "-" if r["off"] is None else f"{r['off']:.1e}"
    return (
        f"`{r['model']}`", r["nodes"], sizes or "none", len(r.get("kernels", ())), *peak,
        " ".join(r["levels"]), r["rounds"], f"{r['share']:.4f}", off, r["peer"], shares,
        r["seconds"],
    )  # fmt: skip


def _troubles(r: Row) -> Iterator[str]:
    for text in (r.get("refused"), r.get("refusal"), *r.get("wrong", ())[:3]):
        if text:
            yield " ".join(str(text).split())[:300]


def run(
    folders: Sequence[Path], keep: Path | None, given: Sequence[str], timeout: float, most: int
) -> list[Row]:
    """Judge every model that is not judged yet, the smallest first."""
    done: dict[str, Row] = {}
    if keep is not None and keep.exists():
        rows = [json.loads(line) for line in keep.read_text(encoding="utf-8").splitlines()]
        done = {r["model"]: r for r in rows}
    files = [(f, str(f.relative_to(d))) for d in folders for f in d.rglob("*.onnx")]
    for file, name in sorted(files, key=_size):
        if name in done or file.stat().st_size > most << 20:
            continue
        print(name, flush=True)
        row = measure(file, name, given, timeout)
        done[name] = row
        print(f"  {row}"[:400], flush=True)
        if keep is not None:
            with keep.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
    return list(done.values())


def _size(pair: tuple[Path, str]) -> tuple[int, str]:
    return pair[0].stat().st_size, pair[1]


def main(words: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("folders", nargs="+", type=Path)
    p.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    p.add_argument("--keep", type=Path)
    p.add_argument("--docs", action="store_true")
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("--most", type=int, default=1 << 10, help="largest file, in MiB")
    a = p.parse_args(words)
    rows = run(a.folders, a.keep, a.dim, a.timeout, a.most)
    if a.docs:
        put(SECTION, _lines(rows), PAGE)
    else:
        print("\n".join(_lines(rows)))


if __name__ == "__main__":
    main()
