// RUN: --grid 1 --block 64 --arg x=f32[64] --arg y=out:f32[64] --arg which=i32[64]:0..2
// FAULT 1: bad-call out-of-bounds
// FAULT 2: race
// FAULT 3: bad-call uninitialised
// Pointers to functions in structures in shared memory, chosen by each thread.
struct Step { float (*f)(float*, int); int next; };
__device__ float left(float* s, int t) { return s[t ? t - 1 : 0]; }
__device__ float right(float* s, int t) { return s[t < 63 ? t + 1 : 63]; }
__device__ float same(float* s, int t) { return FAULT == 2 ? s[t] = s[63 - t] : s[t]; }
__global__ void k(const float* x, float* y, const int* which) {
  __shared__ Step steps[4];
  __shared__ float s[64];
  int t = threadIdx.x;
  if (t == 0) {
    steps[0] = {left, 1}; steps[1] = {right, 2};
#if FAULT != 3
    steps[2] = {same, 0};
#endif
  }
  s[t] = x[t];
  __syncthreads();
  int at = which[t] + (FAULT == 1 && t == 5 ? 4 : 0);
  float v = steps[at].f(s, t);
  y[t] = v + steps[which[t]].next;
}
