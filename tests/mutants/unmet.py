"""Which lines of functions of codegen no case of a campaign executes, by file and function.

``python -m tests.mutants.unmet --seconds 60`` runs the default campaign for so much processor time,
then draws its cases again and notes the lines that they execute.  Left out are files of engines
that a campaign does not run by default: those of GPUs, of PTX and of compilers for vectors.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tests.mutants.forking import Say, forked
from tests.mutants.held_out import Case, Hunt, record
from tests.mutants.mutant import ROOT
from tests.mutants.planting import Planter, import_all
from tests.mutants.reach import Line, Lines
from tests.mutants.reached import FOLDERS
from tests.mutants.sources import ELSEWHERE

# Beginnings of files of codegen that only engines beside the default ones run.
OTHER_ENGINES = (
    *ELSEWHERE, "runtime/cublaslt.py", "runtime/cuda_libraries.py", "runtime/driver.py",
    "runtime/nvrtc_", "runtime/libraries.py", "runtime/ptx/", "runtime/fast/",
    "runtime/didyma_runtime/cuda.py",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a file, by its qualified name, and the lines of its body that have code."""

    file: str
    name: str
    lines: frozenset[int]


def functions() -> Iterator[Function]:
    """Yield the functions of codegen but those of other engines; an inner one counts by itself."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.relative_to(ROOT / folder).as_posix().startswith(OTHER_ENGINES):
                source = path.read_text(encoding="utf-8")
                yield from _functions(path.relative_to(ROOT).as_posix(), ast.parse(source), "")


def _functions(file: str, tree: ast.AST, inside: str) -> Iterator[Function]:
    for node in ast.iter_child_nodes(tree):
        name = f"{inside}{getattr(node, 'name', '')}"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Function(file, name, frozenset(_statements(node.body)))
        is_named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        yield from _functions(file, node, f"{name}." if is_named else inside)


def _statements(body: Sequence[ast.stmt]) -> Iterator[int]:
    """Yield the lines at which statements begin, but for docstrings and inner functions' own."""
    for s in body:
        is_text = isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)
        if not is_text and not isinstance(s, (ast.Pass, ast.Global, ast.Nonlocal)):
            yield s.lineno
        if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for inner in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(s, inner, ()))
            for part in (*getattr(s, "handlers", ()), *getattr(s, "cases", ())):
                yield from _statements(part.body)


def met(cases: Sequence[Case], hunt: Hunt, say: Say) -> None:
    """Draw the cases of a campaign again, and say the lines that they execute for the first time.

    What is met while engines and judges are made counts for the first case of their domain.
    """
    from didyma.fuzz import worker

    lines, seen = Lines(FOLDERS), set[Line]()
    opened, domains = dict[str, worker.Opened](), {d.name: d for d in hunt.domains()}

    def judge(c: Case) -> None:
        if c.domain not in opened:
            opened[c.domain] = worker.Opened(domains[c.domain])
        opened[c.domain].drawn(hunt.seed, c.index, c.wishes)

    for c in cases:
        _, found = lines.of(partial(judge, c))
        say((c.domain, found - seen))
        seen |= found
        lines.forget(seen)


def report(every: Sequence[Function], seen: Collection[Line]) -> Iterator[str]:
    """Yield the share of lines met of each file and of all, with functions that miss some."""
    by_file: Mapping[str, list[Function]] = {}
    by_file = {f.file: [g for g in every if g.file == f.file] for f in every}
    total = count = 0
    for file, inside in by_file.items():
        lines = {n for f in inside for n in f.lines}
        missed = {n for n in lines if (file, n) not in seen}
        total, count = total + len(lines), count + len(lines) - len(missed)
        if missed:
            yield f"{file}: {len(lines) - len(missed)} of {len(lines)}"
            for f in inside:
                if left := sorted(f.lines & missed):
                    whole = "all" if len(left) == len(f.lines) else ", ".join(map(str, left))
                    yield f"  {f.name}: {whole}"
    yield f"met: {count} of {total} lines ({100 * count / total:.1f} %)"


def main(
    seed: int = 11,
    seconds: Annotated[float, typer.Option(help="Processor time of the campaign.")] = 60.0,
    domain: Annotated[
        list[str] | None, typer.Option(help="A domain; all if none is given.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="A file of JSON for the lines met.")] = None,
) -> None:
    """Tell which lines of codegen a campaign does not execute."""
    sys.setrecursionlimit(10_000)
    hunt = Hunt(seed, seconds, tuple(domain or ()))
    import_all()
    hunt.domains()
    planter = Planter()
    (ended,) = forked([0], lambda _, say: record((), planter, hunt, say), 1)
    cases: list[Case] = ended.said
    print(f"{len(cases)} cases", flush=True)
    (ended,) = forked([0], lambda _, say: met(cases, hunt, say), 1, patience=3600.0)
    seen = {line: name for name, lines in reversed(ended.said) for line in lines}
    if ended.how:
        print(f"ended by {ended.how}")
    print("\n".join(report([*functions()], seen)))
    if keep is not None:
        keep.write_text(json.dumps(sorted((*line, d) for line, d in seen.items())))


if __name__ == "__main__":
    typer.run(main)
