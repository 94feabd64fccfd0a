// RUN: --grid 1 --block 64 --arg locks=zero:i32[2] --arg a=zero:i32[2] --arg y=out:i32[2]
// FAULT 1: hang
// FAULT 2: hang
// FAULT 3: race
// Two warps take two locks: in one order, or each in its own, which can hang.
__device__ void take(int* l) { while (atomicCAS(l, 0, 1)) {} __threadfence(); }
__device__ void give(int* l) { __threadfence(); atomicExch(l, 0); }
__global__ void k(int* locks, int* a, int* y) {
  int w = threadIdx.x / 32;
  if (threadIdx.x % 32) return;
  int first = FAULT == 1 ? w : 0, second = 1 - first;
  take(&locks[first]);
  int v = a[0] + 1;
  take(&locks[second]);
  a[0] = v;
  a[1] += w;
#if FAULT == 2
  if (w) give(&locks[second]);
#elif FAULT == 3
  give(&locks[second]);
  give(&locks[first]);
  a[1] += 1;
#else
  give(&locks[second]);
#endif
#if FAULT != 3
  give(&locks[first]);
#endif
  y[w] = v;
}
