"""More kernels with known verdicts, and a family of right ones that differ in every legal way."""

from __future__ import annotations

from itertools import product

import didyma as dd
from didyma.judging.making import Launch
from didyma.tracer.tracing import Program
from tests.didyma.judging.kernels import Fault, Judged

r, n, m = dd.dim("r", 0, 4096), dd.dim("n", 1, 4096), dd.dim("m", 1, 512)


@dd.trace(dd.f32[r, n])
def layer_norm(x: dd.Tensor) -> dd.Tensor:
    d = x - dd.mean(x, axis=1, keepdims=True)
    return d * dd.rsqrt(dd.mean(d * d, axis=1, keepdims=True) + 1e-5)


@dd.trace(dd.f32[n])
def gelu(x: dd.Tensor) -> dd.Tensor:
    return dd.gelu(x)


@dd.trace(dd.f32[r, n])
def columns(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=0)


@dd.trace(dd.f32[n])
def running(x: dd.Tensor) -> dd.Tensor:
    return dd.cumulative_sum(x, axis=0)


@dd.trace(dd.f32[r, n], dd.f32[n])
def biased(x: dd.Tensor, bias: dd.Tensor) -> dd.Tensor:
    return dd.maximum(x + bias, 0.0)


@dd.trace(dd.f32[r, n])
def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=1)


@dd.trace(dd.f32[r, n])
def sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1)


@dd.trace(dd.f32[r, n])
def rms_norm(x: dd.Tensor) -> dd.Tensor:
    return x * dd.rsqrt(dd.mean(x * x, axis=1, keepdims=True) + 1e-5)


@dd.trace(dd.f32[r, n])
def log_sum_exp(x: dd.Tensor) -> dd.Tensor:
    return dd.logsumexp(x, axis=1)


LAYER_NORM = r"""
template <int T> __device__ float total(float v, float* s) {
  s[threadIdx.x] = v;
  __syncthreads();
  for (int k = T / 2; k > 0; k /= 2) {
    if (threadIdx.x < k)
      s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  v = s[0];
  __syncthreads();
  return v;
}

template <int T> __global__ void layer_norm(const float* x, float* y, int n) {
  __shared__ float s[T];
  const float* row = x + (long long)blockIdx.x * n;
  float sum = 0.0f;
  for (int k = threadIdx.x; k < n; k += T)
    sum += row[k];
  float mean = total<T>(sum, s) / n;
  float square = 0.0f;
  for (int k = threadIdx.x; k < n; k += T) {
    float d = row[k] - mean;
    square += d * d;
  }
  float scale = rsqrtf(total<T>(square, s) / n + 1e-5f);
  for (int k = threadIdx.x; k < n; k += T)
    y[(long long)blockIdx.x * n + k] = (row[k] - mean) * scale;
}
"""
GELU = r"""
struct Gelu {
  __device__ float operator()(float x) const {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118f));
  }
};
template <typename F> __global__ void apply(const float* x, float* y, int n) {
  F f;
  int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = f(x[i]);
}
"""
COLUMNS = r"""
__global__ void columns(const float* x, float* y, int r, int n) {
  int c = blockIdx.x * 32 + threadIdx.x;
  if (c >= n)
    return;
  float sum = 0.0f;
  for (int k = 0; k < r; ++k)
    sum += x[k * n + c];
  y[c] = sum;
}
"""
RUNNING = r"""
__global__ void running(const float* x, float* y, int n) {
  __shared__ float s[64];
  float before = 0.0f;
  for (int first = 0; first < n; first += 64) {
    int i = first + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int far = 1; far < 64; far *= 2) {
      float v = threadIdx.x >= far ? s[threadIdx.x - far] : 0.0f;
      __syncthreads();
      s[threadIdx.x] += v;
      __syncthreads();
    }
    if (i < n)
      y[i] = before + s[threadIdx.x];
    before += s[63];
    __syncthreads();
  }
}
"""
BIASED = r"""
__global__ void biased(const float* x, const float* bias, float* y, int r, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < r * n) {
    float v = x[i] + bias[i % n];
    y[i] = v <= 0.0f ? 0.0f : v;
  }
}
"""
MORE: dict[str, Judged] = {
    "layer_norm": Judged(
        LAYER_NORM, layer_norm, Launch("layer_norm<64>", "r", "64"),
        {
            "count": Fault("total<T>(sum, s) / n", "total<T>(sum, s) / (n + 1)"),
            "epsilon": Fault("1e-5f", "1e-3f"),
            "square": Fault("square += d * d", "square += d * mean"),
            "barrier": Fault("  v = s[0];\n  __syncthreads();", "  v = s[0];", "race"),
            "centre": Fault("(row[k] - mean) * scale", "(row[k] + mean) * scale"),
        },
    ),
    "gelu": Judged(
        GELU, gelu, Launch("apply<Gelu>", "2", "96"),
        {
            "factor": Fault("0.5f * x", "0.25f * x"),
            "sign": Fault("1.0f + erff", "1.0f - erff"),
            "step": Fault("gridDim.x * blockDim.x", "2 * gridDim.x * blockDim.x", "unwritten"),
            "bound": Fault("i < n;", "i <= n;", "out-of-bounds"),
        },
    ),
    "columns": Judged(
        COLUMNS, columns, Launch("columns", "cdiv(n, 32)", "32"),
        {
            "first": Fault("int k = 0; k < r", "int k = 1; k < r"),
            "pitch": Fault("x[k * n + c]", "x[k * r + c]", "out-of-bounds"),
            "start": Fault("float sum = 0.0f", "float sum = 1.0f"),
            "guard": Fault("c >= n", "c > n", "out-of-bounds"),
        },
    ),
    "running": Judged(
        RUNNING, running, Launch("running", "1", "64"),
        {
            "carry": Fault("before += s[63]", "before += s[62]"),
            "lost": Fault("before += s[63]", "before = s[63]"),
            "far": Fault("threadIdx.x >= far", "threadIdx.x > far"),
            "barrier": Fault("0.0f;\n      __syncthreads();", "0.0f;\n", "race"),
            "steps": Fault("far < 64", "far < 32"),
        },
    ),
    "biased": Judged(
        BIASED, biased, Launch("biased", "cdiv(r * n, 64)", "64"),
        {
            "row": Fault("bias[i % n]", "bias[i % r]", "out-of-bounds"),
            "sign": Fault("x[i] + bias", "x[i] - bias"),
            "test": Fault("v <= 0.0f", "v <= 1.0f"),
        },
    ),
}  # fmt: skip

