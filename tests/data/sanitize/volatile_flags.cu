// RUN: --grid 4 --block 64 --arg x=i32[256] --arg want=i32:7 --arg stop=zero:i32[1] --arg y=out:i32[256]
// FAULT 1: race
// FAULT 2: race
// FAULT 3: race
// A search that stops early by a volatile flag, which tells nothing else.
__device__ bool stopped(volatile int* stop) { return *stop != 0; }
__global__ void k(const int* x, int want, int* stop, int* y) {
  int i = blockIdx.x * 64 + threadIdx.x, rounds = 0;
  for (int r = 0; r < 4 && !stopped(stop); ++r) {
    rounds += 1;
#if FAULT == 2
    if (x[(i + r * 64) % 256] == want) *stop = 1;
#else
    if (x[(i + r * 64) % 256] == want) *(volatile int*)stop = FAULT == 3 ? 1 + i : 1;
#endif
  }
#if FAULT == 1
  y[i] = *(volatile int*)stop;
#else
  y[i] = rounds;
#endif
}
