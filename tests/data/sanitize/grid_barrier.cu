// RUN: --grid 4 --block 32 --arg x=i32[128] --arg y=out:i32[128] --arg count=zero:u32[1]
// FAULT 1: race
// FAULT 2: hang
__global__ void k(int* x, int* y, unsigned* count) {
  int i = blockIdx.x * 32 + threadIdx.x;
  x[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) {
#if FAULT != 1
    __threadfence();
#endif
    atomicAdd(count, 1);
    while (*(volatile unsigned*)count < gridDim.x + (FAULT == 2)) {}
    __threadfence();
  }
  __syncthreads();
  y[i] = x[127 - i];
}
