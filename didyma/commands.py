"""What each command does; returns its exit code."""

from __future__ import annotations

import json as json_
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from codegen.memory.peak import peak, unplanned_total
from codegen.options import Options
from codegen.pipeline import compile
from codegen.runtime.registry import NAMES, Availability, engine, probe
from didyma.files import read_module
from fuzz import campaign, levels, watchdog
from fuzz import replay as replay_
from fuzz.graphs import inputs as random_inputs
from oracle.report import Finding, Level, Report
from refimpl.errors import DidymaError
from refimpl.ir import dims
from refimpl.ir.graph import Module
from refimpl.ir.text import show
from refimpl.ops import OPS
from refimpl.ops.spec import Op

Engines: TypeAlias = tuple[str, ...] | None

AGREE, DISAGREE, NOTHING_RAN = 0, 1, 5


def _require(engines: Sequence[str]) -> None:
    """Raise before any work if an engine is unknown or cannot run here."""
    for name in engines:
        engine(name)


def fuzz(
    seconds: float,
    engines: Engines,
    seed: int,
    jobs: int | None,
    planner: str,
    findings: Path,
    stop_after: int,
    json: bool,
) -> int:
    """Run a campaign and print what it saw."""
    wanted = engines or ("simt", "host")
    _require(wanted)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    plan = campaign.Plan(
        seconds,
        campaign.teams(wanted, jobs or cores or 1),
        seed,
        Options(planner=planner),
        stop_after=stop_after,
        findings=findings,
    )
    if json:
        result = campaign.run(plan)
        print(result.json())
    else:
        result = _with_bar(plan)
        _print_campaign(result)
    if result.findings:
        return DISAGREE
    return AGREE if result.all.programs else NOTHING_RAN


def _with_bar(plan: campaign.Plan) -> campaign.Result:
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=plan.seconds)

        def show_progress(r: campaign.Result) -> None:
            found = f", {len(r.findings)} findings" if r.findings else ""
            text = f"{r.all.programs} programs, {len(r.covered)} pairs{found}"
            bar.update(task, completed=r.seconds, description=text)

        return campaign.run(plan, show_progress)


def _print_campaign(r: campaign.Result) -> None:
    console = Console()
    console = Console(width=max(console.width, 96))
    table = Table(title=f"{r.all.programs} programs in {r.seconds:.0f} s")
    for head in ("engine", "programs", "a minute", "checked share"):
        table.add_column(head, justify="left" if head == "engine" else "right")
    for team, t in r.by_team.items():
        rate = f"{r.rate(t.programs):.0f}"
        table.add_row(team, str(t.programs), rate, f"{t.checked_share:.4f}")
    console.print(table)
    console.print(_coverage(r))
    console.print(f"median graph: {r.median_nodes} nodes")
    if not r.findings:
        console.print("findings: none")
    for f, file in zip(r.findings, r.files, strict=True):
        console.print(f"finding: {f.level} ({f.kind}) in {f.where}, {f.nodes} nodes: {f.message}")
        console.print(f"  replay with: didyma replay {file}", soft_wrap=True)


def _coverage(r: campaign.Result) -> Table:
    """Table of how often each op met each dtype: a digit, or + for ten times and more."""
    title = f"op × dtype coverage: {len(r.covered)} of {r.possible} pairs"
    table = Table(title=title, box=None, padding=(0, 1, 0, 0))
    dtypes = sorted({d for _, d in r.covered})
    table.add_column("op", no_wrap=True)
    for d in dtypes:
        table.add_column(d, justify="right", no_wrap=True)
    for op in sorted({o for o, _ in r.covered}):
        counts = [r.covered.get((op, d), 0) for d in dtypes]
        table.add_row(op, *("·" if c == 0 else "+" if c > 9 else str(c) for c in counts))
    return table


