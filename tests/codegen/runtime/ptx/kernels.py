"""Kernels of CUDA C++ that are right, with what NumPy says, and edits that plant one fault each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.sanitize import Argument
from didyma.refimpl.ir.types import Array

RNG = np.random.default_rng(17)


@dataclass(frozen=True)
class Case:
    """A kernel ``k``, its launch, and the outputs by name."""

    source: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Argument, ...]
    want: dict[str, Array]

    @property
    def shape(self) -> Shape:
        (gx, gy, gz), (bx, by, bz) = ((*t, 1, 1)[:3] for t in (self.grid, self.block))
        return Shape((gx, gy, gz), (bx, by, bz))


def given(**values: Array | np.generic | tuple[int, ...]) -> tuple[Argument, ...]:
    """Return arguments by name: arrays and scalars; a tuple is the shape of an f32 output."""
    return tuple(
        Argument(n, np.full(v, np.nan, np.float32), True)
        if isinstance(v, tuple)
        else Argument(n, np.asarray(v))
        for n, v in values.items()
    )


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


# Lanes 2 and 3 add what lanes hold that take no part, and nobody needs their sums.
TOTAL = r"""
extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float parts[4];
  float v = x[threadIdx.x];
  for (int far = 16; far; far /= 2) v += __shfl_down_sync(0xffffffffu, v, far);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 4) {
    v = parts[threadIdx.x];
    v += __shfl_down_sync(0xfu, v, 2);
    v += __shfl_down_sync(0xfu, v, 1);
    if (threadIdx.x == 0) *y = v;
  }
}
"""

SOFTMAX = r"""
template <typename F> __device__ float folded(float v, float* parts, F f, float empty) {
  for (int far = 16; far; far /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, far));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : empty;
  for (int far = 16; far; far /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, far));
  __syncthreads();  // before the next use
  return v;
}
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float parts[32];
  x += (long long)blockIdx.x * n;
  y += (long long)blockIdx.x * n;
  float top = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, x[i]);
  top = folded(top, parts, [](float a, float b) { return fmaxf(a, b); }, -1e30f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(x[i] - top);
  sum = folded(sum, parts, [](float a, float b) { return a + b; }, 0.f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - top) / sum;
}
"""

MATMUL = r"""
constexpr int T = 8;
extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
  __shared__ float left[T][T], right[T][T];
  int j = threadIdx.x, i = threadIdx.y, column = blockIdx.x * T + j, row = blockIdx.y * T + i;
  float sum = 0;
  for (int at = 0; at < n; at += T) {
    left[i][j] = a[row * n + at + j];
    right[i][j] = b[(at + i) * n + column];
    __syncthreads();  // filled
    for (int d = 0; d < T; ++d) sum = fmaf(left[i][d], right[d][j], sum);
    __syncthreads();  // used
  }
  c[row * n + column] = sum;
}
"""

SCAN = r"""
extern "C" __global__ void k(const int* x, int* y, int n) {
  __shared__ int s[2][96];
  int t = threadIdx.x, i = blockIdx.x * 96 + t, from = 0;
  s[0][t] = i < n ? x[i] : 0;
  for (int far = 1; far < 96; far *= 2) {
    __syncthreads();
    s[1 - from][t] = s[from][t] + (t >= far ? s[from][t - far] : 0);
    from = 1 - from;
  }
  if (i < n) y[i] = s[from][t];
}
"""

HISTOGRAM = r"""
extern "C" __global__ void k(const unsigned char* x, unsigned* counts, int n) {
  __shared__ unsigned mine[64];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[x[i]], 1u);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
