"""Inputs whose strides are declared: read as they lie, at every level and on every engine."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.didyma_runtime import Laid, Refused, random_inputs
from didyma.fuzz.domains.graphs import STRIDED, Graphs
from didyma.fuzz.strides import declared
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import strides
from didyma.refimpl.ir.kernel import ClaimedKernel
from didyma.refimpl.ir.text import parse, parse_module, show
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.verify.graph import verify
from tests.codegen.runtime.test_walk import loaded

N, S = dd.dim("n", 0, 64), dd.dim("s", 0, 4096)
GAPS = dd.f32[N, 4].strided((S, 1), offset=2)
TURNED = dd.f32[4, N].strided((1, 4))
WIDE = dd.f16[128, 64].strided((96, 1))


def rows(n: int, pitch: int) -> Array:
    """Return an array of type ``GAPS``."""
    memory = np.arange(n * pitch + 2, dtype=np.float32)
    return memory[2:].reshape(n, pitch)[:, :4]


def program() -> dd.Program:
    @dd.trace(GAPS, TURNED)
    def both(x: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.permute_dims(y, (1, 0)) + x, dd.sum(x, axis=1)

    return both


@pytest.mark.parametrize("engine", ["simt", "host"])
def test_kernels_follow_strides_that_each_call_binds(engine: str) -> None:
    run = dd.compile(program(), engine=engine)
    for n, pitch in ((3, 4), (3, 9), (1, 7), (0, 5), (40, 6)):
        x, y = rows(n, pitch), np.ones((n, 4), np.float32).T
        added, summed = run(x, y)
        assert np.array_equal(added, x + 1)
        assert np.array_equal(summed, x.sum(axis=1))


def test_a_module_and_its_json_read_the_memory_itself() -> None:
    c = compile(program().module)
    x, y = rows(3, 8), np.ones((3, 4), np.float32).T
    (row, turned), sizes = modules.module(c.wrapper)["bind"]([x, y])
    assert sizes == {"n": 3, "s": 8}
    assert np.shares_memory(row, x)
    assert row.shape == (2 + 2 * 8 + 4,)
    assert np.shares_memory(turned, y)
    added, summed = loaded(c.program)([x, y])
    assert np.array_equal(added, x + 1)
    assert np.array_equal(summed, x.sum(axis=1))


@pytest.mark.parametrize(
    ("x", "y", "where", "got", "want"),
    [
        (rows(3, 8)[:, ::-1], None, "x, axis 1", "stride -1", "1 elements"),
        (None, np.ones((4, 3), np.float32), "y, axis 0", "stride 3", "1 elements"),
        (rows(3, 4097), None, "s", "s = 4097", "0 <= s <= 4096"),
        (rows(3, 4097)[:, :3], None, "x, axis 1", "size 3", "4"),  # sizes come first
        (
            np.ndarray((3, 4), np.float32, bytes(99), 0, (18, 4)), None,
            "x, axis 0", "a stride of 18 bytes", "a multiple of the 4 bytes of an element",
        ),
    ],
)  # fmt: skip
def test_other_strides_are_refused_by_all_that_run(
    x: Array | None, y: Array | None, where: str, got: str, want: str
) -> None:
    given = [
        rows(3, 8) if x is None else x,
        np.ones((3, 4), np.float32).T if y is None else y,
    ]
    c = compile(program().module)
    for run in (partial(dd.compile(program()), *given), partial(loaded(c.program), given)):
        with pytest.raises((DidymaError, Refused)) as caught:
            run()
        e = caught.value
        assert isinstance(e, (DidymaError, Refused))
        assert (e.where, e.got, e.want) == (where, got, want)
        codes = {"s = 4097": "dim-out-of-range", "size 3": "dim-mismatch"}
        assert e.code == codes.get(got, "input-strides")


def test_results_show_the_input_and_need_no_kernel() -> None:
    @dd.trace(GAPS)
    def shown(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor, dd.Tensor]:
        return x, dd.permute_dims(x, (1, 0)), x[:, 1:3]

    run, x = dd.compile(shown), rows(5, 6)
    whole, turned, part = run(x)
    assert run.compiled.program.kernels == ()
    for got, want in ((whole, x), (turned, x.T), (part, x[:, 1:3])):
        assert np.array_equal(got, want)
        assert got.strides == want.strides
        assert np.shares_memory(got, x)
    assert [str(a) for a in run.aliases] == [
        f"{a.result} is a view of input x, with strides {steps} from element {first}"
        for a, steps, first in zip(
            run.aliases, ["(s, 1)", "(1, s)", "(s, 1)"], [2, 2, 3], strict=True
        )
    ]


def test_what_reads_no_strides_is_given_a_copy() -> None:
    @dd.trace(GAPS)
    def branched(x: dd.Tensor) -> Any:
        return dd.cond(dd.sum(x) > 0.0, dd.exp, dd.negative, x)

    x = rows(3, 8)
    c = compile(branched.module)
    assert [k.name for k in c.program.kernels].count("x_in_order") == 1
    assert np.allclose(dd.compile(branched)(x), np.exp(x))
    assert dd.check(branched, tries=2).agree


def test_memory_that_is_not_all_of_the_array_is_copied() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)  # nothing lies before it
    run = dd.compile(program())
    added, _ = run(x, np.ones((3, 4), np.float32).T)
    assert np.array_equal(added, x + 1)


def test_example_values_have_strides_and_offset() -> None:
    made = modules.module(compile(program().module).wrapper)
    x, y = random_inputs(made["INPUTS"], made["shapes"](3, 7))
    assert (x.strides, y.strides) == ((28, 4), (4, 16))
    assert Laid((2, 3), (8, 2), 4).span == 4 + 8 + 4 + 1
    assert made["bind"]([x, y])[1] == {"n": 3, "s": 7}


def test_texts_say_strides_only_where_there_are_any() -> None:
    m = program().module
    text = show(m)
    assert "%x: f32[n, 4] strides (s, 1) offset 2, %y: f32[4, n] strides (1, 4))" in text
    assert text.count("strides") == 2
    assert parse_module(text) == m
    p = compile(m).program
    assert parse(show(p)) == p


@pytest.mark.parametrize(
    ("param", "got"),
    [
        ("f32[3, 4] strides (4,)", "f32[3, 4] strides (4)"),
        ("f32[3] strides (-1)", "an element -2 behind the beginning of the memory"),
        ("i4[3] strides (2)", "i4[3] strides (2)"),
    ],
)
def test_a_law_holds_for_strides(param: str, got: str) -> None:
    text = f"module {{ func @main(%x: {param}) -> (%x) {{ }} }}"
    with pytest.raises(DidymaError) as caught:
        verify(parse_module(text))
    assert (caught.value.code, caught.value.got) == ("G-strides", got)


def test_an_axis_that_moves_nowhere_may_have_any_stride() -> None:
    t = TensorType(DType.F32, (1, 4), strides=(dd.dim("p", 5, 9).value, 1))
    x = np.zeros((1, 4), np.float32)
    assert strides.bind([("x", t, x)], dd.dim("p", 5, 9).ranges) == {"p": 5}


def test_a_stride_tells_one_symbol_where_an_axis_that_moves_nowhere_leaves_the_other() -> None:
    k, m = dd.dim("k", 1, 9), dd.dim("m", 2, 9)
    ranges = (*k.ranges, *m.ranges)
    t = TensorType(DType.F32, (2, 1, 4), strides=((k + m + 4).value, (m + 4).value, 1))
    x = np.ndarray((2, 1, 4), np.float32, bytes(200), 0, (48, 4, 4))
    assert strides.bind([("x", t, x)], ranges) == {"k": 6, "m": 2}


def test_no_symbol_is_read_from_a_stride_that_none_fits() -> None:
    pair = dd.dim("p", 2, 3)

    @dd.trace(dd.f32[2, 3].strided((pair * 2, 1)))
    def more(x: dd.Tensor) -> dd.Tensor:
        return x + 1

    x = np.ndarray((2, 3), np.float32, bytes(200), 0, (60, 4))
    t = more.module.entry.params[0].type
    with pytest.raises(DidymaError) as defined:
        strides.bind([("x", t, x)], pair.ranges)
    with pytest.raises(DidymaError) as caught:
        dd.compile(more)(x)
    assert defined.value.code == caught.value.code == "input-strides"


def test_random_graphs_agree_at_every_level() -> None:
    graphs = Graphs(("simt", "host"))
    judge, laid = graphs.judge(), 0
    for index in range(STRIDED - 1, 8 * STRIDED, STRIDED):
        case = graphs.draw(3, index)
        laid += any(p.type.strides is not None for p in case.module.entry.params)
        outcome = judge(replace(case, again=True, alone=index % 3 == 0, quick=index % 2 == 0))
        assert not outcome.findings
    assert laid > 5


def test_every_kind_of_stride_is_drawn() -> None:
    graphs, found = Graphs(("host",)), set[str]()
    for index in range(60):
        case = declared(graphs.draw(0, index), random.Random(index))
        for p in case.module.entry.params:
            for s in p.type.strides or ():
                kind = "symbol" if not isinstance(s, int) else "backward" if s < 0 else "forward"
                found.add("repeated" if s == 0 else kind)
    assert found == {"symbol", "backward", "forward", "repeated"}


def test_templates_read_strided_operands() -> None:
    @dd.trace(WIDE, dd.f16[64, 128])
    def product(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
        return x @ y

    options = Options(target="sm_80")
    (kernel,) = compile(product.module, options).program.kernels
    assert isinstance(kernel, ClaimedKernel)
    assert "* 96" in kernel.text.source
    checked = dd.check(product, engines=("host",), options=options, tries=1, ring=False)
    assert checked.agree
