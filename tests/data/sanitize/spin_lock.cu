// RUN: --grid 4 --block 32 --arg lock=zero:i32[1] --arg sum=zero:i32[2]
// FAULT 1: race
// FAULT 2: race
// FAULT 3: hang
// FAULT 4: race
__global__ void k(int* lock, int* sum) {
#if FAULT == 3
  while (atomicCAS(lock, 0, 1) != 0) {}
  sum[0] += 1;
  __threadfence();
  if (threadIdx.x == 99) atomicExch(lock, 0);
#else
  if (threadIdx.x == 0) {
#if FAULT != 4
    while (atomicCAS(lock, 0, 1) != 0) {}
#endif
#if FAULT != 1
    __threadfence();
#endif
    sum[0] += 1;
#if FAULT != 2
    __threadfence();
#endif
    atomicExch(lock, 0);
  }
#endif
}
