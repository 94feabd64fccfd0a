// RUN: --grid 20 --block 1024 --arg x=i32[20480]:0..9 --arg part=zero:i32[20] --arg n=zero:i32[1] --arg y=out:i32[1]
// FAULT 1: race
// FAULT 2: race
// FAULT 3: out-of-bounds
// Blocks of several batches: the last one adds up what all have left.
__global__ void k(const int* x, int* part, int* n, int* y) {
  __shared__ int sum, last;
  int t = threadIdx.x, i = blockIdx.x * 1024 + t;
  if (t == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, x[i + (FAULT == 3 && blockIdx.x == 19)]);
  __syncthreads();
  if (t == 0) {
    part[FAULT == 2 ? blockIdx.x / 18 : blockIdx.x] = sum;
#if FAULT != 1
    __threadfence();
#endif
    last = atomicAdd(n, 1) == 19;
  }
  __syncthreads();
  if (last && t == 0) {
    __threadfence();
    int all = 0;
    for (int b = 0; b < 20; ++b) all += part[b];
    *y = all;
  }
}
