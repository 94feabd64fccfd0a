// RUN: --grid 1 --block 32 --arg x=i32[32] --arg y=out:i32[32]
// FAULT 1: uninitialised
// FAULT 2: uninitialised
// FAULT 3: uninitialised
// FAULT 4: uninitialised unwritten
// What nothing has written may be copied, in structures, between threads and through memory.
struct Cell { int key, unset; };
__global__ void k(const int* x, int* y) {
  __shared__ Cell cells[32], moved[32];
  int t = threadIdx.x;
  cells[t].key = x[t];
  __syncthreads();
  moved[t] = cells[31 - t];
  __syncthreads();
  Cell c = moved[t ^ 1];
  int unset = __shfl_sync(~0u, c.unset, t ^ 3);
  int out = c.key;
#if FAULT == 1
  if (unset > 5) out += 1;
#elif FAULT == 2
  out += moved[unset & 31].key;
#elif FAULT == 3
  atomicAdd(&y[t], unset);
#elif FAULT == 4
  out = unset;
#endif
  y[t] = out;
  (void)unset;
}
