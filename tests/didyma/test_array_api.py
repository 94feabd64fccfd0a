"""Every name of the Array API standard: traced, interpreted, and NumPy's within the bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import array_api_strict
import numpy as np
import pytest

import didyma as dd
from didyma.functions import aliases, standard, suggestions
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.bars import Bar
from didyma.tracer.tracing import Program
from tests.didyma.array_api_cases import CASES, LINALG, Case, arrays
from tests.didyma.test_complex import TRANSFORMS

STATIC = {
    "bool", "can_cast", "e", "finfo", "float32", "float64", "iinfo", "inf", "int16", "int32",
    "int64", "int8", "isdtype", "nan", "newaxis", "pi", "result_type", "uint16", "uint32", "uint64",
    "uint8",
}  # fmt: skip  # what is known while tracing: tests of its own below


def strict(module: Any) -> set[str]:
    """Names of the standard in a namespace of ``array_api_strict``."""
    own = {"linalg", "Device", "ArrayAPIStrictFlags"}
    own |= {"fft"} if module is array_api_strict else set()
    names = {n for n in module.__all__ if not n.startswith("__")}
    return {n for n in names if n not in own and not n.endswith("array_api_strict_flags")}


def test_the_table_holds_every_name_of_the_standard() -> None:
    assert set(standard.MAIN) == strict(array_api_strict)
    assert set(standard.LINALG) == strict(array_api_strict.linalg)
    assert set(standard.FFT) == strict(array_api_strict.fft)


def test_every_name_works_or_is_refused_with_a_reason() -> None:
    transforms = {*(name.split()[0] for name in TRANSFORMS), "fftfreq", "rfftfreq"}
    tried = {*CASES, *STATIC, *(f"linalg.{n}" for n in LINALG), *(f"fft.{n}" for n in transforms)}
    for space, names in standard.NAMESPACES.items():
        for name in names:
            full = f"{space}{name}"
            assert (full in tried) != (full in suggestions.INEXPRESSIBLE), full


@pytest.mark.parametrize("name", [n for n in suggestions.INEXPRESSIBLE if not n.startswith("_")])
def test_a_name_that_cannot_be_expressed_says_why(name: str) -> None:
    space, _, own = name.rpartition(".")
    module = getattr(dd, space) if space else dd
    assert not hasattr(module, own)
    with pytest.raises(AttributeError, match="unknown-name") as e:
        getattr(module, own)
    assert isinstance(e.value, DidymaError)
    assert e.value.help == suggestions.INEXPRESSIBLE[name]
    assert e.value.exit_code == 2


def _rows() -> Iterator[tuple[str, Case, str]]:
    for names, prefix in ((CASES, ""), (LINALG, "linalg.")):
        for name, cases in names.items():
            for i, case in enumerate(cases):
                for kind in case.kinds:
                    yield f"{prefix}{name}-{i}-{kind}", case, kind


ROWS = {where: (case, kind) for where, case, kind in _rows()}


def traced(case: Case, given: Sequence[Array]) -> Program:
    types = [getattr(dd, _dtype(a))[a.shape] for a in given]
    names = ", ".join(f"p{i}" for i in range(len(given)))
    f: Any = eval(f"lambda {names}: case.run(dd, [{names}])", {"case": case, "dd": dd})
    program: Program = dd.trace(*types)(f)
    return program


def _dtype(a: Array) -> str:
    return a.dtype.name if a.dtype != np.bool_ else "bool"


def _wide(a: Array) -> Array:
    return a.astype(np.float64) if a.dtype == np.float32 else a


_SEVERAL = ("list", "tuple")


def _many(x: Any) -> list[Array]:
    return [np.asarray(a) for a in x] if type(x).__name__ in _SEVERAL else [np.asarray(x)]


@pytest.mark.parametrize("where", ROWS)
def test_a_call_is_numpys(where: str) -> None:
    case, kind = ROWS[where]
    given = [arrays(kind)[o] for o in case.operands]
    program = traced(case, given)
    truth = dd.interpret(program, *given)
    with np.errstate(all="ignore"):
        like = _many(case.run(np, given, case.theirs))
        exact = _many(case.run(np, list(map(_wide, given)), case.theirs))
    assert len(truth.values) == len(like)
    for got, bar, own, want in zip(truth.values, truth.bars, like, exact, strict=True):
        assert got.shape == own.shape
        assert got.dtype == own.dtype
        if got.dtype.kind != "f":
            assert np.array_equal(got, own)
            continue
        if "nextafter" in where:
            assert np.array_equal(got, own)
            continue
        # Of f64 NumPy's own result is rounded as well.
        unit = 4 * np.spacing(np.abs(want)) if kind == "d" else np.zeros(want.shape)
        assert _inside(got, bar, bar.e).all()
        exactly = _inside(want.astype(own.dtype), bar, bar.e + np.nan_to_num(unit))
        assert (exactly | _inside(own, bar, bar.e)).all()


def _inside(a: Array, bar: Bar, e: Array) -> Array:
    with np.errstate(invalid="ignore"):
        near = np.abs(a - bar.c) <= e
    return np.asarray(near | (a == bar.c) | (np.isnan(a) & np.isnan(bar.c)))


KINDS: tuple[Any, ...] = (
    "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
    "numeric",
)  # fmt: skip


def test_dtypes_are_told_while_tracing() -> None:
    names = [n for n in STATIC if n[-1].isdigit()]
    for name in names:
        own, theirs = getattr(dd, name), np.dtype(name)
        assert own.dtype.numpy == theirs
        for kind in KINDS:
            assert dd.isdtype(own, kind) == np.isdtype(theirs, kind)
        info, want = (dd.iinfo, np.iinfo) if theirs.kind in "iu" else (dd.finfo, np.finfo)
        for field in ("bits", "max", "min"):
            assert getattr(info(own), field) == getattr(want(theirs), field)
        for other in names:
            both = getattr(dd, other)
            if {own.dtype.is_int, both.dtype.is_int} == {True}:
                if "uint64" in {name, other} and not dd.isdtype(both, "unsigned integer"):
                    continue  # the standard leaves that open
                if "uint64" in {name, other} and not dd.isdtype(own, "unsigned integer"):
                    continue
                assert dd.result_type(own, both).dtype.numpy == np.result_type(theirs, other)
    assert dd.finfo(dd.float32).eps == np.finfo(np.float32).eps
    assert dd.finfo(dd.float32).smallest_normal == np.finfo(np.float32).smallest_normal
    assert dd.isdtype(dd.float32, (dd.float64, "real floating"))
    assert dd.can_cast(dd.int8, dd.int16)
    assert not dd.can_cast(dd.int16, dd.int8)
    assert not dd.can_cast(dd.int64, dd.float64)
    assert (dd.pi, dd.e, dd.inf, dd.newaxis) == (np.pi, np.e, np.inf, None)
    assert np.isnan(dd.nan)


N = dd.dim("n", 1, 9)
SYMBOLIC: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, x: xp.sum(x, axis=0),
    "mean": lambda xp, x: xp.mean(x),
    "roll": lambda xp, x: xp.roll(x, 7, axis=0),
    "tile": lambda xp, x: xp.tile(x, (2, 1)),
    "repeat": lambda xp, x: xp.repeat(x, 2, axis=0),
    "zeros": lambda xp, x: x + xp.zeros((x.shape[0], 1), dtype=np.float32),
    "arange": lambda xp, x: xp.astype(x, np.float64) + xp.reshape(
        xp.arange(x.shape[0], dtype=np.float64), (-1, 1)),
    "stack": lambda xp, x: xp.stack([x, x], axis=1),
    "flip": lambda xp, x: xp.flip(x),
    "tensordot": lambda xp, x: xp.tensordot(x, x, axes=((0,), (0,))),
    "einsum": lambda xp, x: xp.einsum("ni,mi->nm", x, x),
    "argmax": lambda xp, x: xp.argmax(x),
    "cumulative_sum": lambda xp, x: xp.cumulative_sum(x, axis=0, include_initial=True),
    "var": lambda xp, x: xp.var(x, axis=0, correction=1),
    "pad": lambda xp, x: xp.pad(x, ((1, 2), (0, 1)), constant_values=3),
    "trace": lambda xp, x: xp.linalg.trace(x @ xp.matrix_transpose(x)),
    "eye": lambda xp, x: x @ xp.matrix_transpose(x) + xp.eye(x.shape[0], dtype=np.float32),
    "split": lambda xp, x: tuple(xp.split(x, [1, 2], axis=1)),
    "fftshift": lambda xp, x: xp.fft.fftshift(x),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC)
@pytest.mark.parametrize("n", [2, 5])
def test_sizes_may_be_symbolic(name: str, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)

    @dd.trace(dd.f32[N, 3])
    def program(x: dd.Tensor) -> Any:
        return SYMBOLIC[name](dd, x)

    truth = dd.interpret(program, x)
    for got, bar, want in zip(truth.values, truth.bars, _many(SYMBOLIC[name](np, _wide(x))),
                              strict=True):  # fmt: skip
        assert got.shape == want.shape
        assert (np.abs(want - bar.c) <= bar.e).all()
        assert (np.abs(got - bar.c) <= bar.e).all()


def test_constants_meet_in_branches_and_loops() -> None:
    @dd.trace(dd.f32[3])
    def program(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        base = dd.arange(3, dtype=dd.f32)
        y = dd.cond(dd.sum(x) > 0, lambda: x + base, lambda: dd.zeros(3))

        def goes_on(i: dd.Tensor, s: dd.Tensor) -> dd.Tensor:
            del s
            return i < 3

        def step(i: dd.Tensor, s: dd.Tensor) -> tuple[dd.Tensor, ...]:
            return i + 1, s + base

        _, z = dd.while_loop(goes_on, step, 0, x)
        return y, z, base, dd.ones((2, 2)) @ dd.ones(2)

    x = np.array([1, 2, 3], np.float32)
    y, z, base, two = dd.interpret(program, x).values
    assert y.tolist() == [1, 3, 5]
    assert z.tolist() == [1, 5, 9]
    assert base.tolist() == [0, 1, 2]
    assert two.tolist() == [2, 2]
    assert dd.check(program).agree


def test_a_constant_is_copied_once_into_a_function() -> None:
    @dd.trace(dd.f32[3])
    def program(x: dd.Tensor) -> dd.Tensor:
        c = dd.asarray(np.array([1, 2, 3], np.float32))
        return x * c + c

    assert sum(n.op == "constant" for n in program.module.entry.nodes) == 1


def test_control_flow_on_constants_alone_is_refused() -> None:
    @dd.trace(dd.f32[3])
    def good(x: dd.Tensor) -> dd.Tensor:
        return x

    with pytest.raises(DidymaError, match="foreign-value"):

        @dd.trace(dd.f32[3])
        def bad(x: dd.Tensor) -> dd.Tensor:
            ones = dd.ones(3)
            return x + dd.cond(dd.sum(ones) > 0, lambda: ones, lambda: ones * 2)

    assert good.module


def test_aliases_are_the_functions_that_the_page_names() -> None:
    for name in aliases.__all__:
        target = standard.target(name)
        assert getattr(dd, name) is getattr(dd, target)
        assert target not in aliases.__all__
    assert not set(aliases.__all__) & set(suggestions.INSTEAD)
    assert not set(standard.PUBLIC) & set(suggestions.INSTEAD)
