"""The texts of the kernels of ``tests.bench.idioms``."""

from __future__ import annotations

WARPS = r"""
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}
__device__ __forceinline__ float block_sum(float v) {
  __shared__ float warps[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  v = warp_sum(v);
  if (lane == 0) warps[warp] = v;
  __syncthreads();
  v = threadIdx.x < blockDim.x / 32 ? warps[lane] : 0.0f;
  if (warp == 0) v = warp_sum(v);
  return v;
}
__global__ void sums(const float* __restrict__ x, float* __restrict__ out, int n) {
  float v = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[(size_t)blockIdx.x * n + i];
  v = block_sum(v);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}
"""
SPLIT = r"""
#define TILE 16
__global__ void split(const float* A, const float* B, float* C, int M, int N, int K, int chunk) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int begin = blockIdx.z * chunk;
  int end = min(begin + chunk, K);
  if (row >= M || col >= N) return;
  float acc = 0.f;
  for (int p = begin; p < end; ++p)
    acc += A[row * K + p] * B[p * N + col];
  atomicAdd(&C[row * N + col], acc);
}
"""
VECTORS = r"""
__device__ float2 total(float2 v, float2* s) {
  for (int o = 16; o; o >>= 1) {
    v.x += __shfl_xor_sync(~0u, v.x, o);
    v.y += __shfl_xor_sync(~0u, v.y, o);
  }
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  v = make_float2(0.f, 0.f);
  for (int w = 0; w < 4; ++w) {
    v.x += s[w].x;
    v.y += s[w].y;
  }
  __syncthreads();
  return v;
}
__global__ void norm(const float4* x, const float4* gamma, const float4* beta, float4* y, int n4) {
  __shared__ float2 s[4];
  const float4* row = x + (size_t)blockIdx.x * n4;
  float2 t = make_float2(0.f, 0.f);
  for (int i = threadIdx.x; i < n4; i += 128) {
    float4 v = row[i];
    t.x += v.x + v.y + v.z + v.w;
  }
  float mean = total(t, s).x / (4 * n4);
  t = make_float2(0.f, 0.f);
  for (int i = threadIdx.x; i < n4; i += 128) {
    float4 v = row[i];
    float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
    t.y += a * a + b * b + c * c + d * d;
  }
  float inv = rsqrtf(total(t, s).y / (4 * n4) + 1e-5f);
  for (int i = threadIdx.x; i < n4; i += 128) {
    float4 v = row[i], g = gamma[i], b = beta[i], o;
    o.x = (v.x - mean) * inv * g.x + b.x;
    o.y = (v.y - mean) * inv * g.y + b.y;
    o.z = (v.z - mean) * inv * g.z + b.z;
    o.w = (v.w - mean) * inv * g.w + b.w;
    y[(size_t)blockIdx.x * n4 + i] = o;
  }
}
"""
BINS = r"""
__global__ void bins(const int* x, int* counts, int n) {
  __shared__ int local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int v = x[i];
    if (v >= 0 && v < 16)
      atomicAdd(&local[v], 1);
  }
  __syncthreads();
  if (threadIdx.x < 16)
    atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}
"""
SCAN = r"""
__global__ void scan(const float* x, float* y, int n) {
  __shared__ float warps[4];
  __shared__ float carry;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0)
    carry = 0.0f;
  __syncthreads();
  for (int first = 0; first < n; first += 128) {
    int i = first + threadIdx.x;
    float own = i < n ? x[(size_t)blockIdx.x * n + i] : 0.0f;
    float v = own;
    for (int d = 1; d < 32; d *= 2) {
      float below = __shfl_up_sync(0xffffffff, v, d);
      if (lane >= d) v += below;
    }
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    float before = carry;
    for (int w = 0; w < warp; ++w)
      before += warps[w];
    float prior = __shfl_up_sync(0xffffffff, v, 1);
    if (lane == 0)
      prior = 0.0f;
    if (i < n)
      y[(size_t)blockIdx.x * n + i] = before + prior;
    __syncthreads();
    if (threadIdx.x == 127)
      carry = before + v;
    __syncthreads();
  }
}
"""
PADDED = r"""
#include <cuda_fp16.h>
__global__ void transpose(const __half* in, __half* out, int rows, int cols) {
  __shared__ __half tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x;
  for (int j = threadIdx.y; j < 32; j += 8) {
    int y = blockIdx.y * 32 + j;
    if (x < cols && y < rows)
      tile[j][threadIdx.x] = in[y * cols + x];
  }
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  for (int j = threadIdx.y; j < 32; j += 8) {
    int y = blockIdx.x * 32 + j;
    if (x < rows && y < cols)
      out[y * rows + x] = tile[threadIdx.x][j];
  }
}
"""
INT8 = r"""
#include <cstdint>
template <int BM, int BN>
__global__ void gemm(const int8_t* __restrict__ a, const float* scale, const float* __restrict__ b,
                     float* c, int m, int n, int k) {
  __shared__ int8_t sa[BM][32];
  __shared__ float sb[32][BN];
  int tx = threadIdx.x % BN, ty = threadIdx.x / BN;
  int i = blockIdx.y * BM + ty, j = blockIdx.x * BN + tx;
  float acc = 0.0f;
  for (int k0 = 0; k0 < k; k0 += 32) {
    for (int e = threadIdx.x; e < BM * 32; e += BM * BN) {
      int row = blockIdx.y * BM + e / 32, col = k0 + e % 32;
      sa[e / 32][e % 32] = row < m && col < k ? a[(size_t)row * k + col] : 0;
    }
    for (int e = threadIdx.x; e < 32 * BN; e += BM * BN) {
      int row = k0 + e / BN, col = blockIdx.x * BN + e % BN;
      sb[e / BN][e % BN] = row < k && col < n ? b[(size_t)row * n + col] : 0.0f;
    }
    __syncthreads();
    for (int p = 0; p < min(32, k - k0); ++p)
      acc = fmaf((float)sa[ty][p], sb[p][tx], acc);
    __syncthreads();
  }
  if (i < m && j < n)
    c[(size_t)i * n + j] = acc * scale[i];
}
"""
FLASH = r"""
constexpr int D = 16, BK = 32;
__global__ void flash(const float* q, const float* keys, const float* v, float* o, int m, int k) {
  __shared__ float sk[BK][D + 1], sv[BK][D + 1];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float qi[D], acc[D];
  for (int d = 0; d < D; ++d) {
    qi[d] = i < m ? q[i * D + d] * 0.25f : 0.0f;
    acc[d] = 0.0f;
  }
  float most = -INFINITY, sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += BK) {
    int count = min(BK, k - k0);
    for (int e = threadIdx.x; e < count * D; e += blockDim.x) {
      sk[e / D][e % D] = keys[k0 * D + e];
      sv[e / D][e % D] = v[k0 * D + e];
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      float s = 0.0f;
      for (int d = 0; d < D; ++d)
        s += qi[d] * sk[j][d];
      float next = fmaxf(most, s);
      float old = expf(most - next);
      float p = expf(s - next);
      sum = sum * old + p;
      for (int d = 0; d < D; ++d)
        acc[d] = acc[d] * old + p * sv[j][d];
      most = next;
    }
    __syncthreads();
  }
  if (i < m)
    for (int d = 0; d < D; ++d)
      o[i * D + d] = acc[d] / sum;
}
"""
WELFORD = r"""
struct Moments {
  float mean, m2, count;
};
__device__ Moments merged(Moments a, Moments b) {
  float count = a.count + b.count;
  if (count == 0.0f) return a;
  float delta = b.mean - a.mean;
  Moments out;
  out.mean = a.mean + delta * b.count / count;
  out.m2 = a.m2 + b.m2 + delta * delta * a.count * b.count / count;
  out.count = count;
  return out;
}
__global__ void variance(const float* x, float* y, int n) {
  Moments s = {0.0f, 0.0f, 0.0f};
  for (int i = threadIdx.x; i < n; i += 32) {
    float v = x[(size_t)blockIdx.x * n + i];
    s.count += 1.0f;
    float delta = v - s.mean;
    s.mean += delta / s.count;
    s.m2 += delta * (v - s.mean);
  }
  for (int o = 16; o > 0; o /= 2) {
    Moments other;
    other.mean = __shfl_xor_sync(0xffffffff, s.mean, o);
    other.m2 = __shfl_xor_sync(0xffffffff, s.m2, o);
    other.count = __shfl_xor_sync(0xffffffff, s.count, o);
    s = merged(s, other);
  }
  if (threadIdx.x == 0)
    y[blockIdx.x] = s.m2 / n;
}
"""
ARGMAX = r"""
__global__ void argmax(const float* x, int* out, int n) {
  float best = -INFINITY;
  int at = n;
  for (int i = threadIdx.x; i < n; i += 32) {
    float v = x[(size_t)blockIdx.x * n + i];
    if (v > best || at == n) {
      best = v;
      at = i;
    }
  }
  for (int o = 16; o > 0; o >>= 1) {
    float v = __shfl_down_sync(0xffffffff, best, o);
    int i = __shfl_down_sync(0xffffffff, at, o);
    if (i < n && (at == n || v > best || (v == best && i < at))) {
      best = v;
      at = i;
    }
  }
  if (threadIdx.x == 0)
    out[blockIdx.x] = at;
}
"""
HALO = r"""
__constant__ int RADIUS = 1;
__global__ void stencil(const float* x, const float* w, float* y, int n) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x + 1] = i < n ? x[i] : 0.0f;
  if (threadIdx.x == 0)
    tile[0] = i > 0 ? x[i - 1] : 0.0f;
  if (threadIdx.x == blockDim.x - 1)
    tile[blockDim.x + 1] = i + 1 < n ? x[i + 1] : 0.0f;
  __syncthreads();
  if (i < n) {
    float s = 0.0f;
    for (int d = -1; d <= 1; ++d)
      s += tile[threadIdx.x + 1 + d] * w[d + 1];
    y[i] = s;
  }
}
"""