def _bindings(m: Module, given: Sequence[str]) -> dict[str, int]:
    """Sizes for the symbols: as given, else small and different from the range's ends."""
    env: dict[str, int] = {}
    for item in given:
        name, _, value = item.partition("=")
        if not value.isdigit() or name not in m.ranges():
            known = ", ".join(m.ranges()) or "none"
            raise DidymaError(
                "bad-option", f"--dim {item}", got=item, want=f"NAME=N with NAME of: {known}"
            )
        env[name] = int(value)
    for v in m.dims:
        env.setdefault(v.name, min(v.hi, v.lo + 1))
    dims.check_ranges(env, m.dims)
    return env


def judge_module(
    m: Module,
    env: Mapping[str, int],
    seeds: Sequence[int],
    engines: Sequence[str],
    options: Options,
    progress: Callable[[str], None],
) -> Report:
    """Judge a module; runs in a watched child process."""
    arrays = random_inputs(m, dict(env), seeds)
    return levels.check(m, arrays, [engine(e) for e in engines], options, progress=progress)


def _judge_guarded(
    m: Module,
    env: Mapping[str, int],
    seeds: Sequence[int],
    engines: Sequence[str],
    options: Options,
    timeout: float,
    quiet: bool,
) -> Report:
    args = (m, dict(env), tuple(seeds), tuple(engines), options)
    with Console(stderr=True, quiet=quiet).status("compiling") as status:
        answer = watchdog.guarded(
            judge_module, args, timeout, lambda word: status.update(f"judging: {word}")
        )
    match answer:
        case Report():
            return answer
        case watchdog.Raised(error, trace):
            if isinstance(error, DidymaError):
                raise error
            raise RuntimeError(f"the judge failed\n{trace}")
        case watchdog.Died(kind, reason, during):
            level = Level(during)
            level.findings.append(Finding(during, "process", kind, reason))
            return Report((level,))


def check(
    file: Path,
    engines: Engines,
    given: Sequence[str],
    seed: int,
    planner: str,
    timeout: float,
    json: bool,
) -> int:
    """Judge a file and print the verdict of every level."""
    wanted = engines or ("host",)
    _require(wanted)
    options = Options(planner=planner)
    m = read_module(file)
    env = _bindings(m, given)
    seeds = [seed * 1000 + i for i in range(len(m.entry.params))]
    report = _judge_guarded(m, env, seeds, wanted, options, timeout, json)
    _print_report(report, _memory(m, env, options), json)
    return AGREE if report.agree else DISAGREE


def _memory(m: Module, env: Mapping[str, int], options: Options) -> dict[str, Any]:
    try:
        program = compile(m, options).program
    except DidymaError:
        raise
    except Exception:
        return {}  # the report says what failed
    return {
        "dims": dict(env),
        "planner": options.planner,
        "planned_peak": peak(program, env),
        "unplanned_total": unplanned_total(program, env),
        "kernels": [k.name for k in program.kernels],
    }


def replay(file: Path, engines: Engines, timeout: float, json: bool) -> int:
    """Judge a finding again."""
    r = replay_.load(file)
    wanted = engines or r.engines
    _require(wanted)
    report = _judge_guarded(r.module, r.env, r.seeds, wanted, r.options, timeout, json)
    _print_report(report, _memory(r.module, r.env, r.options), json)
    return AGREE if report.agree else DISAGREE


