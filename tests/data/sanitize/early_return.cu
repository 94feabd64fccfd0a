// RUN: --grid 2 --block 64 --arg x=f32[100] --arg y=out:f32[100] --arg n=i32:100
// FAULT 1: barrier-divergence
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[64];
  int i = blockIdx.x * 64 + threadIdx.x;
#if FAULT == 1
  if (i >= n) return;
  s[threadIdx.x] = x[i];
  __syncthreads();
  y[i] = s[threadIdx.x] * 2;
#else
  if (i < n) s[threadIdx.x] = x[i];
  __syncthreads();
  if (i >= n) return;
  y[i] = s[threadIdx.x] * 2;
#endif
}
