// RUN: --grid 2 --block 64 --arg flag=zero:i32[1] --arg y=out:i32[128]
// FAULT 1: hang
// FAULT 2: hang
// FAULT 3: hang
// FAULT 4: hang
// A block waits for the other; nothing changes where the other does not come.
__global__ void k(int* flag, int* y) {
  int i = blockIdx.x * 64 + threadIdx.x;
  y[i] = i;
  if (blockIdx.x == 0) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
#if FAULT == 1
      atomicAdd(flag, 0);
#elif FAULT == 2
      if (y[0] == 1) atomicAdd(flag, 1);
#else
      atomicAdd(flag, 1);
#endif
    }
  } else if (threadIdx.x == 0) {
#if FAULT == 3
    while (*(volatile int*)flag != 2) __nanosleep(20);
#elif FAULT == 4
    while (*flag == 0 || i >= 0) {}
#else
    while (*(volatile int*)flag != 1) __nanosleep(20);
#endif
  }
}
