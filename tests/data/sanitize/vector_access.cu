// RUN: --grid 1 --block 32 --arg x=f32[130] --arg y=out:f32[128] --arg off=i32:0
// FAULT 1: misaligned
// FAULT 2: out-of-bounds
__global__ void k(const float* x, float* y, int off) {
#if FAULT == 1
  float4 v = *(const float4*)(x + 1 + 4 * threadIdx.x);
#else
  float4 v = *(const float4*)(x + off + 4 * threadIdx.x + (FAULT == 2 ? 4 : 0));
#endif
  ((float4*)y)[threadIdx.x] = make_float4(v.x + 1, v.y, v.z, v.w);
}