# Rows in three orders, with three accumulators, joined in two ways.
ROWS = r"""
#if ORDER == 0
#define EACH(k) for (int k = threadIdx.x; k < n; k += THREADS)
#elif ORDER == 1
#define EACH(k) for (int k = threadIdx.x * part, end = min(n, k + part); k < end; ++k)
#else
#define EACH(k) for (int k = n - 1 - (int)threadIdx.x; k >= 0; k -= THREADS)
#endif

struct Sum {
#if KEEP == 1
  double s = 0;
  __device__ void add(float v) { s += v; }
#elif KEEP == 2
  float s = 0, lost = 0;
  __device__ void add(float v) {
    float y = v - lost, t = s + y;
    lost = isfinite(t) ? (t - s) - y : 0.0f;
    s = t;
  }
#else
  float s = 0;
  __device__ void add(float v) { s += v; }
#endif
};

template <typename F> __device__ float joined(float v, F f, float* s) {
  s[threadIdx.x] = v;
  __syncthreads();
#if JOIN == 0
  for (int k = THREADS / 2; k > 0; k /= 2) {
    if (threadIdx.x < k) s[threadIdx.x] = f(s[threadIdx.x], s[threadIdx.x + k]);
    __syncthreads();
  }
#else
  if (threadIdx.x == 0)
    for (int k = THREADS - 1; k > 0; --k) s[0] = f(s[0], s[k]);
  __syncthreads();
#endif
  v = s[0];
  __syncthreads();
  return v;
}

__global__ void rows(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float s[THREADS];
  const int part = (n + THREADS - 1) / THREADS;
  const float* row = x + (size_t)blockIdx.x * n;
  auto plus = [](float a, float b) { return a + b; };
  Sum sum;
#if PROGRAM == 0
  EACH(k) sum.add(row[k]);
  float all = joined(sum.s, plus, s);
  if (threadIdx.x == 0) y[blockIdx.x] = all;
#elif PROGRAM == 1 || PROGRAM == 2
  float most = -INFINITY;
  EACH(k) most = fmaxf(most, row[k]);
  most = joined(most, [](float a, float b) { return fmaxf(a, b); }, s);
#if PROGRAM == 1
  EACH(k) sum.add(expf(row[k] - most));
  float all = joined(sum.s, plus, s), scale = 1.0f / all;
  EACH(k) y[(size_t)blockIdx.x * n + k] = KEEP ? expf(row[k] - most) / all : exp2f((row[k] - most) * 1.4426950408889634f) * scale;
#else
  float base = isfinite(most) ? most : 0.0f;
  EACH(k) sum.add(expf(row[k] - base));
  float all = joined(sum.s, plus, s);
  if (threadIdx.x == 0) y[blockIdx.x] = base + logf(all);
#endif
#elif PROGRAM == 3
  EACH(k) sum.add(row[k] * row[k]);
  float scale = rsqrtf(joined(sum.s, plus, s) / n + 1e-5f);
  EACH(k) y[(size_t)blockIdx.x * n + k] = row[k] * scale;
#else
  EACH(k) sum.add(row[k]);
  float mean = joined(sum.s, plus, s) / n;
  Sum squares;
  EACH(k) { float d = row[k] - mean; squares.add(KEEP ? d * d : __fmul_rn(d, d)); }
  float deviation = sqrtf(joined(squares.s, plus, s) / n + 1e-5f);
  EACH(k) y[(size_t)blockIdx.x * n + k] = KEEP ? (row[k] - mean) / deviation : (row[k] - mean) * (1.0f / deviation);
#endif
}
"""  # noqa: E501  # lines of CUDA C
PROGRAMS: tuple[Program, ...] = (sums, softmax, log_sum_exp, rms_norm, layer_norm)


def family() -> dict[str, Judged]:
    """Return right kernels: programs of rows, threads, orders, accumulators and joins."""
    found: dict[str, Judged] = {}
    choices = product(range(len(PROGRAMS)), (32, 64, 128, 256), range(3), range(3), range(2))
    for p, threads, order, keep, join in choices:
        names = f"PROGRAM={p} THREADS={threads} ORDER={order} KEEP={keep} JOIN={join}"
        flags = tuple(f"-D{word}" for word in names.split())
        found[names] = Judged(ROWS, PROGRAMS[p], Launch("rows", "r", str(threads), flags=flags))
    return found
