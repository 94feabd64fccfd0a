"""Texts of kernels of layers, as libraries and language models write them."""

from __future__ import annotations

ROPE = r"""
template <int D>
__global__ void rope(const float* __restrict__ x, const float* __restrict__ cosine,
                     const float* __restrict__ sine, float* __restrict__ out, int tokens, int heads) {
  constexpr int half = D / 2;
  int pair = blockIdx.x * blockDim.x + threadIdx.x;
  if (pair >= tokens * heads * half) return;
  int d = pair % half;
  int head = pair / half % heads;
  int token = pair / (half * heads);
  size_t base = ((size_t)token * heads + head) * D;
  float a = x[base + d];
  float b = x[base + d + half];
  float c = cosine[token * half + d];
  float s = sine[token * half + d];
  out[base + d] = a * c - b * s;
  out[base + d + half] = b * c + a * s;
}
"""  # noqa: E501  # lines of CUDA C

ADD_RMS = r"""
#include <cuda_fp16.h>
template <int WARPS> __device__ float block_sum(float v) {
  __shared__ float shared[WARPS];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1)
    v += __shfl_xor_sync(0xffffffff, v, mask);
  if (lane == 0) shared[warp] = v;
  __syncthreads();
  v = lane < WARPS ? shared[lane] : 0.0f;
#pragma unroll
  for (int mask = WARPS / 2; mask > 0; mask >>= 1)
    v += __shfl_xor_sync(0xffffffff, v, mask);
  return __shfl_sync(0xffffffff, v, 0);
}

__global__ void add_rms_norm(const __half* x, const __half* residual, const __half* weight,
                             __half* total, __half* out, int n, float eps) {
  extern __shared__ float row[];
  const int start = blockIdx.x * n;
  float square = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float z = __half2float(x[start + i]) + __half2float(residual[start + i]);
    total[start + i] = __float2half(z);
    row[i] = z;
    square += z * z;
  }
  square = block_sum<4>(square);
  float scale = rsqrtf(square / n + eps);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[start + i] = __float2half(row[i] * scale * __half2float(weight[i]));
}
"""

CROSS_ENTROPY = r"""
__global__ void cross_entropy(const float* logits, const int* target, float* loss, int rows, int classes) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float* p = logits + (size_t)row * classes;
  float m = -INFINITY, s = 0.0f;
  for (int c = threadIdx.x; c < classes; c += 32) {
    float v = p[c];
    if (v > m) {
      s = s * expf(m - v) + 1.0f;
      m = v;
    } else {
      s += expf(v - m);
    }
  }
  for (int o = 16; o > 0; o >>= 1) {
    float m2 = __shfl_xor_sync(0xffffffff, m, o);
    float s2 = __shfl_xor_sync(0xffffffff, s, o);
    float top = fmaxf(m, m2);
    if (top > -INFINITY) s = s * expf(m - top) + s2 * expf(m2 - top);
    m = top;
  }
  if (threadIdx.x == 0) loss[row] = m + logf(s) - p[target[row]];
}
"""  # noqa: E501  # lines of CUDA C

EMBEDDING_BACKWARD = r"""
__global__ void embedding_backward(const float* __restrict__ grad, const int* __restrict__ ids,
                                   float* __restrict__ d_table, int n, int dim, int padding) {
  for (int token = blockIdx.x * blockDim.y + threadIdx.y; token < n; token += gridDim.x * blockDim.y) {
    int id = ids[token];
    if (id == padding) continue;
    float* out = d_table + (size_t)id * dim;
    const float* in = grad + (size_t)token * dim;
    int d = threadIdx.x * 2;
    for (; d + 1 < dim; d += 2 * blockDim.x) {
      atomicAdd(out + d, in[d]);
      atomicAdd(out + d + 1, in[d + 1]);
    }
    if (d < dim) atomicAdd(out + d, in[d]);
  }
}
"""  # noqa: E501  # lines of CUDA C

