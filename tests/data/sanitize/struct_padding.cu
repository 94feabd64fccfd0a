// RUN: --grid 1 --block 64 --arg y=out:f32[64] --arg x=f32[64]
// FAULT 1: uninitialised unwritten
// Structures with padding, bit fields and arrays may be copied before all of them is set.
struct P { char c; double d; int a[3]; unsigned f : 3, g : 5; };
__device__ P made(float x) { P p; p.c = 1; p.d = x; p.a[0] = 3; p.g = 4; p.f = 2; return p; }
__global__ void k(float* y, const float* x) {
  __shared__ P s[64];
  s[threadIdx.x] = made(x[threadIdx.x]);
  __syncthreads();
  P q = s[63 - threadIdx.x];
  y[threadIdx.x] = q.d + q.c + q.a[FAULT == 1 ? 2 : 0] + q.g + q.f;
}
