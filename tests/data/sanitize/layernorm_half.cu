// RUN: --grid 4 --block 128 --arg x=f16[4,256] --arg g=f16[256] --arg b=f16[256] --arg y=out:f16[4,256] --arg n=i32:256 --arg eps=f32:0.00001
// FAULT 1: race
#include <cuda_fp16.h>
template <typename T> __inline__ __device__ T warpReduceSum(T v) { for (int m = 16; m > 0; m >>= 1) v += __shfl_xor_sync(0xffffffff, v, m, 32); return v; }
template <typename T> __inline__ __device__ T blockReduceSum(T v) { static __shared__ T shared[32]; int lane = threadIdx.x & 0x1f, wid = threadIdx.x >> 5; v = warpReduceSum<T>(v); if (lane == 0) shared[wid] = v; __syncthreads(); v = (threadIdx.x < (blockDim.x / 32.f)) ? shared[lane] : (T)(0.0f); v = warpReduceSum<T>(v); return v; }
__global__ void k(const __half* x, const __half* g, const __half* b, __half* y, int n, float eps) {
  const __half2* x2 = (const __half2*)x + blockIdx.x * n / 2; __shared__ float mean, var; float s = 0, q = 0; float2 v[1];
  v[0] = __half22float2(x2[threadIdx.x]); s = v[0].x + v[0].y; s = blockReduceSum(s); if (threadIdx.x == 0) mean = s / n; __syncthreads();
  float dx = v[0].x - mean, dy = v[0].y - mean; q = dx * dx + dy * dy;
#if FAULT == 1
  if (threadIdx.x == 0) mean = 0;
#endif
  q = blockReduceSum(q); if (threadIdx.x == 0) var = rsqrtf(q / n + eps); __syncthreads();
  float2 gg = __half22float2(((const __half2*)g)[threadIdx.x]), bb = __half22float2(((const __half2*)b)[threadIdx.x]);
  ((__half2*)y)[blockIdx.x * n / 2 + threadIdx.x] = __floats2half2_rn(dx * var * gg.x + bb.x, dy * var * gg.y + bb.y);
}
