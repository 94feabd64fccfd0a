// RUN: --grid 2 --block 64 --arg "v={x=f32[100],y=out:f32[100],n=i32:100}"
// FAULT 1: out-of-bounds
// FAULT 2: out-of-bounds
// FAULT 3: race
// Pointers in a structure that is passed by value, and in a structure of structures in local memory.
struct View { const float* x; float* y; int n; };
struct Pair { View a; const View* b; };
__global__ void k(View v) {
  __shared__ float s[64];
  Pair p = {v, &v};
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  s[t] = i < v.n ? p.a.x[i + (FAULT == 1)] : 0.f;
#if FAULT != 3
  __syncthreads();
#endif
  if (i < v.n - (FAULT == 2 ? -1 : 0)) p.b->y[i] = s[t ^ 1];
}
