"""Texts of kernels of training, attention and convolutions, as libraries write them."""

from __future__ import annotations

NORM_BACKWARD = r"""
__inline__ __device__ float warpReduceSum(float val) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2)
    val += __shfl_down_sync(0xffffffff, val, offset);
  return val;
}
__inline__ __device__ float blockReduceSum(float val, float* shared) {
  int lane = threadIdx.x % warpSize;
  int wid = threadIdx.x / warpSize;
  val = warpReduceSum(val);
  __syncthreads();
  if (lane == 0) shared[wid] = val;
  __syncthreads();
  val = (threadIdx.x < blockDim.x / warpSize) ? shared[lane] : 0.0f;
  if (wid == 0) val = warpReduceSum(val);
  if (threadIdx.x == 0) shared[32] = val;
  __syncthreads();
  return shared[32];
}
__global__ void layernorm_backward(const float* dout, const float* inp, const float* weight, const float* mean,
                                   const float* rstd, float* dinp, int C) {
  __shared__ float scratch[33];
  int row = blockIdx.x;
  const float* d = dout + (size_t)row * C;
  const float* x = inp + (size_t)row * C;
  float mu = mean[row], inv = rstd[row];
  float dnorm_mean = 0.0f, dnorm_norm_mean = 0.0f;
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    float norm = (x[i] - mu) * inv;
    float dnorm = weight[i] * d[i];
    dnorm_mean += dnorm;
    dnorm_norm_mean += dnorm * norm;
  }
  dnorm_mean = blockReduceSum(dnorm_mean, scratch) / C;
  dnorm_norm_mean = blockReduceSum(dnorm_norm_mean, scratch) / C;
  for (int i = threadIdx.x; i < C; i += blockDim.x) {
    float norm = (x[i] - mu) * inv;
    float dnorm = weight[i] * d[i];
    dinp[(size_t)row * C + i] = (dnorm - dnorm_mean - norm * dnorm_norm_mean) * inv;
  }
}
"""  # noqa: E501  # lines of CUDA C

CAUSAL_ATTENTION = r"""
template <int D, int ROWS, int COLS>
__global__ void causal_attention(const float* Q, const float* K, const float* V, float* O, int T, float scale) {
  __shared__ float kt[COLS][D];
  __shared__ float vt[COLS][D];
  const int base = blockIdx.y * T * D;
  const int row = blockIdx.x * ROWS + threadIdx.x;
  float qr[D], o[D];
  for (int d = 0; d < D; ++d) {
    qr[d] = row < T ? Q[base + row * D + d] * scale : 0.0f;
    o[d] = 0.0f;
  }
  float m = -INFINITY, l = 0.0f;
  const int last = min(T, (blockIdx.x + 1) * ROWS);
  for (int start = 0; start < last; start += COLS) {
    for (int i = threadIdx.x; i < COLS * D; i += ROWS) {
      int key = start + i / D;
      kt[i / D][i % D] = key < T ? K[base + key * D + i % D] : 0.0f;
      vt[i / D][i % D] = key < T ? V[base + key * D + i % D] : 0.0f;
    }
    __syncthreads();
    float s[COLS], tile_max = m;
    for (int j = 0; j < COLS; ++j) {
      float dot = 0.0f;
      for (int d = 0; d < D; ++d) dot += qr[d] * kt[j][d];
      s[j] = start + j <= row && start + j < T ? dot : -INFINITY;
      tile_max = fmaxf(tile_max, s[j]);
    }
    float alpha = __expf(m - tile_max);
    l *= alpha;
    for (int d = 0; d < D; ++d) o[d] *= alpha;
    for (int j = 0; j < COLS; ++j) {
      float p = __expf(s[j] - tile_max);
      l += p;
      for (int d = 0; d < D; ++d) o[d] += p * vt[j][d];
    }
    m = tile_max;
    __syncthreads();
  }
  if (row < T)
    for (int d = 0; d < D; ++d) O[base + row * D + d] = o[d] / l;
}
"""  # noqa: E501  # lines of CUDA C

