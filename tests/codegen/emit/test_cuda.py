from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pycparser.c_parser import CParser

from didyma.codegen.emit.cuda import emit
from didyma.codegen.emit.intrinsics import TABLE
from didyma.codegen.emit.subset import strip, to_c99
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.loop import (
    INDEX,
    Allocate,
    Binary,
    Block,
    Buffer,
    Compare,
    Const,
    Expr,
    For,
    If,
    Intrinsic,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PrimFunc,
    Scope,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    Yield,
)
from didyma.refimpl.ir.text.show_loop import show_line
from didyma.refimpl.ir.types import DType, Shape
from tests.codegen.emit import programs

F32, I64, I8, BOOL = DType.F32, DType.I64, DType.I8, DType.BOOL
MAKERS = (programs.pointwise, programs.reduction, programs.vectorised, programs.shared)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\(")
_SYNTAX = {"for", "if", "__syncthreads"}
i = Var("i")


def body_of(
    body: Stmt, params: tuple[Buffer, ...], outputs: tuple[str, ...] = ("y",), hi: int = 1000
) -> list[str]:
    """Lines between a kernel's braces, without indentation."""
    f = PrimFunc("k", params, outputs, body, (DimVar("n", 0, hi),))
    lines = strip(emit([f]).source).strip().splitlines()
    start = next(n for n, line in enumerate(lines) if line.endswith("{"))
    return [line.strip() for line in lines[start + 1 : -1]]


def stored(e: Expr, *, hi: int = 1000, shape: Shape = (100,)) -> list[str]:
    """Lines that store an expression of ``i`` < 100, the symbol ``n`` and the buffer ``x``."""
    dtype = e.dtype
    params = (Buffer("x", dtype, shape), Buffer("y", dtype, shape))
    loop = For(i, ix.index(100), Store("y", (i,) * len(shape), e))
    return body_of(loop, params, hi=hi)[1:-1]


def load(at: Expr, dtype: DType = F32) -> Load:
    return Load("x", (at,), dtype)


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_random_kernels_stay_in_the_subset(make: Callable[[int], PrimFunc]) -> None:
    for seed in range(40):
        text = emit([make(seed)])
        CParser().parse(to_c99(text.source))
        body = strip(text.source).split("{", 1)[1]
        called = set(_CALL.findall(body)) - _SYNTAX
        assert called <= TABLE.keys(), called - TABLE.keys()


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_lines_know_their_statement(make: Callable[[int], PrimFunc]) -> None:
    text = emit([make(0), make(1)])
    lines = text.source.splitlines()
    origins = dict(text.origins)
    assert len(origins) == len(text.origins)
    for n, line in enumerate(lines, 1):
        header = "__restrict__" in line or line == "    i64 n) {"
        assert (n in origins) == (line.startswith("  ") and not header), line
    stores = [n for n, line in enumerate(lines, 1) if re.match(r" +out\w*\[.*\] = ", line)]
    assert all(show_line(origins[n]).startswith("out") for n in stores)


def test_sizes_of_the_launch() -> None:
    f = programs.pointwise(1)
    (s,) = emit([f]).kernels
    assert (s.name, s.dims, s.block) == ("pointwise", ("n",), (programs.THREADS, 1, 1))
    assert s.grid == (ix.ceildiv(Var("n"), ix.index(programs.THREADS)), ix.ONE, ix.ONE)
    assert [b for b, _ in s.buffers] == ["a0", "a1", "a2", "out"]
    assert s.outputs == ("out",)
    assert s.sizes[-1] == Var("n")


def test_indices_are_plain_and_data_wraps() -> None:
    data = load(i, I64)
    (line,) = stored(Binary("add", data, Binary("mul", data, ix.index(3))))
    assert line == "y[i] = add_i64(x[i], mul_i64(x[i], 3));"
    (line,) = stored(load(ix.add(ix.mul(i, ix.index(7)), Var("n")), I64))
    assert line == "y[i] = x[i * 7 + n];"


def test_iota_scaled_beyond_i64_wraps() -> None:
    huge = Const(2**62, INDEX)
    (line,) = stored(Binary("mul", i, huge))
    assert line == "y[i] = mul_i64(i, 4611686018427387904LL);"
    (line,) = stored(Binary("mul", i, ix.index(2**40)))
    assert line == "y[i] = i * 1099511627776LL;"


def test_products_of_wide_sizes_wrap_as_data_only() -> None:
    square = Binary("mul", Var("n"), Var("n"))
    (line,) = stored(square, hi=2**40)
    assert line == "y[i] = mul_i64(n, n);"
    (line,) = stored(load(square, I64), hi=2**40)
    assert line == "y[i] = x[n * n];"


def test_a_condition_inside_an_index_is_data() -> None:
    wraps = Compare("lt", Binary("mul", Var("n"), Const(2**62, INDEX)), ix.ZERO)
    (line,) = stored(load(Select(wraps, ix.ZERO, i), I64))
    assert line == "y[i] = x[mul_i64(n, 4611686018427387904LL) < 0 ? 0 : i];"


def test_division_is_c_s_own_where_it_rounds_alike() -> None:
    (line,) = stored(load(Binary("floordiv", i, ix.index(3)), I64))
    assert line == "y[i] = x[i / 3];"
    (line,) = stored(load(Binary("floormod", ix.sub(i, ix.ONE), ix.index(3)), I64))
    assert line == "y[i] = x[floormod_i64(i - 1, 3)];"
    (line,) = stored(load(Binary("floordiv", i, Var("n")), I64))  # n may be 0
    assert line == "y[i] = x[floordiv_i64(i, n)];"


def test_clamped_data_is_an_index() -> None:
    clamped = ix.minimum(ix.maximum(load(i, I64), ix.ZERO), ix.index(9))
    (line,) = stored(load(ix.add(ix.mul(clamped, ix.index(10)), i), I64))
    assert line == "y[i] = x[min_i64(max_i64(x[i], 0), 9) * 10 + i];"


def test_parentheses_keep_the_order_of_floats() -> None:
    x = load(i)
    (line,) = stored(Binary("sub", x, Binary("add", x, Binary("mul", x, Binary("sub", x, x)))))
    assert line == "y[i] = x[i] - (x[i] + x[i] * (x[i] - x[i]));"
    (line,) = stored(Binary("div", Unary("neg", Const(-1.0, F32)), Binary("div", x, x)))
    assert line == "y[i] = -(-1.0f) / (x[i] / x[i]);"


def test_small_integers_are_cut_back() -> None:
    x = load(i, I8)
    (line,) = stored(Unary("not", Binary("and", x, Binary("or", x, Const(-128, I8)))))
    assert line == "y[i] = (i8)(~((i8)(x[i] & (i8)(x[i] | -128))));"


def test_a_guarded_load_stays_behind_its_guard() -> None:
    inside = Compare("lt", i, Var("n"))
    (line,) = stored(Select(inside, load(i), Const(0.0, F32)))
    assert line == "y[i] = i < n ? x[i] : 0.0f;"
    t = Var("t", F32)
    bound = LetExpr(t, load(i), Binary("mul", t, t))
    assert stored(Select(inside, bound, Const(0.0, F32))) == [
        "f32 chosen;",
        "if (i < n) {",
        "const f32 t = x[i];",
        "chosen = t * t;",
        "} else {",
        "chosen = 0.0f;",
        "}",
        "y[i] = chosen;",
    ]


def test_a_binding_in_the_right_of_an_and_stays_behind_the_left() -> None:
    t = Var("t", BOOL)
    e = Binary("and", Compare("lt", i, Var("n")), LetExpr(t, load(i, BOOL), Unary("not", t)))
    lines = stored(e)
    assert lines.index("if (i < n) {") < lines.index("const b8 t = x[i];")
    assert "chosen = 0;" in lines


def test_an_extent_that_is_read_is_read_once() -> None:
    x, y = Buffer("x", I64, (1,)), Buffer("y", I64, (10,))
    k = Var("k")
    lines = body_of(For(k, load(ix.ZERO, I64), Store("y", (k,), k)), (x, y))
    assert lines[:2] == ["const i64 k_end = x[0];", "for (i64 k = 0; k < k_end; ++k) {"]


def test_local_buffers() -> None:
    acc, part = Buffer("acc", F32, (), Scope.LOCAL), Buffer("part", F32, (2, 3), Scope.LOCAL)
    at = (ix.ONE, ix.index(2))
    stores = Block((Store("acc", (), Const(0.0, F32)), Store("part", at, Load("acc", (), F32))))
    lines = body_of(Allocate(acc, Allocate(part, stores)), (Buffer("y", F32, (1,)),))
    assert lines == ["f32 acc;", "f32 part[6];", "acc = 0.0f;", "part[5] = acc;"]
    lines = body_of(Allocate(acc, stores.body[0]), (Buffer("y", F32, (1,)),))
    assert lines == ["f32 acc;", "acc = 0.0f;"]
    lines = body_of(Allocate(part, Allocate(acc, stores)), (Buffer("y", F32, (1,)),))
    assert lines == ["f32 part[6];", "f32 acc = 0.0f;", "part[5] = acc;"]


# Vectorised loops

v, g = Var("v"), Var("g")
four = ix.add(ix.mul(i, ix.index(4)), v)


def lanes(*body: Stmt, n: int = 4, names: str = "xyz") -> str:
    loop = For(v, ix.index(n), Block(body), LoopKind.VECTORIZED)
    outer = For(i, ix.index(8), loop)
    return "\n".join(body_of(outer, tuple(Buffer(b, F32, (32,)) for b in names), ("y", "z")))


def doubled(at: Expr = four) -> Expr:
    return Binary("add", load(at), load(at))


def test_wide_load_and_store() -> None:
    text = lanes(Store("y", (four,), doubled()))
    assert text.count("load4_f32(&x[i * 4])") == 1
    assert text.count("store4_f32(&y[i * 4], y_x4);") == 1
    assert [f"y_x4.{c} = x_x4.{c} + x_x4.{c};" in text for c in "xyzw"] == [True] * 4
    assert "for (i64 v" not in text


def test_a_value_bound_in_the_loop_is_bound_in_each_lane() -> None:
    t = Var("t", F32)
    text = lanes(Let(t, load(four), Store("y", (four,), Binary("mul", t, t))))
    assert [f"const f32 t{n} = x_x4.{c};" in text for n, c in zip(("", "_1"), "xy", strict=True)]
    assert "y_x4.w = t_3 * t_3;" in text


@pytest.mark.parametrize(
    "body",
    [
        Store("y", (four,), Select(Compare("lt", i, Var("n")), load(four), Const(0.0, F32))),
        Store("y", (four,), load(ix.add(i, v))),
        Store("y", (four,), load(ix.sub(ix.index(31), four))),
    ],
    ids=["guarded", "overlapping", "reversed"],
)
def test_loads_that_are_not_made_wide(body: Stmt) -> None:
    text = lanes(body)
    assert "load4" not in text
    assert "store4" in text


@pytest.mark.parametrize(
    "body",
    [
        (If(Compare("lt", four, Var("n")), Store("y", (four,), doubled())),),
        (Store("y", (four,), Load("y", (ix.add(four, ix.ZERO),), F32)),),
        (Store("y", (four,), doubled(v)), Store("y", (four,), doubled(v))),
        (Let(g, ix.add(v, i), Store("y", (ix.add(ix.mul(g, ix.index(4)), v),), doubled(i))),),
    ],
    ids=["guarded", "read back", "twice", "group of the lane"],
)  # fmt: skip
def test_stores_that_are_not_made_wide(body: tuple[Stmt, ...]) -> None:
    assert "store4" not in lanes(*body)


def test_a_loop_of_another_width_is_unrolled() -> None:
    text = lanes(Store("y", (four,), doubled()), n=3)
    assert "#pragma unroll\nfor (i64 v = 0; v < 3; ++v) {" in text
    assert "load4" not in text


# What cannot be written


def test_what_no_kernel_may_hold() -> None:
    with pytest.raises(TypeError, match="Yield"):
        emit([PrimFunc("k", (), (), Yield(()))])


def test_names_of_kernels_and_buffers_are_made_distinct() -> None:
    n = symbol("float")
    params = (Buffer("x.1", F32, (n,)), Buffer("x_1", F32, (n,)), Buffer("int", F32, (n,)))
    loop = For(Var("x"), Var("float"), Store("int", (Var("x"),), Load("x.1", (Var("x"),), F32)))
    f = PrimFunc("exp", params, ("int",), loop, (DimVar("float", 0, 9),))
    text = emit([f, f])
    assert [s.name for s in text.kernels] == ["exp_1", "exp_2"]
    first = text.kernels[0]
    assert [b for b, _ in first.buffers] == ["x_1", "x_1_1", "int_1"]
    assert (first.outputs, first.dims) == (("int_1",), ("float",))
    assert "int_1[x] = x_1[x];" in text.source
    CParser().parse(to_c99(text.source))


def test_a_comment_cannot_be_left() -> None:
    evil = 'a\\\n*/ " ü'
    f = PrimFunc("k", (), (), Block(()), (), (("source", (evil,)),))
    bare = strip(emit([f]).source)
    assert "*/" not in bare
    assert '"' not in bare


def test_intrinsics_of_the_loop_language_are_all_in_the_table() -> None:
    from didyma.refimpl.ir.loop import INTRINSICS

    for name, x in INTRINSICS.items():
        for dtype in ("f32", "f64"):
            assert len(TABLE[f"{name}_{dtype}"].args) == x.operands


def test_intrinsic_calls() -> None:
    (line,) = stored(Intrinsic("fma", (load(i), Const(float("nan"), F32), Const(2.0, F32))))
    assert line == "y[i] = fma_f32(x[i], nan_f32(), 2.0f);"
