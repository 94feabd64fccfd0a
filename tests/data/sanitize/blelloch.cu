// RUN: --grid 2 --block 64 --shared 512 --arg x=f32[256] --arg y=out:f32[256] --arg n=i32:128
// FAULT 1: race
__global__ void k(const float* x, float* y, int n) {
  extern __shared__ float temp[];
  int t = threadIdx.x, off = 1, b = blockIdx.x * n;
  temp[2 * t] = x[b + 2 * t]; temp[2 * t + 1] = x[b + 2 * t + 1];
  for (int d = n >> 1; d > 0; d >>= 1) { __syncthreads(); if (t < d) { int ai = off * (2 * t + 1) - 1, bi = off * (2 * t + 2) - 1; temp[bi] += temp[ai]; } off *= 2; }
#if FAULT == 1
  if (t == 63) temp[n - 1] = 0;
#else
  if (t == 0) temp[n - 1] = 0;
#endif
  for (int d = 1; d < n; d *= 2) { off >>= 1;
#if FAULT == 1
  if (d > 1)
#endif
  __syncthreads(); if (t < d) { int ai = off * (2 * t + 1) - 1, bi = off * (2 * t + 2) - 1; float v = temp[ai]; temp[ai] = temp[bi]; temp[bi] += v; } }
  __syncthreads();
  y[b + 2 * t] = temp[2 * t]; y[b + 2 * t + 1] = temp[2 * t + 1];
}
