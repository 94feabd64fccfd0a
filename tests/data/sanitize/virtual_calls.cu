// RUN: --grid 1 --block 64 --arg x=f32[64] --arg y=out:f32[64]
// FAULT 1: bad-call
// FAULT 2: race
struct Shape { __device__ virtual float area(float r) const { return r; } };
struct Square : Shape { __device__ float area(float r) const override { return r * r; } };
struct Circle : Shape { __device__ float area(float r) const override { return 3.14f * r * r; } };
typedef float (*Function)(float);
__device__ float half_(float x) { return x / 2; }
__device__ float twice(float x) { return x * 2; }
__device__ Function table[2] = {half_, twice};
__device__ int sum(const float* s, int n) { return n == 0 ? 0 : (int)s[n - 1] + sum(s, n - 1); }
__global__ void k(const float* x, float* y) {
  __shared__ float s[64];
  Square a; Circle b;
  const Shape* p = threadIdx.x & 1 ? (const Shape*)&a : &b;
  Function f = table[threadIdx.x & 1];
#if FAULT == 1
  if (threadIdx.x == 7) f = nullptr;
#endif
  s[threadIdx.x] = f(p->area(x[threadIdx.x]));
#if FAULT != 2
  __syncthreads();
#endif
  y[threadIdx.x] = s[63 - threadIdx.x] + sum(s, threadIdx.x & 7);
}
