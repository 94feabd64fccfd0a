"""Texts of kernels as they are found in libraries, courses and answers of language models."""

from __future__ import annotations

HALVES = r"""
#include <cuda_fp16.h>
__global__ void mul_half2(const __half* __restrict__ x, const __half* __restrict__ y, __half* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int pairs = n / 2;
  const __half2* x2 = reinterpret_cast<const __half2*>(x);
  const __half2* y2 = reinterpret_cast<const __half2*>(y);
  __half2* o2 = reinterpret_cast<__half2*>(out);
  if (i < pairs) {
    o2[i] = __hmul2(x2[i], y2[i]);
  }
  if (i == 0 && (n & 1)) {
    out[n - 1] = __hmul(x[n - 1], y[n - 1]);
  }
}
"""  # noqa: E501  # lines of CUDA C

SOFTMAX = r"""
extern __shared__ float cache[];
__device__ float warpMax(float v) {
  for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
  return v;
}
__device__ float warpSum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}
__global__ void softmax(const float* input, float* output, int n) {
  float* row = cache;
  float* red = cache + n;
  const float* src = input + (size_t)blockIdx.x * n;
  float* dst = output + (size_t)blockIdx.x * n;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float mx = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    row[i] = src[i];
    mx = fmaxf(mx, row[i]);
  }
  mx = warpMax(mx);
  if (lane == 0) red[warp] = mx;
  __syncthreads();
  mx = red[0];
  for (int i = 1; i < blockDim.x / 32; i++) mx = fmaxf(mx, red[i]);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    row[i] = expf(row[i] - mx);
    sum += row[i];
  }
  sum = warpSum(sum);
  if (lane == 0) red[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < blockDim.x / 32; i++) sum += red[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x) dst[i] = row[i] / sum;
}
"""

LAYER_NORM = r"""
template <typename T, int BLOCK>
__global__ void layer_norm_kernel(const T* __restrict__ inp, const T* __restrict__ gamma, const T* __restrict__ beta,
                                  T* __restrict__ out, int N, float eps) {
  __shared__ float s_mean, s_rstd;
  __shared__ float buf[BLOCK / 32];
  const T* x = inp + blockIdx.x * N;
  float acc = 0.f;
  for (int i = threadIdx.x; i < N; i += BLOCK) acc += static_cast<float>(x[i]);
#pragma unroll
  for (int o = 16; o; o /= 2) acc += __shfl_down_sync(~0u, acc, o);
  if (threadIdx.x % 32 == 0) buf[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x == 0) {
    float t = 0;
    for (int i = 0; i < BLOCK / 32; ++i) t += buf[i];
    s_mean = t / N;
  }
  __syncthreads();
  const float mean = s_mean;
  acc = 0.f;
  for (int i = threadIdx.x; i < N; i += BLOCK) {
    float d = static_cast<float>(x[i]) - mean;
    acc += d * d;
  }
#pragma unroll
  for (int o = 16; o; o /= 2) acc += __shfl_down_sync(~0u, acc, o);
  if (threadIdx.x % 32 == 0) buf[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x == 0) {
    float t = 0;
    for (int i = 0; i < BLOCK / 32; ++i) t += buf[i];
    s_rstd = rsqrtf(t / N + eps);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < N; i += BLOCK)
    out[blockIdx.x * N + i] = (static_cast<float>(x[i]) - mean) * s_rstd * gamma[i] + beta[i];
}
"""  # noqa: E501  # lines of CUDA C

TILED = r"""
#define TILE 16
__global__ void matmul_tiled(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[TILE][TILE];
  __shared__ float Bs[TILE][TILE + 1];
  int row = blockIdx.y * TILE + threadIdx.y;
  int col = blockIdx.x * TILE + threadIdx.x;
  float acc = 0.0f;
  for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
    int kk = t * TILE + threadIdx.x;
    As[threadIdx.y][threadIdx.x] = (row < M && kk < K) ? A[row * K + kk] : 0.0f;
    kk = t * TILE + threadIdx.y;
    Bs[threadIdx.y][threadIdx.x] = (kk < K && col < N) ? B[kk * N + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; ++i) acc += As[threadIdx.y][i] * Bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc;
}
"""

MATRIX_VECTOR = r"""
__global__ void gemv(const float4* A, const float* x, float* y, int m, int n) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= m) return;
  float s = 0;
  for (int i = threadIdx.x; i < n / 4; i += 32) {
    float4 a = A[row * (n / 4) + i];
    float4 b = reinterpret_cast<const float4*>(x)[i];
    s += a.x * b.x;
    s += a.y * b.y;
    s += a.z * b.z;
    s += a.w * b.w;
  }
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffffu, s, o);
  if (threadIdx.x == 0) y[row] = s;
}
"""

