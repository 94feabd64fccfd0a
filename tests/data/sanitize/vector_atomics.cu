// Sums of rows by vectors of atomics: each element is added by itself.
// RUN: --grid 2 --block 32 --kernel columns --arg x=f32[64,4] --arg sums=zero:f32[4] --arg before=out:f32[64,4]
// FAULT 1: misaligned
// FAULT 2: out-of-bounds
// FAULT 3: race
extern "C" __global__ void columns(const float4* x, float* sums, float4* before) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#if FAULT == 1
  float4* to = (float4*)(sums + 2);
#elif FAULT == 2
  float4* to = (float4*)sums + 1;
#else
  float4* to = (float4*)sums;
#endif
#if FAULT == 3
  float4 old = *to, v = x[i];
  *to = make_float4(old.x + v.x, old.y + v.y, old.z + v.z, old.w + v.w);
  before[i] = old;
#else
  before[i] = atomicAdd(to, x[i]);
#endif
}
