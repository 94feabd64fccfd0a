"""The workloads as people write them for PyTorch and for JAX; each takes the library first.

Tables are apart by the number of arguments, so that their functions have types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

Peer: TypeAlias = Callable[..., Any]


def _torch_chain(t: Any, x: Any, row: Any, column: Any) -> Any:
    y = t.tanh(x * row + column) * t.exp(-t.abs(x))
    return t.maximum(y - row, column * 0.5) / (t.sqrt(t.abs(y) + 1.0) + 1.0)


def _torch_norm_backward(t: Any, x: Any, scale: Any, g: Any) -> tuple[Any, Any]:
    h, up = x.float(), g.float() * scale.float()
    r = t.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6)
    inner = (up * h).mean(-1, keepdim=True)
    return (r * (up - h * r * r * inner)).bfloat16(), (g.float() * h * r).sum(0)


def _torch_softmax_backward(t: Any, y: Any, g: Any) -> Any:
    p = y.float() * g.float()
    return (p - y.float() * p.sum(-1, keepdim=True)).bfloat16()


def _torch_attention(t: Any, q: Any, k: Any, v: Any) -> Any:
    return t.softmax(q @ k.mT * 0.125, -1) @ v


def _torch_norm(t: Any, x: Any, axes: tuple[int, ...]) -> Any:
    d = x - x.mean(axes, keepdim=True)
    return d * t.rsqrt((d * d).mean(axes, keepdim=True) + 1e-5)


def _torch_batch_norm(t: Any, x: Any, scale: Any, shift: Any) -> Any:
    return _torch_norm(t, x, (0, 2)) * scale.view(1, -1, 1) + shift.view(1, -1, 1)


def _torch_masked(t: Any, x: Any, bias: Any, mask: Any) -> Any:
    scores = x.float() * 0.125 + bias.float()
    return t.softmax(t.where(mask, scores, -1e30), -1).bfloat16()


def _torch_softmax(t: Any, x: Any) -> Any:
    return t.softmax(x, -1)


def _torch_rms(t: Any, x: Any, scale: Any) -> Any:
    return t.nn.functional.rms_norm(x, x.shape[-1:], scale, 1e-6)


_TORCH_ONE: dict[str, Callable[[Any, Any], Any]] = {
    "softmax_bf16": _torch_softmax,
    "softmax_long_bf16": _torch_softmax,
    "softmax_huge_f32": _torch_softmax,
    "softmax_small_bf16": _torch_softmax,
    "softmax_narrow_bf16": _torch_softmax,
    "softmax_wide_bf16": _torch_softmax,
    "group_norm_f32": lambda t, x: _torch_norm(t, x, (2, 3)),
    "row_sum_f32": lambda _, x: x.sum(1),
    "column_sum_f32": lambda _, x: x.sum(0),
    "full_sum_f32": lambda _, x: x.sum(),
    "argmax_bf16": lambda _, x: x.argmax(1),
    "transpose_f32": lambda _, x: x.t().contiguous(),
    "heads_bf16": lambda _, x: x.permute(0, 2, 1, 3).contiguous(),
    "cumulative_sum_f32": lambda _, x: x.cumsum(1),
}
_TORCH_TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "fma_f32": lambda _, a, b: a * b + a,
    "softmax_backward_bf16": _torch_softmax_backward,
    "rms_norm_bf16": _torch_rms,
    "rms_norm_short_bf16": _torch_rms,
    "rms_norm_few_bf16": _torch_rms,
    "cross_entropy_bf16": lambda t, x, i: t.nn.functional.cross_entropy(x.float(), i),
    "top_one_i8": lambda _, x, scale: (x.float() * scale).argmax(-1),
    "concat_f32": lambda t, a, b: t.cat([a, b * 2.0], 1),
    "embedding_bf16": lambda _, e, i: e[i],
    "matmul_f32": lambda _, a, b: a @ b,
}
_TORCH_THREE: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "gelu_bf16": lambda t, a, b, c: t.nn.functional.gelu(a * b + c) + a,
    "chain_f32": _torch_chain,
    "softmax_masked_bf16": _torch_masked,
    "layer_norm_bf16": lambda t, x, a, b: t.nn.functional.layer_norm(x, x.shape[-1:], a, b),
    "rms_norm_backward_bf16": _torch_norm_backward,
    "batch_norm_f32": _torch_batch_norm,
    "attention_f32": _torch_attention,
    "scatter_add_bf16": lambda _, e, i, g: e.index_add(0, i, g),
    "scatter_put_f32": lambda _, e, i, g: e.index_copy(0, i, g),
}
TORCH: Mapping[str, Peer] = MappingProxyType({**_TORCH_ONE, **_TORCH_TWO, **_TORCH_THREE})


def _jax_norm(j: Any, x: Any, axes: tuple[int, ...], add: float = 1e-5) -> Any:
    d = x - x.mean(axes, keepdims=True)
    return d * j.lax.rsqrt((d * d).mean(axes, keepdims=True) + add)


def _jax_rms(j: Any, x: Any, scale: Any) -> Any:
    h = x.astype("float32")
    r = j.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6)
    return (h * r * scale.astype("float32")).astype(x.dtype)


def _jax_layer_norm(j: Any, x: Any, scale: Any, shift: Any) -> Any:
    y = _jax_norm(j, x.astype("float32"), (-1,))
    return (y * scale.astype("float32") + shift.astype("float32")).astype(x.dtype)


def _jax_norm_backward(j: Any, x: Any, scale: Any, g: Any) -> tuple[Any, Any]:
    h, given = x.astype("float32"), g.astype("float32")
    up = given * scale.astype("float32")
    r = j.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6)
    inner = (up * h).mean(-1, keepdims=True)
    return (r * (up - h * r * r * inner)).astype(x.dtype), (given * h * r).sum(0)


def _jax_softmax_backward(j: Any, y: Any, g: Any) -> Any:
    p = y.astype("float32") * g.astype("float32")
    return (p - y.astype("float32") * p.sum(-1, keepdims=True)).astype(y.dtype)


def _jax_cross_entropy(j: Any, x: Any, target: Any) -> Any:
    logits = j.nn.log_softmax(x.astype("float32"), -1)
    return -j.numpy.take_along_axis(logits, target[:, None], -1).mean()


def _jax_chain(j: Any, x: Any, row: Any, column: Any) -> Any:
    n = j.numpy
    y = n.tanh(x * row + column) * n.exp(-n.abs(x))
    return n.maximum(y - row, column * 0.5) / (n.sqrt(n.abs(y) + 1.0) + 1.0)


def _jax_masked(j: Any, x: Any, bias: Any, mask: Any) -> Any:
    scores = x.astype("float32") * 0.125 + bias.astype("float32")
    return j.nn.softmax(j.numpy.where(mask, scores, -1e30), -1).astype(x.dtype)


def _jax_attention(j: Any, q: Any, k: Any, v: Any) -> Any:
    return j.nn.softmax(q @ k.swapaxes(-1, -2) * 0.125, -1) @ v


def _jax_softmax(j: Any, x: Any) -> Any:
    return j.nn.softmax(x, -1)


_JAX_ONE: dict[str, Callable[[Any, Any], Any]] = {
    "softmax_bf16": _jax_softmax,
    "softmax_long_bf16": _jax_softmax,
    "softmax_huge_f32": _jax_softmax,
    "softmax_small_bf16": _jax_softmax,
    "softmax_narrow_bf16": _jax_softmax,
    "softmax_wide_bf16": _jax_softmax,
    "group_norm_f32": lambda j, x: _jax_norm(j, x, (2, 3)),
    "row_sum_f32": lambda _, x: x.sum(1),
    "column_sum_f32": lambda _, x: x.sum(0),
    "full_sum_f32": lambda _, x: x.sum(),
    "argmax_bf16": lambda _, x: x.argmax(1),
    "transpose_f32": lambda _, x: x.T + 0.0,
    "heads_bf16": lambda _, x: x.transpose(0, 2, 1, 3),
    "cumulative_sum_f32": lambda _, x: x.cumsum(1),
}
_JAX_TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "fma_f32": lambda _, a, b: a * b + a,
    "softmax_backward_bf16": _jax_softmax_backward,
    "rms_norm_bf16": _jax_rms,
    "rms_norm_short_bf16": _jax_rms,
    "rms_norm_few_bf16": _jax_rms,
    "cross_entropy_bf16": _jax_cross_entropy,
    "top_one_i8": lambda _, x, scale: (x.astype("float32") * scale).argmax(-1),
    "concat_f32": lambda j, a, b: j.numpy.concatenate([a, b * 2.0], 1),
    "embedding_bf16": lambda _, e, i: e[i],
    "matmul_f32": lambda _, a, b: a @ b,
}
_JAX_THREE: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "gelu_bf16": lambda j, a, b, c: j.nn.gelu(a * b + c, approximate=False) + a,
    "chain_f32": _jax_chain,
    "softmax_masked_bf16": _jax_masked,
    "layer_norm_bf16": _jax_layer_norm,
    "rms_norm_backward_bf16": _jax_norm_backward,
    "batch_norm_f32": lambda j, x, a, b: (
        _jax_norm(j, x, (0, 2)) * a.reshape(1, -1, 1) + b.reshape(1, -1, 1)
    ),
    "attention_f32": _jax_attention,
    "scatter_add_bf16": lambda _, e, i, g: e.at[i].add(g),
    "scatter_put_f32": lambda _, e, i, g: e.at[i].set(g),
}
JAX: Mapping[str, Peer] = MappingProxyType({**_JAX_ONE, **_JAX_TWO, **_JAX_THREE})
