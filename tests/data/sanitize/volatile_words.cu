// RUN: --grid 8 --block 64 --arg x=i32[512] --arg y=out:i32[512] --arg word=zero:u64[8]
// FAULT 1: race
// A look-back whose words have a sum and its state, so that they need no fence.
struct Word { unsigned long long v; __device__ int state() const { return v >> 32; } __device__ int sum() const { return (int)v; } };
__device__ Word read(volatile unsigned long long* p) { Word w; w.v = *p; return w; }
__device__ void write(volatile unsigned long long* p, int state, int sum) { *p = (unsigned long long)state << 32 | (unsigned)sum; }
__global__ void k(const int* x, int* y, unsigned long long* word) {
  __shared__ int s[64], before;
  int t = threadIdx.x, b = blockIdx.x;
  s[t] = x[b * 64 + t];
  __syncthreads();
  if (t == 0) {
    for (int i = 1; i < 64; ++i) s[i] += s[i - 1];
    int sum = s[63], run = 0;
    if (b) write(&word[b], 1, sum);
    for (int p = b - 1; p >= 0; --p) {
      Word w = read(&word[p]);
#if FAULT != 1
      while (w.state() == 0) w = read(&word[p]);
      run += w.sum();
      if (w.state() == 2) break;
#else
      run += w.sum();
#endif
    }
    write(&word[b], 2, run + sum);
    before = run;
  }
  __syncthreads();
  y[b * 64 + t] = before + s[t];
}
