"""Operators and methods of tensors beside NumPy's, on arrays, numbers and sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.refimpl.ir.types import Array, DType
from didyma.tracer.types import Element
from tests.didyma.tracing import One, fail, interpreted, traced

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
Y = np.array([[1, 2, 3, 4]], np.float32) / 2
I = np.arange(12, dtype=np.int32).reshape(3, 4) - 5  # noqa: E741  # the integers beside X
W = np.arange(8, dtype=np.float32).reshape(4, 2)
B = X > 0


def same(f: Callable[[Any], Any], x: Array) -> None:
    """Didyma's interpretation of a function gives what the function gives of NumPy arrays."""
    (got,) = interpreted(f, x)
    with np.errstate(all="ignore"):
        want: Array = np.asarray(f(x))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-6)


ARITHMETIC = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
]
LOGIC = ["and_", "or_", "xor"]
OPERATOR: Any = operator


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize(
    "other", [Y, np.float32(1.5), np.float64(1.5), 2.5, 2, np.array([[2]], np.float16)]
)
def test_arrays_and_numbers_on_both_sides(op: str, other: Any) -> None:
    f = getattr(OPERATOR, op)
    same(lambda x: f(x, other), abs(X) + 1)
    same(lambda x: f(other, x), abs(X) + 1)


@pytest.mark.parametrize("op", [*LOGIC, "lshift", "rshift"])
@pytest.mark.parametrize(
    "other", [np.array([1, 2, 3, 4], np.int32), np.int8(2), 3, np.array([[3]], np.uint8)]
)
def test_integers_on_both_sides(op: str, other: Any) -> None:
    f = getattr(OPERATOR, op)
    small = abs(I) % 7
    same(lambda x: f(x, other), small)
    same(lambda x: f(other, x), small)


@pytest.mark.parametrize("op", LOGIC)
@pytest.mark.parametrize("other", [np.array([True, False, True, False]), True, np.False_])
def test_bools_on_both_sides(op: str, other: Any) -> None:
    f = getattr(OPERATOR, op)
    same(lambda x: f(x, other), B)
    same(lambda x: f(other, x), B)


def test_matrix_products_with_arrays() -> None:
    same(lambda x: x @ W, X)
    same(lambda x: W.T @ x.T, X)
    same(lambda x: x @ W[:, 0], X)
    same(lambda x: Y[0] @ x.T, X)


def test_an_array_beside_a_tensor_is_one_result() -> None:
    program = traced(lambda x: np.ones(4, np.float32) + x, dd.f32[4])
    assert [str(t) for t in program.module.entry.result_types()] == ["f32[4]"]


def test_ufuncs_of_numpy_add_to_the_graph() -> None:
    same(np.exp, X)
    same(lambda x: np.maximum(x, Y), X)
    same(lambda x: np.maximum(Y, x), X)
    same(np.abs, I)
    same(lambda x: np.bitwise_and(B, x), B)
    same(lambda x: np.matmul(x, W), X)


NAMES: dict[str, Any] = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64,
         "i32": np.int32, "i16": np.int16, "i8": np.int8, "u64": np.uint64, "u32": np.uint32,
         "u16": np.uint16, "u8": np.uint8, "bool": np.bool_}  # fmt: skip


@pytest.mark.parametrize("a", NAMES)
@pytest.mark.parametrize("b", NAMES)
def test_arrays_promote_by_the_standard(a: str, b: str) -> None:
    """NumPy's promotion, where the Array API standard defines one; otherwise refused."""
    x: Array = np.ones(2, NAMES[a])
    y: Array = np.ones(2, NAMES[b])
    kinds = {x.dtype.kind, y.dtype.kind}
    defined = len(kinds) == 1 or (kinds == {"i", "u"} and "u64" not in (a, b))
    op = OPERATOR.or_ if kinds == {"b"} else OPERATOR.mul
    both: list[One] = [lambda x: op(x, y), lambda x: op(y, x), lambda x: op(x, y[0])]
    for f in both:
        if defined:
            same(f, x)
        else:
            with fail("dtype-mismatch", "astype"):
                interpreted(f, x)


def test_a_number_takes_the_dtype_of_the_tensor() -> None:
    for name, number in {
        "f16": 2,
        "bf16": 2.5,
        "i8": -128,
        "u8": 255,
        "f32": True,
        "i64": True,
    }.items():
        program = traced(lambda x: (x + number, number - x), Element(DType(name))[2])  # noqa: B023  # called at once
        assert {t.dtype.value for t in program.module.entry.result_types()} == {name}


