"""Kernels that join parts, with known verdicts, written before any of them was judged.

A fault is an edit; the line where it begins is where it is.
"""

from __future__ import annotations

import didyma as dd
from didyma.judging.contracts import Declared
from didyma.judging.making import Launch
from didyma.judging.task import Draw
from tests.bench import part_texts as texts
from tests.didyma.judging.kernels import Fault, Judged

r, n, m, k = dd.dim("r", 1, 4096), dd.dim("n", 1, 4096), dd.dim("m", 1, 512), dd.dim("k", 1, 512)
h, w = dd.dim("h", 1, 256), dd.dim("w", 1, 256)
FINITE = Declared(finite=True)


@dd.trace(dd.f32[r, n])
def least(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.min(x, axis=1), dd.argmin(x, axis=1).astype("i32")


@dd.trace(dd.u8[m, 32 * k], dd.f32[m, 2 * k], dd.f32[64 * k])
def w4gemv(q: dd.Tensor, scale: dd.Tensor, x: dd.Tensor) -> dd.Tensor:
    lo = (q & dd.asarray(15, dtype=dd.u8)).astype(dd.f32)
    hi = (q >> dd.asarray(4, dtype=dd.u8)).astype(dd.f32)
    full = dd.reshape(dd.stack([lo, hi], axis=2), (m, 2 * k, 32)) - 8.0
    return dd.sum(dd.reshape(full * scale[:, :, None], (m, 64 * k)) * x, axis=1)


@dd.trace(dd.f32[r, n])
def exclusive(x: dd.Tensor) -> dd.Tensor:
    whole = dd.cumulative_sum(x, axis=1)
    return dd.concat([dd.zeros_like(x[:, :1]), whole[:, :-1]], axis=1)


@dd.trace(dd.u8[4 * n])
def histogram(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(
        (dd.reshape(x, (4 * n, 1)).astype(dd.i32) == dd.arange(256)).astype(dd.i32),
        axis=0,
        dtype=dd.i32,
    )


@dd.trace(dd.f32[r, n + 8])
def top4(x: dd.Tensor) -> dd.Tensor:
    return dd.sort(x, axis=1, descending=True)[:, :4]


@dd.trace(dd.f32[r, 128])
def ordered(x: dd.Tensor) -> dd.Tensor:
    return dd.sort(x, axis=1)


@dd.trace(dd.f32[r, n + 1], dd.i32[r])
def smoothed(logits: dd.Tensor, target: dd.Tensor) -> dd.Tensor:
    lp = dd.log_softmax(logits, axis=1)
    picked = dd.take_along_axis(lp, target[:, None], axis=1)[:, 0]
    return -(0.9 * picked + 0.1 * dd.mean(lp, axis=1))


@dd.trace(dd.f32[n, 8], dd.i32[n])
def segment(x: dd.Tensor, ids: dd.Tensor) -> dd.Tensor:
    hit = (ids[:, None] == dd.arange(16)).astype(dd.f32)
    return dd.permute_dims(hit, (1, 0)) @ x


@dd.trace(dd.f32[n])
def norm2(x: dd.Tensor) -> dd.Tensor:
    return dd.sqrt(dd.sum(x * x, keepdims=True))


@dd.trace(dd.f32[n], dd.f32[n])
def cosine(a: dd.Tensor, b_: dd.Tensor) -> dd.Tensor:
    dot = dd.sum(a * b_, keepdims=True)
    return dot / (
        dd.sqrt(dd.sum(a * a, keepdims=True)) * dd.sqrt(dd.sum(b_ * b_, keepdims=True)) + 1e-8
    )


@dd.trace(dd.f32[m, 8], dd.f32[n, 8])
def distances(a: dd.Tensor, b_: dd.Tensor) -> dd.Tensor:
    d = a[:, None, :] - b_[None, :, :]
    return dd.sqrt(dd.sum(d * d, axis=2))


@dd.trace(dd.f32[m, 8])
def gating(x: dd.Tensor) -> dd.Tensor:
    p = dd.softmax(x, axis=1)
    v = dd.topk(p, 2)[0]
    return v / dd.sum(v, axis=1, keepdims=True)


@dd.trace(dd.f32[r, 64])
def packed(x: dd.Tensor) -> dd.Tensor:
    bits = (dd.reshape(x, (r, 2, 32)) > 0.0).astype(dd.u32)
    return dd.sum(bits << dd.arange(32).astype(dd.u32), axis=2, dtype=dd.u32)


@dd.trace(dd.f32[m, n])
def logsum2(x: dd.Tensor) -> dd.Tensor:
    return dd.logsumexp(x, axis=0)


@dd.trace(dd.f32[r, 32])
def inclusive_prod(x: dd.Tensor) -> dd.Tensor:
    return dd.cumprod(x, axis=1)


@dd.trace(dd.f32[h, w])
def sobel(x: dd.Tensor) -> dd.Tensor:
    p = dd.pad(x, ((1, 1), (1, 1)))
    gx = (p[:-2, 2:] + 2.0 * p[1:-1, 2:] + p[2:, 2:]) - (
        p[:-2, :-2] + 2.0 * p[1:-1, :-2] + p[2:, :-2]
    )
    gy = (p[2:, :-2] + 2.0 * p[2:, 1:-1] + p[2:, 2:]) - (
        p[:-2, :-2] + 2.0 * p[:-2, 1:-1] + p[:-2, 2:]
    )
    return dd.sqrt(gx * gx + gy * gy)


PARTS: dict[str, Judged] = {
    "least_pair": Judged(
        texts.ARGMIN,
        least,
        Launch("row_argmin<128>", "r", "128", args=("values=min", "indices=cast")),
        {
            "tie": Fault("b.index < a.index) return b", "b.index > a.index) return b"),
            "barrier": Fault(
                "  __syncthreads();\n  if (threadIdx.x == 0) {", "  if (threadIdx.x == 0) {"
            ),
            "index": Fault("&best.index", "x")
            if False
            else Fault(
                "other.index = __shfl_down_sync(0xffffffffu, best.index, offset)",
                "other.index = __shfl_down_sync(0xffffffffu, best.index, offset / 2)",
            ),
        },
        FINITE,
    ),
    "w4_vector": Judged(
        texts.W4GEMV,
        w4gemv,
        Launch("gemv_w4", "m", "32,1", args=("cols=64*k",)),
        {
            "zero": Fault("(byte >> 4) - 8", "(byte >> 4) - 7"),
            "group": Fault("s[2 * i / GROUP]", "s[i / GROUP]"),
            "order": Fault(
                "(lo * factor, x[2 * i], acc);\n    acc = fmaf(hi * factor,",
                "(hi * factor, x[2 * i], acc);\n    acc = fmaf(lo * factor,",
            ),
        },
    ),
    "blelloch": Judged(
        texts.BLELLOCH,
        exclusive,
        Launch("prescan", "r", "128", args=("g_idata=x", "g_odata=out")),
        {
            "clear": Fault("temp[N - 1] = 0", "temp[n - 1] = 0"),
            "swap": Fault(
                "            temp[ai] = temp[bi];\n            temp[bi] += t;",
                "            temp[bi] += t;\n            temp[ai] = temp[bi];",
            ),
            "sync": Fault(
                "        offset >>= 1;\n        __syncthreads();", "        offset >>= 1;"
            ),
        },
        FINITE,
        Draw(where=("n <= 256",)),
    ),
    "bytes": Judged(
        texts.BYTES,
        histogram,
        Launch("histogram256<64>", "2", "64", args=("data=x", "counts=zero", "size=4*n")),
        {
            "test": Fault("if (bins[b] > 0)", "if (bins[b] > 1)"),
            "grid": Fault("i += gridDim.x * THREADS", "i += THREADS"),
            "clear": Fault(
                "b < 256; b += THREADS) bins[b] = 0;\n  __syncthreads();",
                "b < 256; b += THREADS) bins[b] = 0;",
            ),
        },
        Declared(),
        Draw(sizes={"n": (1, 31, 64, 100, 129)}),
    ),
    "top4": Judged(
        texts.TOP4,
        top4,
        Launch("topk4", "r", "64", "4*(n+8)", args=("n=n+8",)),
        {
            "where": Fault(
                "where[threadIdx.x] = where[threadIdx.x + s];", "where[threadIdx.x] = where[s];"
            ),
            "last": Fault(
                "row[where[0]] = -INFINITY;\n    }\n    __syncthreads();",
                "row[where[0]] = -INFINITY;\n    }",
            ),
            "mark": Fault("row[where[0]] = -INFINITY;", "row[where[rank]] = -INFINITY;"),
        },
        FINITE,
    ),
    "bitonic": Judged(
        texts.BITONIC,
        ordered,
        Launch("bitonic<128>", "r", "64", args=("in=x", "out=out")),
        {
            "up": Fault("(pos & size) == 0", "(pos & stride) == 0"),
            "size": Fault("size <= SIZE; size *= 2", "size < SIZE; size *= 2"),
            "pos": Fault("2 * tid - (tid & (stride - 1))", "2 * tid - (tid & stride)"),
        },
        FINITE,
    ),
    "label_smoothing": Judged(
        texts.SMOOTHING,
        smoothed,
        Launch(
            "label_smoothing",
            "cdiv(r,4)",
            "128",
            args=("classes=n+1", "rows=r", "smoothing=f32:0.1"),
        ),
        {
            "shift": Fault("sum += x[i] - mx;", "sum += x[i];"),
            "target": Fault(
                "float nll = lse - (x[target[row]] - mx);", "float nll = lse - x[target[row]] - mx;"
            ),
            "rows": Fault("if (row >= rows) return;", "if (row > rows) return;"),
        },
        FINITE,
    ),
    "segment": Judged(
        texts.SEGMENT,
        segment,
        Launch("segment_sum", "cdiv(8*n,64)", "64", args=("out=zero",)),
        {
            "guard": Fault("if (s >= 0 && s < 16)", "if (s < 16)"),
            "plain": Fault(
                "atomicAdd(&out[s * 8 + f], x[i * 8 + f]);", "out[s * 8 + f] += x[i * 8 + f];"
            ),
            "feature": Fault("f = e % 8;", "f = e % 7;"),
        },
        FINITE,
        Draw(ranges={"ids": (-3, 20)}),
    ),
    "lastblock": Judged(
        texts.LASTBLOCK,
        norm2,
        Launch("l2norm", "4", "64", args=("partial=scratch:f32[4]", "out=out")),
        {
            "reset": Fault("    finished = 0;\n", ""),
            "ticket": Fault("ticket == gridDim.x - 1", "ticket == gridDim.x"),
            "fence": Fault(
                "    partial[blockIdx.x] = s[0];\n    __threadfence();\n",
                "    partial[blockIdx.x] = s[0];\n",
            ),
            "first": Fault(
                "for (int i = 0; i < gridDim.x; ++i)", "for (int i = 1; i < gridDim.x; ++i)"
            ),
        },
        FINITE,
    ),
    "cosine": Judged(
        texts.COSINE,
        cosine,
        Launch("cosine_similarity<128>", "1", "128", args=("a=a", "b=b_", "out=out")),
        {
            "two": Fault(
                "for (int j = 0; j < 3; ++j)\n    for (int d",
                "for (int j = 0; j < 2; ++j)\n    for (int d",
            ),
            "root": Fault(
                "(sqrtf(sum.v[1]) * sqrtf(sum.v[2]) + 1e-8f)",
                "(sqrtf(sum.v[1]) * sum.v[2] + 1e-8f)",
            ),
            "mix": Fault("sum.v[2] += q * q;", "sum.v[2] += p * q;"),
        },
        FINITE,
    ),
    "distances": Judged(
        texts.DISTANCES,
        distances,
        Launch(
            "pairwise",
            "cdiv(n,16), cdiv(m,16)",
            "16,16",
            args=("A=a", "B=b_", "D=out", "M=m", "N=n"),
        ),
        {
            "row": Fault(
                "b[r][c] = j0 + r < N ? B[(j0 + r) * DIM + c] : 0.f;",
                "b[r][c] = j0 + r < N ? B[(j0 + c) * DIM + r] : 0.f;",
            ),
            "size": Fault("if (i < M && j < N)", "if (i < M || j < N)"),
            "dims": Fault("d < DIM; ++d", "d < DIM - 1; ++d"),
            "sync": Fault("  }\n  __syncthreads();\n  int i = i0", "  }\n  int i = i0"),
        },
        FINITE,
    ),
    "gating": Judged(
        texts.GATING,
        gating,
        Launch("moe_gate", "cdiv(m,64)", "64", args=("logits=x", "weights=out", "tokens=m")),
        {
            "demote": Fault(
                "      second = first;\n      first = v;", "      first = v;\n      second = first;"
            ),
            "norm": Fault("float norm = first + second;", "float norm = first + first;"),
            "shift": Fault("p[e] = expf(p[e] - top);", "p[e] = expf(p[e]) - top;"),
        },
        FINITE,
    ),
    "packed": Judged(
        texts.PACKED,
        packed,
        Launch("pack_signs", "r", "64", args=("words=out", "cols=i32:64")),
        {
            "ge": Fault("v > 0.0f)", "v >= 0.0f)"),
            "word": Fault(
                "words[blockIdx.x * words_per_row + w] = mask;",
                "words[blockIdx.x * cols + w] = mask;",
            ),
            "lane": Fault(
                "x[blockIdx.x * cols + w * 32 + lane]", "x[blockIdx.x * cols + w + lane * 2]"
            ),
        },
        FINITE,
    ),
    "logsum2": Judged(
        texts.LOGSUM2,
        logsum2,
        Launch("column_lse", "cdiv(n,32)", "32,8", args=("y=out", "rows=m", "cols=n")),
        {
            "scale": Fault("b.s * __expf(b.m - c.m)", "b.s * __expf(b.m - a.m)"),
            "steps": Fault("int s = 4; s > 0;", "int s = 4; s > 1;"),
            "loopsync": Fault(
                "part[threadIdx.y + s][threadIdx.x]);\n    __syncthreads();",
                "part[threadIdx.y + s][threadIdx.x]);",
            ),
            "rows": Fault("i < rows; i += 8", "i < rows; i += 32"),
        },
        Declared(finite=True, fast_math=True),
    ),
    "inclusive_prod": Judged(
        texts.INCLUSIVE_PROD,
        inclusive_prod,
        Launch("cumprod_rows", "cdiv(r,2)", "64", args=("y=out", "rows=r")),
        {
            "lane": Fault("if (lane >= delta)", "if (lane > delta)"),
            "delta": Fault("delta <<= 1", "delta += 1"),
            "op": Fault("return a * b;", "return a + b;"),
        },
        FINITE,
        Draw(ranges={"x": (-2, 2)}),
    ),
    "sobel": Judged(
        texts.SOBEL,
        sobel,
        Launch("sobel", "cdiv(w,32), cdiv(h,4)", "32,4", args=("img=x", "edges=out")),
        {
            "guard": Fault("y >= h || x >= w) ?", "y >= h || x > w) ?"),
            "weight": Fault("{1.0f, 2.0f, 1.0f}", "{1.0f, 1.0f, 1.0f}"),
            "column": Fault(
                "gy -= weight[d + 1] * at(img, y - 1, x + d, h, w);",
                "gy -= weight[d + 1] * at(img, y - 1, x - d + 1, h, w);",
            ),
        },
        FINITE,
    ),
}
