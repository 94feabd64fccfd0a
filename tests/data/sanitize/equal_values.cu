// RUN: --grid 20 --block 1024 --arg found=zero:i32[1] --arg x=i32[20480]:0..9
// FAULT 1: race
// FAULT 2: race
// Threads of all batches write one value; one that writes another value makes a race of it.
__global__ void k(int* found, const int* x) {
  int i = blockIdx.x * 1024 + threadIdx.x;
  if (x[i] == 3) *found = FAULT == 1 && i >= 20000 ? 2 : 1;
#if FAULT == 2
  if (i == 20479) *found = 0;
#endif
}
