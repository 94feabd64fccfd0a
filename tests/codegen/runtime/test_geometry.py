"""Sizes of launches."""

from __future__ import annotations

from typing import get_args

import pytest

from didyma.codegen.runtime.geometry import evaluate
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import symbol
from didyma.refimpl.ir.expr import ceildiv, compare, index, maximum, minimum, mod, of_dim, select
from didyma.refimpl.ir.loop import Binary, BinaryOp, CompareOp, LetExpr, Var

N = Var("n")


@pytest.mark.parametrize("n", [0, 1, 5, 64, 65])
def test_expressions_of_dims(n: int) -> None:
    dims = {"n": n}
    assert evaluate(ceildiv(N, index(64)), dims) == -(-n // 64)
    assert evaluate(of_dim(2 * symbol("n") ** 2 + 1), dims) == 2 * n * n + 1
    assert evaluate(mod(N, index(7)), dims) == n % 7
    assert evaluate(minimum(N, index(5)), dims) == min(n, 5)
    assert evaluate(maximum(N, index(5)), dims) == max(n, 5)
    assert evaluate(select(compare("lt", N, index(5)), N, index(-1)), dims) == (n if n < 5 else -1)
    assert evaluate(LetExpr(Var("m"), N, Binary("mul", Var("m"), Var("m"))), dims) == n * n


@pytest.mark.parametrize("op", ["floordiv", "truncdiv", "floormod"])
@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (7, 0), (0, 3)])
def test_division(op: BinaryOp, a: int, b: int) -> None:
    got = evaluate(Binary(op, index(a), index(b)), {})
    want = {"floordiv": 0, "truncdiv": 0, "floormod": 0} if b == 0 else {
        "floordiv": a // b, "truncdiv": int(a / b), "floormod": a % b
    }  # fmt: skip
    assert got == want[op]


@pytest.mark.parametrize("op", get_args(CompareOp))
def test_comparison(op: CompareOp) -> None:
    want = {"eq": "010", "ne": "101", "lt": "100", "le": "110", "gt": "001", "ge": "011"}
    got = "".join(str(evaluate(compare(op, Var("n"), index(5)), {"n": n})) for n in (4, 5, 6))
    assert got == want[op]


def test_a_dim_without_a_value() -> None:
    with pytest.raises(DidymaError, match="unbound-dim"):
        evaluate(N, {})
