"""What plans write for a chain of values: the lines of PyTorch Inductor's wrapper, one by one."""

from __future__ import annotations

import pytest

from didyma.codegen.memory import planner
from didyma.codegen.memory.plan import plan
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.program import Launch, Program, Return, View
from didyma.refimpl.ir.text import show_instruction
from didyma.refimpl.ir.types import DType, TensorType

N, M = symbol("n"), symbol("m")


def of(*shape: Dim, dtype: DType = DType.F32, device: str = "") -> TensorType:
    return TensorType(dtype, shape, device)


LIKE = of(N, 4)


def written(c: TensorType, how: str) -> list[str]:
    """The lines of memory of a chain x, a, b, c, d: where ``a`` is dead, ``c`` needs bytes."""
    types = (("x", of(N)), ("a", LIKE), ("b", of(N)), ("c", c), ("d", of(N)))
    work = (
        Launch("f", ("x", "a")), Launch("g", ("a", "b")), Launch("h", ("b", "c")),
        Launch("k", ("c", "d")), Return(("d",)),
    )  # fmt: skip
    dims = (DimVar("n", 1, 64), DimVar("m", 1, 64))
    p = plan(Program("p", dims, ("x",), (), types, (), work), planner(how))
    return [show_instruction(x) for x in p.lines if not isinstance(x, Launch | Return)]


@pytest.mark.parametrize(
    ("c", "lines"),
    [
        (LIKE, ["reuse %c over %a"]),
        (of(2 * N, 2), ["place %c over %a at 0"]),
        (of(N, 4, dtype=DType.I32), ["free %a", "allocate %c"]),
        (of(M, 4), ["free %a", "allocate %c"]),
        (of(N, 4, device="host:1"), ["free %a", "allocate %c"]),
    ],
    ids=["exact", "another shape", "another dtype", "another size", "another device"],
)
def test_whole_buffers_are_reused_by_device_dtype_and_symbolic_size(
    c: TensorType, lines: list[str]
) -> None:
    first, last = ["allocate %a", "allocate %b"], ["reuse %d over %b", "free %c"]
    assert written(c, "size_class") == [*first, *lines, *last]


def test_what_is_not_reused_is_freed_and_without_a_planner_at_the_end() -> None:
    assert [x for x in written(LIKE, "size_class") if "free" in x] == ["free %c"]
    assert written(LIKE, "none")[-3:] == ["free %a", "free %b", "free %c"]


def test_a_pool_has_symbolic_offsets() -> None:
    lines = [x for x in written(LIKE, "didyma") if not x.startswith("carry")]
    assert lines == [
        "arena %arena of peak stack", "place %a in %arena at 0", "place %b in %arena at at",
        "free %a", "place %c in %arena at 0", "free %b", "place %d in %arena at at_1", "free %c",
    ]  # fmt: skip


def test_another_name_for_bytes_takes_no_line_of_memory() -> None:
    types = (("x", of(N)), ("v", of(N, 1)), ("a", of(N)))
    work = (View("v", "x"), Launch("f", ("v", "a")), Return(("a",)))
    p = plan(Program("p", (DimVar("n", 1, 64),), ("x",), (), types, (), work), planner("none"))
    assert [show_instruction(x) for x in p.lines[:2]] == ["view %v of %x", "allocate %a"]
