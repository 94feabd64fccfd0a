"""Programs in their arena: results, and each way to touch bytes that are another's."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import program
from didyma.refimpl.interp.faults import ProgramFault
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.loop import Buffer, Const, Expr, PrimFunc, Store, Var
from didyma.refimpl.ir.program import (
    Allocate,
    Assert,
    Copy,
    Extern,
    Free,
    Launch,
    Line,
    PlacementAllocate,
    Program,
    Return,
    Reuse,
    View,
)
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType
from tests.refimpl.interp.build import F32, f32, i, ix, load, parallel, plus, times

N = symbol("n")
X = np.arange(4, dtype=np.float32)


def pointwise(name: str, value: Expr, n: Dim = 4) -> PrimFunc:
    """Kernel from buffer x to buffer o."""
    extent = ix(n) if isinstance(n, int) else Var("n")
    dims = () if isinstance(n, int) else (DimVar("n", 1, 1000),)
    params = (Buffer("x", F32, (n,)), Buffer("o", F32, (n,)))
    return PrimFunc(name, params, ("o",), parallel(i, extent, Store("o", (i,), value)), dims)


INC = pointwise("inc", plus(load("x", i), f32(1)))
DOUBLE = pointwise("double", times(load("x", i), f32(2)))
NOTHING = PrimFunc("nothing", INC.params, ("o",), parallel(i, 0, Store("o", (i,), f32(0))))


def build(
    *lines: Line,
    types: Mapping[str, TensorType] | None = None,
    constants: Sequence[tuple[str, Tensor]] = (),
    kernels: Sequence[PrimFunc] = (INC, DOUBLE, NOTHING),
    dims: Sequence[DimVar] = (),
    shape: tuple[Dim, ...] = (4,),
) -> Program:
    """A program of input x; values are f32[4] unless ``types`` says otherwise."""
    given = dict(types or {})
    names = {"x"}
    for line in lines:
        names |= {v for v in (getattr(line, "value", ""), getattr(line, "of", "")) if v}
    for name, tensor in constants:
        given[name] = tensor.type
    full = {n: TensorType(F32, shape) for n in sorted(names)} | given
    return Program(
        "p", tuple(dims), ("x",), tuple(constants), tuple(full.items()), tuple(kernels), lines
    )


def fault(*lines: Line, types: Mapping[str, TensorType] | None = None) -> ProgramFault:
    with pytest.raises(ProgramFault) as caught:
        program.run(build(*lines, types=types), [X])
    return caught.value


def test_allocate_launch_free_return() -> None:
    p = build(
        Allocate("a"), Launch("inc", ("x", "a")), Allocate("o"), Launch("double", ("a", "o")),
        Free("a"), Return(("o",)),
    )  # fmt: skip
    (o,) = program.run(p, [X])
    assert o.tolist() == [2, 4, 6, 8]
    assert o.flags.writeable
    assert o.base is None


def test_reuse_placement_and_views() -> None:
    small = TensorType(F32, (2, 2))
    p = build(
        Allocate("a"), Launch("inc", ("x", "a")), Allocate("c"), Launch("double", ("a", "c")),
        Reuse("d", "a"), Launch("inc", ("c", "d")), PlacementAllocate("e", "c"),
        Launch("inc", ("d", "e")), View("v", "e"), Return(("v", "x")),
        types={"v": small},
    )  # fmt: skip
    v, x = program.run(p, [X])
    assert v.tolist() == [[4, 6], [8, 10]]
    assert (x == X).all()
    assert x is not X


def test_copies_constants_and_one_value_returned_twice() -> None:
    w = Tensor.of(np.array([5, 6, 7, 8], np.float32))
    p = build(Allocate("o"), Copy("o", "w"), Return(("o", "w", "o")), constants=[("w", w)])
    a, w2, c = program.run(p, [X])
    assert a.tolist() == w2.tolist() == c.tolist() == [5, 6, 7, 8]
    assert not np.shares_memory(a, c)


def test_symbolic_sizes() -> None:
    kernel = pointwise("inc", plus(load("x", i), f32(1)), N)
    lines = (Allocate("o"), Assert(N, N, "never"), Launch("inc", ("x", "o")), Return(("o",)))
    p = build(*lines, kernels=[kernel], dims=[DimVar("n", 1, 8)], shape=(N,))
    for n in (1, 5):
        (o,) = program.run(p, [np.ones(n, np.float32)])
        assert o.tolist() == [2] * n
    with pytest.raises(DidymaError, match="dim-out-of-range"):
        program.run(p, [np.ones(9, np.float32)])


def test_inputs_that_do_not_fit() -> None:
    p = build(Return(("x",)))
    for inputs, code in (
        ([], "arity"), ([X.astype(np.float64)], "dtype-mismatch"), ([X[:3]], "dim-mismatch"),
    ):  # fmt: skip
        with pytest.raises(DidymaError) as caught:
            program.run(p, inputs)
        assert caught.value.code == code


def test_external_routines() -> None:
    def negate(out: Sequence[Array], given: Sequence[Array], attrs: Mapping[str, Attr]) -> None:
        scale = attrs["scale"]
        assert isinstance(scale, int)
        out[0][...] = -given[0] * scale

    p = build(Allocate("o"), Extern("negate", ("o",), ("x",), (("scale", 3),)), Return(("o",)))
    (o,) = program.run(p, [X], externals={"negate": negate})
    assert o.tolist() == [0, -3, -6, -9]
    with pytest.raises(DidymaError, match="unknown-routine"):
        program.run(p, [X])


def test_another_launcher() -> None:
    seen: list[str] = []

    def launch(f: PrimFunc, buffers: dict[str, Array], dims: Mapping[str, int]) -> None:
        seen.append(f.name)
        buffers["o"][...] = buffers["x"] + 1

    p = build(Allocate("o"), Launch("inc", ("x", "o")), Return(("o",)))
    (o,) = program.run(p, [X], launch)
    assert (o.tolist(), seen) == ([1, 2, 3, 4], ["inc"])


def test_inputs_are_never_written() -> None:
    def rude(f: PrimFunc, buffers: dict[str, Array], dims: Mapping[str, int]) -> None:
        ctypes.memset(buffers["x"].ctypes.data, 7, 4)

    p = build(Allocate("o"), Launch("inc", ("x", "o")), Return(("o",)))
    with pytest.raises(ProgramFault, match="read-only"):
        program.run(p, [X.copy()], rude, compare_inputs=True)
    for lines in (
        (Launch("inc", ("x", "x")), Return(("x",))),
        (Allocate("a"), Launch("inc", ("a", "x")), Return(("x",))),
        (Free("x"), Return(())),
        (Reuse("a", "x"), Return(("a",))),
        (View("v", "x"), PlacementAllocate("a", "v"), Return(("a",))),
    ):
        assert fault(*lines).kind in ("read-only", "ownership")


@pytest.mark.parametrize("dtype", [DType.F64, F32, DType.F16, DType.BF16, DType.I32, DType.BOOL])
def test_what_nobody_wrote_is_poison(dtype: DType) -> None:
    t = TensorType(dtype, (64,))
    kernel = PrimFunc("k", (Buffer("o", dtype, (64,)),), ("o",), parallel(i, 63, Store(
        "o", (i,), Const(0, dtype))))  # fmt: skip
    p = build(Allocate("o"), Launch("k", ("o",)), Return(("o",)), types={"o": t}, kernels=[kernel])
    (o,) = program.run(p, [X])
    assert not o[:63].astype(np.float64).any()
    last = o[63:].view(np.uint8)
    assert np.isnan(o[63].astype(np.float64)) if dtype.is_float else (last == 0xA5).all()


def test_freed_and_replaced_bytes_are_poisoned() -> None:
    p = build(
        Allocate("a"), Launch("inc", ("x", "a")), Reuse("b", "a"), Launch("nothing", ("x", "b")),
        Return(("b",)),
    )  # fmt: skip
    assert np.isnan(program.run(p, [X])[0]).all()
    placed = TensorType(DType.I32, (2,))
    p = build(
        Allocate("a"), Launch("inc", ("x", "a")), PlacementAllocate("b", "a"), Return(("b",)),
        types={"b": placed},
    )  # fmt: skip
    assert (program.run(p, [X])[0].view(np.uint8) == 0xA5).all()


START = (Allocate("a"), Launch("inc", ("x", "a")))


@pytest.mark.parametrize("take", [Reuse("b", "a"), PlacementAllocate("b", "a")])
@pytest.mark.parametrize(
    "use", [Launch("inc", ("a", "c")), Launch("inc", ("c", "a")), Copy("c", "a"), Copy("a", "c"),
            Free("a"), View("v", "a"), Extern("f", ("c",), ("a",))],
)  # fmt: skip
def test_a_value_whose_bytes_were_taken_over(take: Line, use: Line) -> None:
    f = fault(*START, Allocate("c"), take, use, Return(("c",)))
    assert f.kind == "ownership"
    assert f.detail == "a does not own bytes 0..16, now of b"


def test_results_must_own_their_bytes() -> None:
    assert fault(*START, Reuse("b", "a"), Return(("a",))).kind == "ownership"
    assert fault(*START, Free("a"), Return(("a",))).kind == "ownership"


def test_a_view_dies_with_its_owner() -> None:
    view = (*START, View("v", "a"), View("w", "v"))
    (o,) = program.run(build(*view, Return(("w",))), [X])
    assert o.tolist() == [1, 2, 3, 4]
    f = fault(*view, Free("a"), Return(("w",)))
    assert (f.kind, f.detail) == ("ownership", "w, a view of a, does not own bytes 0..16, now free")
    assert fault(*view, Reuse("b", "a"), Return(("v",))).kind == "ownership"
    assert fault(*view, Free("v"), Return(())).kind == "ownership"


def test_double_frees_and_double_definitions() -> None:
    assert fault(*START, Free("a"), Free("a"), Return(())).kind == "ownership"
    assert fault(*START, Allocate("a"), Return(())).kind == "double-allocation"
    assert fault(*START, View("x", "a"), Return(())).kind == "double-allocation"
    assert fault(*START, Free("a"), Reuse("b", "a"), Return(("b",))).kind == "freed"
    assert (
        fault(*START, Reuse("b", "a"), Reuse("c", "b"), Free("b"), Return(())).kind == "ownership"
    )


def test_values_without_bytes() -> None:
    types = {"ghost": TensorType(F32, (4,))}
    for line in (Free("ghost"), Launch("inc", ("ghost", "x")), Reuse("b", "ghost")):
        assert fault(line, Return(()), types=types).kind == "unallocated"
    assert fault(*START, Launch("inc", ("a",)), Return(())).kind == "unallocated"


def test_capacity() -> None:
    wide = {"b": TensorType(F32, (5,))}
    for line in (Reuse("b", "a"), PlacementAllocate("b", "a"), View("b", "a")):
        assert fault(*START, line, Return(("b",)), types=wide).kind == "capacity"
    narrow = {"b": TensorType(F32, (3,))}
    assert fault(*START, Reuse("b", "a"), Return(("b",)), types=narrow).kind == "capacity"
    assert fault(*START, PlacementAllocate("b", "a", 8), Return(())).kind == "capacity"


def test_several_values_in_one_allocation() -> None:
    types = {"arena": TensorType(DType.U8, (1024,))}
    placed = (
        Allocate("arena"), PlacementAllocate("a", "arena", 0), PlacementAllocate("b", "arena", 256),
        Launch("inc", ("x", "a")), Launch("double", ("a", "b")),
    )  # fmt: skip
    a, b = program.run(build(*placed, Return(("a", "b")), types=types), [X])
    assert (a.tolist(), b.tolist()) == ([1, 2, 3, 4], [2, 4, 6, 8])
    over = PlacementAllocate("c", "arena", 0)
    assert fault(*placed, over, Return(("a",)), types=types).detail.endswith("now of c")
    (b,) = program.run(build(*placed, over, Return(("b",)), types=types), [X])
    assert b.tolist() == [2, 4, 6, 8]
    beside = PlacementAllocate("c", "a", 512)  # far from the bytes of a, which is dead all the same
    assert fault(*placed, beside, Return(("a",)), types=types).kind == "ownership"
    bad = PlacementAllocate("c", "arena", 128)
    assert fault(*placed, bad, Return(()), types=types).kind == "capacity"


def test_a_launch_must_not_write_what_it_reads() -> None:
    assert fault(*START, Launch("inc", ("a", "a")), Return(("a",))).kind == "ownership"
    f = fault(*START, View("v", "a"), Launch("inc", ("v", "a")), Return(("a",)))
    assert (f.kind, f.detail) == ("ownership", "a is written under two names")


def test_what_has_no_bytes_is_written_beside_itself() -> None:
    """The empty parts of a whole begin at one place."""
    part = TensorType(DType.F32, (0,))
    types = {"whole": part, "first": part, "second": part, "none": part}
    lines = (
        View("none", "x"), Allocate("whole"), View("first", "whole"), View("second", "whole"),
        Copy("first", "none"), Copy("second", "first"),
    )  # fmt: skip
    (got,) = program.run(build(*lines, Return(("whole",)), types=types), [X])
    assert got.shape == (0,)


def test_asserts_and_the_text_of_faults() -> None:
    f = fault(Assert(2, 3, "sizes agree"), Return(()))
    assert (f.kind, f.detail) == ("assert", "sizes agree (2 != 3)")
    assert "2" in f.where
    assert str(f) == f"assert at `{f.where}`: sizes agree (2 != 3)"
    assert fault(Return(("x",)), Return(("x",))).kind == "unallocated"
