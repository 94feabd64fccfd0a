"""Kernels as they are found in libraries, courses and answers of language models.

A fault is an edit; the line where it begins is where it is.
"""

from __future__ import annotations

import didyma as dd
from didyma.judging.contracts import Declared
from didyma.judging.making import Launch
from didyma.judging.task import Draw
from tests.bench import found_texts as texts
from tests.didyma.judging.kernels import Fault, Judged

rows, n, m, k = (dd.dim(s, 1, 4096) for s in ("rows", "n", "m", "k"))
c, h, w = dd.dim("c", 1, 64), dd.dim("h", 3, 256), dd.dim("w", 3, 256)
v, d = dd.dim("v", 2, 1000), dd.dim("d", 1, 512)


@dd.trace(dd.f16[n], dd.f16[n])
def multiplied(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return x * y


@dd.trace(dd.f32[rows, n])
def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=1)


@dd.trace(dd.f32[rows, n], dd.f32[n], dd.f32[n])
def layer_norm(x: dd.Tensor, gamma: dd.Tensor, beta: dd.Tensor) -> dd.Tensor:
    mu = dd.mean(x, axis=1, keepdims=True)
    var = dd.mean((x - mu) * (x - mu), axis=1, keepdims=True)
    return (x - mu) * dd.rsqrt(var + 1e-5) * gamma + beta


