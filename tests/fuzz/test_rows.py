"""Campaigns draw programs that fold rows several times, and compile them as joined rows."""

from __future__ import annotations

import re

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.codegen.passes.rows import JOINED
from didyma.codegen.pipeline import compile
from didyma.codegen.rules import schedules
from didyma.fuzz import control
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Dice
from didyma.fuzz.domains.lowering import EACH, WAYS, Lowering
from didyma.fuzz.domains.ways import CHOICES, compiled
from didyma.fuzz.graphs import Case
from didyma.fuzz.keys import DECISION, MATTERED
from didyma.fuzz.steering.draw import draw, symbols
from didyma.fuzz.steering.rows import ANNOUNCED, CLUSTERED, KINDS, rows
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.steering.wishes import INTERPRETED
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify.graph import verify

WISHES = [("rows", first, "sum", kind) for kind in KINDS for first in ("max", "mean", "sum")]


def wished(seed: int) -> Case:
    return draw(seed, seed, wishes=(WISHES[seed % len(WISHES)],))


def test_half_of_all_graphs_are_compiled_as_joined_rows() -> None:
    drawn = [draw(3, i).options(Options()).graph.rows for i in range(120)]
    assert 40 < sum(drawn) < 100


def test_graphs_that_are_asked_for_rows_have_some_that_are_joined() -> None:
    joined = 0
    for seed in range(42):
        case = wished(seed)
        verify(case.module)
        options = case.options(Options())
        assert options.graph.rows
        joined += JOINED in decisions(case, options)
    assert joined > 15


@pytest.mark.parametrize(
    ("kind", "schedule"),
    [("once", "rows_once"), ("swept", "rows_sweep"), (CLUSTERED, "rows_cluster")],
)
def test_rows_are_asked_for_by_how_kernels_fold_them(kind: str, schedule: str) -> None:
    found = 0
    for seed in range(32):
        case = draw(5, seed, wishes=(("rows", "max", "sum", kind),))
        verify(case.module)
        made = compile(case.module, case.options(Options()), until="schedule")
        found += schedule in {name for name, _ in schedules(made)}
    assert found > 4


def test_odd_rows_have_edges() -> None:
    found = 0
    for seed in range(20):
        case = draw(5, seed, wishes=(("rows", "max", "sum", "odd"),))
        made = compile(case.module, case.options(Options()), until="schedule")
        texts = (show(k) for ks in made.kernels.values() for k in ks)
        found += any("let edge" in text for text in texts)
    assert found > 4


def test_rows_are_announced_of_which_some_exist() -> None:
    domain, ahead = Lowering(), set[bool]()
    wish = 3 * INTERPRETED.index(("rows", "max", "sum", ANNOUNCED))
    for lap in range(wish, 12 * 3 * len(INTERPRETED), 3 * len(INTERPRETED)):
        for index in range(lap * WAYS + 1, (lap + 1) * WAYS):
            case = domain.draw(7, index)
            text = str(dict(case.changes).get(CHOICES, ""))
            for found in re.finditer(r"\brows\(ahead=(\d+), groups=(\d+)", text):
                later = int(found[1]) * int(found[2]) * SM_90A.processors
                rows = max(
                    d
                    for p in case.module.entry.params
                    for d in p.type.shape[:1]
                    if isinstance(d, int)
                )
                ahead |= {later < rows} if later else set()
    assert ahead == {True, False}


def decisions(case: Case, options: Options) -> set[str]:
    heard = set[str]()

    def hear(name: str, value: str) -> None:
        assert value
        heard.add(name)

    compile(case.module, options, until="lower", heard=hear)
    return heard


def test_rows_have_every_length_dtype_and_kind_of_values() -> None:
    dtypes, sizes, values, symbolic = set[DType](), set[int](), set[str](), False
    for seed in range(300):
        c = Dice(seed)
        s = Sketch(GraphBuilder(control.draw, symbols(c)), c)
        with np.errstate(all="ignore"):  # corners of one dtype may lie outside of another
            s.bind_symbols()
            rows(s, *WISHES[seed % len(WISHES)][1:])
        for p in s.b.params:
            dtypes.add(p.type.dtype)
            sizes |= {d for d in p.type.shape[-1:] if isinstance(d, int)}
            symbolic = symbolic or bool(dims.free(p.type.shape))
        for t in s.given.values():
            some = t.array()
            if t.dtype.is_float and some.size:
                with np.errstate(invalid="ignore"):  # a NaN that signals
                    wide = some.astype(np.float64)
                line = wide.reshape(-1, wide.shape[-1])
                values |= {"nan"} if np.isnan(wide).any() else set()
                values |= {"inf"} if np.isposinf(wide).any() else set()
                values |= {"all -inf"} if np.isneginf(line).all(1).any() else set()
    assert dtypes >= {DType.F16, DType.BF16, DType.F32, DType.F64, DType.I8, DType.I64, DType.U8}
    assert sizes >= {0, 1, 7, 130}
    assert symbolic
    assert values == {"nan", "inf", "all -inf"}


def test_cases_of_lowering_have_kernels_of_rare_schedules_that_matter() -> None:
    domain, fired, mattered = Lowering(), set[str](), set[str]()
    judge = domain.judge()
    for index in (*range(256), *range(256, 768, EACH)):
        outcome = judge(domain.draw(12, index))
        assert not outcome.findings, [str(f) for f in outcome.findings]
        fired |= {k[1] for k in outcome.covered if k[0] == DECISION}
        mattered |= {k[1] for k in outcome.covered if k[0] == MATTERED}
    assert fired >= {
        "rows",
        "rows_cluster",
        "rows_once",
        "rows_sweep",
        "scan_chain",
        "seek_wide",
        "segments_wide",
    }
    assert mattered & {"rows_cluster", "rows_once", "rows_sweep"}


def test_loops_and_kernels_of_drawn_rows_agree() -> None:
    domain = Lowering()
    for seed in range(24):
        outcome = domain.outcome(wished(seed))
        assert not outcome.findings, [str(f) for f in outcome.findings]


def test_cases_in_a_row_have_one_graph_scheduled_in_other_ways() -> None:
    domain, ways, sizes, pointed = Lowering(), set[str](), set[object](), 0
    for first in range(EACH * 2, EACH * 12, WAYS):
        cases = [domain.draw(3, index) for index in range(first, first + WAYS)]
        some = [c for c in cases if CHOICES in dict(c.changes)]
        assert len(some) in (0, WAYS - 1, WAYS)  # what has one way alone is scheduled in that
        pointed += bool(some)
        assert all(c.module == some[0].module for c in some)
        ways.update(str(dict(c.changes)[CHOICES]) for c in some)
        sizes.update(c.env for c in some)
    assert pointed > 16
    assert len(ways) > 40
    assert len(sizes) > 20


def test_kernels_that_are_scheduled_in_a_way_are_those_of_a_whole_compile() -> None:
    domain = Lowering()
    for index in (1, 3, 9, 30):
        case = domain.draw(3, index)
        whole = compile(case.module, case.options(Options()), until="schedule")
        assert compiled(case, Options())[0].kernels == whole.kernels
