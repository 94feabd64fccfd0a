"""Launches that only move elements: ``python -m tests.bench.moves [FILE.onnx ...] [--docs]``.

Each program is compiled up to its plan, for the target that engine ``host`` prefers.  A launch
moves if its function has no op but those that move elements, and has an operand.  Counted are all
launches and such ones, the bytes of their operands and results, and the program's copies with
theirs, at default sizes; a launch in a loop counts once.  ``--docs`` writes the table to
``docs/program-memory.md``.  The file also runs in a checkout of an older commit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.commands import common
from didyma.files import read_module
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Copy, Launch
from didyma.refimpl.ir.target import TARGETS
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind
from tests.bench.page import ROOT, put, table

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
TARGET = "cpu" if "cpu" in TARGETS else "portable"  # which older commits have alone
MOVES = (Kind.INJECTIVE, Kind.RESHAPE)
HEAD = (
    "program", "launches", "their bytes", "that move", "their bytes", "copies", "their bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """What one program does."""

    name: str
    launches: int
    passed: int  # bytes
    moves: int
    moved: int  # bytes
    copies: int
    copied: int


def _turned(x: dd.Tensor) -> dd.Tensor:
    return dd.permute_dims(x, (1, 2, 0))


def _cut(x: dd.Tensor) -> dd.Tensor:
    return dd.permute_dims(x[1:, ::2], (2, 0, 1))


def _heads(x: dd.Tensor) -> dd.Tensor:
    y = dd.permute_dims(dd.reshape(x, (8, 16, 4, 8)), (0, 2, 1, 3))
    return dd.permute_dims(y, (0, 2, 1, 3))[:, 1:]


def _rows(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    y = dd.exp(x)
    return y, dd.flip(y[2], axis=0)


def _scores(x: dd.Tensor) -> dd.Tensor:
    return dd.permute_dims(x, (0, 2, 1))[:, :, 2:] @ x[:, 2:]


CHAINS: dict[str, Callable[..., Any]] = {
    "axes turned": _turned, "steps, then axes turned": _cut, "heads split and joined": _heads,
    "a value and a row of it": _rows, "turned and cut, then multiplied": _scores,
}  # fmt: skip


def count(name: str, m: Module) -> Row:
    """Compile a program, and count what it moves."""
    env = common.bindings(m, [])
    made = compile(m, Options(target=TARGET, verify=False), until="plan")
    table = {f.name: f for f in made.fused.functions}
    moving = {
        k.name
        for f, ks in made.kernels.items()
        for k in ks
        if table[f].params and all(OPS[n.op].kind in MOVES for n in table[f].nodes)
    }
    programs = (made.program, *made.program.functions)
    types = {v: t for p in programs for v, t in p.types}
    lines = [x for p in programs for x in walk(p.lines)]
    launches = [x for x in lines if isinstance(x, Launch)]
    moves = [x for x in launches if x.kernel in moving]
    copies = [x for x in lines if isinstance(x, Copy)]

    def nbytes(*values: str) -> int:
        known = [t.nbytes for t in map(types.__getitem__, values)]
        return sum(dims.evaluate(n, env) for n in known if {*dims.free(n)} <= env.keys())

    passed, moved = (sum(nbytes(*x.args) for x in part) for part in (launches, moves))
    copied = sum(nbytes(x.value, x.source) for x in copies)
    return Row(name, len(launches), passed, len(moves), moved, len(copies), copied)


def rows(files: list[Path]) -> Iterator[Row]:
    """Yield what each chain, each light model and each given model does."""
    for name, f in CHAINS.items():
        yield count(name, dd.trace(dd.f32[8, 16, 32])(f).module)
    for path in sorted(LIGHT.glob("*.onnx")):
        yield count(path.stem.removeprefix("light_"), read_module(path))
    for path in files:
        yield count(f"{path.parent.name}/{path.stem}", read_module(path))


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--docs", action="store_true")
    given = parser.parse_args()
    found = [
        (r.name, r.launches, f"{r.passed:,}", r.moves, f"{r.moved:,}", r.copies, f"{r.copied:,}")
        for r in rows(given.files)
    ]
    lines = list(table(HEAD, found))
    print("\n".join(lines))
    if given.docs:
        put("moves", lines, ROOT / "docs" / "program-memory.md")


if __name__ == "__main__":
    main()
