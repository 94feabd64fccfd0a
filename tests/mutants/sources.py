"""All mutants: of the Python of codegen, of the prelude, and of the kernels of drawn programs."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from random import Random

from tests.mutants.mutant import GROUPS, ROOT, Group, Mutant
from tests.mutants.mutate import c, python
from tests.mutants.planting import compiles
from tests.mutants.prelude import paragraph

# Nothing here runs these: they need a GPU, NVRTC, gcc, OR-Tools, or a plug-in that is installed.
ELSEWHERE = ("runtime/cuda.py", "runtime/nvrtc.py", "runtime/compiler.py", "plugins.py",
             "memory/arena/exact.py", "emit/prelude/cuda.c",
             "emit/prelude/cuda_families.c")  # fmt: skip
_ARRAYS = ("codegen/runtime/libraries.py", ("Torch.", "Cupy."))  # nor these, which need libraries
_MACHINE = re.compile(r"^#(?:el)?if defined __(\w+?)__$(.*?)(?=^#(?:elif|endif))", re.M | re.S)
_FOLDERS: dict[str, Group] = {
    "passes": "passes", "lower": "lower", "schedule": "schedule", "memory": "memory",
    "emit": "emit", "runtime": "runtime",
}  # fmt: skip


def every() -> Iterator[Mutant]:
    """Yield every mutant of a file, in the order of files and lines."""
    folder = ROOT / "codegen"
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".c")):
        inside = path.relative_to(folder)
        if "__pycache__" not in inside.parts and inside.as_posix() not in ELSEWHERE:
            yield from of_file(path)


def of_file(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a file; a change that leaves the text as it is is none."""
    yield from (m for m in _of_file(path) if m.site.new != m.source[m.site.start : m.site.end])


def _of_file(path: Path) -> Iterator[Mutant]:
    file = path.relative_to(ROOT).as_posix()
    inside = Path(file).parts[1:]
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".c":
        driver = path.name == "driver.c"  # which every kernel on the host runs
        other = [m.span(2) for m in _MACHINE.finditer(source) if m[1] != platform.machine()]
        for site in c.prelude(source):
            if any(a <= site.start < b for a, b in other):
                continue
            line = 0 if driver else paragraph(source, site.scope_start)
            yield Mutant("prelude", file, source, site, line)
        return
    group: Group = _FOLDERS.get(inside[0], "order")
    emits_c = "emit" in inside or path.name == "hosttext.py"
    for site, line in python.mutants(source, emits_c):
        if file != _ARRAYS[0] or not site.scope.startswith(_ARRAYS[1]):
            yield Mutant(group, file, source, site, line)


def of_kernels(texts: Sequence[tuple[int, str, frozenset[str]]]) -> Iterator[Mutant]:
    """Yield the mutants of drawn programs: of an index, a text, and the kernels that can run."""
    for program, source, runs in texts:
        file = f"kernel text of program {program}"
        for site in c.kernels(source):
            if site.scope in runs:
                yield Mutant("text", file, source, site, program=program)


def sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw mutants: as nearly as possible equally many of each group, by chance within one.

    All of them, in order, if ``count`` is 0.
    """
    if not count:
        return list(mutants)
    r = Random(seed)
    drawn: list[list[Mutant]] = []
    for g in GROUPS:
        pool = [m for m in mutants if m.group == g]
        r.shuffle(pool)
        drawn.append(pool)
    turns = (m for row in zip_longest(*drawn) for m in row if m is not None)
    chosen: list[Mutant] = []
    for m in turns:
        if len(chosen) == count:
            break
        if compiles(m):
            chosen.append(m)
    return sorted(chosen, key=lambda m: (GROUPS.index(m.group), m.file, m.site.start, m.site.new))
