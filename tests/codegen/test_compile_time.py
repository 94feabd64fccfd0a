"""What a compile costs, counted in calls of Python functions, which repeat exactly."""

from __future__ import annotations

from collections import Counter

import pytest

from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.verify import sharing
from tests.bench.compile_time import calls, program

WARM = program(20)


def counted(nodes: int, options: Options) -> float:
    """Return the calls a node, after a compile that imports what is imported once."""
    m = program(nodes)
    compile(WARM, options)
    return calls(m, options) / len(m.entry.nodes)


@pytest.mark.parametrize("rows", [False, True])
def test_a_node_costs_as_much_in_a_longer_program(rows: bool) -> None:
    options = Options().changed({"graph.rows": rows})
    assert counted(1000, options) <= 1.3 * counted(250, options)


def test_joined_rows_cost_little_more_than_separate_kernels() -> None:
    with_rows, without = (Options().changed({"graph.rows": rows}) for rows in (True, False))
    assert counted(500, with_rows) <= 1.7 * counted(500, without)


def test_planning_reads_the_loops_of_each_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[str]()

    def counting(f: PrimFunc) -> PrimFunc:
        read[f.name] += 1
        return written_out(f)

    monkeypatch.setattr(sharing, "written_out", counting)
    compile(program(100), Options().changed({"verify": False}))
    assert read
    assert set(read.values()) == {1}
