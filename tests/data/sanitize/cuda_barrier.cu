// RUN: --grid 1 --block 128 --arg x=i32[128] --arg y=out:i32[128]
// FAULT 1: race unwaited uninitialised
// FAULT 2: race
#include <cuda/barrier>
__global__ void k(const int* x, int* y) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int s[128];
  int t = threadIdx.x;
  if (t == 0) init(&bar, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(&s[t], &x[t], sizeof(int), bar);
#if FAULT != 1
  bar.arrive_and_wait();
#endif
  int v = s[127 - t];
#if FAULT != 2
  bar.arrive_and_wait();
#endif
  s[t] = v + 1;
  bar.arrive_and_wait();
  y[t] = s[127 - t];
}
