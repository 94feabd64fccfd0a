// RUN: --grid 1 --block 64 --arg x=i32[256] --arg y=out:i32[256]
// FAULT 1: race barrier-divergence
// FAULT 2: barrier-divergence hang
// Producer and consumer warps, ordered by named barriers.
__device__ void sync(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }
__device__ void arrive(int id) { asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory"); }
__global__ void k(const int* x, int* y) {
  __shared__ int s[2][32];
  int lane = threadIdx.x & 31;
  if (threadIdx.x < 32) {
    for (int i = 0; i < 8; ++i) {
#if FAULT != 1
      if (i >= 2) sync(3 + (i & 1));
#endif
      s[i & 1][lane] = x[32 * i + lane];
      arrive(1 + (i & 1));
    }
  } else {
    for (int i = 0; i < 8; ++i) {
      sync(1 + (i & 1));
      y[32 * i + lane] = s[i & 1][31 - lane];
      if (i + 2 < (FAULT == 2 ? 7 : 8)) arrive(3 + (i & 1));
    }
  }
}
