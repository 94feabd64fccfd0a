"""``didyma minimise``: make a program that disagrees as small as still does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from didyma.checking import ENGINES
from didyma.codegen.options import Options
from didyma.codegen.runtime import disk
from didyma.commands import check, common
from didyma.commands.fuzz import bar
from didyma.commands.judge import guarded, print_verdict
from didyma.fuzz import replay
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.graphs import Case
from didyma.fuzz.groups import Example, cause
from didyma.fuzz.minimise import kernels
from didyma.fuzz.minimise.loops import parts
from didyma.fuzz.minimise.options import PASSES, PLANNER, needed
from didyma.fuzz.minimise.run import Minimised
from didyma.fuzz.minimise.run import minimise as search
from didyma.fuzz.minimise.script import kernel_script, script
from didyma.fuzz.replay import Recorded
from didyma.fuzz.result import Result
from didyma.refimpl.ir import text
from didyma.show import minimise as show


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for; ``out`` and ``script`` are files to write."""

    file: Path
    out: Path | None
    script: Path | None
    engines: common.Engines
    seconds: float
    given: Sequence[str]
    seed: int
    options: Options
    timeout: float
    values: Sequence[str]


def minimise(asked: Request, json: bool) -> int:
    """Minimise a finding, or a program that `didyma check` finds to disagree.

    Exit code: 1 for a program that disagrees, 5 for one that does not, so that there is nothing to
    minimise; one that a signal ends has 128 and its number, and keeps the smallest so far.
    """
    out = asked.out or Path(f"{asked.file.stem}.min.dym")
    for path in (out, *([asked.script] if asked.script else [])):
        disk.must_take_file(path)
    source = _recorded(asked, json)
    if isinstance(source, int):
        return source
    best, m = _searched(asked, source, out)
    if best is None or m.example is None:
        return _nothing(m, json)
    kernel = None if m.stopped_by else _kernel(best, asked)
    if asked.script is not None:
        disk.write_file(asked.script, script(best))
    record = _record(source, best, m, {"file": str(out), "script": str(asked.script or "")})
    record |= {"kernel": kernel} if kernel else {}
    if json:
        common.print_json(record)
    else:
        show.minimised(record)
    return 128 + m.stopped_by if m.stopped_by else common.DISAGREE


def _recorded(asked: Request, json: bool) -> Recorded | int:
    """Return the case to minimise: that of a finding, or that on which a check disagrees.

    Return the exit code if the check agrees; its verdict is printed then.
    """
    if asked.file.suffix == ".dym" and replay.is_finding(asked.file):
        r = replay.load(asked.file)
        engines = asked.engines or r.engines
        common.require(engines)
        return replace(r, engines=engines)
    task = check.prepared(
        asked.file, asked.engines or ENGINES, asked.given, asked.seed, asked.options, asked.values
    )
    verdict = guarded(task, asked.timeout)
    if verdict.report.findings:
        return check.recorded(verdict.task or task, verdict)
    print_verdict(verdict, json)
    return common.NOTHING_RAN


def _searched(asked: Request, r: Recorded, out: Path) -> tuple[Recorded | None, Minimised]:
    """Minimise a case behind a progress bar; each smaller one is written to a file at once."""
    written: Recorded | None = None

    def keep(e: Example) -> Recorded:
        smaller = _smaller(r, e)
        if smaller != written:
            replay.save(out, smaller)
        return smaller

    with bar(asked.seconds) as shown:

        def progress(result: Result) -> None:
            nonlocal written
            if (e := result.draft) is not None:
                written = keep(e)
                shown(result.seconds, f"{e.size[0]} nodes, {e.size[1]} elements")

        m = search(Graphs(r.engines), r.case, asked.seconds, progress)
    return (None if m.example is None else keep(m.example)), m


def _kernel(r: Recorded, asked: Request) -> dict[str, Any] | None:
    """Minimise the kernel at fault, if there is one, and write a script that shows it."""
    assert r.finding is not None
    sought = kernels.of_finding(r.case, r.finding)
    if sought is None:
        return None
    domain, case = sought
    with bar(asked.seconds) as shown:

        def progress(result: Result) -> None:
            if result.draft is not None:
                shown(result.seconds, f"{result.draft.size[0]} parts of the kernel")

        m = search(domain, case, asked.seconds, progress)
    if m.example is None:
        return None
    small: kernels.KernelCase = m.example.case
    path = asked.script and asked.script.with_stem(f"{asked.script.stem}_kernel")
    if path is not None:
        disk.write_file(path, kernel_script(domain, small, m.example.finding))
    return {
        "before": parts(case.function),
        "after": parts(small.function),
        "message": m.example.finding.message,
        "text": text.show(small.function),
        "script": str(path or ""),
        "judged": m.judged,
        "seconds": round(m.seconds, 3),
    }


def _smaller(r: Recorded, e: Example) -> Recorded:
    """Return a smaller example as a finding of the same origin."""
    case: Case = e.case
    return replace(
        r, module=case.module, seeds=case.seeds, env=dict(case.env),
        options=case.options(Options()), given=dict(case.given), drawn={}, finding=e.finding,
        traits=e.traits, version="", date="",
    )  # fmt: skip


def _nothing(m: Minimised, json: bool) -> int:
    """Say that a case agrees."""
    record = {"agree": True, "judged": m.judged, "seconds": round(m.seconds, 3)}
    if json:
        common.print_json(record)
    else:
        show.agrees()
    return 128 + m.stopped_by if m.stopped_by else common.NOTHING_RAN


def _record(
    source: Recorded, best: Recorded, m: Minimised, files: Mapping[str, str]
) -> dict[str, Any]:
    f, e = best.finding, m.example
    assert f is not None
    assert e is not None
    needs = dict(needed(best.case))
    planner = needs.pop(PLANNER, "")
    other = {name: value for name, value in needs.items() if name not in PASSES}
    return {
        "agree": False,
        **files,
        "level": f.level,
        "kind": f.kind,
        "where": f.where,
        "message": f.message,
        "signature": list(cause(f)),
        "before": _size(source.case),
        "after": _size(best.case),
        "needed": [*(n for n in needs if n in PASSES), *([f"planner {planner}"] * bool(planner))],
        "left_out": [*(n for n in PASSES if n not in needs), *([PLANNER] * (not planner))],
        "options": other,
        "judged": m.judged,
        "seconds": round(m.seconds, 3),
        **({"unshrunk": e.unshrunk} if e.unshrunk else {}),
    }


def _size(case: Case) -> dict[str, int]:
    nodes = sum(len(f.nodes) for f in case.module.functions)
    return {"nodes": nodes, "elements": case.elements()}
