// RUN: --grid 2 --block 64 --arg x=i32[128] --arg y=out:i32[128]
// FAULT 1: out-of-bounds
// FAULT 2: out-of-bounds
// Threads pass on what their own arrays hold, not where they are: others have no such memory.
__device__ __noinline__ int total(const int* v, int n) {
  int s = 0;
  for (int j = 0; j < n; ++j) s += v[j];
  return s;
}
__global__ void k(const int* x, int* y) {
  __shared__ int sums[64];
  __shared__ const int* where[64];
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  int own[4];
  for (int j = 0; j < 4; ++j) own[j] = x[(i + j) % 128];
  sums[t] = total(own, 4);
  where[t] = own;
  __syncthreads();
#if FAULT == 1
  y[i] = total(where[63 - t], 4);
#elif FAULT == 2
  y[i] = where[t][0] + *(const int*)__shfl_xor_sync(~0u, (unsigned long long)own, 1);
#else
  y[i] = sums[63 - t] + total(where[t], t % 5);
#endif
}
