// RUN: --grid 1 --block 32 --arg y=out:f32[32]
// FAULT 1: constant
// FAULT 2: out-of-bounds
__constant__ float table[32] = {1, 2, 3};
__global__ void k(float* y) {
#if FAULT == 1
  if (threadIdx.x == 0) const_cast<float*>(table)[1] = 5;
#endif
  y[threadIdx.x] = table[threadIdx.x + (FAULT == 2 ? 1 : 0)];
}
