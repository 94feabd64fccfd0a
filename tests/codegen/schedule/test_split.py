"""Which blocks of a shared fold read what lies together in memory."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.simt import access
from didyma.codegen.runtime.simt.engine import Simt
from didyma.refimpl.ir.loop import Const, For, If, Load, PrimFunc, Stmt
from didyma.refimpl.ir.walk import exprs, stmts

ROWS, COLUMNS = 48, 64
SMALL = dd.Options().changed({"kernels.split": 1})  # sums of few terms are shared, too


@pytest.mark.parametrize(
    ("axis", "choice", "blocks"),
    [
        (0, "split(lanes=8, loads=1, parts=2, side=4)", 4),  # 4 blocks have columns side by side
        (1, "split(lanes=32, loads=1, parts=2, side=1)", 2),  # 2 blocks share a row
    ],
)
def test_blocks_that_follow_each_other_read_whole_rows(
    monkeypatch: pytest.MonkeyPatch, axis: int, choice: str, blocks: int
) -> None:
    read, real = defaultdict[int, set[int]](set), access.load

    def watched(r: Any, a: Any, index: Any, m: Any, *rest: Any, **named: Any) -> Any:
        if a.name == "x":
            who = r.who(m)
            found = zip(r.lanes(r.axes["blockIdx", "x"])[who], r.lanes(index)[who], strict=True)
            for block, i in found:
                read[int(block) // blocks].add(int(i))
        return real(r, a, index, m, *rest, **named)

    @dd.trace(dd.f32[ROWS, COLUMNS])
    def p(x: dd.Tensor) -> dd.Tensor:
        return dd.sum(x, axis=axis)

    (name,) = dd.compile(p, options=SMALL).compiled.loops
    exe = dd.compile(p, engine=Simt(), options=SMALL, choose={name: choice})
    monkeypatch.setattr(access, "load", watched)
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32)
    assert dd.interpret(p, x).contains(exe(x))
    assert set[int]().union(*read.values()) == set(range(x.size))
    for n, some in enumerate(read[n] for n in sorted(read)):
        each = x.size // len(read)
        assert some == set(range(n * each, (n + 1) * each))


def kernels(p: dd.Program, target: str = "portable") -> list[PrimFunc]:
    made = compile(p.module, dd.Options(target=target), until="schedule").kernels.values()
    return [k for ks in made for k in ks if isinstance(k, PrimFunc)]


def in_turn(s: Stmt) -> list[tuple[str, int]]:
    """Return the number of turns of each loop over terms, and how many of ``x`` one has."""
    loops = [x for x in stmts(s) if isinstance(x, For)]
    some = [(x, sum(isinstance(e, Load) and e.buffer == "x" for e in exprs(x.body))) for x in loops]
    return [(str(x.extent), n) for x, n in some if n]


@pytest.mark.parametrize("shape", [(60_000, 1001), (60_000, 1000)])
def test_the_last_terms_are_loaded_as_many_at_once_as_the_others(shape: tuple[int, int]) -> None:
    p = dd.trace(dd.f32[shape])(sums)
    first, _ = kernels(p, "sm_90a")
    (parts,) = (
        s for s in stmts(first.body) if isinstance(s, If) and s.other is not None and in_turn(s)
    )
    assert parts.other is not None
    turns, last = in_turn(parts.then), in_turn(parts.other)
    assert turns == last
    assert max(n for _, n in turns) >= 4


def sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=0)


def test_few_columns_of_parts_have_more_threads() -> None:
    _, last = kernels(dd.trace(dd.f32[60_000, 256])(sums), "sm_90a")
    threads = [
        int(s.extent.value)
        for s in stmts(last.body)
        if isinstance(s, For) and isinstance(s.extent, Const) and s.axis.startswith("threadIdx")
    ]
    assert np.prod(threads) == 1024
