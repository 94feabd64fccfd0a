// RUN: --grid 1 --block 32 --arg y=out:i32[32]
// FAULT 1: out-of-bounds
// FAULT 2: bad-free
// FAULT 3: uninitialised unwritten
__global__ void k(int* y) {
  int* p = (int*)malloc(16);
  if (!p) return;
#if FAULT != 3
  p[0] = threadIdx.x;
#endif
  int v = p[0];
  free(p);
#if FAULT == 1
  v += p[1];
#elif FAULT == 2
  free(p);
#endif
  y[threadIdx.x] = v;
}
