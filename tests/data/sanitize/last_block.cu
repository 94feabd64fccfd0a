// RUN: --grid 4 --block 64 --arg x=f32[256] --arg part=out:f32[4] --arg y=out:f32[1] --arg count=zero:u32[1]
// FAULT 1: race
// FAULT 2: race
__global__ void k(const float* x, volatile float* part, float* y, unsigned* count) {
  __shared__ float s[64];
  __shared__ bool last;
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  for (int d = 32; d; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  if (t == 0) {
    ((float*)part)[blockIdx.x] = s[0];
#if FAULT != 1
    __threadfence();
#endif
    unsigned ticket = atomicInc(count, gridDim.x);
    last = ticket == gridDim.x - 1;
  }
#if FAULT != 2
  __syncthreads();
#endif
  if (last && t == 0) {
    float v = 0;
    for (int b = 0; b < gridDim.x; ++b) v += part[b];
    *y = v;
    *count = 0;
  }
}
