// RUN: --grid 2 --block 64 --arg data=zero:i32[64] --arg flag=zero:i32[1] --arg y=out:i32[64]
// FAULT 1: race
// FAULT 2: race
// FAULT 3: race
__global__ void k(int* data, int* flag, int* y) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x * 3;
#if FAULT != 1
    __threadfence();
#endif
#if FAULT != 3
    __syncthreads();
#endif
    if (threadIdx.x == 0) atomicExch(flag, 1);
  } else {
    if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
#if FAULT != 2
    __syncthreads();
#endif
    __threadfence();
    y[threadIdx.x] = data[threadIdx.x];
  }
}
