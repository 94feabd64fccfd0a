// RUN: --grid 1 --block 64 --arg x=f32[64] --arg y=out:f32[64]
// FAULT 1: out-of-bounds
// FAULT 2: race
// FAULT 3: race
// What the optimiser removes is a fault all the same.
__global__ void k(const float* x, float* y) {
  __shared__ float s[64], u[64];
  int t = threadIdx.x;
  float lost = x[t + (FAULT == 1)];
  s[t] = x[t];
#if FAULT == 2
  lost = s[63 - t];
#endif
  __syncthreads();
#if FAULT == 3
  u[t / 2] = x[t];
#endif
  y[t] = s[63 - t];
  (void)lost;
}
