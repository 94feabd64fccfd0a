// RUN: --grid 1 --block 32 --arg x=i32[32]:0..7 --arg y=out:i32[32]
// FAULT 1: uninitialised unwritten
// FAULT 2: uninitialised unwritten
__global__ void k(const int* x, int* y) {
  int a[8];
  for (int i = FAULT == 1 ? 4 : 0; i < 8; ++i) a[i] = i * i;
  int v;
#if FAULT == 2
  if (x[threadIdx.x] > 3) v = 1;
#else
  v = 1;
#endif
  y[threadIdx.x] = a[x[threadIdx.x] & 7] + v;
}
