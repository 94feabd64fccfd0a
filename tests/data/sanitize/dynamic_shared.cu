// RUN: --grid 1 --block 64 --shared 512 --arg x=f32[64] --arg y=out:f32[64]
// FAULT 1: out-of-bounds
// FAULT 2: race
__global__ void k(const float* x, float* y) {
  extern __shared__ float buffer[];
  float* a = buffer;
  float* b = buffer + (FAULT == 1 ? 96 : FAULT == 2 ? 32 : 64);
  a[threadIdx.x] = x[threadIdx.x];
  b[threadIdx.x] = 2 * x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = a[63 - threadIdx.x] + b[threadIdx.x];
}
