// RUN: --grid 1 --block 32 --arg x=f32[32] --arg y=out:f32[32]
// FAULT 1: out-of-bounds trap
__global__ void k(const float* x, float* y) {
  const float* p = x;
#if FAULT == 1
  if (threadIdx.x == 3) p = nullptr;
#endif
  y[threadIdx.x] = p ? p[threadIdx.x] : 0.f;
#if FAULT == 1
  y[threadIdx.x] += *p;
#endif
}
