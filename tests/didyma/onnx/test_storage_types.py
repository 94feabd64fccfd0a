"""ONNX's small element types: data in every place, casts by their tables, blocks of scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from didyma.onnx.load import load_model
from didyma.onnx.tensors import tensor
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.types import Array, DType

KINDS = (
    (TensorProto.INT4, ml_dtypes.int4),
    (TensorProto.UINT4, ml_dtypes.uint4),
    (TensorProto.INT2, ml_dtypes.int2),
    (TensorProto.UINT2, ml_dtypes.uint2),
    (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn),
    (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
    (TensorProto.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu),
)


@pytest.mark.parametrize(("code", "numpy"), KINDS)
def test_data_raw_typed_and_external(code: int, numpy: Any, tmp_path: Path) -> None:
    dtype = DType.of(np.zeros(1, numpy))
    most = dtype.limits[1] if dtype.is_int else 7
    want = np.minimum(np.arange(1, 8), most).astype(np.float32).astype(numpy)
    proto = numpy_helper.from_array(want, "w")
    assert proto.data_type == code
    typed = TensorProto(name="w", data_type=code, dims=[7])
    typed.int32_data.extend(proto.raw_data)
    (tmp_path / "w.bin").write_bytes(b"??" + proto.raw_data)
    outside = TensorProto(name="w", data_type=code, dims=[7])
    outside.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "2")):
        outside.external_data.add(key=key, value=value)
    for t in (proto, typed, outside):
        got = tensor(t, "w", tmp_path).array
        assert got.dtype == want.dtype
        assert np.array_equal(got.astype(np.float32), want.astype(np.float32))
    short = TensorProto(name="w", data_type=code, dims=[9], raw_data=proto.raw_data)
    with pytest.raises(DidymaError) as caught:
        tensor(short, "w", None)
    assert caught.value.code == "onnx-broken"


def one(op: str, inputs: dict[str, Array], code: int, /, **attrs: Any) -> Array:
    """Run one node through import and the graph interpreter."""
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in inputs.items()
    ]
    out = helper.make_tensor_value_info("y", code, None)
    node = helper.make_node(op, list(inputs), ["y"], **attrs)
    opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    g = helper.make_graph([node], "g", infos, [out])
    m = load_model(helper.make_model(g, opset_imports=opsets))
    with np.errstate(all="ignore"):
        return graph.run(m, list(inputs.values()))[0]


@pytest.mark.parametrize(
    ("mode", "saturate", "want"),
    [
        ("up", 1, [-127, -127, 0, 2, 2, 127, np.nan, 127]),
        ("down", 1, [-127, -127, 0, 1, 1, 127, np.nan, 127]),
        ("nearest", 1, [-127, -127, 0, 1, 2, 127, np.nan, 127]),
        ("up", 0, [np.nan, -127, 0, 2, 2, np.nan, np.nan, np.nan]),
        ("nearest", 0, [np.nan, np.nan, 0, 1, 2, np.nan, np.nan, np.nan]),
    ],
)
def test_scales_round_as_they_are_told(mode: str, saturate: int, want: list[float]) -> None:
    x = np.array([0, 2.0**-130, 1, 2.5, 3.5, 3e38, np.nan, np.inf], np.float32)
    got = one("Cast", {"x": x}, TensorProto.FLOAT8E8M0, to=TensorProto.FLOAT8E8M0,
              round_mode=mode, saturate=saturate)  # fmt: skip
    with np.errstate(all="ignore"):
        assert np.array_equal(np.log2(got.astype(np.float64)), want, equal_nan=True)


def test_blocks_of_scales_of_packed_integers() -> None:
    codes = (np.arange(24).reshape(4, 6) % 16 - 8).astype(ml_dtypes.int4)
    scale = np.array([[1, 0.5], [2, 4], [0.25, 8], [1, 1]], np.float32)
    zero = np.array([[0, 1], [-1, 2], [0, 0], [3, -3]]).astype(ml_dtypes.int4)
    got = one("DequantizeLinear", {"x": codes, "s": scale, "z": zero}, TensorProto.FLOAT,
              axis=1, block_size=3)  # fmt: skip
    wide = codes.astype(np.float32) - np.repeat(zero.astype(np.float32), 3, 1)
    assert np.array_equal(got, wide * np.repeat(scale, 3, 1))
    back = one("QuantizeLinear", {"x": got, "s": scale, "z": zero}, TensorProto.INT4, axis=1,
               block_size=3)  # fmt: skip
    assert back.dtype == codes.dtype
    assert np.array_equal(back.astype(np.int8), codes.astype(np.int8))


def test_random_operators_repeat_themselves() -> None:
    a = one("RandomUniform", {}, TensorProto.FLOAT, shape=[50], seed=2.5, low=-1.0, high=3.0)
    b = one("RandomUniform", {}, TensorProto.FLOAT, shape=[50], seed=2.5, low=-1.0, high=3.0)
    c = one("RandomUniform", {}, TensorProto.FLOAT, shape=[50], seed=3.5, low=-1.0, high=3.0)
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert -1 <= a.min() < 0 < 2 < a.max() <= 3
    x = np.zeros((4, 5), np.float16)
    like = one("RandomNormalLike", {"x": x}, TensorProto.FLOAT16, seed=1.0)
    assert like.dtype == np.float16
    assert like.shape == (4, 5)
    drawn = one("Bernoulli", {"x": np.full(2000, 0.25, np.float32)}, TensorProto.INT32,
                dtype=TensorProto.INT32, seed=9.0)  # fmt: skip
    assert drawn.dtype == DType.I32.numpy
    assert abs(float(drawn.mean()) - 0.25) < 0.05
    odds = np.log(np.array([[1, 3]], np.float32))
    classes = one("Multinomial", {"x": odds}, TensorProto.INT64, sample_size=2000, seed=4.0,
                  dtype=TensorProto.INT64)  # fmt: skip
    assert classes.shape == (1, 2000)
    assert abs(float(classes.mean()) - 0.75) < 0.05
