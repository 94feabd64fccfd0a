"""What ``didyma judge`` found: as a record of JSON types, and as lines made from that record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from didyma.codegen.runtime.ptx.sanitize import Finding
from didyma.judging.judge import Judgement
from didyma.refimpl.errors import counted
from didyma.show.console import console, line

_SHOWN = 3  # rounds for which there was no time


def record(found: Judgement, file: str) -> dict[str, Any]:
    """Return the verdict, with what speaks against the kernel or the task."""
    task = found.task
    return {
        "file": file,
        "kernel": task.label,
        "guessed": [f"--shared {s.geometry.shared}" for s in task.steps if s.geometry.guessed],
        "verdict": found.outcome.value,
        "findings": [*_faults(found), *_wrong(found), *_structure(found)],
        "notes": list(dict.fromkeys(f"{f.kind}: {f.detail}" for f in found.notes)),
        "cannot_tell": found.accepted,
        "only_special_values": found.only_special,
        "right_with": found.right_with,
        "contract": asdict(task.contract),
        "seed": task.draw.seed,
        "rounds": [str(c) for c in found.cases],
        "untried": [str(c) for c in found.untried],
        "unlaunched": [str(c) for c in found.unlaunched],
        "smaller": [str(c) for c in found.cases if c.smaller],
        "seconds": task.draw.seconds,
        "launches": found.launches,
        "instructions": sum(found.instructions.values()),
        "checked": found.checked,
        "total": found.total,
        "warnings": found.warnings,
        "deterministic": found.deterministic,
        "batch_invariant": found.batch_invariant,
        "engines": {b.engine: asdict(b) for b in found.others},
        "structure": found.terms.record(),
    }


def _faults(found: Judgement) -> list[dict[str, Any]]:
    return [
        {
            "kind": f.kind, "detail": _detail(f), **_place(found, f),
            "inlined": list(f.inlined), "round": str(case),
            **(_mended(found) if k == 0 else _UNKNOWN),
        }
        for k, (f, case) in enumerate(found.faults)
    ]  # fmt: skip


def _place(found: Judgement, f: Finding) -> Mapping[str, Any]:
    """Return where a fault is.  What is never written has no line but that of an edit."""
    line, traced = f.line, found.suspect
    if f.kind == "unwritten" and traced is not None and traced.edit is not None:
        line = traced.line
    return {"file": f.file, "line": line, "source": found.task.source.line(f.file, line)}


_UNKNOWN: Mapping[str, Any] = {
    "mended": "", "mended_line": 0, "mended_too": [], "mended_by": 0, "mended_lines": 0,
    "likely": "", "likely_lines": [],
}  # fmt: skip


def _mended(found: Judgement) -> Mapping[str, Any]:
    """Return the line of a text with which the kernel is right, and its number."""
    traced = found.suspect
    if traced is None or traced.edit is None:
        lines = [traced.line, *traced.also] if traced and traced.searched else []
        return {**_UNKNOWN, "likely": traced.why if traced else "", "likely_lines": lines}
    e, others = traced.edit, traced.others
    return {
        **_UNKNOWN, "mended_by": traced.many, "mended_lines": traced.lines,
        "mended": e.shown, "mended_line": e.line,
        "mended_too": [{"line": o.line, "text": o.shown} for o in others],
    }  # fmt: skip


def _detail(f: Finding) -> str:
    return f"{f.detail} at {f.other}" if f.other else f.detail


def _wrong(found: Judgement) -> list[dict[str, Any]]:
    """Return each wrong output once, in the round of ordinary numbers with the smallest sizes.

    Where a check found a fault, a wrong value is what came of it.
    """
    task = found.task
    traced = found.suspect
    at, file = (traced.line, traced.file) if traced else (0, "")
    file = file or task.source.file
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(w.output for w in found.wrong if not w.faulty):
        of = [w for w in found.wrong if w.output == name and not w.faulty]
        worst = min(of, key=lambda w: (not w.case.ordinary, sum(w.case.env.values())))
        rounds = f"{len({w.case.number for w in of})} of {counted(len(found.cases), 'round')}"
        rows.append({
            "kind": "wrong-value", "detail": f"{worst.message}; in {rounds}",
            "file": file, "line": at, "source": task.source.line(file, at), "inlined": [],
            "round": str(worst.case), **_mended(found),
        })  # fmt: skip
    return rows


def _structure(found: Judgement) -> list[dict[str, Any]]:
    """Return what the ring tells, where the contract states the structure."""
    b = found.terms
    if not (found.task.contract.structure and b.unequal):
        return []
    rounds = f"{b.unequal} of {counted(b.in_ring, 'round')}"
    detail, file = f"{b.example}; in {rounds}", found.task.source.file
    return [{
        "kind": "other-terms", "detail": detail, "file": file, "line": 0, "source": "",
        "inlined": [], "round": b.where, **_UNKNOWN,
    }]  # fmt: skip


def text(found: Mapping[str, Any]) -> None:
    """Print findings with their lines, then the verdict and what it rests on."""
    to = console()
    for row in lines(found):
        line(to, row)


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that say what a record says."""
    if found["guessed"]:
        yield f"guessed: {' '.join(found['guessed'])}"
    for row in found["findings"]:
        place = f"{row['file']}:{row['line']}" if row["line"] else row["file"]
        yield f"{place}: {row['kind']}: {row['detail']}"
        yield f"    at {row['round']}"
        if row["source"]:
            yield f"    {row['source']}"
        if row["mended"]:
            other = row["mended_line"] != row["line"]
            where = f" line {row['mended_line']} as" if other else ""
            yield f"    it is right with{where}: {row['mended']}"
            for too in row["mended_too"]:
                yield f"    or with line {too['line']} as: {too['text']}"
            if row["mended_lines"] > 1 + len(row["mended_too"]):
                by, lines = row["mended_by"], row["mended_lines"]
                yield f"    of {by} edits of {lines} lines with which it is right, the likeliest"
        elif row["likely"] and row["kind"] == "wrong-value":
            yield f"    a likely line: {row['likely']}"
        elif row["likely_lines"]:
            yield f"    it may come from line {row['likely_lines'][0]}: {row['likely']}"
        if row["inlined"]:
            yield f"    inlined at {', '.join(row['inlined'])}"
    for what in found["cannot_tell"]:
        yield f"this task cannot tell the answer from {what}"
    if found["unlaunched"]:
        rounds = f"{len(found['unlaunched'])} of {counted(len(found['rounds']), 'round')}"
        yield f"no thread was launched in {rounds}, the first at {found['unlaunched'][0]}"
        yield "    sizes for which the kernel is not meant are left out by --where or --size"
    yield f"{found['kernel']}: {found['verdict']}"
    share = f"{found['checked']} of {counted(found['total'], 'element')}"
    ran = f"{counted(len(found['rounds']), 'round')}, {counted(found['launches'], 'run')}"
    yield f"  {ran}, {share} decided, seed {found['seed']}"
    yield from (f"  warning: {w}" for w in found["warnings"])
    if found["untried"] and found["verdict"] != "wrong":
        rounds, less = counted(len(found["untried"]), "round"), len(found["smaller"])
        ran = f", of which {less} ran at smaller sizes" if less else ""
        yield f"  no time for {rounds}{ran}: {'; '.join(found['untried'][:_SHOWN])}"
    if found["verdict"] == "correct":
        yield f"  {_traits(found)}"
    yield from _beside(found["engines"])
    yield from _terms(found["structure"], demanded=found["contract"]["structure"])
    if found["only_special_values"]:
        yield "  It is right for ordinary numbers: --finite judges it without infinities and NaN"
    if found["right_with"]:
        option = found["right_with"]
        kept = option.split()[-1].upper()
        yield f"  It is right if factors are rounded to {kept}: {option} allows that"


