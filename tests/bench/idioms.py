"""Kernels of other idioms with known verdicts: shuffles, splits, packed types, scans, pipelines.

A fault is an edit of one line; that line is where it is.
"""

from __future__ import annotations

import didyma as dd
from didyma.judging.contracts import Declared
from didyma.judging.making import Launch
from tests.bench.idiom_texts import (
    ARGMAX,
    BINS,
    FLASH,
    HALO,
    INT8,
    PADDED,
    SCAN,
    SPLIT,
    VECTORS,
    WARPS,
    WELFORD,
)
from tests.didyma.judging.kernels import Fault, Judged

r, n, m, k = dd.dim("r", 0, 4096), dd.dim("n", 1, 4096), dd.dim("m", 1, 512), dd.dim("k", 1, 512)
q = dd.dim("q", 1, 1024)
FINITE = Declared(finite=True)


@dd.trace(dd.f32[r, n])
def sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1)


@dd.trace(dd.f32[m, k], dd.f32[k, n])
def product(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a @ b


@dd.trace(dd.f32[r, 4 * q], dd.f32[4 * q], dd.f32[4 * q])
def layer_norm(x: dd.Tensor, gamma: dd.Tensor, beta: dd.Tensor) -> dd.Tensor:
    d = x - dd.mean(x, axis=1, keepdims=True)
    return d * dd.rsqrt(dd.mean(d * d, axis=1, keepdims=True) + 1e-5) * gamma + beta


@dd.trace(dd.i32[n])
def histogram(x: dd.Tensor) -> dd.Tensor:
    hit = dd.equal(dd.expand_dims(x, axis=1), dd.arange(16))
    return dd.sum(dd.astype(hit, dd.int32), axis=0, dtype=dd.int32)


@dd.trace(dd.f32[r, n])
def exclusive(x: dd.Tensor) -> dd.Tensor:
    whole = dd.cumulative_sum(x, axis=1)
    return dd.concat([dd.zeros_like(x[:, :1]), whole[:, :-1]], axis=1)


@dd.trace(dd.f16[m, n])
def transposed(x: dd.Tensor) -> dd.Tensor:
    return dd.permute_dims(x, (1, 0))


@dd.trace(dd.i8[m, k], dd.f32[m], dd.f32[k, n])
def dequantised(a: dd.Tensor, scale: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.astype(a, dd.float32) @ b * dd.expand_dims(scale, axis=1)


@dd.trace(dd.f32[m, 16], dd.f32[k, 16], dd.f32[k, 16])
def attention(q: dd.Tensor, keys: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    return dd.softmax(q @ dd.permute_dims(keys, (1, 0)) * 0.25, axis=1) @ v


@dd.trace(dd.f32[r, n])
def variance(x: dd.Tensor) -> dd.Tensor:
    return dd.var(x, axis=1)


@dd.trace(dd.f32[r, n])
def argmax(x: dd.Tensor) -> dd.Tensor:
    return dd.astype(dd.argmax(x, axis=1), dd.int32)


@dd.trace(dd.f32[n], dd.f32[3])
def stencil(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    p = dd.pad(x, ((1, 1),))
    return p[:-2] * w[0] + p[1:-1] * w[1] + p[2:] * w[2]


IDIOMS: dict[str, Judged] = {
    "warps": Judged(
        WARPS, sums, Launch("sums", "r", "128"),
        {
            "barrier": Fault("  __syncthreads();\n  v = thr", "  v = thr", "race"),
            "step": Fault("o = 16; o > 0", "o = 16; o > 1"),
            "warps": Fault("blockDim.x / 32 ?", "blockDim.x / 64 ?"),
            "mask": Fault("__shfl_down_sync(0xffffffffu", "__shfl_down_sync(0xffffu", "wrong-mask"),
            "lane": Fault("threadIdx.x & 31,", "threadIdx.x & 15,"),
        },
    ),
    "split": Judged(
        SPLIT, product,
        Launch("split", "cdiv(n, 16), cdiv(m, 16), cdiv(k, 24)", "16, 16",
               args=("C=zero:matmul", "chunk=i32:24")),
        {
            "chunk": Fault("min(begin + chunk, K)", "min(begin + chunk - 1, K)"),
            "plain": Fault(
                "atomicAdd(&C[row * N + col], acc);", "C[row * N + col] += acc;", "race"
            ),
            "end": Fault("min(begin + chunk, K)", "begin + chunk", "out-of-bounds"),
            "start": Fault("blockIdx.z * chunk", "blockIdx.z * (chunk - 1)"),
        },
    ),
    "vectors": Judged(
        VECTORS, layer_norm,
        Launch("norm", "r", "128", args=("n4=q",)),
        {
            "twice": Fault("o.z = (v.z - mean) * inv * g.z", "o.z = (v.z - mean) * inv * g.y"),
            "lost": Fault("v.x + v.y + v.z + v.w", "v.x + v.y + v.z"),
            "count": Fault(".y / (4 * n4)", ".y / n4"),
            "barrier": Fault("  }\n  __syncthreads();\n  return", "  }\n  return", "race"),
            "beta": Fault("* g.w + b.w", "* g.w - b.w"),
        },
    ),
    "bins": Judged(
        BINS, histogram, Launch("bins", "3", "64", args=("counts=zero",)),
        {
            "plain": Fault("atomicAdd(&local[v], 1);", "local[v] += 1;", "race"),
            "start": Fault("[threadIdx.x] = 0;", "[threadIdx.x] = 1;"),
            "barrier": Fault("  }\n  __syncthreads();", "  }", "race"),
            "bound": Fault("v < 16)", "v <= 16)", "out-of-bounds"),
            "store": Fault("    atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);",
                           "    counts[threadIdx.x] = local[threadIdx.x];", "race"),
        },
    ),
    "scan": Judged(
        SCAN, exclusive, Launch("scan", "r", "128"),
        {
            "inclusive": Fault("before + prior", "before + v"),
            "carry": Fault("carry = before + v", "carry = before + prior"),
            "lanes": Fault("lane >= d", "lane > d"),
            "barrier": Fault("[warp] = v;\n    __syncthreads();", "[warp] = v;", "race"),
            "warps": Fault("w < warp;", "w <= warp;"),
        },
    ),
    "padded": Judged(
        PADDED, transposed, Launch("transpose", "cdiv(n, 32), cdiv(m, 32)", "32, 8"),
        {
            "barrier": Fault("  }\n  __syncthreads();", "  }", "race"),
            "order": Fault("tile[threadIdx.x][j];", "tile[j][threadIdx.x];"),
            "bound": Fault("x < rows && y < cols", "x < rows && y <= cols", "out-of-bounds"),
        },
    ),
    "int8": Judged(
        INT8, dequantised, Launch("gemm<8, 16>", "cdiv(n, 16), cdiv(m, 8)", "128"),
        {
            "sign": Fault("(float)sa[ty][p]", "(float)(uint8_t)sa[ty][p]"),
            "scale": Fault("acc * scale[i]", "acc * scale[j]", "out-of-bounds"),
            "tail": Fault("min(32, k - k0)", "min(31, k - k0)"),
            "wait": Fault("tx], acc);\n    __syncthreads();", "tx], acc);", "race"),
        },
    ),
    "flash": Judged(
        FLASH, attention, Launch("flash", "cdiv(m, 64)", "64"),
        {
            "scale": Fault("* 0.25f : 0.0f", "* 0.5f : 0.0f"),
            "rescale": Fault("acc[d] * old + p", "acc[d] + p"),
            "sum": Fault("sum * old + p;", "sum + p;"),
            "start": Fault("most = -INFINITY", "most = 0.0f"),
            "wait": Fault(
                "most = next;\n    }\n    __syncthreads();", "most = next;\n    }", "race"
            ),
        },
        FINITE,
    ),
    "welford": Judged(
        WELFORD, variance, Launch("variance", "r", "32"),
        {
            "count": Fault("s.m2 / n", "s.m2 / (n - 1)"),
            "merge": Fault("delta * delta * a.count", "delta * a.count"),
            "mean": Fault("a.mean + delta * b.count", "b.mean + delta * b.count"),
            "old": Fault("s.m2 += delta * (v - s.mean)", "s.m2 += delta * delta"),
        },
    ),
    "argmax": Judged(
        ARGMAX, argmax, Launch("argmax", "r", "32"),
        {
            "ties": Fault("(v == best && i < at)", "(v == best && i > at)"),
            "least": Fault("v > best || at == n) {", "v < best || at == n) {"),
            "first": Fault("v > best || at == n) {", "v >= best || at == n) {"),
        },
        FINITE,
    ),
    "halo": Judged(
        HALO, stencil, Launch("stencil", "cdiv(n, 64)", "64", "(64 + 2) * 4"),
        {
            "left": Fault("i > 0 ? x[i - 1]", "i > 0 ? x[i]"),
            "right": Fault("i + 1 < n ?", "i < n ?", "out-of-bounds"),
            "barrier": Fault("  __syncthreads();", "", "race"),
            "weights": Fault("w[d + 1]", "w[1 - d]"),
        },
    ),
}  # fmt: skip