RAKED_SCAN = r"""
#define ITEMS 4
#define THREADS 64
__global__ void inclusive_scan(const int* in, int* out, int n) {
  __shared__ int totals[THREADS];
  const int* src = in + blockIdx.x * n;
  int* dst = out + blockIdx.x * n;
  int running = 0;
  for (int tile = 0; tile < n; tile += ITEMS * THREADS) {
    int items[ITEMS];
    int first = tile + threadIdx.x * ITEMS;
    int sum = 0;
    for (int j = 0; j < ITEMS; ++j) {
      int v = first + j < n ? src[first + j] : 0;
      sum += v;
      items[j] = sum;
    }
    totals[threadIdx.x] = sum;
    __syncthreads();
    for (int d = 1; d < THREADS; d *= 2) {
      int add = threadIdx.x >= d ? totals[threadIdx.x - d] : 0;
      __syncthreads();
      totals[threadIdx.x] += add;
      __syncthreads();
    }
    int offset = running + totals[threadIdx.x] - sum;
    for (int j = 0; j < ITEMS; ++j)
      if (first + j < n) dst[first + j] = items[j] + offset;
    running += totals[THREADS - 1];
    __syncthreads();
  }
}
"""

STRIDED_CONV = r"""
template <int CIN, int CO>
__global__ void conv3x3_s2(const float* __restrict__ input, const float* __restrict__ weight,
                           const float* __restrict__ bias, float* __restrict__ output, int cout, int H, int W) {
  __shared__ float tile[17][17];
  const int OH = (H - 1) / 2 + 1, OW = (W - 1) / 2 + 1;
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int ox = blockIdx.x * 8 + tx, oy = blockIdx.y * 8 + ty;
  const int co0 = blockIdx.z * CO;
  const int x0 = blockIdx.x * 16 - 1, y0 = blockIdx.y * 16 - 1;
  float acc[CO];
  for (int o = 0; o < CO; ++o) acc[o] = co0 + o < cout ? bias[co0 + o] : 0.0f;
  for (int ci = 0; ci < CIN; ++ci) {
    for (int i = ty * 8 + tx; i < 17 * 17; i += 64) {
      int y = y0 + i / 17, x = x0 + i % 17;
      tile[i / 17][i % 17] = y >= 0 && y < H && x >= 0 && x < W ? input[(ci * H + y) * W + x] : 0.0f;
    }
    __syncthreads();
    for (int o = 0; o < CO; ++o) {
      if (co0 + o >= cout) break;
      const float* w = weight + ((co0 + o) * CIN + ci) * 9;
      for (int ky = 0; ky < 3; ++ky)
        for (int kx = 0; kx < 3; ++kx) acc[o] += tile[2 * ty + ky][2 * tx + kx] * w[ky * 3 + kx];
    }
    __syncthreads();
  }
  if (ox >= OW || oy >= OH) return;
  for (int o = 0; o < CO; ++o)
    if (co0 + o < cout) output[((co0 + o) * OH + oy) * OW + ox] = fmaxf(acc[o], 0.0f);
}
"""  # noqa: E501  # lines of CUDA C

PIPELINED = r"""
#include <cuda_pipeline.h>
constexpr int TILE = 16;
__global__ void pipelined(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[2][TILE][TILE], bs[2][TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int i = blockIdx.y * TILE + ty, j = blockIdx.x * TILE + tx;
  auto fetch = [&](int stage, int t) {
    int ka = t * TILE + tx, kb = t * TILE + ty;
    if (i < m && ka < k)
      __pipeline_memcpy_async(&as[stage][ty][tx], &a[i * k + ka], 4);
    else
      as[stage][ty][tx] = 0.0f;
    if (kb < k && j < n)
      __pipeline_memcpy_async(&bs[stage][ty][tx], &b[kb * n + j], 4);
    else
      bs[stage][ty][tx] = 0.0f;
    __pipeline_commit();
  };
  int tiles = (k + TILE - 1) / TILE;
  fetch(0, 0);
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    int stage = t & 1;
    if (t + 1 < tiles) {
      fetch(stage ^ 1, t + 1);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    for (int p = 0; p < TILE; ++p) sum += as[stage][ty][p] * bs[stage][p][tx];
    __syncthreads();
  }
  if (i < m && j < n) c[i * n + j] = sum;
}
"""

