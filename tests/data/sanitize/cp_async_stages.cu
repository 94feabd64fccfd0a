// RUN: --grid 1 --block 32 --arg x=f32[512] --arg y=out:f32[32] --arg n=i32:8
// FAULT 1: unwaited
// FAULT 2: race
// FAULT 3: race unwaited
#include <cuda_pipeline.h>
__global__ void k(const float* x, float* y, int n) {
  __shared__ float2 s[3][32];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < 2; ++i) { __pipeline_memcpy_async(&s[i][t], x + 64 * i + 2 * t, 8); __pipeline_commit(); }
  for (int i = 0; i < n; ++i) {
    __pipeline_wait_prior(FAULT == 1 ? 2 : 1);
#if FAULT != 2
    __syncthreads();
#endif
    if (i + 2 < n) __pipeline_memcpy_async(&s[(i + (FAULT == 3 ? 3 : 2)) % 3][t], x + 64 * (i + 2) + 2 * t, 8);
    __pipeline_commit();
    float2 v = s[i % 3][31 - t];
    sum += v.x + v.y;
  }
  y[t] = sum;
}
