// RUN: --grid 6 --block 32 --arg x=i32[192] --arg y=out:i32[192] --arg part=zero:i32[6] --arg whole=zero:i32[6] --arg state=zero:i32[6]
// FAULT 1: race
// FAULT 2: race
// FAULT 3: race
// FAULT 4: race
// A look-back whose sums are volatile, too: each needs a fence of its own before its state.
__global__ void k(const int* x, int* y, volatile int* part, volatile int* whole, volatile int* state) {
  __shared__ int before;
  int t = threadIdx.x, b = blockIdx.x, sum = x[b * 32 + t];
  for (int d = 1; d < 32; d *= 2) { int o = __shfl_up_sync(~0u, sum, d); if (t >= d) sum += o; }
  if (t == 31) {
    part[b] = sum;
#if FAULT != 1
    __threadfence();
#endif
    state[b] = 1;
    int run = 0;
    for (int p = b - 1; p >= 0; --p) {
      int s;
      while ((s = state[p]) == 0) {}
#if FAULT != 4
      __threadfence();
#else
      if (s == 2) { run += whole[p == 0 ? 0 : p - 1]; break; }
#endif
      if (s == 2) { run += whole[p]; break; }
      run += part[p];
    }
    before = run;
#if FAULT == 3
    __threadfence();
#endif
    whole[b] = run + sum;
#if FAULT != 2 && FAULT != 3
    __threadfence();
#endif
    state[b] = 2;
  }
  __syncthreads();
  y[b * 32 + t] = before + sum;
}
