// RUN: --grid 2 --block 64 --arg rows=i32[17]:0..0 --arg cols=i32[64]:0..15 --arg val=f32[64] --arg x=f32[16] --arg y=out:f32[16] --arg n=i32:16
// FAULT 1: race
__global__ void k(const int* rows, const int* cols, const float* val, const float* x, float* y, int n) {
  volatile __shared__ float s[64 + 16];
  int t = blockIdx.x * 64 + threadIdx.x, lane = t & 31, w = t / 32;
  for (int row = w; row < n; row += gridDim.x * 2) {
    float sum = 0; for (int j = rows[row] + lane; j < rows[row] + 4; j += 32) sum += val[j] * x[cols[j]];
#if FAULT == 1
    s[threadIdx.x] = sum; if (lane < 16) s[threadIdx.x] += s[threadIdx.x + 16]; if (lane == 0) y[row] = s[threadIdx.x];
#else
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d); if (lane == 0) y[row] = sum;
#endif
  }
}
