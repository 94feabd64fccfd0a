"""Tables of docs/memory-fuzzing.md, written by the commands that measured them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

from tests.mutants.memory import blocks, elisions, lives, others, wholes
from tests.mutants.memory.fault import MOST, Fault, Hunt, hunt

PAGE = Path(__file__).parents[3] / "docs" / "memory-fuzzing.md"


def faults() -> list[Fault]:
    """Every planted fault, by class."""
    found: list[Fault] = [
        *lives.FAULTS,
        *wholes.FAULTS,
        *blocks.FAULTS,
        *elisions.FAULTS,
        *others.FAULTS,
    ]
    return sorted(found, key=lambda f: f.number)


def hunted(chosen: Sequence[Fault], rounds: int) -> Iterable[Hunt]:
    """Hunt faults, one after another, and say so."""
    for f in chosen:
        h = hunt(f, rounds)
        verdict = "found" if h.median <= MOST else "MISSED"
        reports = ", ".join(f"{c} {n}" for c, n in h.reports.items())
        print(f"{verdict:7} {h.median:4.1f} programs  {f.number:2} {f.name}: {reports}", flush=True)
        yield h


def table(hunts: Sequence[Hunt], rounds: int) -> str:
    """Write the table of classes of faults: programs until a verdict, and which checks gave one."""
    rows = [
        "| class | faults | reported as | median programs | most | missed | reported by |",
        "|---:|---:|---|---:|---:|---:|---|",
    ]
    for number, group in groupby(hunts, lambda h: h.fault.number):
        some = list(group)
        cites = dict.fromkeys(c for h in some for c in h.fault.cites.split(", "))
        took = [n for h in some for n in h.took]
        reports = sum((Counter(h.reports) for h in some), Counter[str]())
        missed = sum(h.missed for h in some)
        checks = ", ".join(c for c, _ in reports.most_common())
        rows.append(
            f"| {number} | {len(some)} | {', '.join(cites)} | {median(took):g} | {max(took)} "
            f"| {missed} of {len(some) * rounds} | {checks} |"
        )
    return "\n".join(rows)


def write(section: str, text: str, page: Path = PAGE) -> None:
    """Put a text between the marks of a section of the page."""
    old = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    head, mark, rest = old.partition(begin)
    _, last, tail = rest.partition(end)
    if not mark or not last:
        raise SystemExit(f"{page} has no section {section}")
    page.write_text(f"{head}{begin}\n{text}\n\n{end}{tail}", encoding="utf-8")


def main(names: Sequence[str], rounds: int, keep: bool) -> None:
    """Hunt the faults whose names have one of the words, or all; exit code 1 if one is missed."""
    every = faults()
    chosen = [f for f in every if not names or any(n in f.name for n in names)]
    hunts = list(hunted(chosen, rounds))
    slow = [h.fault.name for h in hunts if h.median > 10]
    print(f"{len(hunts) - len(slow)} of {len(hunts)} faults found within 10 programs, by median")
    if keep:
        write("faults", table(hunts, rounds))
    sys.exit(1 if slow else 0)