def _beside(engines: Mapping[str, Any]) -> Iterator[str]:
    """Yield what engines beside ``ptx`` have shown of a kernel that they run."""
    ran = {name: e for name, e in engines.items() if e["rounds"]}
    for name, e in ran.items():
        if e["differ"]:
            yield f"  engine {name} differs from ptx, which is a fault of Didyma: {e['differ'][0]}"
            return
    if ran:
        agree = (f"{name} in {counted(e['rounds'], 'round')}" for name, e in ran.items())
        yield f"  engines agree: {', '.join(agree)}"


def _terms(found: Mapping[str, Any], *, demanded: bool) -> Iterator[str]:
    """Yield what the ring has shown of a kernel."""
    if found["unequal"]:
        of = counted(found["in_ring"], "round")
        words = f"  other terms than the reference, in {found['unequal']} of {of}"
        yield words if demanded else f"{words}: --structure judges it by that"
    elif found["in_ring"]:
        share = f"{found['checked']} of {counted(found['total'], 'float')}"
        rounds = counted(found["in_ring"], "round")
        yield f"  the same terms as the reference, in {rounds}: {share} on engine {found['engine']}"
    elif demanded:
        why = found["outside"] or "no float of a round without faults has terms that are known"
        yield f"  its structure cannot be judged: {why}"


def _traits(found: Mapping[str, Any]) -> str:
    same = "deterministic" if found["deterministic"] else "not deterministic"
    batch = [
        f"{'batch-invariant' if yes else 'not batch-invariant'} in {size}"
        for size, yes in found["batch_invariant"].items()
    ]
    return ", ".join([same, *batch])
