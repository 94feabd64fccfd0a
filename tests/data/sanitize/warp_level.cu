// RUN: --grid 1 --block 64 --arg x=i32[64] --arg y=out:i32[64] --arg n=i32:40
// FAULT 1: inactive-lane warp-divergence
// FAULT 2: warp-divergence wrong-mask inactive-lane
// FAULT 3: race
// FAULT 4: wrong-mask
__global__ void k(const int* x, int* y, int n) {
  __shared__ int s[64];
  int t = threadIdx.x, lane = t & 31, v = x[t];
#if FAULT == 1
  if (t < n) v += __shfl_down_sync(0xffffffffu, v, 1);
#elif FAULT == 2
  if (lane < 16) v += __shfl_xor_sync(0xffffffffu, v, 16);
#elif FAULT == 4
  v += __shfl_xor_sync(0x0000ffffu, v, 1);
#else
  unsigned mask = __ballot_sync(0xffffffffu, t < n);
  if (t < n) v += __shfl_sync(mask, v, __ffs(mask) - 1);
#endif
  s[t] = v;
#if FAULT != 3
  __syncwarp();
#endif
  y[t] = s[t ^ 1];
}
