"""Names that NumPy and PyTorch have for functions of ``dd``: the same functions."""

from __future__ import annotations

from didyma.functions import (
    creation,
    elementwise,
    joining,
    lookup,
    neural,
    products,
    reductions,
    shaping,
    windows,
)
from didyma.tracer import types

float16, bfloat16, float32, float64 = types.f16, types.bf16, types.f32, types.f64
int8, int16, int32, int64 = types.i8, types.i16, types.i32, types.i64
uint8, uint16, uint32, uint64 = types.u8, types.u16, types.u32, types.u64
bool_ = types.bool_

absolute, power, arctan2 = elementwise.abs, elementwise.pow, elementwise.atan2
arccos, arcsin, arctan = elementwise.acos, elementwise.asin, elementwise.atan
arccosh, arcsinh, arctanh = elementwise.acosh, elementwise.asinh, elementwise.atanh
mod, true_divide, rint = elementwise.remainder, elementwise.divide, elementwise.round
bitwise_not = invert = elementwise.bitwise_invert
left_shift, right_shift = elementwise.bitwise_left_shift, elementwise.bitwise_right_shift
neg, sub, mul, div = (
    elementwise.negative, elementwise.subtract, elementwise.multiply, elementwise.divide
)  # fmt: skip
eq, ne, lt, le = elementwise.equal, elementwise.not_equal, elementwise.less, elementwise.less_equal
gt, ge = elementwise.greater, elementwise.greater_equal
clamp = elementwise.clip

amax, amin = reductions.max, reductions.min
cumsum, cumprod = reductions.cumulative_sum, reductions.cumulative_prod

array = creation.asarray
concatenate = cat = joining.concat
unbind = joining.unstack
unsqueeze, movedim, permute = shaping.expand_dims, shaping.moveaxis, shaping.permute_dims
ravel = shaping.flatten

mm = bmm = products.matmul
topk = lookup.top_k
attention = neural.scaled_dot_product_attention
swish = neural.silu
conv1d = conv2d = conv3d = windows.conv
max_pool1d = max_pool2d = max_pool3d = windows.max_pool
avg_pool1d = avg_pool2d = avg_pool3d = windows.avg_pool

__all__ = [
    "absolute", "amax", "amin", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "array", "attention", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bfloat16",
    "bitwise_not", "bmm", "bool_", "cat", "clamp", "concatenate", "conv1d", "conv2d", "conv3d",
    "cumprod", "cumsum", "div", "eq", "float16", "float32", "float64", "ge", "gt", "int8", "int16",
    "int32", "int64", "invert", "le", "left_shift", "lt", "max_pool1d", "max_pool2d", "max_pool3d",
    "mm", "mod", "movedim", "mul", "ne", "neg", "permute", "power", "ravel", "right_shift", "rint",
    "sub", "swish", "topk", "true_divide", "uint8", "uint16", "uint32", "uint64", "unbind",
    "unsqueeze",
]  # fmt: skip
