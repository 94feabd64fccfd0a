"""Texts of kernels that join parts: scans, sorts, selections, and counters of blocks."""

from __future__ import annotations

ARGMIN = r"""
struct Pair { float value; int index; };
__device__ __forceinline__ Pair smaller(Pair a, Pair b) {
  if (b.value < a.value) return b;
  if (b.value == a.value && b.index < a.index) return b;
  return a;
}
template <int BLOCK> __global__ void row_argmin(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ indices, int n) {
  __shared__ Pair partial[BLOCK / 32];
  const float* row = x + (size_t)blockIdx.x * n;
  Pair best = {INFINITY, 0x7fffffff};
  for (int i = threadIdx.x; i < n; i += BLOCK) {
    Pair own = {row[i], i};
    best = smaller(best, own);
  }
  #pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    Pair other;
    other.value = __shfl_down_sync(0xffffffffu, best.value, offset);
    other.index = __shfl_down_sync(0xffffffffu, best.index, offset);
    best = smaller(best, other);
  }
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (lane == 0) partial[warp] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < BLOCK / 32; ++i) best = smaller(best, partial[i]);
    values[blockIdx.x] = best.value;
    indices[blockIdx.x] = best.index;
  }
}
"""  # noqa: E501  # lines of CUDA C

W4GEMV = r"""
#include <cstdint>
constexpr int GROUP = 32;
__global__ void gemv_w4(const uint8_t* __restrict__ q, const float* __restrict__ scale,
                        const float* __restrict__ x, float* __restrict__ y, int cols) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  const int lane = threadIdx.x;
  if (row >= gridDim.x * blockDim.y) return;
  const uint8_t* packed = q + (size_t)row * (cols / 2);
  const float* s = scale + (size_t)row * (cols / GROUP);
  float acc = 0.f;
  for (int i = lane; i < cols / 2; i += 32) {
    const uint8_t byte = packed[i];
    const int lo = (byte & 0x0f) - 8;
    const int hi = (byte >> 4) - 8;
    const float factor = s[2 * i / GROUP];
    acc = fmaf(lo * factor, x[2 * i], acc);
    acc = fmaf(hi * factor, x[2 * i + 1], acc);
  }
  for (int d = 16; d >= 1; d /= 2) acc += __shfl_xor_sync(0xffffffff, acc, d);
  if (lane == 0) y[row] = acc;
}
"""

BLELLOCH = r"""
#define N 256
__global__ void prescan(float *g_odata, const float *g_idata, int n)
{
    __shared__ float temp[N];
    int thid = threadIdx.x;
    int offset = 1;
    const float *in = g_idata + blockIdx.x * n;
    float *out = g_odata + blockIdx.x * n;

    temp[2*thid] = 2*thid < n ? in[2*thid] : 0.0f;
    temp[2*thid+1] = 2*thid+1 < n ? in[2*thid+1] : 0.0f;

    for (int d = N>>1; d > 0; d >>= 1)
    {
        __syncthreads();
        if (thid < d)
        {
            int ai = offset*(2*thid+1)-1;
            int bi = offset*(2*thid+2)-1;
            temp[bi] += temp[ai];
        }
        offset *= 2;
    }

    if (thid == 0) temp[N - 1] = 0;

    for (int d = 1; d < N; d *= 2)
    {
        offset >>= 1;
        __syncthreads();
        if (thid < d)
        {
            int ai = offset*(2*thid+1)-1;
            int bi = offset*(2*thid+2)-1;
            float t = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += t;
        }
    }
    __syncthreads();

    if (2*thid < n) out[2*thid] = temp[2*thid];
    if (2*thid+1 < n) out[2*thid+1] = temp[2*thid+1];
}
"""

BYTES = r"""
template <int THREADS>
__global__ void histogram256(const unsigned char* __restrict__ data, int* __restrict__ counts, int size) {
  __shared__ int bins[256];
  for (int b = threadIdx.x; b < 256; b += THREADS) bins[b] = 0;
  __syncthreads();
  const uchar4* words = reinterpret_cast<const uchar4*>(data);
  const int total = size / 4;
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < total; i += gridDim.x * THREADS) {
    uchar4 w = words[i];
    atomicAdd(bins + w.x, 1);
    atomicAdd(bins + w.y, 1);
    atomicAdd(bins + w.z, 1);
    atomicAdd(bins + w.w, 1);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += THREADS)
    if (bins[b] > 0) atomicAdd(counts + b, bins[b]);
}
"""  # noqa: E501  # lines of CUDA C

TOP4 = r"""
__global__ void topk4(const float* x, float* out, int n) {
  extern __shared__ float row[];
  __shared__ float best[64];
  __shared__ int where[64];
  for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = x[blockIdx.x * n + i];
  __syncthreads();
  for (int rank = 0; rank < 4; ++rank) {
    float v = -INFINITY;
    int at = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      if (row[i] > v) { v = row[i]; at = i; }
    best[threadIdx.x] = v;
    where[threadIdx.x] = at;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
      if (threadIdx.x < s && best[threadIdx.x + s] > best[threadIdx.x]) {
        best[threadIdx.x] = best[threadIdx.x + s];
        where[threadIdx.x] = where[threadIdx.x + s];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      out[blockIdx.x * 4 + rank] = best[0];
      row[where[0]] = -INFINITY;
    }
    __syncthreads();
  }
}
"""

