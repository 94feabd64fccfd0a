// RUN: --grid 2 --block 32 --arg q=zero:i32[256] --arg tail=zero:i32[1] --arg x=i32[64] --arg n=i32:64
// FAULT 1: race
// FAULT 2: out-of-bounds
__global__ void k(int* q, int* tail, const int* x, int n) {
  int i = blockIdx.x * 32 + threadIdx.x;
#if FAULT == 1
  int at = (*tail)++;
#else
  int at = atomicAdd(tail, FAULT == 2 ? 8 : 1);
#endif
  q[at] = x[i];
}