"""

LAST = r"""
__device__ unsigned arrived;
extern "C" __global__ void k(const float* x, float* parts, float* y, int n) {
  __shared__ float s[64];
  __shared__ unsigned ticket;
  float v = 0;
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) v += x[i];
  s[threadIdx.x] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v += s[threadIdx.x + 32];
    for (int far = 16; far; far /= 2) v += __shfl_down_sync(~0u, v, far);
  }
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = v;
    __threadfence();  // release
    ticket = atomicAdd(&arrived, 1u);
    __threadfence();
  }
  __syncthreads();
  if (ticket == gridDim.x - 1 && threadIdx.x == 0) {
    v = 0;
    for (int b = 0; b < gridDim.x; ++b) v += parts[b];
    *y = v;
  }
}
"""

PIPELINE = r"""
extern "C" __global__ void k(const float* x, float* y, int tiles) {
  __shared__ float4 stage[2][32];
  int t = threadIdx.x;
  auto fetch = [&](int tile) {
    if (tile < tiles) {
      unsigned to = (unsigned)__cvta_generic_to_shared(&stage[tile % 2][t]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                   :: "r"(to), "l"(x + 128 * tile + 4 * t));
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  for (int tile = 0; tile < tiles; ++tile) {
    fetch(tile + 1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();  // landed
    float4 v = stage[tile % 2][31 - t];
    y[32 * tile + t] = v.x + v.y + v.z + v.w;
    __syncthreads();  // used
  }
}
"""

PHASES = r"""
extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float s[64];
  __shared__ unsigned long long bar;
  unsigned b = (unsigned)__cvta_generic_to_shared(&bar);
  int t = threadIdx.x;
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(b) : "memory");
  __syncthreads();
  s[t] = x[t];
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" :: "r"(b) : "memory");
  unsigned done = 0;
  while (!done)  // wait
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0;"
                 " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
  y[t] = s[63 - t];
}
"""

MESSAGE = r"""
extern "C" __global__ void k(int* data, int* flag, float* y) {
  if (blockIdx.x == 1) {
    data[threadIdx.x] = 3 * threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();  // release
      atomicExch(flag, 1);
    }
  } else {
    if (threadIdx.x == 0) {
      while (atomicAdd(flag, 0) == 0) {}
      __threadfence();
    }
    __syncthreads();
    y[threadIdx.x] = data[threadIdx.x];
  }
}
"""


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


_X, _A, _B = floats(2, 300), floats(16, 16), floats(16, 16)
_N, _Q, _P = RNG.integers(0, 9, 200, dtype=np.int32), floats(1000), floats(5, 128)
_U = RNG.integers(0, 64, 500, dtype=np.uint8)
_SUMS = np.concatenate([part.cumsum() for part in (_N[:96], _N[96:192], _N[192:])])
_SCANNED = Argument("y", np.zeros(200, np.int32), True)
_NUMBER = np.int32

CASES: dict[str, Case] = {
    "softmax": Case(
        SOFTMAX, (2,), (96,), given(x=_X, y=(2, 300), n=_NUMBER(300)), {"y": _softmax(_X)}
    ),
    "matmul": Case(
        MATMUL, (2, 2), (8, 8), given(a=_A, b=_B, c=(16, 16), n=_NUMBER(16)), {"c": _A @ _B}
    ),
    "scan": Case(
        SCAN, (3,), (96,), (*given(x=_N), _SCANNED, *given(n=_NUMBER(200))), {"y": _SUMS}
    ),
    "histogram": Case(
        HISTOGRAM, (3,), (64,), given(x=_U, counts=np.zeros(64, np.uint32), n=_NUMBER(500)),
        {"counts": np.bincount(_U, minlength=64)},
    ),
    "last block": Case(
        LAST, (5,), (64,), given(x=_Q, parts=(5,), y=(1,), n=_NUMBER(1000)),
        {"y": _Q.sum(keepdims=True)},
    ),
    "pipeline": Case(
        PIPELINE, (1,), (32,), given(x=_P, y=(5, 32), tiles=_NUMBER(5)),
        {"y": _P.reshape(5, 32, 4).sum(2)[:, ::-1]},
    ),
    "total": Case(
        TOTAL, (1,), (128,), given(x=_Q[:128], y=(1,)),
        {"y": _Q[:128].sum(keepdims=True)},
    ),
    "phases": Case(PHASES, (1,), (64,), given(x=_Q[:64], y=(64,)), {"y": _Q[63::-1]}),
    "message": Case(
        MESSAGE, (2,), (32,),
        given(data=np.zeros(32, np.int32), flag=np.zeros(1, np.int32), y=(32,)),
        {"y": 3 * np.arange(32)},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """An edit of a case, and the kinds of findings of which one is that fault.

    ``at`` is text of the line that a finding names, or of one at most three lines away; empty where
    only the kind is judged.
    """

    case: str
    old: str
    new: str
    kinds: str
    at: str = ""

    @property
    def source(self) -> str:
        source = CASES[self.case].source
        assert self.old in source
        return source.replace(self.old, self.new)


PLANTED: dict[str, Planted] = {
    "shared array is used again too early": Planted(
        "softmax", "__syncthreads();  // before the next use", "", "race", "parts[threadIdx"
    ),
    "one element too many": Planted(
        "softmax", "y[i] = expf", "y[i + (i == n - 1)] = expf", "out-of-bounds race", "y[i +"
    ),
    "shuffle with half of a warp": Planted(
        "softmax", "  sum = folded", "  if (threadIdx.x % 32 < 16) sum = folded",
        "inactive-lane warp-divergence barrier-divergence", "__shfl_xor",
    ),
    "missing barrier": Planted("matmul", "__syncthreads();  // filled", "", "race uninitialised"),
    "missing barrier after a use": Planted("matmul", "__syncthreads();  // used", "", "race"),
    "misaligned vector": Planted(
        "matmul", "sum = fmaf(left[i][d], right[d][j], sum)",
        "{ float2 v = *(float2*)(&left[i][1]); sum += v.x * v.y; }", "misaligned", "float2",
    ),
    "divergent barrier": Planted(
        "scan", "    __syncthreads();", "    if (t >= far) __syncthreads();",
        "barrier-divergence", "__syncthreads",
    ),
    "output that is not written": Planted("scan", "if (i < n)", "if (i < n - 1)", "unwritten"),
    "index past a shared array": Planted(
        "scan", "s[from][t - far]", "s[from][t - far + 97]", "out-of-bounds race uninitialised"
    ),
    "uninitialised shared memory": Planted(
        "histogram", "mine[threadIdx.x] = 0;", "", "uninitialised", "atomicAdd"
    ),
    "increment that is not atomic": Planted(
        "histogram", "atomicAdd(&mine[x[i]], 1u)", "mine[x[i]] += 1", "race", "mine[x[i]] += 1"
    ),
    "atomic of a block between blocks": Planted(
        "histogram", "atomicAdd(&counts", "atomicAdd_block(&counts", "race", "atomicAdd_block"
    ),
    "release without a fence": Planted("last block", "__threadfence();  // release", "", "race"),
    "mask without the lane itself": Planted(
        "last block", "__shfl_down_sync(~0u", "__shfl_down_sync(0xffffu",
        "wrong-mask inactive-lane",
        "__shfl_down_sync",
    ),
    "sum of lanes that take no part": Planted(
        "total", "v += __shfl_down_sync(0xfu, v, 2);", "v += __shfl_down_sync(0xfu, v, 4);",
        "inactive-lane", "v, 4)",
    ),
    "copy from a lane that takes no part": Planted(
        "total", "if (threadIdx.x == 0) *y = v;", "*y = __shfl_down_sync(0xfu, v, 4);",
        "inactive-lane", "*y",
    ),
    "race in global memory": Planted("last block", "parts[blockIdx.x] = v", "parts[0] = v", "race"),
    "copy that is not waited for": Planted(
        "pipeline", "wait_group 1", "wait_group 2", "unwaited race"
    ),
    "copies without a barrier": Planted("pipeline", "__syncthreads();  // landed", "", "race"),
    "stage that is filled too early": Planted("pipeline", "__syncthreads();  // used", "", "race"),
    "phase that is not waited for": Planted("phases", "while (!done)", "if (!done)", "race"),
    "message without a fence": Planted("message", "__threadfence();  // release", "", "race"),
    "flag that nobody sets": Planted(
        "message", "atomicExch(flag, 1)", "atomicExch(flag, 0)", "hang"
    ),
}  # fmt: skip
