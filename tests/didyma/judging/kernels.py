"""Kernels with known verdicts: right ones in several manners, and each with faults planted.

A fault is an edit of one line; that line is where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import didyma as dd
from didyma.judging.contracts import Declared
from didyma.judging.making import Launch
from didyma.judging.task import Draw
from didyma.tracer.tracing import Program

r, n, m, k = dd.dim("r", 0, 4096), dd.dim("n", 1, 4096), dd.dim("m", 1, 512), dd.dim("k", 1, 512)


@dataclass(frozen=True, slots=True)
class Fault:
    """An edit that makes a kernel wrong, and the kind of finding that it must lead to."""

    old: str
    new: str
    kind: str = "wrong-value"


@dataclass(frozen=True, slots=True)
class Judged:
    """A right kernel with its specification and launch, and faults of it by name."""

    text: str
    spec: Program
    launch: Launch
    faults: dict[str, Fault] = field(default_factory=dict[str, Fault])
    contract: Declared = field(default_factory=Declared)
    draw: Draw = field(default_factory=Draw)


@dd.trace(dd.f32[n], dd.f32[n])
def added(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a + b


@dd.trace(dd.f32[r, n])
def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=1)


@dd.trace(dd.f32[r, n])
def sums(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1)


@dd.trace(dd.f32[m, k], dd.f32[k, n])
def product(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return a @ b


@dd.trace(dd.f32[m, n])
def transposed(x: dd.Tensor) -> dd.Tensor:
    return dd.permute_dims(x, (1, 0)) * 2.0


ADD = r"""
extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    c[i] = a[i] + b[i];
}
"""

SOFTMAX = r"""
template <typename F> __device__ float reduce(float v, F f, float* part) {
  for (int s = 16; s > 0; s /= 2)
    v = f(v, __shfl_xor_sync(0xffffffff, v, s));
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
  for (int w = 1; w < blockDim.x / 32; ++w)
    v = f(v, part[w]);
  __syncthreads();
  return v;
}

template <int T> __global__ void softmax(const float* __restrict__ x, float* y, int n) {
  __shared__ float part[T / 32];
  const float* row = x + (size_t)blockIdx.x * n;
  float most = -INFINITY;
  for (int k = threadIdx.x; k < n; k += T)
    most = fmaxf(most, row[k]);
  most = reduce(most, [](float a, float b) { return fmaxf(a, b); }, part);
  float sum = 0.0f;
  for (int k = threadIdx.x; k < n; k += T)
    sum += expf(row[k] - most);
  sum = reduce(sum, [](float a, float b) { return a + b; }, part);
  for (int k = threadIdx.x; k < n; k += T)
    y[(size_t)blockIdx.x * n + k] = expf(row[k] - most) / sum;
}
"""

SUMS = r"""
extern "C" __global__ void sums(const float* x, float* y, int n) {
  __shared__ float part[64];
  float sum = 0;
  for (int k = threadIdx.x; k < n; k += 64)
    sum += x[blockIdx.x * n + k];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 32; s > 0; s /= 2) {
    if (threadIdx.x < s)
      part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    y[blockIdx.x] = part[0];
}
"""

PRODUCT = r"""
template <int T>
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[T][T], bs[T][T];
  int i = blockIdx.y * T + threadIdx.y;
  int j = blockIdx.x * T + threadIdx.x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += T) {
    int ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;
    as[threadIdx.y][threadIdx.x] = i < m && ka < k ? a[i * k + ka] : 0.0f;
    bs[threadIdx.y][threadIdx.x] = kb < k && j < n ? b[kb * n + j] : 0.0f;
    __syncthreads();
    for (int t = 0; t < T; ++t)
      sum += as[threadIdx.y][t] * bs[t][threadIdx.x];
    __syncthreads();
  }
  if (i < m && j < n)
    c[i * n + j] = sum;
}
"""

TRANSPOSED = r"""
__global__ void transposed(const float* x, float* y, int m, int n) {
  __shared__ float tile[16][17];
  int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
  if (i < m && j < n)
    tile[threadIdx.y][threadIdx.x] = x[i * n + j];
  __syncthreads();
  i = blockIdx.y * 16 + threadIdx.x;
  j = blockIdx.x * 16 + threadIdx.y;
  if (i < m && j < n)
    y[j * m + i] = 2.0f * tile[threadIdx.x][threadIdx.y];
}
"""

KERNELS: dict[str, Judged] = {
    "add": Judged(
        ADD, added, Launch("", "cdiv(n, 128)", "128"),
        {
            "sign": Fault("a[i] + b[i]", "a[i] - b[i]"),
            "bound": Fault("if (i < n)", "if (i <= n)", "out-of-bounds"),
            "last": Fault("if (i < n)", "if (i < n - 1)", "unwritten"),
        },
    ),
    "softmax": Judged(
        SOFTMAX, softmax, Launch("softmax<128>", "r", "128"),
        {
            "barrier": Fault("  __syncthreads();\n  return v;", "\n  return v;", "race"),
            "start": Fault("float most = -INFINITY", "float most = 0.0f"),
            "term": Fault("k < n; k += T)\n    sum", "k < n - 1; k += T)\n    sum"),
            "warps": Fault("w < blockDim.x / 32", "w < blockDim.x / 64"),
        },
    ),
    "sums": Judged(
        SUMS, sums, Launch("sums", "r", "64"),
        {
            "half": Fault("int s = 32;", "int s = 16;"),
            "barrier": Fault("    __syncthreads();\n  }", "\n  }", "race"),
            "place": Fault("y[blockIdx.x] = part[0]", "y[blockIdx.x] = part[1]"),
        },
    ),
    "product": Judged(
        PRODUCT, product,
        Launch("product<8>", "cdiv(n, 8), cdiv(m, 8)", "8, 8", args=("c=matmul",)),
        {
            "wait": Fault("    __syncthreads();\n  }", "\n  }", "race"),
            "tail": Fault("ka < k ?", "ka <= k ?", "out-of-bounds"),
            "row": Fault("a[i * k + ka]", "a[i * n + ka]", "out-of-bounds"),
            "last term": Fault("t < T; ++t", "t < T - 1; ++t"),
        },
    ),
    "transposed": Judged(
        TRANSPOSED, transposed, Launch("transposed", "cdiv(n, 16), cdiv(m, 16)", "16, 16"),
        {
            "factor": Fault("2.0f *", "1.0f *"),
            "swapped": Fault("y[j * m + i]", "y[j * n + i]", "out-of-bounds"),
        },
    ),
}  # fmt: skip
