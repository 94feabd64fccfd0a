"""The graph interpreter: values, bars, calls, dims, bad inputs."""

from __future__ import annotations

import numpy as np
import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.interp.graph_machine import last_uses
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Function, Module, Node, Param
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import bars

N = symbol("n")
F32 = TensorType(DType.F32, (N, 2))


def node(result: str, op: str, args: str, type: TensorType, **attrs: object) -> Node:
    return Node((result,), op, tuple(args.split()), (type,), tuple(attrs.items()))  # type: ignore[arg-type]  # any


def module() -> Module:
    """``y = exp(-(x * x)); z = sum(y)`` with a call, for any n in 1..8."""
    inner = Function(
        "inner",
        (Param("a", F32),),
        (node("b", "multiply", "a a", F32), node("c", "negative", "b", F32)),
        ("c", "b"),
    )
    entry = Function(
        "main",
        (Param("x", F32),),
        (
            Node(("u", "v"), "call", ("x",), (F32, F32), (("callee", "inner"),)),
            node("y", "exp", "u", F32),
            node("z", "sum", "y", TensorType(DType.F32, (2,)), axes=(0,), keepdims=False),
        ),
        ("z", "x", "v"),
    )
    return Module((inner, entry), (DimVar("n", 1, 8),))


X = np.array([[0.5, -1], [2, 0.25], [0, 3]], np.float32)


def test_run_follows_calls() -> None:
    z, x, v = graph.run(module(), [X])
    np.testing.assert_allclose(z, np.exp(-(X.astype("f8") ** 2)).sum(0), rtol=1e-6)
    assert x is X
    assert (v == X * X).all()
    assert z.dtype == np.float32


def test_values_are_all_there() -> None:
    m = module()
    found = graph.values(m.entry, m, [X])
    assert list(found) == ["x", "u", "v", "y", "z"]
    assert (found["u"] == -X * X).all()


def test_results_are_inside_their_bars() -> None:
    m = module()
    results = graph.run(m, [X])
    for b, r, t in zip(
        graph.bars(m.entry, m, [bars.exact(X)]), results, m.entry.result_types(), strict=True
    ):
        assert b.c.shape == r.shape
        verdict = bars.judge(b, r, t.dtype)
        assert verdict.ok.all()
        assert not verdict.undecided.any()
        bad = np.where(r == 0, r + np.float32(1e-6), r * np.float32(1.00001))
        assert not bars.judge(b, bad, t.dtype).ok.any()


def halves() -> Module:
    """``(x + 1) - 1`` in f16: 1 + 2**-12 is lost if the sum is stored."""
    t = TensorType(DType.F16, (1,))
    one = Node(("k",), "iota", (), (t,), (("axis", 0), ("dtype", DType.F16), ("shape", (1,))))
    nodes = (
        one,
        node("s", "subtract", "x k", t),
        node("w", "add", "s y", t),
        node("r", "subtract", "w y", t),
    )
    f = Function("main", (Param("x", t), Param("y", t)), nodes, ("r",))
    return Module((f,))


def test_half_intermediates_stay_in_f32_unless_stored() -> None:
    m = halves()
    tiny, one = np.array([2.0**-12], np.float16), np.array([1], np.float16)
    exact = [bars.exact(tiny), bars.exact(one)]
    zero = np.array([0], np.float16)
    (once,) = graph.bars(m.entry, m, exact)
    assert bars.judge(once, tiny, DType.F16).ok.all()
    assert not bars.judge(once, zero, DType.F16).ok.any()
    (either,) = graph.bars(m.entry, m, exact, stored=True)
    assert bars.judge(either, tiny, DType.F16).ok.all()
    assert bars.judge(either, zero, DType.F16).ok.all()
    assert graph.run(m, [tiny, one])[0] == zero


def test_values_are_freed_at_their_last_use() -> None:
    m = module()
    assert [set(d) for d in last_uses(m.entry)] == [set(), {"u"}, {"y"}]


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ([], "input-count"),
        ([X, X], "input-count"),
        ([X.astype("f8")], "input-dtype"),
        ([X[0]], "rank-mismatch"),
        ([X[:, :1]], "dim-mismatch"),
        ([np.zeros((9, 2), "f4")], "dim-out-of-range"),
        ([np.zeros((0, 2), "f4")], "dim-out-of-range"),
    ],
)
def test_bad_inputs(inputs: list[Array], code: str) -> None:
    with pytest.raises(DidymaError) as e:
        graph.run(module(), inputs)
    assert e.value.code == code


def test_given_dims_must_fit() -> None:
    m = module()
    assert graph.run(m, [X], {"n": 3})[0].shape == (2,)
    with pytest.raises(DidymaError) as e:
        graph.run(m, [X], {"n": 4})
    assert e.value.code == "dim-mismatch"


def test_a_symbol_that_no_input_tells_can_be_given() -> None:
    t = TensorType(DType.I64, (N,))
    iota = Node(("i",), "iota", (), (t,), (("axis", 0), ("dtype", DType.I64), ("shape", (N,))))
    m = Module((Function("main", (), (iota,), ("i",)),), (DimVar("n", 0, 9),))
    assert graph.run(m, [], {"n": 4})[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(DidymaError) as e:
        graph.run(m, [])
    assert e.value.code == "unbound-dim"


def test_an_error_names_its_node() -> None:
    t = TensorType(DType.F32, (2,))
    bad = Node(("r",), "sum", ("x",), (TensorType(DType.F32),), (("axes", 5), ("keepdims", False)))
    m = Module((Function("main", (Param("x", t),), (bad,), ("r",)),))
    with pytest.raises(DidymaError) as e:
        graph.run(m, [np.zeros(2, "f4")])
    assert "while executing %r = sum(%x) in @main" in e.value.__notes__
