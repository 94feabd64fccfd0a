"""Programs that are measured: each at a size that is simulated, and at one that fills a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

import didyma as dd
from didyma.refimpl.ir.types import Array, DType, TensorType

Argument: TypeAlias = tuple[DType, tuple[int, ...]]

F32, BF16, I64, I8 = DType.F32, DType.BF16, DType.I64, DType.I8


@dataclass(frozen=True, slots=True)
class Workload:
    """A function of tensors, and its arguments at the two sizes.

    ``group`` is the class of kernels that it stands for.  Integers of its arguments are indices
    below ``indices``, one number for each size; 0 if they may be anything.  ``picked`` says that
    the first argument is read only where indices say, so as often as there are results, and
    ``distinct`` that no index comes twice: of two updates of one element libraries keep any.
    """

    name: str
    group: str
    function: Callable[..., Any]
    small: tuple[Argument, ...]
    large: tuple[Argument, ...]
    indices: tuple[int, int] = (0, 0)
    picked: bool = False
    distinct: bool = False

    def program(self, large: bool = False) -> dd.Program:
        """Trace the function at one of its sizes."""
        types = [_type(a) for a in (self.large if large else self.small)]
        made: dd.Program = dd.trace(*types)(self.function)
        return made


def _type(argument: Argument) -> Any:
    dtype, shape = argument
    return getattr(dd, dtype.value)[shape]


def _wide(x: dd.Tensor) -> dd.Tensor:
    return dd.astype(x, dd.f32)


def _fma(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a * b + a


def _gelu(a: dd.Tensor, b: dd.Tensor, c: dd.Tensor) -> dd.Tensor:
    return dd.astype(dd.gelu(_wide(a) * _wide(b) + _wide(c)) + _wide(a), dd.bf16)


def _chain(x: dd.Tensor, row: dd.Tensor, column: dd.Tensor) -> dd.Tensor:
    y = dd.tanh(x * row + column) * dd.exp(-dd.abs(x))
    return dd.maximum(y - row, column * 0.5) / (dd.sqrt(dd.abs(y) + 1.0) + 1.0)


def _layer_norm(x: dd.Tensor, scale: dd.Tensor, shift: dd.Tensor) -> dd.Tensor:
    h = _wide(x)
    d = h - dd.mean(h, axis=-1, keepdims=True)
    variance = dd.mean(d * d, axis=-1, keepdims=True)
    return dd.astype(d * dd.rsqrt(variance + 1e-5) * _wide(scale) + _wide(shift), dd.bf16)


def _rms_norm(x: dd.Tensor, scale: dd.Tensor) -> dd.Tensor:
    h = _wide(x)
    mean = dd.mean(h * h, axis=-1, keepdims=True)
    return dd.astype(h * dd.rsqrt(mean + 1e-6) * _wide(scale), dd.bf16)


def _softmax_backward(y: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    p = _wide(y) * _wide(g)
    return dd.astype(p - _wide(y) * dd.sum(p, axis=-1, keepdims=True), dd.bf16)


def _rms_norm_backward(x: dd.Tensor, scale: dd.Tensor, g: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    h, up = _wide(x), _wide(g) * _wide(scale)
    r = dd.rsqrt(dd.mean(h * h, axis=-1, keepdims=True) + 1e-6)
    inner = dd.mean(up * h, axis=-1, keepdims=True)
    down = dd.astype(r * (up - h * r * r * inner), dd.bf16)
    return down, dd.sum(_wide(g) * h * r, axis=0)


def _cross_entropy(x: dd.Tensor, target: dd.Tensor) -> dd.Tensor:
    logits = dd.log_softmax(_wide(x), axis=-1)
    rows = dd.take_along_axis(logits, dd.expand_dims(target, -1), axis=-1)
    return dd.mean(-rows)


def _masked(x: dd.Tensor, bias: dd.Tensor, mask: dd.Tensor) -> dd.Tensor:
    scores = _wide(x) * 0.125 + _wide(bias)
    return dd.astype(dd.softmax(dd.where(mask, scores, -1e30), axis=-1), dd.bf16)


def _batch_norm(x: dd.Tensor, scale: dd.Tensor, shift: dd.Tensor) -> dd.Tensor:
    d = x - dd.mean(x, axis=(0, 2), keepdims=True)
    variance = dd.mean(d * d, axis=(0, 2), keepdims=True)
    return d * dd.rsqrt(variance + 1e-5) * dd.reshape(scale, (1, -1, 1)) + dd.reshape(
        shift, (1, -1, 1)
    )


def _group_norm(x: dd.Tensor) -> dd.Tensor:
    d = x - dd.mean(x, axis=(2, 3), keepdims=True)
    return d * dd.rsqrt(dd.mean(d * d, axis=(2, 3), keepdims=True) + 1e-5)


def _top_one(x: dd.Tensor, scale: dd.Tensor) -> dd.Tensor:
    return dd.argmax(_wide(x) * scale, axis=-1)


def _attention(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    scores = dd.matmul(q, dd.matrix_transpose(k)) * 0.125
    return dd.matmul(dd.softmax(scores, axis=-1), v)


def _softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=-1)


def _row_sum(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1)


def _column_sum(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=0)


def _argmax(x: dd.Tensor) -> dd.Tensor:
    return dd.argmax(x, axis=1)


def _heads(x: dd.Tensor) -> dd.Tensor:
    return dd.permute_dims(x, (0, 2, 1, 3))


def _concat(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.concat([a, b * 2.0], axis=1)


def _embedding(e: dd.Tensor, i: dd.Tensor) -> dd.Tensor:
    return dd.take(e, i, axis=0)


def _by_row(i: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    return dd.broadcast_to(dd.reshape(i, (g.shape[0], 1)), g.shape)


def _scatter_add(e: dd.Tensor, i: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    return dd.scatter(e, _by_row(i, g), g, axis=0, reduction="add")


def _scatter_put(e: dd.Tensor, i: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    return dd.scatter(e, _by_row(i, g), g, axis=0)


def _cumulative_sum(x: dd.Tensor) -> dd.Tensor:
    return dd.cumulative_sum(x, axis=1)


def _vector(dtype: DType, n: int) -> Argument:
    return dtype, (n,)


def _matrix(dtype: DType, *shape: int) -> Argument:
    return dtype, shape


ALL: tuple[Workload, ...] = (
    Workload("fma_f32", "pointwise", _fma, (_vector(F32, 8192),) * 2, (_vector(F32, 1 << 26),) * 2),
    Workload(
        "gelu_bf16", "pointwise", _gelu, (_vector(BF16, 8192),) * 3, (_vector(BF16, 1 << 26),) * 3
    ),
    Workload(
        "chain_f32", "pointwise", _chain,
        (_matrix(F32, 64, 128), _vector(F32, 128), _matrix(F32, 64, 1)),
        (_matrix(F32, 16384, 4096), _vector(F32, 4096), _matrix(F32, 16384, 1)),
    ),
    Workload(
        "softmax_bf16", "rows", _softmax,
        (_matrix(BF16, 16, 1024),), (_matrix(BF16, 65536, 1024),),
    ),
    Workload(
        "softmax_long_bf16", "rows", _softmax,
        (_matrix(BF16, 64, 8192),), (_matrix(BF16, 8192, 32768),),
    ),
    Workload(
        "softmax_huge_f32", "rows", _softmax,
        (_matrix(F32, 1, 65536),), (_matrix(F32, 256, 1 << 20),),
    ),
    Workload(
        "softmax_small_bf16", "rows", _softmax,
        (_matrix(BF16, 32, 256),), (_matrix(BF16, 128, 1024),),
    ),
    Workload(
        "softmax_narrow_bf16", "rows", _softmax,
        (_matrix(BF16, 64, 256),), (_matrix(BF16, 262144, 256),),
    ),
    Workload(
        "softmax_wide_bf16", "rows", _softmax,
        (_matrix(BF16, 2, 32768),), (_matrix(BF16, 512, 262144),),
    ),
    Workload(
        "softmax_masked_bf16", "rows", _masked,
        (_matrix(BF16, 16, 512), _vector(BF16, 512), _matrix(DType.BOOL, 16, 512)),
        (_matrix(BF16, 65536, 2048), _vector(BF16, 2048), _matrix(DType.BOOL, 65536, 2048)),
    ),
    Workload(
        "softmax_backward_bf16", "rows", _softmax_backward,
        (_matrix(BF16, 16, 1024),) * 2, (_matrix(BF16, 65536, 1024),) * 2,
    ),
    Workload(
        "layer_norm_bf16", "rows", _layer_norm,
        (_matrix(BF16, 64, 4096), *(_vector(BF16, 4096),) * 2),
        (_matrix(BF16, 32768, 4096), *(_vector(BF16, 4096),) * 2),
    ),
    Workload(
        "rms_norm_bf16", "rows", _rms_norm,
        (_matrix(BF16, 64, 4096), _vector(BF16, 4096)),
        (_matrix(BF16, 32768, 4096), _vector(BF16, 4096)),
    ),
    Workload(
        "rms_norm_few_bf16", "rows", _rms_norm,
        (_matrix(BF16, 8, 4096), _vector(BF16, 4096)),
        (_matrix(BF16, 512, 4096), _vector(BF16, 4096)),
    ),
    Workload(
        "rms_norm_short_bf16", "rows", _rms_norm,
        (_matrix(BF16, 24, 8, 128), _vector(BF16, 128)),
        (_matrix(BF16, 4608, 48, 128), _vector(BF16, 128)),
    ),
    Workload(
        "rms_norm_backward_bf16", "rows", _rms_norm_backward,
        (_matrix(BF16, 64, 1024), _vector(BF16, 1024), _matrix(BF16, 64, 1024)),
        (_matrix(BF16, 32768, 4096), _vector(BF16, 4096), _matrix(BF16, 32768, 4096)),
    ),
    Workload(
        "cross_entropy_bf16", "rows", _cross_entropy,
        (_matrix(BF16, 16, 1000), _vector(I64, 16)),
        (_matrix(BF16, 32768, 50000), _vector(I64, 32768)), (1000, 50000),
    ),
    Workload(
        "batch_norm_f32", "rows", _batch_norm,
        (_matrix(F32, 8, 16, 64), *(_vector(F32, 16),) * 2),
        (_matrix(F32, 256, 64, 3136), *(_vector(F32, 64),) * 2),
    ),
    Workload(
        "group_norm_f32", "rows", _group_norm,
        (_matrix(F32, 2, 8, 4, 64),), (_matrix(F32, 128, 32, 8, 3136),),
    ),
    Workload(
        "row_sum_f32", "reductions", _row_sum,
        (_matrix(F32, 16, 4096),), (_matrix(F32, 65536, 4096),),
    ),
    Workload(
        "column_sum_f32", "reductions", _column_sum,
        (_matrix(F32, 1024, 64),), (_matrix(F32, 65536, 4096),),
    ),
    Workload(
        "full_sum_f32", "reductions", dd.sum, (_vector(F32, 1 << 16),), (_vector(F32, 1 << 27),)
    ),
    Workload(
        "argmax_bf16", "reductions", _argmax,
        (_matrix(BF16, 4, 16384),), (_matrix(BF16, 4096, 131072),),
    ),
    Workload(
        "top_one_i8", "reductions", _top_one,
        (_matrix(I8, 4, 16384), _vector(F32, 16384)),
        (_matrix(I8, 8192, 131072), _vector(F32, 131072)),
    ),
    Workload(
        "transpose_f32", "movement", dd.transpose,
        (_matrix(F32, 128, 64),), (_matrix(F32, 16384, 16384),),
    ),
    Workload(
        "heads_bf16", "movement", _heads,
        (_matrix(BF16, 2, 16, 8, 32),), (_matrix(BF16, 32, 2048, 16, 128),),
    ),
    Workload(
        "concat_f32", "movement", _concat,
        (_matrix(F32, 16, 256),) * 2, (_matrix(F32, 16384, 4096),) * 2,
    ),
    Workload(
        "embedding_bf16", "movement", _embedding,
        (_matrix(BF16, 100, 512), _vector(I64, 16)),
        (_matrix(BF16, 50304, 4096), _vector(I64, 32768)), (100, 50304), picked=True,
    ),
    Workload(
        "scatter_add_bf16", "movement", _scatter_add,
        (_matrix(BF16, 100, 512), _vector(I64, 96), _matrix(BF16, 96, 512)),
        (_matrix(BF16, 50304, 4096), _vector(I64, 32768), _matrix(BF16, 32768, 4096)),
        (100, 50304),
    ),
    Workload(
        "scatter_put_f32", "movement", _scatter_put,
        (_matrix(F32, 100, 512), _vector(I64, 96), _matrix(F32, 96, 512)),
        (_matrix(F32, 50304, 2048), _vector(I64, 32768), _matrix(F32, 32768, 2048)),
        (100, 50304), distinct=True,
    ),
    Workload(
        "cumulative_sum_f32", "scans", _cumulative_sum,
        (_matrix(F32, 8, 1024),), (_matrix(F32, 16384, 4096),),
    ),
    Workload(
        "matmul_f32", "products", dd.matmul,
        (_matrix(F32, 64, 64),) * 2, (_matrix(F32, 2048, 2048),) * 2,
    ),
    Workload(
        "attention_f32", "products", _attention,
        (_matrix(F32, 1, 2, 32, 64),) * 3, (_matrix(F32, 1, 16, 2048, 128),) * 3,
    ),
)  # fmt: skip

WORKLOADS: Mapping[str, Workload] = MappingProxyType({w.name: w for w in ALL})


def least_bytes(w: Workload, large: bool = False) -> int:
    """Return the bytes that a workload moves at least: what it reads of its inputs, its results."""
    entry = w.program(large).module.entry
    read = [_bytes(p.type) for p in entry.params]
    written = sum(map(_bytes, entry.result_types()))
    if w.picked:
        read[0] = min(read[0], written)
    return sum(read) + written


def _bytes(t: TensorType) -> int:
    return math.prod(d for d in t.shape if isinstance(d, int)) * t.dtype.nbytes


def arguments(w: Workload, seed: int = 0) -> list[Array]:
    """Draw small arguments: normal floats, indices that may be read, any booleans and bytes."""
    rng = np.random.default_rng(seed)
    return [_drawn(rng, dtype, shape, w) for dtype, shape in w.small]


def _drawn(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], w: Workload) -> Array:
    if dtype.is_float:
        return rng.standard_normal(shape, np.float32).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    most = w.indices[0]
    if w.distinct:
        return rng.permutation(most)[: math.prod(shape)].reshape(shape).astype(dtype.numpy)
    low, high = (0, most) if most else (-128, 128)
    return rng.integers(low, high, shape).astype(dtype.numpy)
