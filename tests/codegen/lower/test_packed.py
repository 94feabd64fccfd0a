"""Packed elements at every level: odd counts, sizes known late, moves, views, weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen.options import MemoryOptions, Options
from didyma.codegen.runtime.registry import engine
from didyma.composites.builder import Builder
from didyma.fuzz import values
from didyma.fuzz.levels import check
from didyma.refimpl.ir import packing
from didyma.refimpl.ir.dims import DimVar, symbol
from didyma.refimpl.ir.graph import PRIMITIVE, Module
from didyma.refimpl.ir.types import PACKED, DType, Tensor, TensorType

ENGINES = ("host", "simt")


@pytest.mark.parametrize("dtype", PACKED)
def test_bytes_hold_what_onnx_says(dtype: DType) -> None:
    count, shift = 8 // dtype.bits, dtype.bits
    codes = (np.arange(11) * 7 % (1 << dtype.bits)).astype(np.uint8)
    held = packing.pack(codes.view(dtype.numpy), dtype.bits)
    assert held.size == -(-11 // count) == TensorType(dtype, (11,)).nbytes
    for i, code in enumerate(codes.tolist()):
        assert (int(held[i // count]) >> (i % count * shift)) & ((1 << shift) - 1) == code
    spare = 11 % count * shift
    assert spare == 0 or int(held[-1]) >> spare == 0
    t = Tensor.of(codes.view(dtype.numpy).reshape(11, 1))
    assert t.data == held.tobytes()
    assert t.array().view(np.uint8).reshape(-1).tolist() == codes.tolist()


@pytest.mark.parametrize("dtype", PACKED)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (0, 3), (2, 2, 4)])
def test_casts_and_moves(dtype: DType, shape: tuple[int, ...]) -> None:
    b = Builder()
    x = b.param("x", TensorType(dtype, shape))
    wide = b("cast", [x], dtype=DType.F32)
    twice = b("add", [wide, wide])
    axes = tuple(reversed(range(len(shape))))
    made = [
        b("cast", [twice], dtype=dtype),
        b("saturating_cast", [twice], dtype=dtype),
        b("permute_dims", [x], axes=axes),
        b("reshape", [x], shape=(int(np.prod(shape)),)),
        b("concat", [x, x], axis=0),
        wide,
    ]
    m = Module((b.function("main", made),))
    report = check(
        m,
        [values.array(9, dtype, shape, kind=values.Distribution.BITS)],
        [engine(e) for e in ENGINES],
    )
    assert report.agree or not np.prod(shape)
    assert not report.findings, [f.message for level in report.levels for f in level.findings][:3]


@pytest.mark.parametrize("planner", ["none", "linear_scan"])
@pytest.mark.parametrize("dtype", [DType.I4, DType.U2, DType.F4E2M1])
def test_sizes_known_late(dtype: DType, planner: str) -> None:
    b, n = Builder(), symbol("n")
    x = b.param("x", TensorType(dtype, (n, 3)))
    scale = b.param("s", TensorType(DType.F32, (n, 1)))
    real = b("multiply", [b("cast", [x], dtype=DType.F32), scale])
    total = b("sum", [real], axes=(0,), keepdims=False)
    again = b("saturating_cast", [b("subtract", [real, total])], dtype=dtype)
    m = Module((b.function("main", [again, total]),), (DimVar("n", 0, 20),))
    for size in (0, 1, 6, 9):
        inputs = [
            values.array(9, dtype, (size, 3), kind=values.Distribution.BITS),
            values.array(2, DType.F32, (size, 1)),
        ]
        report = check(m, inputs, [engine("host")], Options(memory=MemoryOptions(planner=planner)))
        assert report.agree, [f.message for level in report.levels for f in level.findings][:3]


@pytest.mark.parametrize("across", [False, True])
def test_bytes_that_hold_elements_of_two_rows(across: bool) -> None:
    b, shape = Builder(), (5, 3)
    x = b.param("x", TensorType(DType.F32, shape))
    ends = [b(op, [x], axes=(1,), keepdims=True) for op in ("sum", "max")[: 2 - across]]
    for end in ends:
        x = b("subtract", [x, b("broadcast_to", [end], shape=shape)])
    made = [b("saturating_cast", [x], dtype=DType.I4)]
    made += [b("sum", [x], axes=(0,), keepdims=False), *ends] if across else []
    f = b.function("main", made)
    m = Module((replace(f, attrs=((PRIMITIVE, 1),)),))
    rows = np.random.default_rng(3).integers(-9, 9, shape).astype(np.float32)
    report = check(m, [rows], [engine(e) for e in ENGINES])
    assert report.agree, [f.message for level in report.levels for f in level.findings][:3]


def test_weights_stay_packed() -> None:
    """Quantised weights of a product, each row with its scale, as constants of half a byte."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-8, 8, (33, 65)).astype(DType.I4.numpy)
    b = Builder()
    x = b.param("x", TensorType(DType.F32, (5, 33)))
    w = b("cast", [b.constant(codes)], dtype=DType.F32)
    scaled = b("multiply", [w, b.constant(rng.random((33, 1)).astype(np.float32))])
    m = Module((b.function("main", [b("matmul", [x, scaled])]),))
    (held,) = [
        t
        for n in m.entry.nodes
        if isinstance(t := n.attr.get("value"), Tensor) and t.dtype is DType.I4
    ]
    assert len(held.data) == -(-33 * 65 // 2)
    report = check(m, [rng.standard_normal((5, 33)).astype(np.float32)], [engine("host")])
    assert report.agree, [f.message for level in report.levels for f in level.findings][:3]