BATCH_STATISTICS = r"""
template <int THREADS>
__global__ void bn_statistics(const float* x, float* mean, float* moment, float* running_mean, int N, int C,
                              int S, float momentum) {
  __shared__ float sh[THREADS], sh2[THREADS];
  const int c = blockIdx.x, tid = threadIdx.x;
  float s = 0.0f, s2 = 0.0f;
  for (int i = tid; i < N * S; i += THREADS) {
    int img = i / S, pos = i - img * S;
    float v = x[(img * C + c) * S + pos];
    s += v;
    s2 += v * v;
  }
  sh[tid] = s;
  sh2[tid] = s2;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half >>= 1) {
    if (tid < half) {
      sh[tid] += sh[tid + half];
      sh2[tid] += sh2[tid + half];
    }
    __syncthreads();
  }
  if (tid == 0) {
    float mu = sh[0] / (N * S);
    mean[c] = mu;
    moment[c] = sh2[0] / (N * S);
    running_mean[c] = (1.0f - momentum) * running_mean[c] + momentum * mu;
  }
}
"""  # noqa: E501  # lines of CUDA C

ADAMW = r"""
__global__ void adamw(float* p, float* m, float* v, const float* g, float lr, float beta1, float beta2, float eps,
                      float decay, float c1, float c2, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    float grad = g[i];
    float w = p[i];
    float m1 = beta1 * m[i] + (1.0f - beta1) * grad;
    float v1 = beta2 * v[i] + (1.0f - beta2) * grad * grad;
    float mhat = m1 / c1;
    float vhat = v1 / c2;
    w -= lr * decay * w;
    w -= lr * mhat / (sqrtf(vhat) + eps);
    p[i] = w;
    m[i] = m1;
    v[i] = v1;
  }
}
"""  # noqa: E501  # lines of CUDA C

BILINEAR = r"""
__global__ void upsample_bilinear2x(const float* __restrict__ in, float* __restrict__ out, int C, int H, int W) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  int OW = 2 * W, OH = 2 * H;
  if (idx >= C * OH * OW) return;
  int ox = idx % OW;
  int oy = (idx / OW) % OH;
  int c = idx / (OW * OH);
  float fy = fmaxf((oy + 0.5f) * 0.5f - 0.5f, 0.0f);
  float fx = fmaxf((ox + 0.5f) * 0.5f - 0.5f, 0.0f);
  int y0 = (int)fy, x0 = (int)fx;
  int y1 = min(y0 + 1, H - 1), x1 = min(x0 + 1, W - 1);
  float wy = fy - y0, wx = fx - x0;
  const float* plane = in + c * H * W;
  float top = plane[y0 * W + x0] * (1.0f - wx) + plane[y0 * W + x1] * wx;
  float bottom = plane[y1 * W + x0] * (1.0f - wx) + plane[y1 * W + x1] * wx;
  out[idx] = top * (1.0f - wy) + bottom * wy;
}
"""  # noqa: E501  # lines of CUDA C

QUANTISE = r"""
#include <cstdint>
__global__ void quantise_rows(const float* x, int8_t* q, float* scales, int n) {
  __shared__ float warp_max[4];
  const float* row = x + (size_t)blockIdx.x * n;
  float amax = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) amax = fmaxf(amax, fabsf(row[i]));
  for (int o = 16; o > 0; o >>= 1) amax = fmaxf(amax, __shfl_xor_sync(0xffffffff, amax, o));
  if ((threadIdx.x & 31) == 0) warp_max[threadIdx.x >> 5] = amax;
  __syncthreads();
  amax = fmaxf(fmaxf(warp_max[0], warp_max[1]), fmaxf(warp_max[2], warp_max[3]));
  float scale = fmaxf(amax, 1e-3f) / 127.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int v = __float2int_rn(row[i] / scale);
    q[(size_t)blockIdx.x * n + i] = (int8_t)max(-127, min(127, v));
  }
}
"""
