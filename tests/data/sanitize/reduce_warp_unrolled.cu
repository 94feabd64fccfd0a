// RUN: --grid 2 --block 128 --arg x=i32[512] --arg y=out:i32[2]
// FAULT 1: race
// FAULT 2: race
// The last warp without __syncwarp, as old code has it, is a race since Volta.
__global__ void k(const int* x, int* y) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t] + x[blockIdx.x * 256 + t + 128];
  __syncthreads();
  if (t < 64) s[t] += s[t + 64];
  __syncthreads();
  if (t < 32) {
#if FAULT == 1
    volatile int* v = s;
    v[t] += v[t + 32]; v[t] += v[t + 16]; v[t] += v[t + 8]; v[t] += v[t + 4]; v[t] += v[t + 2]; v[t] += v[t + 1];
#elif FAULT == 2
    for (int d = 32; d; d /= 2) { s[t] += s[t + d]; }
#else
    int sum = s[t] + s[t + 32];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (t == 0) s[0] = sum;
#endif
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
