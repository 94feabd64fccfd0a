// RUN: --grid 1 --block 128 --arg keys=i32[256]:0..1000
// FAULT 1: race
// FAULT 2: out-of-bounds
__device__ inline void comparator(int& a, int& b, unsigned dir) { if ((a > b) == dir) { int t = a; a = b; b = t; } }
__global__ void k(int* keys) {
  __shared__ int s[256];
  s[threadIdx.x] = keys[threadIdx.x]; s[threadIdx.x + 128] = keys[threadIdx.x + 128 + (FAULT == 2)];
  for (unsigned size = 2; size < 256; size <<= 1) {
    unsigned ddd = (threadIdx.x & (size / 2)) != 0;
    for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
#if FAULT != 1
      __syncthreads();
#endif
      unsigned pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      comparator(s[pos], s[pos + stride], ddd);
    }
  }
  for (unsigned stride = 128; stride > 0; stride >>= 1) {
    __syncthreads();
    unsigned pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
    comparator(s[pos], s[pos + stride], 1);
  }
  __syncthreads();
  keys[threadIdx.x] = s[threadIdx.x]; keys[threadIdx.x + 128] = s[threadIdx.x + 128];
}
