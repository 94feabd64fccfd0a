"""Records what checks execute without a mutant, for as long as one is ready to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import process_time
from typing import Any, TypeAlias, cast
from unittest import mock

from tests.mutants.forking import Ended, Say, forked
from tests.mutants.mutant import ROOT
from tests.mutants.prelude import definitions
from tests.mutants.reach import Lines
from tests.mutants.reached import FOLDERS, Reached

PRELUDE = tuple(f"codegen/emit/prelude/{name}.c" for name in ("common", "host", "host_families"))
DRIVER = "codegen/emit/prelude/driver.c"
_TURN = 2.0  # seconds of processor time after which a child makes room for another check

Unit: TypeAlias = tuple[int, int]  # index of a check, and of the first of its cases


def record(
    known: Reached,
    checks: Sequence[Any],
    seconds: float,
    jobs: int,
    idle: Callable[[], bool],
    progress: Callable[[int, int], None],
) -> None:
    """Record cases of every check in turn, until ``seconds`` of processor time were spent in all.

    Each check has its first cases recorded, for as much time as the others but for its ``weight``;
    what is ``known`` already counts.
    """
    names = [d for file in PRELUDE for d in _named(file)]
    spent = {c.name: 0.0 for c in checks}
    busy: set[int] = set()

    def units() -> Iterator[Unit]:
        while known.spent < seconds:
            left = [
                (spent[c.name] / c.weight, i)
                for i, c in enumerate(checks)
                if i not in busy and known.counts.get(c.name, 0) < c.cases
            ]
            if not left:
                return
            _, i = min(left)
            busy.add(i)
            yield i, known.counts.get(checks[i].name, 0)

    for ended in forked(units(), partial(_trace, checks, names), jobs, idle=idle):
        busy.discard(ended.work[0])
        name = checks[ended.work[0]].name
        took = _take(known, name, ended)
        spent[name] += took
        known.spent += took
        progress(min(round(known.spent), round(seconds)), round(seconds))


def _named(file: str) -> Iterator[tuple[str, int, Any]]:
    for line, pattern in definitions((ROOT / file).read_text(encoding="utf-8")):
        yield file, line, pattern


def _take(r: Reached, name: str, ended: Ended[Unit]) -> float:
    """Note what a child said of a check; return the processor time that it took."""
    after, took = ended.work[1], 0.0
    for index, lines, seconds, wrong, total in ended.said:
        after, took = index + 1, total
        if isinstance(wrong, frozenset):
            for d in sorted(cast("frozenset[str]", wrong)):
                of = r.decisions.setdefault(name, {})
                of[d] = of.get(d, 0) | 1 << index
        elif wrong:
            r.note_wrong(name, index, str(wrong))
        r.note(name, index, lines, seconds)
    if ended.how:
        r.note_wrong(name, after, ended.how)
        r.note(name, after, (), 0.0)
    return took


def _trace(checks: Sequence[Any], names: Sequence[Any], unit: Unit, say: Say) -> None:
    """Record cases of a check, in a child."""
    which, first = unit
    check = checks[which]
    start = process_time()
    units: set[str] = set()
    lines = Lines(FOLDERS)
    judge, opened = lines.of(check.open)
    with _compiled_units(units):
        for i in range(first, check.cases):
            units.clear()
            began = process_time()
            wrong, reached = lines.of(partial(judge, i))
            now = process_time()
            text = "\n".join(units)
            used = {(file, line) for file, line, pattern in names if pattern.search(text)}
            driver: set[tuple[str, int]] = {(DRIVER, 0)} if units else set()
            say((i, opened | reached | used | driver, now - began, wrong, process_time() - start))
            if process_time() - start > _TURN:
                return


def _compiled_units(units: set[str]) -> Any:
    """Note the C units that the host engine compiles."""
    from didyma.codegen.runtime.tinycc import TinyCC

    compile_ = TinyCC.compile

    def noted(self: TinyCC, source: str, *rest: Any) -> Any:
        units.add(source)
        return compile_(self, source, *rest)

    return mock.patch.object(TinyCC, "compile", noted)
