"""Kernels of training, attention and convolutions, written before any of them was judged.

A fault is an edit; the line where it begins is where it is.
"""

from __future__ import annotations

import didyma as dd
from didyma.judging.contracts import Declared
from didyma.judging.making import Launch
from didyma.judging.task import Draw
from tests.bench import training_texts as texts
from tests.didyma.judging.kernels import Fault, Judged

rows, n = dd.dim("rows", 1, 4096), dd.dim("n", 1, 4096)
m, k, b, c, h, w = (dd.dim(s, 1, 256) for s in ("m", "k", "b", "c", "h", "w"))
FINITE = Declared(finite=True)


@dd.trace(dd.f32[rows, n], dd.f32[rows, n], dd.f32[n], dd.f32[rows], dd.f32[rows])
def norm_backward(
    dout: dd.Tensor, inp: dd.Tensor, weight: dd.Tensor, mean: dd.Tensor, rstd: dd.Tensor
) -> dd.Tensor:
    norm = (inp - mean[:, None]) * rstd[:, None]
    d = weight * dout
    along = dd.mean(d * norm, axis=1, keepdims=True)
    return (d - dd.mean(d, axis=1, keepdims=True) - norm * along) * rstd[:, None]


@dd.trace(dd.f32[b, n, 16], dd.f32[b, n, 16], dd.f32[b, n, 16])
def causal_attention(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    scores = q @ dd.permute_dims(k, (0, 2, 1)) * 0.25
    at = dd.arange(n)
    return dd.softmax(dd.where(at[:, None] >= at, scores, -dd.inf), axis=2) @ v


@dd.trace(dd.i32[rows, n])
def inclusive_scan(x: dd.Tensor) -> dd.Tensor:
    return dd.cumulative_sum(x, axis=1, dtype=dd.i32)


@dd.trace(dd.f32[3, h, w], dd.f32[6, 3, 3, 3], dd.f32[6])
def strided_conv(x: dd.Tensor, weight: dd.Tensor, bias: dd.Tensor) -> dd.Tensor:
    y = dd.conv(x[None], weight, stride=2, padding=1)[0]
    return dd.relu(y + bias[:, None, None])


@dd.trace(dd.f32[m, k], dd.f32[k, n])
def product(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a @ b


@dd.trace(dd.f32[b, c, n], dd.f32[c])
def batch_statistics(x: dd.Tensor, running: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor, dd.Tensor]:
    mean = dd.mean(x, axis=(0, 2))
    return running * 0.75 + mean * 0.25, mean, dd.mean(x * x, axis=(0, 2))


@dd.trace(dd.f32[n], dd.f32[n], dd.f32[n], dd.f32[n])
def adamw(p: dd.Tensor, m: dd.Tensor, v: dd.Tensor, g: dd.Tensor) -> tuple[dd.Tensor, ...]:
    m1, v1 = m * 0.875 + g * 0.125, v * 0.9375 + g * g * 0.0625
    w = p - p * (0.5 * 0.125)
    return w - 0.5 * (m1 / 0.25) / (dd.sqrt(v1 / 0.125) + 1e-3), m1, v1


@dd.trace(dd.f32[c, h, w])
def bilinear(x: dd.Tensor) -> dd.Tensor:
    for axis, size in ((1, h), (2, w)):
        at = dd.maximum((dd.arange(2 * size).astype("f32") + 0.5) * 0.5 - 0.5, 0.0)
        low = dd.floor(at)
        first = low.astype("i32")
        after = (
            dd.concat([x[:, 1:], x[:, -1:]], axis=1)
            if axis == 1
            else dd.concat([x[:, :, 1:], x[:, :, -1:]], axis=2)
        )
        part = (at - low)[:, None] if axis == 1 else at - low
        x = dd.take(x, first, axis=axis) * (1.0 - part) + dd.take(after, first, axis=axis) * part
    return x


@dd.trace(dd.f32[rows, n])
def quantise(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    scale = dd.maximum(dd.max(dd.abs(x), axis=1), 1e-3) / 127.0
    return dd.clip(dd.round(x / scale[:, None]), -127.0, 127.0).astype(dd.i8), scale


TRAINING: dict[str, Judged] = {
    "norm_backward": Judged(
        texts.NORM_BACKWARD,
        norm_backward,
        Launch("layernorm_backward", "rows", "64", args=("C=n",)),
        {
            "product": Fault("dnorm_norm_mean += dnorm * norm", "dnorm_norm_mean += dnorm * x[i]"),
            "mean": Fault("(dnorm_norm_mean, scratch) / C", "(dnorm_norm_mean, scratch)"),
            "sign": Fault("- norm * dnorm_norm_mean", "+ norm * dnorm_norm_mean"),
            "first": Fault("if (wid == 0) val = warp", "if (wid == 1) val = warp"),
        },
        FINITE,
    ),
    "causal_attention": Judged(
        texts.CAUSAL_ATTENTION,
        causal_attention,
        Launch("causal_attention<16,32,16>", "cdiv(n,32),b", "32", args=("T=n", "scale=f32:0.25")),
        {
            "diagonal": Fault("start + j <= row", "start + j < row"),
            "last": Fault("(blockIdx.x + 1) * ROWS", "(blockIdx.x + 1) * COLS"),
            "rescale": Fault("    l *= alpha;\n", ""),
            "running": Fault("tile_max = m;\n    for", "tile_max = -INFINITY;\n    for"),
            "values": Fault("? V[base + key * D + i % D]", "? V[base + i]"),
        },
        Declared(finite=True, fast_math=True),
    ),
    "inclusive_scan": Judged(
        texts.RAKED_SCAN,
        inclusive_scan,
        Launch("", "rows", "64"),
        {
            "exclusive": Fault(
                "running + totals[threadIdx.x] - sum", "running + totals[threadIdx.x]"
            ),
            "carry": Fault("running += totals[THREADS - 1]", "running = totals[THREADS - 1]"),
            "reach": Fault("threadIdx.x >= d ?", "threadIdx.x > d ?"),
            "steps": Fault("d < THREADS; d *= 2", "d < THREADS / 2; d *= 2"),
        },
    ),
    "strided_conv": Judged(
        texts.STRIDED_CONV,
        strided_conv,
        Launch(
            "conv3x3_s2<3,4>", "cdiv(w,16),cdiv(h,16),2", "8,8", args=("cout=i32:6", "H=h", "W=w")
        ),
        {
            "weight": Fault("((co0 + o) * CIN + ci) * 9", "(ci * cout + co0 + o) * 9"),
            "halo": Fault("i < 17 * 17; i += 64", "i < 16 * 17; i += 64"),
            "plane": Fault("output[((co0 + o) * OH + oy)", "output[((co0 + o) * OW + oy)"),
            "kernel": Fault("w[ky * 3 + kx]", "w[kx * 3 + ky]"),
            "origin": Fault("y0 = blockIdx.y * 16 - 1", "y0 = blockIdx.y * 16"),
        },
        FINITE,
    ),
    "pipelined": Judged(
        texts.PIPELINED,
        product,
        Launch("", "cdiv(n,16),cdiv(m,16)", "16,16"),
        {
            "wait": Fault("__pipeline_wait_prior(1)", "__pipeline_wait_prior(2)"),
            "stage": Fault("fetch(stage ^ 1, t + 1)", "fetch(stage, t + 1)"),
            "tiles": Fault("(k + TILE - 1) / TILE", "(k - 1) / TILE"),
            "swap": Fault("t * TILE + tx, kb = t * TILE + ty", "t * TILE + tx, kb = t * TILE + tx"),
        },
        FINITE,
    ),
    "batch_statistics": Judged(
        texts.BATCH_STATISTICS,
        batch_statistics,
        Launch(
            "bn_statistics<64>",
            "c",
            "64",
            args=(
                "running_mean=inplace:running",
                "mean=out",
                "moment=out",
                "N=b",
                "C=c",
                "S=n",
                "momentum=f32:0.25",
            ),
        ),
        {
            "layout": Fault("x[(img * C + c) * S + pos]", "x[(c * C + img) * S + pos]"),
            "square": Fault("sh2[tid] += sh2[tid + half]", "sh2[tid] += sh[tid + half]"),
            "momentum": Fault("(1.0f - momentum) * running", "momentum * running"),
            "count": Fault("mu = sh[0] / (N * S)", "mu = sh[0] / (C * S)"),
        },
        FINITE,
    ),
    "adamw": Judged(
        texts.ADAMW,
        adamw,
        Launch(
            "",
            "3",
            "64",
            args=(
                "p=inplace:p",
                "m=inplace:m",
                "v=inplace:v",
                "g=g",
                "lr=f32:0.5",
                "beta1=f32:0.875",
                "beta2=f32:0.9375",
                "eps=f32:1e-3",
                "decay=f32:0.125",
                "c1=f32:0.25",
                "c2=f32:0.125",
                "n=n",
            ),
        ),
        {
            "square": Fault("(1.0f - beta2) * grad * grad", "(1.0f - beta2) * grad"),
            "eps": Fault("(sqrtf(vhat) + eps)", "sqrtf(vhat + eps)"),
            "correction": Fault("v1 / c2", "v1 / c1"),
            "store": Fault("m[i] = m1;", "m[i] = mhat;"),
        },
        FINITE,
        Draw(ranges={"v": (0, 4), "g": (-2, 2), "m": (-2, 2), "p": (-2, 2)}),
    ),
    "bilinear": Judged(
        texts.BILINEAR,
        bilinear,
        Launch("", "cdiv(4*c*h*w,64)", "64", args=("C=c", "H=h", "W=w")),
        {
            "clamp": Fault("min(x0 + 1, W - 1)", "min(x0 + 1, H - 1)"),
            "corner": Fault("plane[y1 * W + x0]", "plane[y0 * W + x0]"),
            "weight": Fault("top * (1.0f - wy) + bottom * wy", "top * wy + bottom * (1.0f - wy)"),
            "centre": Fault("(oy + 0.5f) * 0.5f - 0.5f", "oy * 0.5f"),
        },
        FINITE,
    ),
    "quantise": Judged(
        texts.QUANTISE,
        quantise,
        Launch("", "rows", "128"),
        {
            "absolute": Fault("fmaxf(amax, fabsf(row[i]))", "fmaxf(amax, row[i])"),
            "warp": Fault("fmaxf(warp_max[2], warp_max[3])", "fmaxf(warp_max[1], warp_max[2])"),
            "scale": Fault("1e-3f) / 127.0f", "1e-3f) / 128.0f"),
            "round": Fault("__float2int_rn(row[i] / scale)", "(int)(row[i] / scale)"),
        },
        FINITE,
    ),
}
