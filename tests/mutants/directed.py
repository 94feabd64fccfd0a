"""Which terms of the compiler's conditions programs show that somebody wrote to show them.

    python -m tests.mutants.directed fuzz/corpus/distilled build/shown --about passes/
    python -m tests.mutants.directed build/written build/shown --about passes/

Each member of a folder, in the text of the distilled corpus, is judged as ``distil reach`` judges
what it draws: by the compiler without each term that alone decides there.  What the members of a
second folder show is known already; those that show more are added to it, so ``distil keep --add``
can keep them.  The terms that no member shows are listed last, by file and line.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from didyma.fuzz import worker
from didyma.fuzz.domains import registry
from tests.mutants.conditions import FOLDERS, Counts, count
from tests.mutants.distil import ALONE, Reach, read
from tests.mutants.planting import Planter, import_all
from tests.mutants.swapping import find_caches


class Written(Reach):
    """A run whose programs are asked for all terms, whatever their domain is about."""

    def asks(self, file: str, domain: str) -> bool:
        """Return whether terms of a file are asked for."""
        del domain
        return any(name in file for name in self.about)


def missing(r: Reach) -> Iterator[str]:
    """Yield the terms asked for that no member shows: those that alone decide in one say so."""
    for number, term in enumerate(r.counts.terms):
        if any(name in term.file for name in r.about) and not r.kills[number]:
            yield f"{term}{ALONE if number in r.decided else ''}"


def main(
    written: Path,
    known: Path,
    about: Annotated[
        list[str] | None, typer.Option(help="Files of the compiler; all if none is named.")
    ] = None,
    domain: Annotated[
        list[str] | None, typer.Option(help="A domain; all if none is given.")
    ] = None,
    part: Annotated[str, typer.Option(help="Drop one term in so many: 2/5 is the third.")] = "0/1",
    seconds: Annotated[float, typer.Option(help="Seconds after which no member is begun.")] = 3600,
    quiet: Annotated[
        bool, typer.Option(help="Do not list the terms that no member shows.")
    ] = False,
) -> None:
    """Judge the members of a folder without each term that alone decides there."""
    sys.setrecursionlimit(20_000)
    known.mkdir(parents=True, exist_ok=True)
    import_all()
    counts = Counts()
    names = tuple(about or ("",))
    folders = tuple(f for f in FOLDERS if any(f in name or not name for name in names))
    count(counts, Planter(), folders or FOLDERS)
    first, of = map(int, part.split("/"))
    r = Written(counts, known, time.monotonic() + seconds, (first, of), names)
    opened = [
        worker.Opened(d) for d in registry.make(registry.Setup(("host", "simt")), domain or ())
    ]
    find_caches()
    gc.collect()
    gc.freeze()
    r.begin(opened, [known])
    for o in opened:
        for m in read(o.domain, written):
            if time.monotonic() > r.end:
                break
            counts.next_case()
            before = set(r.kills)
            r.take(o, m.case(o.domain), m.facts.get("seed", 0), m.facts.get("index", 0))
            new = sorted(set(r.kills) - before)
            if not quiet:
                print(f"{o.domain.name} {m.key}: {len(new)} newly shown", flush=True)
                print(*(f"    {counts.terms[n]}" for n in new), sep="\n", flush=True)
    if not quiet:
        print(*missing(r), sep="\n")
    asked = {n for n, t in enumerate(counts.terms) if any(name in t.file for name in names)}
    shown = sum(r.kills[n] > 0 for n in asked)
    print(f"{len(asked)} terms, {len(r.decided & asked)} decide alone, {shown} shown")
    print(f"{r.wrong} programs are wrong as they are")


if __name__ == "__main__":
    typer.run(main)
