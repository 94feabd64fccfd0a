// RUN: --grid 6 --block 64 --arg x=i32[384] --arg y=out:i32[384] --arg part=zero:i32[8] --arg whole=zero:i32[8] --arg flag=zero:i32[8]
// FAULT 1: race
// Decoupled look-back: each block publishes its sum, then its prefix.
__global__ void k(const int* x, int* y, int* part, int* whole, int* flag) {
  __shared__ int s[64];
  __shared__ int before;
  int t = threadIdx.x, b = blockIdx.x;
  s[t] = x[b * 64 + t];
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    int v = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  if (t == 0) {
    int total = s[63];
    part[b] = total;
#if FAULT != 1
    __threadfence();
#endif
    atomicExch(&flag[b], 1);
    int sum = 0;
    for (int p = b - 1; p >= 0; --p) {
      int f;
      do { f = *(volatile int*)&flag[p]; } while (f == 0);
#if 1  // without it the read of the flag would acquire alone
      __threadfence();
#endif
      if (f == 2) { sum += whole[p]; break; }
      sum += part[p];
    }
    whole[b] = sum + total;
    __threadfence();
    atomicExch(&flag[b], 2);
    before = sum;
  }
  __syncthreads();
  y[b * 64 + t] = s[t] + before;
}