BITONIC = r"""
template <unsigned SIZE>
__global__ void bitonic(const float* in, float* out) {
  __shared__ float keys[SIZE];
  const unsigned tid = threadIdx.x;
  keys[tid] = in[blockIdx.x * SIZE + tid];
  keys[tid + SIZE / 2] = in[blockIdx.x * SIZE + tid + SIZE / 2];
  for (unsigned size = 2; size <= SIZE; size *= 2) {
    for (unsigned stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      unsigned pos = 2 * tid - (tid & (stride - 1));
      bool up = (pos & size) == 0;
      float a = keys[pos], b = keys[pos + stride];
      if ((a > b) == up) {
        keys[pos] = b;
        keys[pos + stride] = a;
      }
    }
  }
  __syncthreads();
  out[blockIdx.x * SIZE + tid] = keys[tid];
  out[blockIdx.x * SIZE + tid + SIZE / 2] = keys[tid + SIZE / 2];
}
"""

SMOOTHING = r"""
__inline__ __device__ float warpMax(float v) {
  for (int mask = 16; mask > 0; mask >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, mask));
  return v;
}
__inline__ __device__ float warpSum(float v) {
  for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffff, v, mask);
  return v;
}
__global__ void label_smoothing(const float* logits, const int* target, float* loss, int classes, int rows, float smoothing) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* x = logits + (long long)row * classes;
  float mx = -INFINITY;
  for (int i = lane; i < classes; i += 32) mx = fmaxf(mx, x[i]);
  mx = warpMax(mx);
  float denom = 0.f, sum = 0.f;
  for (int i = lane; i < classes; i += 32) {
    denom += expf(x[i] - mx);
    sum += x[i] - mx;
  }
  denom = warpSum(denom);
  sum = warpSum(sum);
  if (lane == 0) {
    float lse = logf(denom);
    float nll = lse - (x[target[row]] - mx);
    float smooth = lse - sum / classes;
    loss[row] = (1.f - smoothing) * nll + smoothing * smooth;
  }
}
"""  # noqa: E501  # lines of CUDA C

SEGMENT = r"""
__global__ void segment_sum(const float* __restrict__ x, const int* __restrict__ ids, float* out, int n) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  int i = e / 8, f = e % 8;
  if (i < n) {
    int s = ids[i];
    if (s >= 0 && s < 16)
      atomicAdd(&out[s * 8 + f], x[i * 8 + f]);
  }
}
"""  # noqa: E501  # lines of CUDA C

LASTBLOCK = r"""
__device__ unsigned int finished = 0;
__global__ void l2norm(const float* x, float* partial, float* out, int n) {
  __shared__ float s[64];
  __shared__ bool last;
  float v = 0.f;
  for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) v += x[i] * x[i];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int d = 32; d > 0; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = s[0];
    __threadfence();
    unsigned int ticket = atomicAdd(&finished, 1);
    last = ticket == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    float total = 0.f;
    for (int i = 0; i < gridDim.x; ++i) total += ((volatile float*)partial)[i];
    out[0] = sqrtf(total);
    finished = 0;
  }
}
"""

COSINE = r"""
template <typename T, int N> struct Vec { T v[N]; };
template <int BLOCK>
__global__ void cosine_similarity(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
  using V = Vec<float, 3>;
  __shared__ V shared[BLOCK / 32];
  V sum = {{0.f, 0.f, 0.f}};
  for (int i = threadIdx.x; i < n; i += BLOCK) {
    float p = a[i], q = b[i];
    sum.v[0] += p * q;
    sum.v[1] += p * p;
    sum.v[2] += q * q;
  }
  for (int j = 0; j < 3; ++j)
    for (int d = 16; d > 0; d >>= 1) sum.v[j] += __shfl_xor_sync(0xffffffff, sum.v[j], d);
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < BLOCK / 32; ++w)
      for (int j = 0; j < 3; ++j) sum.v[j] += shared[w].v[j];
    out[0] = sum.v[0] / (sqrtf(sum.v[1]) * sqrtf(sum.v[2]) + 1e-8f);
  }
}
"""  # noqa: E501  # lines of CUDA C

