// RUN: --grid 1 --block 32 --arg x=i32[32]:1..5 --arg y=out:i32[32]
// FAULT 1: assert
// FAULT 2: trap
#include <cassert>
#include <cstdio>
__global__ void k(const int* x, int* y) {
  assert(x[threadIdx.x] > 0 && x[threadIdx.x] < (FAULT == 1 ? 4 : 9));
  if (x[threadIdx.x] < 0) printf("negative %d\n", x[threadIdx.x]);
#if FAULT == 2
  if (threadIdx.x == 5) __trap();
#endif
  y[threadIdx.x] = x[threadIdx.x];
}
