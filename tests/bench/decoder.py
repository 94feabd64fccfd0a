"""A transformer decoder whose batch and sequence length are not known when it is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, Signature

import didyma as dd
from didyma.refimpl.ir.graph import Module


def decoder(
    layers: int,
    width: int,
    heads: int,
    batch: tuple[int, int],
    length: tuple[int, int],
    *,
    noinline: bool = False,
) -> Module:
    """Return layers of causal attention and a gated network, with residuals and norms between.

    Weights are inputs, as a loader would hand them over; B and S are symbols of the given ranges.
    With ``noinline`` the layer is a function that stays one.
    """
    b, s = dd.dim("B", *batch), dd.dim("S", *length)
    per, wide = width // heads, 4 * width
    weights = (
        dd.f32[width], dd.f32[width, 3 * width], dd.f32[width, width],
        dd.f32[width], dd.f32[width, wide], dd.f32[width, wide], dd.f32[wide, width],
    )  # fmt: skip

    def head(t: dd.Tensor, k: int) -> dd.Tensor:
        part = dd.slice(t, (0, 0, k * width), (b, s, (k + 1) * width), (1, 1, 1))
        return dd.permute_dims(dd.reshape(part, (b, s, heads, per)), (0, 2, 1, 3))

    def attended(x: dd.Tensor, mix: dd.Tensor, out: dd.Tensor) -> dd.Tensor:
        mixed = x @ mix
        q, k, v = (head(mixed, i) for i in range(3))
        scores = (q @ dd.permute_dims(k, (0, 1, 3, 2))) * per**-0.5
        seen = dd.softmax(dd.tril(scores), axis=-1) @ v
        return dd.reshape(dd.permute_dims(seen, (0, 2, 1, 3)), (b, s, width)) @ out

    def layer(x: dd.Tensor, *given: dd.Tensor) -> dd.Tensor:
        norm, mix, out, scale, gate, up, down = given
        x = x + attended(dd.rms_norm(x, norm), mix, out)
        h = dd.rms_norm(x, scale)
        return x + (dd.silu(h @ gate) * (h @ up)) @ down

    used = dd.noinline(layer) if noinline else layer

    def forward(x: dd.Tensor, *given: dd.Tensor) -> dd.Tensor:
        left: Iterator[dd.Tensor] = iter(given)
        for mine in zip(*[left] * len(weights), strict=True):
            x = used(x, *mine)
        return x

    names = ["x", *(f"w{k}" for k in range(layers * len(weights)))]
    only = Parameter.POSITIONAL_ONLY
    forward.__signature__ = Signature([Parameter(n, only) for n in names])  # type: ignore[attr-defined]  # one name for each weight
    return dd.trace(dd.f32[b, s, width], *weights * layers)(forward).module
