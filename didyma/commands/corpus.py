"""``didyma corpus``: cases that are kept and judged again and again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from didyma.checking import ENGINES
from didyma.codegen.options import Options
from didyma.commands import check, common
from didyma.commands.fuzz import bar
from didyma.commands.judge import Verdict
from didyma.fuzz import again, corpus_files, replay
from didyma.fuzz.domains.domain import Outcome
from didyma.oracle.report import Report
from didyma.refimpl.cores import cores
from didyma.show import corpus as show


def add(file: Path, why: str, covers: str, folder: Path | None, json: bool) -> int:
    """Write a finding, or any program with the inputs that a check draws first, into a corpus."""
    if file.suffix == ".dym" and replay.is_finding(file):
        r = replay.load(file)
    else:
        task = check.prepared(file, ENGINES, (), 1, Options(), ())
        r = check.recorded(task, Verdict(Report(()), {}))
    path, new = corpus_files.add(r, why or r.why, covers or r.covers, folder or corpus_files.FOLDER)
    if json:
        common.print_json({"file": str(path), "added": new})
    else:
        show.added(path, new)
    return common.AGREE


def list_(folder: Path | None, json: bool) -> int:
    """Print the cases of a corpus, and why each is there."""
    cases = corpus_files.record(corpus_files.cases(folder or corpus_files.FOLDER))
    if json:
        common.print_json({"cases": cases})
    else:
        show.cases(cases)
    return common.AGREE


def merge(other: Path, folder: Path | None, json: bool) -> int:
    """Write the cases of another corpus into this one, but those that it has."""
    added = corpus_files.merge(other, folder or corpus_files.FOLDER)
    if json:
        common.print_json({"added": [str(path) for path in added]})
    else:
        show.merged(added)
    return common.AGREE


def replay_all(
    folder: Path | None, engines: common.Engines, jobs: int | None, timeout: float, json: bool
) -> int:
    """Judge every case of a corpus.

    Exit code: 1 if one disagrees, 5 if nothing was judged, else 0.
    """
    cases = corpus_files.cases(folder or corpus_files.FOLDER)
    wanted = engines or ENGINES
    common.require(wanted)
    done = 0
    with bar(float(len(cases))) as shown:

        def progress() -> None:
            nonlocal done
            done += 1
            shown(done, f"{done} of {len(cases)} cases")

        outcomes = again.judged(list(cases.values()), wanted, jobs or cores(), timeout, progress)
    rows = [_row(path, o) for path, o in zip(cases, outcomes, strict=True)]
    document: dict[str, Any] = {
        "agree": bool(rows) and all(r["now"] == "agree" for r in rows),
        "cases": rows,
    }
    if json:
        common.print_json(document)
    else:
        show.replayed(document)
    return _exit_code([r["now"] for r in rows])


def _row(path: Path, o: Outcome) -> dict[str, Any]:
    now = "DISAGREE" if o.findings else "agree" if o.checked else "nothing checked"
    first = [
        {"level": f.level, "where": f.where, "kind": f.kind, "message": f.message}
        for f in o.findings[:1]
    ]
    return {"file": str(path), "now": now, "findings": first}


def _exit_code(now: Sequence[str]) -> int:
    if "DISAGREE" in now:
        return common.DISAGREE
    return common.AGREE if "agree" in now else common.NOTHING_RAN
