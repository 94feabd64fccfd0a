"""What the interpreter saves: views for copies, and what a module knows before it runs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from didyma.fuzz.graphs import BYTES, decode
from didyma.prepared import Prepared
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import Function, Module, Node, Param
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from didyma.refimpl.ops import OPS, bars
from didyma.refimpl.ops.spec import Op, Rules

F32 = TensorType(DType.F32, (2, 3))
SMALL = np.arange(6, dtype=np.float32).reshape(2, 3)


def node(result: str, op: str, args: str, size: tuple[object, ...], **attrs: object) -> Node:
    t = TensorType(DType.F32, size)  # type: ignore[arg-type]  # any dims
    return Node((result,), op, tuple(args.split()), (t,), tuple(attrs.items()))  # type: ignore[arg-type]  # any


WEIGHTS = (
    node("w", "constant", "", (2, 3), value=Tensor.of(SMALL)),
    node("wt", "permute_dims", "w", (3, 2), axes=(1, 0)),
    node("one", "constant", "", (), value=Tensor.of(np.ones((), np.float32))),
    node("ones", "broadcast_to", "one", (2, 2), shape=(2, 2)),
    node("y", "matmul", "x wt", (2, 2)),
    node("z", "matmul", "y ones", (2, 2)),
    node("xt", "permute_dims", "x", (3, 2), axes=(1, 0)),
)


def module(*results: str) -> Module:
    return Module((Function("main", (Param("x", F32),), WEIGHTS, results),))


def strided(a: Array) -> Array:
    """Return the same elements, read-only and as far from row-major as can be."""
    wide = np.zeros([2 * n for n in a.shape[::-1]], a.dtype).T
    back: list[Any] = [slice(None, None, -2)] * a.ndim
    out = wide[(*back, ...)]
    out[...] = a
    out.flags.writeable = False
    return out


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_operands_may_be_read_only_and_in_any_layout(op: Op) -> None:
    attrs = dict(op.example.attrs)
    types = [TensorType(DType.of(a), a.shape) for a in op.example.operands]
    t = op.infer(types, attrs)
    operands = [strided(a) for a in op.example.operands]
    use = op.apply(attrs)
    for rule in (use.eval, use.view):
        got = rule(operands, t)
        assert got.shape == op.example.result.shape
        assert got.tobytes() == rule(op.example.operands, t).tobytes()


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_a_view_is_the_value(op: Op) -> None:
    attrs = dict(op.example.attrs)
    types = [TensorType(DType.of(a), a.shape) for a in op.example.operands]
    t = op.infer(types, attrs)
    got = op.apply(attrs).view(op.example.operands, t)
    assert got.dtype == op.example.result.dtype
    assert got.tobytes() == op.example.result.tobytes()


@pytest.mark.parametrize("results", [("z",), ("w", "wt", "ones", "xt"), ("x", "w", "w")])
def test_results_may_be_written(results: tuple[str, ...]) -> None:
    m = module(*results)
    prepared = Prepared(m)
    for fast in (False, False, True, True):
        x = SMALL + 1
        found = prepared.run([x]) if fast else graph.run(m, [x])
        want = graph.values(m.entry, m, [SMALL + 1])
        for name, got in zip(results, found, strict=True):
            assert got.tobytes() == want[name].tobytes()
            assert got.flags.c_contiguous
        for name, got in zip(results, found, strict=True):
            if name != "x":  # an input is given back as it is
                got[...] = -1
        assert (x == SMALL + 1).all()


def test_what_is_known_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    m = module("z")
    seen: list[str] = []
    for name in ("permute_dims", "broadcast_to", "matmul"):
        op = OPS[name]
        rules = op.rules

        def noted(*use: Any, rules: Rules[Any] = rules, name: str = name) -> Array:
            seen.append(name)
            return rules.eval(*use)

        noting = replace(rules, eval=noted, view=noted)
        monkeypatch.setitem(OPS, name, replace(op, rules=noting))
    prepared = Prepared(m)
    assert sorted(seen) == ["broadcast_to", "permute_dims"]
    seen.clear()
    prepared.run([SMALL])
    assert seen == ["matmul", "matmul", "permute_dims"]


def test_sizes_are_those_of_each_run() -> None:
    n = symbol("n")
    t = TensorType(DType.F32, (n,))
    nodes = (
        node("one", "constant", "", (), value=Tensor.of(np.ones((), np.float32))),
        node("ones", "broadcast_to", "one", (n,), shape=(n,)),
        node("y", "add", "x ones", (n,)),
    )
    f = Function("main", (Param("x", t),), nodes, ("y", "ones"))
    prepared = Prepared(Module((f,), (DimVar("n", 0, 8),)))
    for size in (3, 5, 3, 0):
        y, ones = prepared.run([np.zeros(size, np.float32)])
        assert y.tolist() == ones.tolist() == [1.0] * size


@pytest.mark.parametrize("seed", range(40))
def test_prepared_or_not_a_program_means_the_same(seed: int) -> None:
    case = decode(random.Random(seed).randbytes(BYTES))
    m, inputs = case.module, case.inputs()
    exact = [bars.exact(a, p.type.dtype) for a, p in zip(inputs, m.entry.params, strict=True)]
    allowed = graph.bars(m.entry, m, exact, stored=True)
    prepared = Prepared(m)
    for found in (graph.run(m, inputs), prepared.run(inputs), prepared.run(inputs)):
        for got, bar, t in zip(found, allowed, m.entry.result_types(), strict=True):
            assert got.dtype == t.dtype.numpy
            assert bars.judge(bar, got, t.dtype).ok.all()