def test_sizes_are_numbers_beside_a_tensor() -> None:
    n = dd.dim("n", 1, 9)

    @dd.trace(dd.f32[n, 3])
    def program(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        rows = x.shape[0]
        whole = x.astype(dd.i32)
        return x.sum(axis=0) / rows, n * x, x - (n - 1), rows // 2 + whole, x / x.size, rows > x

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    want = x.mean(0), 4 * x, x - 3, 2 + x, x / np.float32(12), x < 4
    for got, w in zip(dd.interpret(program, x).values, want, strict=True):
        assert got.tolist() == w.tolist()
    assert dd.check(program).agree


METHODS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "sum(1)": lambda x: x.sum(1),
    "sum(axis, keepdims)": lambda x: x.sum(axis=-1, keepdims=True),
    "sum(axes)": lambda x: x.sum((0, 1)),
    "sum(dtype)": lambda x: x.sum(dtype=np.float64),
    "mean": lambda x: x.mean(axis=0),
    "prod": lambda x: x.prod(axis=1),
    "max": lambda x: x.max(axis=1, keepdims=True),
    "min": lambda x: x.min(),
    "any": lambda x: (x > 3).any(axis=0),
    "all": lambda x: (x > 3).all(),
    "std": lambda x: x.std(axis=1),
    "var": lambda x: x.var(),
    "argmax": lambda x: x.argmax(),
    "argmax(axis)": lambda x: x.argmax(axis=1),
    "argmax(keepdims)": lambda x: x.argmax(keepdims=True),
    "argmin": lambda x: x.argmin(0),
    "argsort": lambda x: x.argsort(),
    "cumsum": lambda x: x.cumsum(axis=1),
    "cumsum()": lambda x: x.cumsum(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "reshape": lambda x: x.reshape(2, 6),
    "reshape(tuple)": lambda x: x.reshape((2, -1)),
    "reshape(-1)": lambda x: x.reshape(-1),
    "reshape(shape)": lambda x: x.reshape(x.shape[1], x.shape[0]),
    "transpose": lambda x: x.transpose(),
    "transpose(axes)": lambda x: x.transpose(1, 0),
    "transpose(tuple)": lambda x: x.reshape(3, 2, 2).transpose((2, 0, 1)),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "squeeze": lambda x: x[None].squeeze(),
    "squeeze(axis)": lambda x: x[None, :, None].squeeze(0),
    "astype": lambda x: x.astype(np.float64),
    "astype(str)": lambda x: x.astype("int32"),
    "take": lambda x: x.take(np.array([1, 0]), axis=1),
    "take()": lambda x: x.take(np.array([7, 0])),
    "dot": lambda x: x.dot(W),
    "clip": lambda x: x.clip(-2, 2),
    "round": lambda x: (x / 2).round(),
    "abs": abs,
    "divmod": lambda x: divmod(x, 3)[1],
    "+x": lambda x: +x,
    "ndim": lambda x: x * x.ndim,
    "size": lambda x: x / x.size,
    "len": lambda x: x + len(x),
    "chain": lambda x: ((x - x.mean(0)) / (x.std(0) + 1)).max(axis=-1),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_numpy(name: str) -> None:
    same(METHODS[name], X)


def test_methods_of_pytorch() -> None:
    def f(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        more = x.reshape(3, 2, 2).permute(2, 0, 1), x.unsqueeze(0), x.view(4, -1), x.to(dd.f16)
        return (*more, x.exp(), x.relu(), x.softmax(1), x.std(1, correction=1), round(x / 2))

    got = interpreted(f, X)
    want: list[Array] = [X.reshape(3, 2, 2).transpose(2, 0, 1), X[None], X.reshape(4, -1)]
    want.append(X.astype(np.float16))
    for g, w in zip(got, want, strict=False):
        assert (g.dtype, g.tolist()) == (w.dtype, w.tolist())
    np.testing.assert_allclose(got[4], np.exp(X), rtol=1e-6)
    assert got[5].tolist() == np.maximum(X, 0).tolist()
    np.testing.assert_allclose(got[6].sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(got[7], np.std(X, axis=1, ddof=1), rtol=1e-6)
    assert got[8].tolist() == np.round(X / 2).tolist()


def test_dtypes_are_given_as_ours_or_numpys() -> None:
    @dd.trace(dd.f32[2])
    def program(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        assert x.dtype == dd.f32
        assert x.dtype != dd.f64
        return tuple(x.astype(d) for d in (dd.f16, DType.F16, np.float16, "float16", "f16"))

    assert {str(t) for t in program.module.entry.result_types()} == {"f16[2]"}


def test_hasattr_asks_without_an_error() -> None:
    @dd.trace(dd.f32[2])
    def program(x: dd.Tensor) -> dd.Tensor:
        assert not hasattr(x, "foo")
        assert not hasattr(x, "numpy")
        assert not hasattr(x, "__dlpack__")
        assert hasattr(x, "sum")
        return x

    assert program.module.entry.nodes == ()


def test_the_namespace_of_a_tensor_is_didyma() -> None:
    program = traced(lambda x: x.__array_namespace__().exp(x), dd.f32[2])
    assert [n.op for n in program.module.entry.nodes] == ["exp"]


def test_what_is_shown_is_short() -> None:
    n = dd.dim("n", 1, 8)
    program = traced(lambda x, w: (x * w, x.sum()), dd.f32[n, 2], dd.f32[2])
    assert repr(program).splitlines() == [
        "Program <lambda>",
        "  inputs   x: f32[n, 2], w: f32[2]",
        "  outputs  f32[n, 2], f32[]",
        "  sizes    n in [1, 8]",
        "  nodes    2",
    ]
    wide = traced(lambda a, b, c: [a + b + c] * 30, *[dd.f32[2]] * 3)
    assert "and 24 more" in repr(wide)
    assert len(repr(wide).splitlines()) <= 20
    assert str(program).startswith("module {")
