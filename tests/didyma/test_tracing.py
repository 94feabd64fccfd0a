"""What tracing reads off a function, what it refuses, and programs used in programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import didyma as dd
from tests.didyma.tracing import Two, fail, traced

N = dd.dim("n", 1, 9)
M = dd.dim("m", 1, 20)
EYE = np.eye(2, dtype=np.float32)


def annotated(f: Callable[..., Any], **hints: object) -> Any:
    """The function with annotations that a type checker could not read."""
    f.__annotations__ = {k.replace("result", "return"): v for k, v in hints.items()}
    return f


def pair(x: Any) -> Any:
    return x, x[0]


def same(x: Any) -> Any:
    return x


bare: Any = eval("lambda x: x")  # without types


def rest(x: Any) -> Any:
    return x[1:]


def scale(x: Any, k: int = 3) -> Any:
    return x * k


def product(x: Any, w: Any = EYE) -> Any:
    return x @ w


ROW, MATRIX = dd.f32[2], dd.f32[N, 2]
TUPLE: Any = tuple  # of types that a type checker could not read
LIST: Any = list
NOTED: Any = Annotated


trace: Any = dd.trace  # of what a type checker would refuse


@pytest.mark.parametrize(
    "result",
    [
        None, dd.Tensor, tuple, TUPLE[dd.Tensor, ...], TUPLE[MATRIX, ROW], LIST[dd.Tensor],
        TUPLE[MATRIX, dd.Tensor], TUPLE[NOTED[dd.Tensor, MATRIX], ROW],
    ],
)  # fmt: skip
def test_results_that_are_as_annotated(result: object) -> None:
    assert trace(annotated(pair, x=MATRIX, result=result)).module.entry.results


@pytest.mark.parametrize(
    ("result", "word"),
    [
        (TUPLE[ROW, ROW], "f32[n, 2]"),
        (TUPLE[MATRIX, dd.f32[3]], "f32[3]"),
        (TUPLE[MATRIX, dd.f64[2]], "f64[2]"),
        (TUPLE[NOTED[dd.Tensor, MATRIX], NOTED[dd.Tensor, MATRIX]], "f32[2]"),
        (TUPLE[MATRIX, ...], "f32[2]"),
        (LIST[MATRIX], "f32[2]"),
        (TUPLE[MATRIX], "2 results"),
        (TUPLE[dd.Tensor, dd.Tensor, dd.Tensor], "3, as annotated"),
        (MATRIX, "2 results"),
        (dd.f32, "2 results"),
    ],
)
def test_results_that_are_not_as_annotated(result: object, word: str) -> None:
    with fail("type-mismatch", word):
        trace(annotated(pair, x=MATRIX, result=result))


def test_the_result_of_a_function_whose_parameters_are_given_is_compared_too() -> None:
    with fail("type-mismatch", "f32[3]"):
        trace(dd.f32[2])(annotated(same, result=dd.f32[3]))


def test_sizes_are_compared_for_their_ranges() -> None:
    """``x[1:]`` has the size ``Max(0, n - 1)``, which is ``n - 1`` for n >= 1."""
    trace(annotated(rest, x=MATRIX, result=dd.f32[N - 1, 2]))
    zero = dd.dim("n", 0, 9)
    with fail("type-mismatch", "n - 1"):
        trace(annotated(rest, x=dd.f32[zero], result=dd.f32[zero - 1]))


def test_parameters_by_keyword_and_with_defaults() -> None:
    def f(x: Any, *, k: Any, scale: float = 2.0) -> Any:
        return x + k * scale

    program = trace(annotated(f, x=ROW, k=ROW, scale=float))
    assert [p.name for p in program.module.entry.params] == ["x", "k"]
    x = np.array([1, 2], np.float32)
    assert dd.interpret(program, x, x).values[0].tolist() == [3, 6]
    assert traced(lambda x, k=3: x * k, ROW).module.entry.params[0].name == "x"


class Layer:
    """A function that holds arrays."""

    def __call__(self, x: Any) -> Any:
        return x @ EYE

    def forward(self, x: Any) -> Any:
        return x @ EYE


@pytest.mark.parametrize(
    "f", [Layer(), Layer().forward, functools.partial(product, w=EYE), product]
)
def test_whatever_is_called_like_a_function_is_traced(f: Callable[..., Any]) -> None:
    program: dd.Program = trace(MATRIX)(f)
    (y,) = dd.interpret(program, np.ones((3, 2), np.float32)).values
    assert y.tolist() == [[1, 1]] * 3
    assert np.asarray(dd.compile(program)(np.ones((1, 2), np.float32))).tolist() == [[1, 1]]


def many(*xs: Any) -> Any:
    return xs[0]


def named(x: Any, **xs: Any) -> Any:
    return xs or x


def default(x: Any, y: Any = None) -> Any:
    return x if y is None else y


tracing: Any = trace  # type checkers refuse types after a function, too


WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "*xs": (lambda: trace(annotated(many, xs=ROW)), "unannotated", "*xs"),
    "*xs, typed": (lambda: trace(ROW)(many), "unannotated", "*xs"),
    "**xs": (lambda: trace(annotated(named, x=ROW)), "unannotated", "**xs"),
    "typed": (lambda: trace(annotated(default, x=ROW, y=ROW)), "unannotated", "default"),
    "lambda": (lambda: trace(bare), "unannotated", "@dd.trace(dd.f32[n, 4])"),
    "too few": (lambda: traced(lambda x, y: x + y, ROW), "unannotated", "1 type\n"),
    "too many": (lambda: traced(lambda x: x, ROW, ROW), "unannotated", "2 types"),
    "types after it": (lambda: tracing(same, ROW), "unannotated", "dd.trace(dd.f32[n, 4])(f)"),
    "number": (lambda: trace(3), "unannotated", "3"),
    "text": (lambda: trace("f32[2]"), "unannotated", "f32[2]"),
    "class": (lambda: trace(Layer), "unannotated", "Layer"),
    "unknown": (lambda: trace(annotated(same, x="dd.f32[q]")), "unannotated", "'q'"),
    "builtin": (lambda: trace(print), "unannotated", "*args"),
    "nothing": (lambda: traced(lambda x: None, ROW), "bad-result", "nothing"),
    "no results": (lambda: traced(lambda x: (), ROW), "bad-result", "nothing"),
    "a number": (lambda: traced(lambda x: 3, ROW), "bad-result", "3"),
    "an array": (lambda: traced(lambda x: np.empty(0), ROW), "bad-result", "dd.asarray"),
    "nested": (lambda: traced(lambda x: (x, (x, x)), ROW), "bad-result", "flatten"),
    "dict": (lambda: traced(lambda x: {"y": x}, ROW), "bad-result", "'y'"),
    "two ranges": (
        lambda: traced(lambda x, y, z: x, ROW, MATRIX, dd.f32[dd.dim("n", 1, 3)]),
        "redefined", "1..9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_traced_is_told_in_codes(what: str) -> None:
    make, code, word = WRONG[what]
    with fail(code, word):
        make()


@pytest.fixture(scope="module")
def scaled() -> dd.Program:
    return traced(lambda x, w: x * w, MATRIX, dd.f32[2])


INLINED: dict[str, Two] = {
    "by position": lambda p, y: p(y, y[0]),
    "by keyword": lambda p, y: p(w=y[0], x=y),
    "with an array": lambda p, y: p(y, np.array([1, 2], np.float32)),
}


@pytest.mark.parametrize("how", INLINED)
@pytest.mark.parametrize("rows", [3, N, dd.dim("m", 2, 9)])
def test_a_program_is_used_in_another(scaled: dd.Program, how: str, rows: Any) -> None:
    program = traced(lambda y: INLINED[how](scaled, y), dd.f32[rows, 2])
    y = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    assert dd.interpret(program, y).values[0].tolist() == (y * [1, 2]).tolist()


UNFIT: dict[str, tuple[Any, Two, str, str]] = {
    "rank": (dd.f32[2], lambda p, y: p(y, y), "type-mismatch", "f32[n, 2], n in 1..9"),
    "shape": (dd.f32[3, 4], lambda p, y: p(y, y[0]), "type-mismatch", "f32[3, 4]"),
    "size": (dd.f32[10, 2], lambda p, y: p(y, y[0]), "type-mismatch", "f32[10, 2]"),
    "range": (dd.f32[M, 2], lambda p, y: p(y, y[0]), "type-mismatch", "f32[m, 2]"),
    "dtype": (dd.f64[3, 2], lambda p, y: p(y, y[0]), "type-mismatch", "f64[3, 2]"),
    "array": (dd.f32[3, 2], lambda p, y: p(y, np.ones(2)), "type-mismatch", "f64[2]"),
    "number": (dd.f32[3, 2], lambda p, y: p(y, 2.0), "type-mismatch", "f32[]"),
    "count": (dd.f32[3, 2], lambda p, y: p(y), "bad-call", "missing"),
    "too many": (dd.f32[3, 2], lambda p, y: p(y, y[0], y), "bad-call", "too many"),
    "name": (dd.f32[3, 2], lambda p, y: p(y, v=y[0]), "bad-call", "missing"),
    "None": (dd.f32[3, 2], lambda p, y: p(y, None), "bad-operand", "NoneType"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_program_is_not_used_on_other_types(scaled: dd.Program, what: str) -> None:
    spec, f, code, word = UNFIT[what]
    with fail(code, word):
        traced(lambda y: f(scaled, y), spec)


def test_a_program_is_not_called_on_arrays(scaled: dd.Program, tmp_path: Path) -> None:
    with fail("not-compiled", "dd.compile"):
        scaled(np.ones((2, 2)), np.ones(2))
    (tmp_path / "p.dym").write_text(str(scaled))
    loaded = dd.load(tmp_path / "p.dym")
    assert isinstance(loaded, dd.Program)
    with fail("not-compiled", "from a file"):
        traced(lambda y: loaded(y, y[0]), MATRIX)


def test_a_dtype_alone_is_the_type_of_a_scalar() -> None:
    program = dd.trace(dd.f32)(same)
    assert [str(t) for t in program.module.entry.result_types()] == ["f32[]"]
    assert f"{program.module.entry.params[0].type}" == "f32[]"
