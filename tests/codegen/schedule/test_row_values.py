"""What several stages of a row compute alike is computed once, and is the same to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes import rows as recipe
from didyma.codegen.schedule.recipes.point import Point, show_all
from didyma.codegen.schedule.rows import RowNest
from didyma.refimpl.ir.loop import Intrinsic, PrimFunc, Select
from didyma.refimpl.ir.walk import exprs
from didyma.refimpl.verify import loop as laws
from tests.codegen.row_programs import PROGRAMS

ROWS = Options()


def masked(x: dd.Tensor, bias: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    scores = dd.astype(x, dd.f32) * 0.125 + dd.astype(bias, dd.f32)
    return dd.softmax(dd.where(mask, scores, -1e30), axis=-1)


def long_masked(length: int = 96) -> dd.Program:
    """A softmax whose terms take several operations."""
    types = dd.bf16[5, length], dd.bf16[length], dd.bool_[5, length]
    made: dd.Program = dd.trace(*types)(masked)
    return made


ALL = {name: r.program() for name, r in PROGRAMS.items()} | {"masked": long_masked()}


def keeping(p: dd.Program, keep: int) -> Options:
    """Return options by which rows keep values or not, where there are any."""
    loops = compile(p.module, ROWS).loops
    points = {
        name: [
            Point.of(x.recipe, **{k: keep if k == "keep" else v for k, v in x.values})
            for x in dispatch.first(loop, ROWS)
        ]
        for name, loop in loops.items()
    }
    return ROWS.changed({"kernels.choices": show_all(points)})


def kernels(p: dd.Program, options: Options) -> list[PrimFunc]:
    made = compile(p.module, options).kernels.values()
    return [k for ks in made for k in ks if isinstance(k, PrimFunc)]


def drawn(p: dd.Program) -> list[Any]:
    rng = np.random.default_rng(1)
    found = list[Any]()
    for x in p.module.entry.params:
        shape = tuple(d for d in x.type.shape if isinstance(d, int))
        values = rng.integers(0, 2, shape) if not x.type.dtype.is_float else rng.normal(size=shape)
        found.append(values.astype(np.float32).astype(x.type.dtype.numpy))
    return found


@pytest.mark.parametrize("name", ALL)
def test_kept_values_are_those_of_before_to_the_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apart from sums that are inverted where exponentials are not kept."""

    def as_they_are(_: object, rows: RowNest) -> RowNest:
        return rows

    monkeypatch.setattr(recipe, "by_inverse", as_they_are)
    p, results = ALL[name], list[list[bytes]]()
    for keep in (0, 1):
        options = keeping(p, keep)
        for k in kernels(p, options):
            laws.verify(k)
        out = dd.compile(p, engine="host", options=options)(*drawn(p))
        found = out if isinstance(out, tuple) else (out,)
        results.append([np.asarray(x).tobytes() for x in found])
    assert results[0] == results[1]


def test_a_value_of_several_stages_is_computed_once() -> None:
    counts = list[list[int]]()
    for keep in (0, 1):
        (k,) = kernels(ALL["masked"], keeping(ALL["masked"], keep))
        found = exprs(k.body)
        exps = sum(isinstance(e, Intrinsic) and e.name == "exp" for e in found)
        counts.append([exps, sum(isinstance(e, Select) for e in found)])
    assert counts == [[2, 3], [1, 1]]


def test_what_is_cheap_is_computed_again() -> None:
    """The difference from the mean is one operation: no registers for it."""
    (point,) = dispatch.first(next(iter(compile(ALL["layer_norm"].module).loops.values())), ROWS)
    assert "keep" not in point.table
