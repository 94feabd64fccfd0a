// RUN: --grid 3 --block 64 --arg sum=zero:i32[4] --arg flag=zero:i32[4] --arg data=zero:i32[4] --arg y=out:i32[4]
// FAULT 1: race
// FAULT 2: race
// FAULT 3: race
// Atomics of a block are enough in a block alone, and so is its fence.
__global__ void k(int* sum, int* flag, int* data, int* y) {
  if (threadIdx.x % 32 == 0) {
    atomicAdd_block(&sum[FAULT == 1 ? 0 : blockIdx.x], 1);
    atomicAdd_system(&sum[3], 1);
  }
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    data[0] = 7;
#if FAULT == 2
    __threadfence_block();
#else
    __threadfence();
#endif
#if FAULT == 3
    atomicExch_block(&flag[0], 1);
#else
    atomicExch(&flag[0], 1);
#endif
  }
  if (threadIdx.x == 32) {
    while (atomicAdd(&flag[0], 0) == 0) {}
    __threadfence();
    y[blockIdx.x] = data[0];
    if (blockIdx.x == 0) y[3] = 0;
  }
}