GROUP_NORM = r"""
struct Pair {
  float sum, square;
};
__device__ Pair reduced(Pair p) {
  for (int o = 16; o > 0; o /= 2) {
    p.sum += __shfl_down_sync(0xffffffff, p.sum, o);
    p.square += __shfl_down_sync(0xffffffff, p.square, o);
  }
  return p;
}
template <int G>
__global__ void group_norm(const float* x, const float* gamma, const float* beta, float* y, int per,
                           int pixels) {
  __shared__ Pair parts[32];
  __shared__ float mean, inv;
  const int image = blockIdx.x / G, group = blockIdx.x % G;
  const int count = per * pixels;
  const float* in = x + (image * G + group) * count;
  float* out = y + (image * G + group) * count;
  Pair p = {0.0f, 0.0f};
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    float v = in[i];
    p.sum += v;
    p.square += v * v;
  }
  p = reduced(p);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = p;
  __syncthreads();
  if (threadIdx.x < 32) {
    p = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : Pair{0.0f, 0.0f};
    p = reduced(p);
    if (threadIdx.x == 0) {
      mean = p.sum / count;
      inv = rsqrtf(p.square / count - mean * mean + 1e-2f);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    int channel = group * per + i / pixels;
    out[i] = (in[i] - mean) * inv * gamma[channel] + beta[channel];
  }
}
"""

BATCHED = r"""
template <typename T, int BM, int BN, int BK, int TM, int TN>
__global__ void batched_gemm(const T* __restrict__ A, const T* __restrict__ B, T* __restrict__ C,
                             int M, int N, int K) {
  __shared__ T As[BK][BM];
  __shared__ T Bs[BK][BN];
  constexpr int THREADS = (BM / TM) * (BN / TN);
  A += (size_t)blockIdx.z * M * K;
  B += (size_t)blockIdx.z * K * N;
  C += (size_t)blockIdx.z * M * N;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int tr = threadIdx.x / (BN / TN), tc = threadIdx.x % (BN / TN);
  T acc[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int e = threadIdx.x; e < BM * BK; e += THREADS) {
      int r = e / BK, k = e % BK;
      As[k][r] = row0 + r < M && k0 + k < K ? A[(row0 + r) * K + k0 + k] : T(0);
    }
    for (int e = threadIdx.x; e < BK * BN; e += THREADS) {
      int k = e / BN, c = e % BN;
      Bs[k][c] = k0 + k < K && col0 + c < N ? B[(k0 + k) * N + col0 + c] : T(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      T a[TM], b[TN];
      for (int i = 0; i < TM; ++i) a[i] = As[k][tr * TM + i];
      for (int j = 0; j < TN; ++j) b[j] = Bs[k][tc * TN + j];
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      int r = row0 + tr * TM + i, c = col0 + tc * TN + j;
      if (r < M && c < N) C[r * N + c] = acc[i][j];
    }
}
"""

DECODE = r"""
#define HEAD 32
#define WARPS 4
__global__ void decode(const float* q, const float* keys, const float* values, float* out, int length) {
  __shared__ float ms[WARPS], ls[WARPS];
  __shared__ float accs[WARPS][HEAD];
  const int head = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float* kh = keys + (size_t)head * length * HEAD;
  const float* vh = values + (size_t)head * length * HEAD;
  const float query = q[head * HEAD + lane] * rsqrtf((float)HEAD);
  float m = -1e30f, l = 0.0f, acc = 0.0f;
  for (int t = warp; t < length; t += WARPS) {
    float score = query * kh[t * HEAD + lane];
    for (int o = 16; o; o >>= 1) score += __shfl_xor_sync(~0u, score, o);
    float m_new = fmaxf(m, score);
    float correction = expf(m - m_new);
    float p = expf(score - m_new);
    l = l * correction + p;
    acc = acc * correction + p * vh[t * HEAD + lane];
    m = m_new;
  }
  if (lane == 0) {
    ms[warp] = m;
    ls[warp] = l;
  }
  accs[warp][lane] = acc;
  __syncthreads();
  if (warp == 0) {
    float top = ms[0];
    for (int w = 1; w < WARPS; ++w) top = fmaxf(top, ms[w]);
    float sum = 0.0f, result = 0.0f;
    for (int w = 0; w < WARPS; ++w) {
      float scale = expf(ms[w] - top);
      sum += ls[w] * scale;
      result += accs[w][lane] * scale;
    }
    out[head * HEAD + lane] = result / sum;
  }
}
"""  # noqa: E501  # lines of CUDA C

CAUSAL_CONV = r"""
template <int WIDTH>
__global__ void causal_conv1d(const float* x, const float* weight, const float* bias, float* y, int channels,
                              int length) {
  __shared__ float window[128 + WIDTH - 1];
  int channel = blockIdx.y;
  int begin = blockIdx.x * 128;
  x += channel * length;
  y += channel * length;
  for (int i = threadIdx.x; i < 128 + WIDTH - 1; i += blockDim.x) {
    int t = begin + i - (WIDTH - 1);
    window[i] = t >= 0 && t < length ? x[t] : 0.0f;
  }
  float w[WIDTH];
  for (int k = 0; k < WIDTH; ++k) w[k] = weight[channel * WIDTH + k];
  __syncthreads();
  for (int i = threadIdx.x; i < 128 && begin + i < length; i += blockDim.x) {
    float sum = bias[channel];
    for (int k = 0; k < WIDTH; ++k) sum += w[k] * window[i + k];
    y[begin + i] = sum / (1.0f + expf(-sum));
  }
}
"""  # noqa: E501  # lines of CUDA C