DISTANCES = r"""
#define DIM 8
#define T 16
__global__ void pairwise(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ D, int M, int N) {
  __shared__ float a[T][DIM];
  __shared__ float b[T][DIM + 1];
  int i0 = blockIdx.y * T, j0 = blockIdx.x * T;
  int tid = threadIdx.y * T + threadIdx.x;
  if (tid < T * DIM) {
    int r = tid / DIM, c = tid % DIM;
    a[r][c] = i0 + r < M ? A[(i0 + r) * DIM + c] : 0.f;
  } else {
    int r = (tid - T * DIM) / DIM, c = tid % DIM;
    b[r][c] = j0 + r < N ? B[(j0 + r) * DIM + c] : 0.f;
  }
  __syncthreads();
  int i = i0 + threadIdx.y, j = j0 + threadIdx.x;
  float sum = 0.f;
  #pragma unroll
  for (int d = 0; d < DIM; ++d) {
    float diff = a[threadIdx.y][d] - b[threadIdx.x][d];
    sum += diff * diff;
  }
  if (i < M && j < N) D[i * N + j] = sqrtf(sum);
}
"""  # noqa: E501  # lines of CUDA C

GATING = r"""
constexpr int EXPERTS = 8;
__global__ void moe_gate(const float* __restrict__ logits, float* __restrict__ weights, int tokens) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= tokens) return;
  float p[EXPERTS];
  float top = -INFINITY;
  for (int e = 0; e < EXPERTS; ++e) {
    p[e] = logits[t * EXPERTS + e];
    top = fmaxf(top, p[e]);
  }
  float sum = 0.f;
  for (int e = 0; e < EXPERTS; ++e) {
    p[e] = expf(p[e] - top);
    sum += p[e];
  }
  float first = -1.f, second = -1.f;
  for (int e = 0; e < EXPERTS; ++e) {
    float v = p[e] / sum;
    if (v > first) {
      second = first;
      first = v;
    } else if (v > second) {
      second = v;
    }
  }
  float norm = first + second;
  weights[t * 2] = first / norm;
  weights[t * 2 + 1] = second / norm;
}
"""  # noqa: E501  # lines of CUDA C

PACKED = r"""
#include <stdint.h>
__global__ void pack_signs(const float* x, uint32_t* words, int cols) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int words_per_row = cols / 32;
  for (int w = warp; w < words_per_row; w += blockDim.x / 32) {
    float v = x[blockIdx.x * cols + w * 32 + lane];
    uint32_t mask = __ballot_sync(0xffffffffu, v > 0.0f);
    if (lane == 0) words[blockIdx.x * words_per_row + w] = mask;
  }
}
"""

LOGSUM2 = r"""
struct State { float m, s; };
__device__ State join(State a, State b) {
  State c;
  c.m = fmaxf(a.m, b.m);
  if (c.m == -INFINITY) { c.s = 0.f; return c; }
  c.s = a.s * __expf(a.m - c.m) + b.s * __expf(b.m - c.m);
  return c;
}
__global__ void column_lse(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ State part[8][32];
  int col = blockIdx.x * 32 + threadIdx.x;
  State own = {-INFINITY, 0.f};
  if (col < cols)
    for (int i = threadIdx.y; i < rows; i += 8) {
      State one = {x[i * cols + col], 1.f};
      own = join(own, one);
    }
  part[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  for (int s = 4; s > 0; s >>= 1) {
    if (threadIdx.y < s)
      part[threadIdx.y][threadIdx.x] = join(part[threadIdx.y][threadIdx.x], part[threadIdx.y + s][threadIdx.x]);
    __syncthreads();
  }
  if (threadIdx.y == 0 && col < cols) y[col] = part[0][threadIdx.x].m + logf(part[0][threadIdx.x].s);
}
"""  # noqa: E501  # lines of CUDA C

INCLUSIVE_PROD = r"""
template <class T, class Op> __device__ T warp_scan(T v, Op op) {
  const unsigned lane = threadIdx.x % warpSize;
#pragma unroll
  for (int delta = 1; delta < 32; delta <<= 1) {
    T left = __shfl_up_sync(0xffffffffu, v, delta);
    if (lane >= delta) v = op(left, v);
  }
  return v;
}
struct Times { __device__ float operator()(float a, float b) const { return a * b; } };
__global__ void cumprod_rows(const float* x, float* y, int rows) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  float v = row < rows ? x[row * 32 + threadIdx.x % 32] : 1.f;
  v = warp_scan(v, Times());
  if (row < rows) y[row * 32 + threadIdx.x % 32] = v;
}
"""

SOBEL = r"""
__device__ float at(const float* img, int y, int x, int h, int w) {
  return (y < 0 || x < 0 || y >= h || x >= w) ? 0.0f : img[y * w + x];
}

__global__ void sobel(const float* img, float* edges, int h, int w) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float gx = 0.0f, gy = 0.0f;
  const float weight[3] = {1.0f, 2.0f, 1.0f};
  for (int d = -1; d <= 1; ++d) {
    gx += weight[d + 1] * at(img, y + d, x + 1, h, w);
    gx -= weight[d + 1] * at(img, y + d, x - 1, h, w);
    gy += weight[d + 1] * at(img, y + 1, x + d, h, w);
    gy -= weight[d + 1] * at(img, y - 1, x + d, h, w);
  }
  edges[y * w + x] = sqrtf(gx * gx + gy * gy);
}
"""