def _print_report(report: Report, memory: Mapping[str, Any], json: bool) -> None:
    if json:
        rows = [
            {
                "name": v.name,
                "agree": v.agree,
                "checked_share": round(v.checked_share, 6),
                "worst": None if np.isinf(v.worst) else round(v.worst, 4),
                "seconds": round(v.seconds, 4),
                "findings": [
                    {"where": f.where, "kind": f.kind, "message": f.message} for f in v.findings
                ],
            }
            for v in report.levels
        ]
        print(json_.dumps({"agree": report.agree, "levels": rows, **memory}, indent=2))
        return
    console = Console()
    table = Table(title="agree" if report.agree else "DISAGREE")
    for head in ("level", "agrees", "checked share", "worst", "seconds"):
        table.add_column(head, justify="left" if head == "level" else "right")
    for v in report.levels:
        worst = "outside" if np.isinf(v.worst) else f"{v.worst:.3f} of its bar"
        share = f"{v.checked_share:.4f}" if v.comparisons else "-"
        verdict = "yes" if v.agree else "NO"
        table.add_row(v.name, verdict, share, worst if v.comparisons else "-", f"{v.seconds:.2f}")
    console.print(table)
    for f in report.findings[:20]:
        console.print(f"{f.level}: {f.where} ({f.kind}): {f.message}", soft_wrap=True, markup=False)
    if memory:
        bound = ", ".join(f"{k} = {v}" for k, v in memory["dims"].items())
        console.print(
            f"memory{f' at {bound}' if bound else ''}: planned peak {memory['planned_peak']:,} B"
            f" ({memory['planner']}), unplanned total {memory['unplanned_total']:,} B"
        )
        console.print(f"{len(memory['kernels'])} kernels: {', '.join(memory['kernels'])}")


def explain(file: Path, out: Path, planner: str, json: bool) -> int:
    """Write every level's text to a folder, each whole or not at all."""
    m = read_module(file)
    c = compile(m, Options(planner=planner))
    texts = {"00-source.dym": show(c.source)}
    for i, (name, after) in enumerate(c.passes, 1):
        texts[f"{i:02}-{name}.dym"] = show(after)
    texts["loops.dym"] = show(tuple(c.loops.values()))
    texts["kernels.dym"] = show(tuple(k for ks in c.kernels.values() for k in ks))
    texts["program.dym"] = show(c.program)
    texts["program-unplanned.dym"] = show(c.unplanned)
    texts["kernels.cu"] = c.text.source
    texts["wrapper.py"] = c.wrapper
    for name, text in texts.items():
        replay_.write_text(out / name, text)
    if json:
        print(json_.dumps({"folder": os.fspath(out), "files": sorted(texts)}, indent=2))
    else:
        for name, text in texts.items():
            print(f"{out / name}  {len(text):,} characters")
    return AGREE


def ops(name: str | None, json: bool) -> int:
    """Print the op table, or one op."""
    if name is not None and name not in OPS:
        raise DidymaError(
            "unknown-op", name, got=name, want="the name of an op", help="see `didyma ops`"
        )
    chosen = [OPS[name]] if name else [OPS[n] for n in sorted(OPS)]
    if json:
        print(json_.dumps([_op_record(op) for op in chosen], indent=2))
    elif name:
        record = _op_record(OPS[name])
        for key, value in record.items():
            print(f"{key}: {value}")
    else:
        table = Table("op", "kind", "dtypes", "meaning")
        for op in chosen:
            table.add_row(op.name, op.kind, str(len(op.dtypes)), op.doc.splitlines()[0])
        Console().print(table)
    return AGREE


def _op_record(op: Op) -> dict[str, Any]:
    return {
        "name": op.name,
        "kind": str(op.kind),
        "doc": op.doc,
        "special": op.special,
        "operands": list(op.arity),
        "attributes": {a.name: f"{a.kind}: {a.doc}" for a in op.attrs},
        "dtypes": [str(d) for d in op.dtypes],
    }


def doctor(json: bool) -> int:
    """Print each engine's state; exit 4 if none can run."""
    states: list[Availability] = [probe(n) for n in NAMES]
    if json:
        rows = [{"name": s.name, "runs": s.runs, "why": s.why, "mend": s.mend} for s in states]
        print(json_.dumps({"engines": rows}, indent=2))
    else:
        table = Table("engine", "runs here", "why", "how to mend")
        for s in states:
            table.add_row(s.name, "yes" if s.runs else "no", s.why, s.mend)
        Console().print(table)
    return AGREE if any(s.runs for s in states) else 4
