"""Each class of schedule is chosen where it is meant, and right there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from didyma.codegen.lower import lower
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.schedule import schedule
from didyma.refimpl.ir.dims import Dim, DimVar, evaluate, symbol
from didyma.refimpl.ir.graph import Attr, Module
from didyma.refimpl.ir.loop import Allocate, Barrier, Const, For, LoopKind, PrimFunc, Scope
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify.sharing import may_share
from tests.codegen.lower.judged import agree, primitive
from tests.codegen.make import Graph

N, M = symbol("n"), symbol("m")
DIMS = (DimVar("n", 0, 300), DimVar("m", 0, 300))


def values(shape: Sequence[Dim], dtype: DType, env: dict[str, int]) -> Array:
    rng = np.random.default_rng(5)
    concrete = [evaluate(d, env) for d in shape]
    if dtype.is_float:
        return rng.normal(size=concrete).astype(dtype.compute.numpy).astype(dtype.numpy)
    return rng.integers(0, 100, concrete).astype(dtype.numpy)


def unary(op: str, *shape: Dim, dtype: DType = DType.F32, first: str = "", **a: Attr) -> Module:
    g = Graph()
    x = g.param("x", *shape, dtype=dtype)
    return primitive(g.module(g(op, g(first, x) if first else x, **a), dims=DIMS))


def chosen(m: Module, env: dict[str, int] | None = None) -> list[str]:
    env = env or {}
    inputs = [values(p.type.shape, p.type.dtype, env) for p in m.entry.params]
    return agree(m.entry, m, inputs, env)


def kernels(m: Module) -> tuple[PrimFunc, ...]:
    return schedule(lower(m.entry, m), Options())


def threads(k: PrimFunc) -> int:
    count = 1
    for s in stmts(k.body):
        if isinstance(s, For) and s.axis.startswith("threadIdx"):
            assert isinstance(s.extent, Const)
            count *= int(s.extent.value)
    return count


BINDINGS = [{"n": n, "m": m} for n in (0, 1, 2, 33, 300) for m in (0, 1, 17)]


@pytest.mark.parametrize(
    ("m", "want"),
    [
        (unary("exp", 4, 8), "pointwise_wide"),
        (unary("exp", 1024), "pointwise_wide"),
        (unary("exp", 5, 7), "pointwise"),
        (unary("exp"), "pointwise"),
        (unary("exp", 0, 4), "pointwise"),
        (unary("flip", 8, 4, axes=(1,)), "pointwise"),
        (unary("sum", 5, 100, axes=(1,), keepdims=False, first="exp"), "reduce_row"),
        (unary("sum", 5, 2000, axes=(1,), keepdims=False), "reduce_row"),
        (unary("sum", 2, 10, 3, 20, axes=(1, 3), keepdims=True), "reduce_row"),
        (unary("max", 100, 40, axes=(0,), keepdims=False), "reduce_column"),
        (unary("max", 3, 30, 5, axes=(1,), keepdims=False), "reduce_column"),
        (unary("sum", 40, 40, axes=(0, 1), keepdims=False), "reduce_all"),
        (unary("sum", 1000, axes=(0,), keepdims=False, dtype=DType.BF16), "reduce_all"),
        (unary("sum", 100, 8, axes=(1,), keepdims=False), "reduce_row"),
        (unary("sum", 100, 7, axes=(1,), keepdims=False), "fold"),
        (unary("sum", 0, 100, axes=(1,), keepdims=False), "reduce_row"),
        (unary("sum", 4, 0, axes=(1,), keepdims=False), "fold"),
        (unary("argmax", 3, 70, axis=1, keepdims=False), "reduce_row"),
        (unary("argmin", 70, 3, axis=0, keepdims=True), "reduce_column"),
        (unary("any", 3, 70, axes=(1,), keepdims=False, dtype=DType.BOOL), "reduce_row"),
        (unary("permute_dims", 40, 33, axes=(1, 0)), "transpose"),
        (unary("permute_dims", 3, 5, 7, axes=(2, 0, 1), first="exp"), "transpose"),
        (unary("permute_dims", 3, 5, 7, axes=(1, 0, 2)), "pointwise"),
        (unary("permute_dims", 3, 2, axes=(1, 0)), "pointwise"),
    ],
)  # fmt: skip
def test_static_shapes(m: Module, want: str) -> None:
    assert chosen(m) == [want]


@pytest.mark.parametrize("env", BINDINGS)
def test_symbolic_shapes(env: dict[str, int]) -> None:
    assert chosen(unary("exp", N, M), env) == ["pointwise_wide"]
    assert chosen(unary("flip", N, M, axes=(1,)), env) == ["pointwise"]
    assert chosen(unary("sum", N, M, axes=(1,), keepdims=False), env) == ["reduce_row"]
    assert chosen(unary("max", N, M, axes=(0,), keepdims=False), env) == ["reduce_column"]
    every = chosen(unary("sum", N, M, axes=(0, 1), keepdims=False), env)
    assert every == ["reduce_split", "fold"]
    assert chosen(unary("permute_dims", N, M, axes=(1, 0)), env) == ["transpose"]
    assert chosen(unary("argmax", M, N + 1, axis=1, keepdims=False), env) == ["reduce_row"]


def product(*shapes: tuple[Dim, ...], dtype: DType = DType.F32) -> Module:
    g = Graph()
    a, b = (g.param(n, *s, dtype=dtype) for n, s in zip("ab", shapes[:2], strict=True))
    p = g("matmul", a, b)
    if len(shapes) > 2:
        p = g("add", p, g.param("c", *shapes[2], dtype=dtype))
    return primitive(g.module(g("square", p), dims=DIMS))


@pytest.mark.parametrize(
    ("m", "want"),
    [
        (product((5, 6), (6, 7)), "matmul"),
        (product((33, 40), (40, 17), (17,)), "matmul"),
        (product((2, 1, 9, 8), (3, 8, 5)), "matmul"),
        (product((16, 16), (16, 16), dtype=DType.I8), "matmul"),
        (product((20, 33), (33, 9), dtype=DType.F16), "matmul"),
        (product((1, 50), (50, 1)), "reduce_row"),
        (product((0, 8), (8, 3)), "matmul"),
        (product((4, 0), (0, 4)), "fold"),
        (product((4, 2), (2, 4)), "fold"),
    ],
)
def test_products(m: Module, want: str) -> None:
    assert chosen(m) == [want]


@pytest.mark.parametrize("env", [{"n": n, "m": m} for n in (0, 1, 16, 33) for m in (0, 1, 40)])
def test_symbolic_products(env: dict[str, int]) -> None:
    assert chosen(product((N, M), (M, 5)), env) == ["matmul"]
    assert chosen(product((3, M, 7), (7, N), (M, 1)), env) == ["matmul"]


def test_a_product_computes_what_precedes_it_in_its_tiles() -> None:
    g = Graph()
    a, b, fill = g.param("a", 9, 10), g.param("b", 12, 11), g.param("fill")
    a = g("pad", g("exp", a), fill, low=(1, 2), high=(0, 0), mode="constant")
    e = g("square", b)
    m = primitive(g.module(g("matmul", a, g("multiply", e, e))))
    assert chosen(m) == ["matmul"]


@pytest.mark.parametrize("shift", [0.0, np.nan, -np.inf])
def test_argument_reductions_take_the_first_of_equals(shift: float) -> None:
    m = unary("argmax", 6, 100, axis=1, keepdims=False)
    x = np.zeros((6, 100), np.float32)
    x[1, [40, 70]] = 1
    x[2, [99, 98]] = np.inf
    x[3, [33, 1]] = np.nan
    x[4] = -np.inf
    x[5] = shift
    assert agree(m.entry, m, [x], {}) == ["reduce_row"]


def test_a_scatter_of_integers_is_a_copy_and_updates() -> None:
    g = Graph()
    x, at = g.param("x", 40, dtype=DType.I32), g.param("at", 6, dtype=DType.I64)
    s = g("scatter", x, at, g.param("u", 6, dtype=DType.I32), axis=0, reduction="add")
    m = primitive(g.module(s))
    found = kernels(m)
    inputs = [np.ones(40, np.int32), np.array([3, 1, -40, 3, 2, 39]), np.arange(6, dtype=np.int32)]
    assert agree(m.entry, m, inputs, {}) == ["pointwise_wide", "scatter"]
    assert [k.name for k in found] == ["main_", "main__1"]
    assert [[b.name for b in k.params] for k in found] == [["x", s], ["at", "u", s]]


def test_gather_has_a_thread_for_each_element() -> None:
    g = Graph()
    x, at = g.param("x", 5, 3), g.param("at", 7, dtype=DType.I64)
    m = primitive(g.module(g("exp", g("gather", x, at, axis=0))))
    inputs = [values((5, 3), DType.F32, {}), np.array([0, 4, -1, -5, 2, 2, 9])]
    assert agree(m.entry, m, inputs, {}) == ["gather"]


def test_several_results_share_a_kernel() -> None:
    g = Graph()
    x, y = g.param("x", 8, 3), g.param("y", 3)
    s = g("add", x, y)
    m = primitive(g.module(g("exp", s), s, g("less", s, y)))
    assert chosen(m) == ["pointwise"]
    assert len(kernels(m)[0].outputs) == 3


def test_results_of_two_shapes_get_two_kernels() -> None:
    g = Graph()
    x, y = g.param("x", 8), g.param("y", 5)
    m = primitive(g.module(g("exp", x), g("exp", y)))
    assert chosen(m) == ["pointwise_wide", "pointwise"]


def test_results_without_axes_beside_others() -> None:
    g = Graph()
    x, y = g.param("x"), g.param("y", 8, 3)
    total = g("sum", y, axes=(0, 1), keepdims=False)
    m = primitive(g.module(g("exp", x), g("negative", x), g("square", y), total))
    assert chosen(m) == ["reduce_all", "pointwise_wide"]


def test_small_problems_get_small_blocks() -> None:
    assert [threads(kernels(unary("flip", n, axes=(0,)))[0]) for n in (1, 3, 100, 5000)] == [
        1, 32, 128, 256,
    ]  # fmt: skip


def test_an_empty_result_launches_no_block() -> None:
    (k,) = kernels(unary("exp", 0, 5))
    assert isinstance(k.body, For)
    assert k.body.extent == Const(0, DType.I64)


def test_vectors_are_off_when_not_wanted() -> None:
    m = unary("exp", 1024)
    (k,) = schedule(lower(m.entry, m), Options(kernels=KernelOptions(vectorise=False)))
    assert not any(isinstance(s, For) and s.kind is LoopKind.VECTORIZED for s in stmts(k.body))


@pytest.mark.parametrize("n", [0, 1, 7, 300])
def test_rows_of_fours_are_wide_beside_operands_that_are_not(n: int) -> None:
    g = Graph()
    x, row, column = g.param("x", N, 3, 8), g.param("row", 8), g.param("column", 3, 1)
    y = g("flip", g.param("y", N, 3, 8), axes=(2,))
    m = primitive(g.module(g("add", g("multiply", g("add", x, row), column), y), dims=DIMS))
    env = {"n": n}
    assert chosen(m, env) == ["pointwise_wide"]
    shapes = {b.name: len(b.shape) for b in kernels(m)[0].params}
    assert shapes == {"x": 1, "row": 1, "column": 2, "y": 3, "add1": 1}


@pytest.mark.parametrize(("width", "start"), [(9, 1), (12, 1), (12, 4), (9, 0)])
def test_only_rows_that_begin_at_fours_are_wide(width: int, start: int) -> None:
    g = Graph()
    x, y = g.param("x", 5, width), g.param("y", 5, 8)
    s = g("slice", x, starts=(0, start), stops=(5, start + 8), steps=(1, 1))
    m = primitive(g.module(g("add", s, g("add", y, g.param("row", 8)))))
    assert chosen(m) == ["pointwise_wide"]
    flat = len(kernels(m)[0].params[0].shape) == 1
    assert flat == (width % 4 == 0 and start % 4 == 0)


def lanes(m: Module) -> list[int]:
    loops = [s for k in kernels(m) for s in stmts(k.body) if isinstance(s, For)]
    extents = [s.extent for s in loops if s.kind is LoopKind.VECTORIZED]
    return [int(e.value) for e in extents if isinstance(e, Const)]


@pytest.mark.parametrize(
    ("dtype", "size", "want"),
    [
        (DType.I8, 32, 16), (DType.BF16, 32, 8), (DType.F32, 32, 4), (DType.F64, 32, 2),
        (DType.I8, 24, 8), (DType.BF16, 20, 4),
    ],
)  # fmt: skip
def test_an_access_is_as_wide_as_the_size_allows(dtype: DType, size: int, want: int) -> None:
    flat = unary("abs", 3, size, dtype=dtype)
    rows = unary("slice", 4, size, dtype=dtype, starts=(1, 0), stops=(4, size), steps=(2, 1))
    for m in (flat, rows):
        assert chosen(m) == ["pointwise_wide"]
        assert lanes(m) == [want]


@pytest.mark.parametrize(
    ("dtype", "size", "want"),
    [
        (DType.I8, 1001, [16]), (DType.BF16, 1004, [8]), (DType.F32, 129, [4]),
        (DType.F64, 203, [2]), (DType.BF16, 255, [4]), (DType.F32, 127, []),
    ],
)  # fmt: skip
def test_whole_vectors_of_any_size_are_wide(dtype: DType, size: int, want: list[int]) -> None:
    m = unary("abs", size, dtype=dtype)
    assert chosen(m) == ["pointwise_wide" if want else "pointwise"]
    assert lanes(m) == want


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 255, 256, 257, 300])
def test_whole_vectors_of_a_size_that_is_known_later(n: int) -> None:
    g = Graph()
    x, y, s = g.param("x", N), g.param("y", N), g.param("s")
    m = primitive(g.module(g("add", g("multiply", x, s), y), dims=DIMS))
    assert chosen(m, {"n": n}) == ["pointwise_wide"]
    assert lanes(m) == [4]
    (k,) = kernels(m)
    assert may_share(k, k.outputs[0], "x")  # in place


@pytest.mark.parametrize(("n", "m"), [(0, 5), (20, 61), (33, 3), (5, 4), (1, 300)])
def test_lanes_find_their_places_in_what_is_broadcast(n: int, m: int) -> None:
    g = Graph()
    x, y = g.param("x", N, 5, M), g.param("y", 5, 1)
    z = g("flip", g.param("z", N, 5, M), axes=(0, 2))
    m_ = primitive(g.module(g("multiply", g("add", x, y), z), dims=DIMS))
    assert chosen(m_, {"n": n, "m": m}) == ["pointwise_wide"]
    assert lanes(m_) == [4]
    (k,) = kernels(m_)
    shares = [may_share(k, k.outputs[0], p.name) for p in k.params[:-1]]
    assert shares == [True, False, False]


def test_lanes_of_one_row_need_no_division() -> None:
    g = Graph()
    x = g.param("x", 1001)
    m = primitive(g.module(g("add", x, g("flip", g.param("z", 1001), axes=(0,)))))
    assert chosen(m) == ["pointwise_wide"]
    assert not any("//" in show(k) or "%" in show(k).replace("%0", "") for k in kernels(m))


@pytest.mark.parametrize(("width", "want"), [(8, 8), (12, 4), (10, 0)])
def test_rows_of_a_table_are_read_wide(width: int, want: int) -> None:
    g = Graph()
    i = g.param("i", 7, dtype=DType.I64)
    m = primitive(g.module(g("gather", g.param("x", 30, width, dtype=DType.BF16), i, axis=0)))
    assert chosen(m) == ["gather_wide" if want else "gather"]
    assert lanes(m) == ([want] if want else [])


@pytest.mark.parametrize(
    ("sizes", "want"), [((8, 4), [4, 4]), ((4, 12, 8), [4] * 3), ((6, 2), [4])]
)
def test_operands_that_begin_at_fours_are_joined_wide(
    sizes: tuple[int, ...], want: list[int]
) -> None:
    g = Graph()
    parts = [g.param(f"x{n}", 5, size) for n, size in enumerate(sizes)]
    m = primitive(g.module(g("exp", g("concat", *parts, axis=1))))
    wide = len(want) > 1
    assert chosen(m) == ["pointwise_wide" if wide else "pointwise"]
    assert lanes(m) == (want if wide else [])


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize(("low", "high", "want"), [(4, 4, 2), (8, 0, 2), (0, 4, 2), (1, 3, 1)])
def test_padding_by_fours_is_wide(n: int, low: int, high: int, want: int) -> None:
    g = Graph()
    x, y = g.param("x", N, 8), g.param("y", N, 8 + low + high)
    fill = g.constant(2.5)
    padded = g("pad", x, fill, low=(0, low), high=(0, high), mode="constant")
    m = primitive(g.module(g("add", padded, y), dims=DIMS))
    assert chosen(m, {"n": n}) == ["pointwise_wide"]
    assert lanes(m) == [4] * want


@pytest.mark.parametrize(
    ("dtype", "shape", "want"),
    [
        (DType.I8, (80, 96), 16), (DType.BF16, (72, 136), 8), (DType.F32, (100, 68), 4),
        (DType.F64, (64, 64), 2), (DType.BF16, (36, 40), 4), (DType.F32, (66, 68), 0),
    ],
)  # fmt: skip
def test_tiles_are_loaded_and_stored_wide(dtype: DType, shape: tuple[int, int], want: int) -> None:
    m = unary("permute_dims", *shape, dtype=dtype, axes=(1, 0))
    assert chosen(m) == ["transpose"]
    assert lanes(m) == [want] * (2 if want else 0)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F64])
@pytest.mark.parametrize(
    ("shape", "axes", "want"),
    [
        ((13, 521), (1, 0), "transpose"), ((521, 13), (1, 0), "transpose"),
        ((2, 300, 3), (0, 2, 1), "transpose"), ((5, N), (1, 0), "transpose"),
        ((13, 13), (1, 0), "transpose"), ((3, 7, 15), (2, 1, 0), "pointwise"),
        ((15, 7, 4), (2, 1, 0), "transpose"), ((3, 300), (1, 0), "pointwise"),
    ],
)  # fmt: skip
def test_narrow_tiles(
    dtype: DType, shape: tuple[int, ...], axes: tuple[int, ...], want: str
) -> None:
    m = unary("permute_dims", *shape, dtype=dtype, axes=axes)
    assert chosen(m, {"n": 259}) == [want]


def test_a_wide_tile_beside_operands_in_order() -> None:
    g = Graph()
    x, y, row = g.param("x", 3, 40, 36), g.param("y", 3, 36, 40), g.param("row", 36, 1)
    m = primitive(g.module(g("add", g("permute_dims", x, axes=(0, 2, 1)), g("add", y, row))))
    assert chosen(m) == ["transpose"]
    assert lanes(m) == [4, 4]


def test_an_operand_beside_itself_turned() -> None:
    g = Graph()
    x = g.param("x", 40, 40)
    m = primitive(g.module(g("add", g("permute_dims", x, axes=(1, 0)), x)))
    assert chosen(m) == ["transpose"]


def test_what_is_read_by_the_lane_is_not_wide() -> None:
    g = Graph()
    i = g.param("i", 8, dtype=DType.I64)
    m = primitive(g.module(g("gather", g.param("x", 3, 8), i, axis=1)))
    assert chosen(m) == ["gather_wide"]
    shapes = {b.name: len(b.shape) for b in kernels(m)[0].params}
    assert (shapes.pop("x"), set(shapes.values())) == (2, {1})


def test_windows_are_unrolled() -> None:
    m = unary("max_pool", 2, 3, 9, 9, window=(3, 3), strides=(1, 1), dilations=(1, 1),
              low=(0, 0), high=(0, 0))  # fmt: skip
    assert chosen(m) == ["fold"]
    loops = [s.kind for s in stmts(kernels(m)[0].body) if isinstance(s, For) and not s.axis]
    assert loops == [LoopKind.UNROLLED] * 2


def test_trees_use_shared_memory_and_barriers() -> None:
    (k,) = kernels(unary("sum", 5, 1000, axes=(1,), keepdims=False))
    shared = [s.buffer for s in stmts(k.body) if isinstance(s, Allocate)]
    assert any(b.scope is Scope.SHARED for b in shared)
    assert any(isinstance(s, Barrier) for s in stmts(k.body))


@pytest.mark.parametrize("block", [32, 1024])
def test_other_block_sizes(block: int) -> None:
    for m in (
        unary("exp", 5, 401),
        unary("sum", 5, 2000, axes=(1,), keepdims=False),
        unary("sum", 300, 40, axes=(0,), keepdims=False),
    ):
        inputs = [values(p.type.shape, p.type.dtype, {}) for p in m.entry.params]
        agree(m.entry, m, inputs, {}, Options(kernels=KernelOptions(block=block)))
        assert all(
            threads(k) <= 1024
            for k in schedule(lower(m.entry, m), Options(kernels=KernelOptions(block=block)))
        )


@pytest.mark.parametrize(("channels", "want"), [(3, [8]), (8, [8]), (9, [])])
def test_rows_that_are_padded_to_one_vector_are_stored_wide(channels: int, want: list[int]) -> None:
    g = Graph()
    x, zero = g.param("x", 2, 5, channels, dtype=DType.BF16), g.constant(0.0, dtype=DType.BF16)
    few = g("slice", x, starts=(0, 0, 0), stops=(2, 5, min(channels, 7)), steps=(1, 1, 1))
    edges = (0, 2, (8 if want else 16) - min(channels, 7))
    m = primitive(g.module(g("pad", few, zero, low=(0, 2, 0), high=edges, mode="constant")))
    assert chosen(m) == ["pointwise_wide" if want else "pointwise"]
    assert lanes(m) == want
