"""Right kernels in other forms than their specifications, and near them wrong ones."""

from __future__ import annotations

import pytest

import didyma as dd
from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.contracts import Declared
from didyma.judging.judge import Outcome, judge
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from didyma.tracer.tracing import Program

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")
r, n = dd.dim("r", 1, 4096), dd.dim("n", 1, 4096)


@dd.trace(dd.f32[r, n])
def normalised(x: dd.Tensor) -> dd.Tensor:
    return x / dd.sqrt(dd.sum(x * x, axis=1, keepdims=True) + 1e-12)


@dd.trace(dd.f32[r, n])
def scaled(x: dd.Tensor) -> dd.Tensor:
    return x * dd.rsqrt(dd.mean(x * x, axis=1, keepdims=True) + 1e-6)


@dd.trace(dd.f32[r, n])
def mean(x: dd.Tensor) -> dd.Tensor:
    return dd.mean(x, axis=1)


@dd.trace(dd.f32[r, n])
def first(x: dd.Tensor) -> dd.Tensor:
    return dd.argmax(x, axis=1)


@dd.trace(dd.f32[r, n], dd.i64[r])
def picked(x: dd.Tensor, target: dd.Tensor) -> dd.Tensor:
    at = dd.take_along_axis(x, dd.expand_dims(target, axis=1), axis=1)
    return dd.reshape(at, (r,))


@dd.trace(dd.bf16[r, n], dd.bf16[n])
def weighted(x: dd.Tensor, g: dd.Tensor) -> dd.Tensor:
    wide = x.astype(dd.f32)
    scale = dd.rsqrt(dd.mean(wide * wide, axis=1, keepdims=True) + 1e-6)
    return (wide * scale * g.astype(dd.f32)).astype(dd.bf16)


@dd.trace(dd.f32[r, n], dd.f32[r], dd.f32[r])
def shifted(x: dd.Tensor, a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.sum(x, axis=1) - a + 100.0 * b


@dd.trace(dd.f32[r, n], dd.f32[r], dd.f32[r], dd.f32[r])
def folded(x: dd.Tensor, mean: dd.Tensor, scale: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return (x - mean[:, None]) * scale[:, None] + b[:, None]


NORMALISED = """__global__ void f(const float* x, float* y, int n) {
  const float* row = x + blockIdx.x * n;
  float s = 0;
  for (int k = 0; k < n; ++k) s += row[k] * row[k];
  for (int k = 0; k < n; ++k) y[blockIdx.x * n + k] = row[k] * rsqrtf(s + 1e-12f);
}"""
SCALED = """__global__ void f(const float* x, float* y, int n) {
  const float* row = x + blockIdx.x * n;
  float s = 0;
  for (int k = 0; k < n; ++k) s += row[k] * row[k];
  for (int k = 0; k < n; ++k) y[blockIdx.x * n + k] = row[k] / sqrtf(s / n + 1e-6f);
}"""
MEAN = """__global__ void f(const float* x, float* y, int n) {
  float s = 0;
  for (int k = 0; k < n; ++k) s += x[blockIdx.x * n + k] / n;
  y[blockIdx.x] = s;
}"""
FIRST = """__global__ void f(const float* x, long long* y, int n) {
  const float* row = x + blockIdx.x * n;
  __shared__ int at[32];
  int best = threadIdx.x;
  for (int k = threadIdx.x; k < n; k += 32) if (row[k] > row[best]) best = k;
  at[threadIdx.x] = best;
  __syncthreads();
  if (threadIdx.x) return;
  for (int t = 1; t < min(n, 32); ++t) {
    int o = at[t];
    if (row[o] > row[best] || (row[o] == row[best] && o < best)) best = o;
  }
  y[blockIdx.x] = best;
}"""
PICKED = """__global__ void f(const float* x, const long long* target, float* y, int n) {
  y[blockIdx.x] = x[blockIdx.x * n + target[blockIdx.x]];
}"""
WEIGHTED = """
#include <cuda_bf16.h>
__global__ void f(const __nv_bfloat16* x, const __nv_bfloat16* g, __nv_bfloat16* y, int n) {
  const __nv_bfloat16* row = x + blockIdx.x * n;
  double s = 0;
  for (int k = 0; k < n; ++k) s += (double)row[k] * (double)row[k];
  float scale = 1.0 / sqrt(s / n + 1e-6);
  for (int k = 0; k < n; ++k) y[blockIdx.x * n + k] = (float)row[k] * (scale * (float)g[k]);
}"""
SHIFTED = """__global__ void f(const float* x, const float* a, const float* b, float* y, int n) {
  float s = 100 * b[blockIdx.x] - a[blockIdx.x];
  for (int k = 0; k < n; ++k) s += x[blockIdx.x * n + k];
  y[blockIdx.x] = s;
}"""
FOLDED = """
__global__ void f(const float* x, const float* mean, const float* scale, const float* b,
                  float* y, int n) {
  float s = scale[blockIdx.x], shift = b[blockIdx.x] - mean[blockIdx.x] * s;
  for (int k = 0; k < n; ++k) y[blockIdx.x * n + k] = x[blockIdx.x * n + k] * s + shift;
}"""
TASKS = {
    "folded": (folded, FOLDED, "1", "* s;", "* s * 1.01f;"),
    "normalised": (normalised, NORMALISED, "1", "rsqrtf", "1.001f * rsqrtf"),
    "scaled": (scaled, SCALED, "1", " + 1e-6f", ""),
    "mean": (mean, MEAN, "1", "s +=", "s = 1.0001f * s +"),
    "first": (first, FIRST, "32", "row[k] > row[best]", "row[k] >= row[best]"),
    "picked": (picked, PICKED, "1", "[blockIdx.x]]", "[0]]"),
    "shifted": (shifted, SHIFTED, "1", "100 * b", "100.01f * b"),
    "weighted": (weighted, WEIGHTED, "1", "(scale * (float)g[k])", "scale * (float)g[k] * 0.99f"),
}


@pytest.mark.parametrize("name", TASKS)
def test_it_is_accepted_and_its_twin_is_not(name: str) -> None:
    spec, text, block, old, new = TASKS[name]
    assert verdict(spec, text, block) is Outcome.CORRECT
    edited = text.replace(old, new)
    assert verdict(spec, edited, block) is Outcome.WRONG


def verdict(spec: Program, text: str, block: str) -> Outcome:
    draw, contract = Draw(most=1 << 12), Declared(finite=True)
    return judge(
        make_task(Source(text, "k.cu"), spec.module, Launch("", "r", block), contract, draw)
    ).outcome
