// RUN: --grid 1 --block 64 --arg x=f32[512] --arg y=out:f32[64] --arg n=i32:8
// FAULT 1: race
// FAULT 2: race uninitialised
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[2][64];
  int t = threadIdx.x;
  float sum = 0;
  s[0][t] = x[t];
  for (int i = 0; i < n; ++i) {
#if FAULT != 2
    __syncthreads();
#endif
    if (i + 1 < n) s[FAULT == 1 ? 0 : (i + 1) & 1][t] = x[(i + 1) * 64 + t];
    sum += s[FAULT == 1 ? 0 : i & 1][63 - t];
  }
  y[t] = sum;
}
