// RUN: --grid 4 --block 32 --arg n=zero:i32[1] --arg y=out:i32[128]
// FAULT 1: race
// FAULT 2: race
// FAULT 3: race
// A plain access races with an atomic; a volatile one does not.
__global__ void k(int* n, int* y) {
  int i = blockIdx.x * 32 + threadIdx.x;
#if FAULT == 2
  if (i == 40) *n = 0;
#endif
  if (threadIdx.x == 0) atomicAdd(n, 1);
#if FAULT == 1
  y[i] = *n;
#elif FAULT == 3
  y[i] = i == 77 ? __ldcg(n) : *(volatile int*)n;
#else
  y[i] = *(volatile int*)n;
#endif
}