TRANSPOSED = r"""
const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;
__global__ void transposeNoBankConflicts(float *odata, const float *idata, int width, int height)
{
  __shared__ float tile[TILE_DIM][TILE_DIM+1];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < width && y + j < height)
      tile[threadIdx.y+j][threadIdx.x] = idata[(y+j)*width + x];

  __syncthreads();

  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < height && y + j < width)
      odata[(y+j)*height + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""

EXTREMES = r"""
__global__ void min_max(const float* x, float* lo, float* hi, int n) {
  __shared__ float smin[256];
  __shared__ float smax[256];
  int t = threadIdx.x;
  float a = __int_as_float(0x7f800000), b = -a;
  bool nan = false;
  for (int i = t; i < n; i += 256) {
    float v = x[blockIdx.x * n + i];
    nan |= isnan(v);
    a = fminf(a, v);
    b = fmaxf(b, v);
  }
  nan = __syncthreads_or(nan);
  smin[t] = a;
  smax[t] = b;
  __syncthreads();
  for (int s = 128; s; s >>= 1) {
    if (t < s) {
      smin[t] = fminf(smin[t], smin[t + s]);
      smax[t] = fmaxf(smax[t], smax[t + s]);
    }
    __syncthreads();
  }
  if (t == 0) {
    lo[blockIdx.x] = nan ? NAN : smin[0];
    hi[blockIdx.x] = nan ? NAN : smax[0];
  }
}
"""

ARGMAX = r"""
#include <cfloat>
__global__ void argmax_rows(const float* __restrict__ x, int* __restrict__ idx, int n) {
  __shared__ float vals[128];
  __shared__ int ids[128];
  int tid = threadIdx.x;
  float best = -FLT_MAX;
  int at = 0;
  for (int i = tid; i < n; i += blockDim.x) {
    float v = x[blockIdx.x * n + i];
    if (v > best) { best = v; at = i; }
  }
  vals[tid] = best;
  ids[tid] = at;
  __syncthreads();
  for (int s = 64; s > 0; s >>= 1) {
    if (tid < s) {
      if (vals[tid + s] > vals[tid] || (vals[tid + s] == vals[tid] && ids[tid + s] < ids[tid])) {
        vals[tid] = vals[tid + s];
        ids[tid] = ids[tid + s];
      }
    }
    __syncthreads();
  }
  if (tid == 0) idx[blockIdx.x] = ids[0];
}
"""

EMBEDDING = r"""
__global__ void embedding(const int* ids, const float* table, float* out, int D) {
  int tok = blockIdx.x;
  int id = ids[tok];
  for (int j = threadIdx.x; j < D; j += blockDim.x) out[tok * D + j] = table[id * D + j];
}
"""

SCAN = r"""
template <int B>
__global__ void block_scan(const float* in, float* out, int n) {
  __shared__ float tmp[2][B];
  __shared__ float carry;
  int t = threadIdx.x;
  if (t == 0) carry = 0.f;
  __syncthreads();
  for (int base = 0; base < n; base += B) {
    int i = base + t;
    int cur = 0;
    tmp[cur][t] = i < n ? in[blockIdx.x * n + i] : 0.f;
    __syncthreads();
    for (int d = 1; d < B; d *= 2) {
      tmp[1 - cur][t] = tmp[cur][t] + (t >= d ? tmp[cur][t - d] : 0.f);
      cur = 1 - cur;
      __syncthreads();
    }
    if (i < n) out[blockIdx.x * n + i] = tmp[cur][t] + carry;
    __syncthreads();
    if (t == B - 1) carry += tmp[cur][t];
    __syncthreads();
  }
}
"""

HISTOGRAM = r"""
__global__ void histogram(const int* data, int* bins, int n) {
  __shared__ int local[64];
  for (int i = threadIdx.x; i < 64; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int v = data[i];
    if (v >= 0 && v < 64) atomicAdd(&local[v], 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}
"""

CONVOLUTION = r"""
__constant__ int dummy = 3;
#define R 3
__global__ void conv2d(const float* x, const float* f, float* y, int H, int W) {
  __shared__ float tile[18][18];
  int OH = H - R + 1, OW = W - R + 1;
  int bx = blockIdx.x * 16, by = blockIdx.y * 16;
  for (int i = threadIdx.y; i < 18; i += 16)
    for (int j = threadIdx.x; j < 18; j += 16)
      tile[i][j] = (by + i < H && bx + j < W) ? x[(by + i) * W + bx + j] : 0.f;
  __syncthreads();
  int ox = bx + threadIdx.x, oy = by + threadIdx.y;
  if (ox < OW && oy < OH) {
    float s = 0.f;
    for (int a = 0; a < R; ++a)
      for (int c = 0; c < R; ++c) s += tile[threadIdx.y + a][threadIdx.x + c] * f[a * R + c];
    y[oy * OW + ox] = s;
  }
}
"""

POOL = r"""
__global__ void maxpool2(const float* in, float* out, int C, int H, int W) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  int total = C * H * W;
  if (idx >= total) return;
  int x = idx % W;
  int y = (idx / W) % H;
  int c = idx / (W * H);
  const float* p = in + (c * 2 * H + 2 * y) * 2 * W + 2 * x;
  float m = p[0];
  float q[3] = {p[1], p[2 * W], p[2 * W + 1]};
  for (int i = 0; i < 3; i++) m = (q[i] > m || isnan(q[i])) ? q[i] : m;
  out[idx] = m;
}
"""

GATED = r"""
__device__ __forceinline__ float silu(float v) { return v / (1.0f + __expf(-v)); }
__global__ void silu_and_mul(float* out, const float* in, int d) {
  const float* a = in + (long)blockIdx.x * 2 * d;
  const float* g = a + d;
  for (int i = threadIdx.x; i < d; i += blockDim.x)
    out[(long)blockIdx.x * d + i] = silu(a[i]) * g[i];
}
"""

SQUARES = r"""
__global__ void mse(const float* pred, const float* target, float* loss, int n) {
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float d = pred[i] - target[i];
    s += d * d;
  }
  for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
  if ((threadIdx.x & 31) == 0) atomicAdd(loss, s / n);
}
"""

IN_PLACE = r"""
__global__ void relu_(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    if (x[i] < 0.f) x[i] = 0.f;
}
"""