@dd.trace(dd.f32[m, k], dd.f32[k, n])
def product(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a @ b


@dd.trace(dd.f32[m, n], dd.f32[n])
def matrix_vector(a: dd.Tensor, x: dd.Tensor) -> dd.Tensor:
    return dd.sum(a * x, axis=1)


@dd.trace(dd.f32[m, n])
def transposed(x: dd.Tensor) -> dd.Tensor:
    return dd.transpose(x)


@dd.trace(dd.f32[n])
def relu(x: dd.Tensor) -> dd.Tensor:
    return dd.maximum(x, 0.0)


@dd.trace(dd.f32[rows, n])
def extremes(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.min(x, axis=1), dd.max(x, axis=1)


@dd.trace(dd.f32[rows, n])
def argmax(x: dd.Tensor) -> dd.Tensor:
    return dd.argmax(x, axis=1).astype("i32")


@dd.trace(dd.f32[v, d], dd.i32[n])
def embedding(table: dd.Tensor, ids: dd.Tensor) -> dd.Tensor:
    return dd.take(table, ids, axis=0)


@dd.trace(dd.f32[rows, n])
def scan(x: dd.Tensor) -> dd.Tensor:
    return dd.cumsum(x, axis=1)


@dd.trace(dd.i32[n])
def histogram(x: dd.Tensor) -> dd.Tensor:
    return dd.sum((dd.reshape(x, (n, 1)) == dd.arange(64)).astype(dd.i32), axis=0, dtype=dd.i32)


@dd.trace(dd.f32[h, w], dd.f32[3, 3])
def convolution(x: dd.Tensor, f: dd.Tensor) -> dd.Tensor:
    return dd.conv(x[None, None], f[None, None])[0, 0]


@dd.trace(dd.f32[c, 2 * h, 2 * w])
def pool(x: dd.Tensor) -> dd.Tensor:
    return dd.max(dd.reshape(x, (c, h, 2, w, 2)), axis=(2, 4))


@dd.trace(dd.f32[rows, 2 * n])
def gated(x: dd.Tensor) -> dd.Tensor:
    a, g = x[:, :n], x[:, n:]
    return a * dd.sigmoid(a) * g


@dd.trace(dd.f32[n], dd.f32[n])
def squares(p: dd.Tensor, t: dd.Tensor) -> dd.Tensor:
    return dd.mean((p - t) * (p - t), keepdims=True)


FOUND: dict[str, Judged] = {
    "half2": Judged(
        texts.HALVES,
        multiplied,
        Launch("", "cdiv(n,128)+1", "64"),
        {
            "tail": Fault("(n & 1)", "(n & 2)"),
            "op": Fault("__hmul2", "__hadd2"),
            "last": Fault("= __hmul(x[n - 1], y[n - 1])", "= __hmul(x[n - 1], y[n - 2])"),
        },
    ),
    "softmax_dyn": Judged(
        texts.SOFTMAX,
        softmax,
        Launch("softmax", "rows", "128", "4*n+16"),
        {
            "barrier": Fault("red[i]);\n  __syncthreads();", "red[i]);\n"),
            "init": Fault("-INFINITY", "0.0f"),
            "loop": Fault(
                "for (int i = 1; i < blockDim.x / 32", "for (int i = 1; i < blockDim.x / 64"
            ),
        },
    ),
    "layernorm": Judged(
        texts.LAYER_NORM,
        layer_norm,
        Launch("layer_norm_kernel<float,64>", "rows", "64", args=("eps=f32:1e-5",)),
        {
            "n1": Fault("rsqrtf(t / N + eps)", "rsqrtf(t / (N - 1) + eps)"),
            "noeps": Fault("rsqrtf(t / N + eps)", "rsqrtf(t / N)"),
            "sync": Fault("s_mean = t / N;\n  }\n  __syncthreads();", "s_mean = t / N;\n  }\n"),
            "gamma": Fault("* gamma[i] + beta[i]", "* beta[i] + gamma[i]"),
        },
        contract=Declared(finite=True),
    ),
    "gemm": Judged(
        texts.TILED,
        product,
        Launch("", "cdiv(n,16),cdiv(m,16)", "16,16"),
        {
            "tiles": Fault("(K + TILE - 1) / TILE", "K / TILE"),
            "sync": Fault("[threadIdx.x];\n    __syncthreads();", "[threadIdx.x];\n"),
            "guard": Fault("(kk < K && col < N)", "(col < N)"),
            "stride": Fault("A[row * K + kk]", "A[row * N + kk]"),
            "bound": Fault("row < M && col < N) C", "row < M) C"),
        },
    ),
    "gemv": Judged(
        texts.MATRIX_VECTOR,
        matrix_vector,
        Launch("", "cdiv(m,4)", "32,4"),
        {
            "w": Fault("a.w * b.w", "a.w * b.z"),
            "off": Fault("o > 0; o /= 2", "o > 1; o /= 2"),
            "rowf": Fault("if (row >= m) return;", "if (row > m) return;"),
        },
        draw=Draw(where=("n%4==0",)),
    ),
    "transpose": Judged(
        texts.TRANSPOSED,
        transposed,
        Launch("", "cdiv(n,32),cdiv(m,32)", "32,8", args=("width=n", "height=m")),
        {
            "swap": Fault("x < height && y + j < width", "x < width && y + j < height"),
            "sync": Fault("  __syncthreads();\n", ""),
            "ix": Fault("tile[threadIdx.x][threadIdx.y + j]", "tile[threadIdx.y + j][threadIdx.x]"),
            "blk": Fault("x = blockIdx.y * TILE_DIM", "x = blockIdx.x * TILE_DIM"),
        },
    ),
    "minmax": Judged(
        texts.EXTREMES,
        extremes,
        Launch("", "rows", "256"),
        {
            "swap": Fault("smin[t] = a;", "smin[t] = b;"),
            "nonan": Fault("hi[blockIdx.x] = nan ? NAN : smax[0];", "hi[blockIdx.x] = smax[0];"),
            "barrier": Fault("    }\n    __syncthreads();\n  }\n  if", "    }\n  }\n  if"),
        },
    ),
    "argmax_rows": Judged(
        texts.ARGMAX,
        argmax,
        Launch("", "rows", "128"),
        {
            "tie": Fault(" || (vals[tid + s] == vals[tid] && ids[tid + s] < ids[tid])", ""),
            "init": Fault("-FLT_MAX", "FLT_MIN"),
            "ids": Fault("ids[tid] = ids[tid + s];", "ids[tid] = ids[s];"),
        },
        contract=Declared(finite=True),
    ),
    "embed": Judged(
        texts.EMBEDDING,
        embedding,
        Launch("", "n", "64"),
        {
            "one": Fault("j = threadIdx.x; j < D", "j = threadIdx.x; j < D - 1"),
            "id": Fault("table[id * D + j]", "table[tok * D + j]"),
        },
    ),
    "block_scan": Judged(
        texts.SCAN,
        scan,
        Launch("block_scan<64>", "rows", "64"),
        {
            "d": Fault("t >= d ?", "t > d ?"),
            "carry": Fault("carry += tmp[cur][t]", "carry = tmp[cur][t]"),
            "sync": Fault("+ carry;\n    __syncthreads();", "+ carry;\n"),
        },
        contract=Declared(finite=True),
    ),
    "hist": Judged(
        texts.HISTOGRAM,
        histogram,
        Launch("", "2", "96", args=("bins=zero",)),
        {
            "nonatomic": Fault("atomicAdd(&local[v], 1)", "local[v] += 1"),
            "bound": Fault("v < 64) atomic", "v < 63) atomic"),
            "sync": Fault(
                "    if (v >= 0 && v < 64) atomicAdd(&local[v], 1);\n  }\n  __syncthreads();",
                "    if (v >= 0 && v < 64) atomicAdd(&local[v], 1);\n  }\n",
            ),
        },
        draw=Draw(ranges={"x": (0, 63)}),
    ),
    "conv": Judged(
        texts.CONVOLUTION,
        convolution,
        Launch("", "cdiv(w-2,16),cdiv(h-2,16)", "16,16", args=("H=h", "W=w")),
        {
            "flip": Fault("f[a * R + c]", "f[c * R + a]"),
            "sync": Fault("  __syncthreads();\n", ""),
            "halo": Fault(
                "int j = threadIdx.x; j < 18; j += 16", "int j = threadIdx.x; j < 16; j += 16"
            ),
            "ow": Fault("y[oy * OW + ox]", "y[oy * W + ox]"),
        },
    ),
    "maxpool": Judged(
        texts.POOL,
        pool,
        Launch("", "cdiv(c*h*w,128)", "128"),
        {
            "idx": Fault("p[2 * W + 1]}", "p[W + 1]}"),
            "ty": Fault("(idx / W) % H", "(idx / H) % W"),
            "three": Fault("i < 3; i++", "i < 2; i++"),
        },
    ),
    "silu": Judged(
        texts.GATED,
        gated,
        Launch("", "rows", "128", args=("d=n",)),
        {
            "order": Fault("silu(a[i]) * g[i]", "a[i] * silu(g[i])"),
            "sign": Fault("__expf(-v)", "__expf(v)"),
        },
        contract=Declared(fast_math=True),
    ),
    "mse": Judged(
        texts.SQUARES,
        squares,
        Launch("", "2", "64", args=("loss=zero",)),
        {
            "atomic": Fault("atomicAdd(loss, s / n)", "*loss += s / n"),
            "sq": Fault("s += d * d", "s += d"),
            "div": Fault("s / n", "s"),
            "lane": Fault("(threadIdx.x & 31) == 0", "threadIdx.x == 0"),
        },
    ),
    "relu_inplace": Judged(
        texts.IN_PLACE,
        relu,
        Launch("", "3", "64", args=("x=inplace:x",)),
        {
            "off": Fault("i < n;", "i < n - 1;"),
            "wrong": Fault("x[i] < 0.f)", "x[i] < 1.f)"),
        },
    ),
}