SOFTMAX_BACKWARD = r"""
__global__ void softmax_backward(const float4* grad, const float4* probs, float4* dx, int n4) {
  __shared__ float sums[8];
  const float4* g = grad + (size_t)blockIdx.x * n4;
  const float4* p = probs + (size_t)blockIdx.x * n4;
  float dot = 0.0f;
  for (int i = threadIdx.x; i < n4; i += blockDim.x) {
    float4 a = g[i], b = p[i];
    dot += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  for (int offset = 16; offset > 0; offset /= 2) dot += __shfl_down_sync(0xffffffffu, dot, offset);
  int wid = threadIdx.x / warpSize;
  if (threadIdx.x % warpSize == 0) sums[wid] = dot;
  __syncthreads();
  dot = 0.0f;
  for (int w = 0; w < blockDim.x / warpSize; ++w) dot += sums[w];
  float4* d = dx + (size_t)blockIdx.x * n4;
  for (int i = threadIdx.x; i < n4; i += blockDim.x) {
    float4 a = g[i], b = p[i], r;
    r.x = b.x * (a.x - dot);
    r.y = b.y * (a.y - dot);
    r.z = b.z * (a.z - dot);
    r.w = b.w * (a.w - dot);
    d[i] = r;
  }
}
"""

TOP_TWO = r"""
__device__ void insert(float v, float& first, float& second) {
  if (v > first) {
    second = first;
    first = v;
  } else if (v > second) {
    second = v;
  }
}
__global__ void top_two(const float* scores, float* best, int rows, int experts) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x & 31;
  if (warp >= rows) return;
  float first = -INFINITY, second = -INFINITY;
  for (int e = lane; e < experts; e += 32) insert(scores[(size_t)warp * experts + e], first, second);
  for (int o = 1; o < 32; o <<= 1) {
    float f = __shfl_xor_sync(0xffffffff, first, o);
    float s = __shfl_xor_sync(0xffffffff, second, o);
    insert(f, first, second);
    insert(s, first, second);
  }
  if (lane == 0) {
    best[warp * 2] = first;
    best[warp * 2 + 1] = second;
  }
}
"""  # noqa: E501  # lines of CUDA C

DEQUANTISED = r"""
#include <cstdint>
__global__ void w4a32(const float* x, const uint8_t* packed, const float* scales, float* y, int n, int k,
                      int group) {
  __shared__ float partial[2];
  int col = blockIdx.x, row = blockIdx.y;
  const uint8_t* w = packed + (size_t)col * (k / 2);
  const float* s = scales + (size_t)col * (k / group);
  float acc = 0.0f;
  for (int i = threadIdx.x; i < k / 2; i += blockDim.x) {
    uint8_t byte = w[i];
    float scale = s[2 * i / group];
    int low = (byte & 0x0f) - 8;
    int high = (byte >> 4) - 8;
    acc += x[row * k + 2 * i] * (low * scale);
    acc += x[row * k + 2 * i + 1] * (high * scale);
  }
  for (int o = 16; o > 0; o >>= 1) acc += __shfl_down_sync(0xffffffff, acc, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x == 0) y[row * n + col] = partial[0] + partial[1];
}
"""  # noqa: E501  # lines of CUDA C

AVERAGE_POOL = r"""
__global__ void avg_pool(const float* in, float* out, int C, int H, int W) {
  int OH = (H + 2 - 3) / 2 + 1, OW = (W + 2 - 3) / 2 + 1;
  int ox = blockIdx.x * blockDim.x + threadIdx.x;
  int oy = blockIdx.y * blockDim.y + threadIdx.y;
  int c = blockIdx.z;
  if (ox >= OW || oy >= OH) return;
  float total = 0.0f;
  for (int ky = 0; ky < 3; ++ky) {
    int iy = oy * 2 - 1 + ky;
    if (iy < 0 || iy >= H) continue;
    for (int kx = 0; kx < 3; ++kx) {
      int ix = ox * 2 - 1 + kx;
      if (ix < 0 || ix >= W) continue;
      total += in[(c * H + iy) * W + ix];
    }
  }
  out[(c * OH + oy) * OW + ox] = total / 9.0f;
}
"""
