"""Kernels of layers with known verdicts, written before any of them was judged.

A fault is an edit; the line where it begins is where it is.
"""

from __future__ import annotations

import didyma as dd
from didyma.judging.contracts import Declared
from didyma.judging.making import Launch
from didyma.judging.task import Draw
from tests.bench import layer_texts as texts
from tests.didyma.judging.kernels import Fault, Judged

tokens, heads, rows, n = (dd.dim(s, 1, 4096) for s in ("tokens", "heads", "rows", "n"))
q, v, m, k = (dd.dim(s, 1, 1024) for s in ("q", "v", "m", "k"))
b, c, h, w = (dd.dim(s, 1, 256) for s in ("b", "c", "h", "w"))
FINITE = Declared(finite=True)


@dd.trace(dd.f32[tokens, heads, 16], dd.f32[tokens, 8], dd.f32[tokens, 8])
def rope(x: dd.Tensor, cosine: dd.Tensor, sine: dd.Tensor) -> dd.Tensor:
    a, z, cc, ss = x[:, :, :8], x[:, :, 8:], cosine[:, None], sine[:, None]
    return dd.concat([a * cc - z * ss, z * cc + a * ss], axis=2)


@dd.trace(dd.f16[rows, n], dd.f16[rows, n], dd.f16[n])
def add_rms(x: dd.Tensor, residual: dd.Tensor, weight: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    z = x.astype("f32") + residual.astype("f32")
    y = z * dd.rsqrt(dd.mean(z * z, axis=1, keepdims=True) + 1e-5) * weight.astype("f32")
    return z.astype("f16"), y.astype("f16")


@dd.trace(dd.f32[rows, v], dd.i32[rows])
def cross_entropy(logits: dd.Tensor, target: dd.Tensor) -> dd.Tensor:
    own = dd.take_along_axis(logits, target[:, None], axis=1)[:, 0]
    return dd.logsumexp(logits, axis=1) - own


@dd.trace(dd.f32[n, q], dd.i32[n])
def embedding_backward(grad: dd.Tensor, ids: dd.Tensor) -> dd.Tensor:
    hit = dd.logical_and(ids[:, None] == dd.arange(10), dd.not_equal(ids, 3)[:, None])
    return dd.transpose(hit.astype("f32")) @ grad


@dd.trace(dd.f32[b, 4, m, n], dd.f32[4 * m], dd.f32[4 * m])
def group_norm(x: dd.Tensor, gamma: dd.Tensor, beta: dd.Tensor) -> dd.Tensor:
    d = x - dd.mean(x, axis=(2, 3), keepdims=True)
    normal = d * dd.rsqrt(dd.mean(d * d, axis=(2, 3), keepdims=True) + 1e-2)
    return normal * dd.reshape(gamma, (4, m, 1)) + dd.reshape(beta, (4, m, 1))


@dd.trace(dd.f32[b, m, k], dd.f32[b, k, n])
def batched(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a @ b


@dd.trace(dd.f32[heads, 32], dd.f32[heads, n, 32], dd.f32[heads, n, 32])
def decode(q: dd.Tensor, keys: dd.Tensor, values: dd.Tensor) -> dd.Tensor:
    scores = keys @ (q * 32**-0.5)[:, :, None]
    return dd.sum(dd.softmax(scores, axis=1) * values, axis=1)


@dd.trace(dd.f32[c, n], dd.f32[c, 4], dd.f32[c])
def causal_conv(x: dd.Tensor, weight: dd.Tensor, bias: dd.Tensor) -> dd.Tensor:
    p = dd.pad(x, ((0, 0), (3, 0)))
    parts = [p[:, t : n + t] * weight[:, t : t + 1] for t in range(4)]
    total = parts[0] + parts[1] + parts[2] + parts[3] + bias[:, None]
    return total * dd.sigmoid(total)


@dd.trace(dd.f32[rows, 4 * q], dd.f32[rows, 4 * q])
def softmax_backward(grad: dd.Tensor, probs: dd.Tensor) -> dd.Tensor:
    return probs * (grad - dd.sum(grad * probs, axis=1, keepdims=True))


@dd.trace(dd.f32[rows, n + 1])
def top_two(scores: dd.Tensor) -> dd.Tensor:
    return dd.flip(dd.sort(scores, axis=1)[:, -2:], axis=1)


@dd.trace(dd.f32[m, 32 * q], dd.u8[n, 16 * q], dd.f32[n, q])
def dequantised(x: dd.Tensor, packed: dd.Tensor, scales: dd.Tensor) -> dd.Tensor:
    byte = packed.astype("i32")
    low, high = dd.bitwise_and(byte, 15) - 8, dd.right_shift(byte, 4) - 8
    whole = dd.reshape(dd.stack([low, high], axis=2), (n, q, 32)).astype("f32")
    return x @ dd.transpose(dd.reshape(whole * scales[:, :, None], (n, 32 * q)))


@dd.trace(dd.f32[c, 2 * h, 2 * w])
def average_pool(x: dd.Tensor) -> dd.Tensor:
    p = dd.pad(x, ((0, 0), (1, 1), (1, 1)))
    taps = [p[:, i : 2 * h + i : 2, j : 2 * w + j : 2] for i in range(3) for j in range(3)]
    return sum(taps[1:], start=taps[0]) / 9.0


LAYERS: dict[str, Judged] = {
    "rope": Judged(
        texts.ROPE,
        rope,
        Launch("rope<16>", "cdiv(tokens*heads*8,64)", "64"),
        {
            "sign": Fault("b * c + a * s", "b * c - a * s"),
            "head": Fault("s = sine[token * half", "s = sine[head * half"),
            "token": Fault("pair / (half * heads)", "pair / half / half"),
            "pairs": Fault("x[base + d + half]", "x[base + d + 1]"),
        },
        FINITE,
    ),
    "add_rms": Judged(
        texts.ADD_RMS,
        add_rms,
        Launch("add_rms_norm", "rows", "128", "4*n", args=("total=out", "out=out", "eps=f32:1e-5")),
        {
            "eps": Fault("rsqrtf(square / n + eps)", "rsqrtf(square / n)"),
            "residual": Fault("row[i] = z;", "row[i] = __half2float(x[start + i]);"),
            "width": Fault("mask = WARPS / 2;", "mask = WARPS / 4;"),
            "lanes": Fault("lane < WARPS ?", "lane < 32 ?"),
            "root": Fault("rsqrtf(square / n + eps)", "1.0f / (square / n + eps)"),
        },
        FINITE,
    ),
    "cross_entropy": Judged(
        texts.CROSS_ENTROPY,
        cross_entropy,
        Launch("", "cdiv(rows,4)", "32,4", args=("classes=v",)),
        {
            "rescale": Fault("s = s * expf(m - v) + 1.0f;", "s = s + 1.0f;"),
            "merge": Fault("s2 * expf(m2 - top)", "s2"),
            "sign": Fault("m + logf(s) - p", "m - logf(s) - p"),
            "target": Fault("p[target[row]]", "p[target[threadIdx.x]]"),
        },
        FINITE,
    ),
    "embedding_backward": Judged(
        texts.EMBEDDING_BACKWARD,
        embedding_backward,
        Launch("", "2", "16,4", args=("d_table=zero", "dim=q", "padding=i32:3")),
        {
            "tail": Fault("if (d < dim)", "if (d + 1 < dim)"),
            "padding": Fault("if (id == padding) continue;", ""),
            "assign": Fault("atomicAdd(out + d + 1, in[d + 1])", "out[d + 1] += in[d + 1]"),
            "stride": Fault("token += gridDim.x * blockDim.y", "token += gridDim.x * blockDim.x"),
        },
        FINITE,
        Draw(ranges={"ids": (0, 9)}),
    ),
    "group_norm": Judged(
        texts.GROUP_NORM,
        group_norm,
        Launch("group_norm<4>", "4*b", "64", args=("per=m", "pixels=n")),
        {
            "channel": Fault("group * per + i / pixels", "group * per + i % per"),
            "variance": Fault("square / count - mean * mean", "square / count - mean"),
            "count": Fault("count = per * pixels", "count = pixels"),
            "sync": Fault(
                "parts[threadIdx.x / 32] = p;\n  __syncthreads();", "parts[threadIdx.x / 32] = p;"
            ),
            "half": Fault(
                "p.square += __shfl_down_sync(0xffffffff, p.square, o);",
                "p.square += __shfl_down_sync(0xffffffff, p.sum, o);",
            ),
        },
        FINITE,
        Draw(ranges={"x": (-1, 1)}),
    ),
    "batched": Judged(
        texts.BATCHED,
        batched,
        Launch("batched_gemm<float,32,32,8,4,4>", "cdiv(n,32),cdiv(m,32),b", "64"),
        {
            "batch": Fault("B += (size_t)blockIdx.z * K * N;", "B += (size_t)blockIdx.z * M * N;"),
            "edge": Fault("col0 + c < N ?", "col0 + c < K ?"),
            "column": Fault("col0 + tc * TN + j", "col0 + tc * TM * TN + j"),
            "fragment": Fault("As[k][tr * TM + i]", "As[k][tr + i]"),
            "guard": Fault("if (r < M && c < N)", "if (r < M)"),
        },
    ),
    "decode": Judged(
        texts.DECODE,
        decode,
        Launch("decode", "heads", "128", args=("length=n",)),
        {
            "rescale": Fault("acc = acc * correction + p", "acc = acc + p"),
            "scale": Fault("rsqrtf((float)HEAD)", "rsqrtf((float)WARPS)"),
            "merge": Fault("sum += ls[w] * scale;", "sum += ls[w];"),
            "step": Fault("t += WARPS", "t += WARPS * 2"),
            "warp": Fault("accs[w][lane] * scale", "accs[lane / 8][lane] * scale"),
        },
        FINITE,
    ),
    "causal_conv": Judged(
        texts.CAUSAL_CONV,
        causal_conv,
        Launch("causal_conv1d<4>", "cdiv(n,128),c", "64", args=("length=n", "channels=c")),
        {
            "ahead": Fault("begin + i - (WIDTH - 1)", "begin + i - WIDTH / 2"),
            "flip": Fault("w[k] * window[i + k]", "w[WIDTH - 1 - k] * window[i + k]"),
            "halo": Fault("i < 128 + WIDTH - 1; i +=", "i < 128; i +="),
            "bias": Fault("float sum = bias[channel];", "float sum = bias[blockIdx.x];"),
            "activation": Fault("expf(-sum)", "expf(sum)"),
        },
        FINITE,
    ),
    "softmax_backward": Judged(
        texts.SOFTMAX_BACKWARD,
        softmax_backward,
        Launch("", "rows", "64", args=("n4=q",)),
        {
            "lane": Fault("r.z = b.z * (a.z - dot)", "r.z = b.z * (a.y - dot)"),
            "probs": Fault("r.w = b.w * (a.w - dot)", "r.w = a.w * (a.w - dot)"),
            "term": Fault("a.z * b.z + a.w", "a.z * b.w + a.w"),
            "reset": Fault("  dot = 0.0f;\n  for (int w", "  for (int w"),
        },
        FINITE,
    ),
    "top_two": Judged(
        texts.TOP_TWO,
        top_two,
        Launch("top_two", "cdiv(rows,2)", "64", args=("experts=n+1",)),
        {
            "demote": Fault("    second = first;\n", ""),
            "init": Fault("second = -INFINITY;", "second = 0.0f;"),
            "width": Fault("o = 1; o < 32", "o = 1; o < 16"),
            "merge": Fault("insert(s, first, second);", "insert(f, first, second);"),
        },
        FINITE,
    ),
    "w4": Judged(
        texts.DEQUANTISED,
        dequantised,
        Launch("w4a32", "n,m", "64", args=("k=32*q", "group=i32:32")),
        {
            "nibble": Fault("(byte >> 4) - 8", "(byte >> 4) - 7"),
            "scale": Fault("s[2 * i / group]", "s[i / group]"),
            "mask": Fault("byte & 0x0f", "byte & 0x07"),
            "order": Fault("x[row * k + 2 * i + 1] * (high", "x[row * k + i + k / 2] * (high"),
        },
        FINITE,
    ),
    "avg_pool": Judged(
        texts.AVERAGE_POOL,
        average_pool,
        Launch("avg_pool", "cdiv(w,16),cdiv(h,16),c", "16,16", args=("C=c", "H=2*h", "W=2*w")),
        {
            "origin": Fault("ix = ox * 2 - 1 + kx", "ix = ox * 2 + kx"),
            "stride": Fault("(c * H + iy) * W + ix", "(c * W + iy) * W + ix"),
            "out": Fault("(c * OH + oy) * OW + ox", "(c * OW + oy) * OW + ox"),
            "start": Fault("int kx = 0; kx < 3", "int kx = 1; kx < 3"),
        },
        FINITE,
    ),
}
