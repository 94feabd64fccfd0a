// RUN: --grid 4 --block 64 --arg x=f32[256] --arg y=out:f32[256] --arg n=i32:256
// FAULT 1: race uninitialised
// FAULT 2: out-of-bounds
// FAULT 3: out-of-bounds
// FAULT 4: uninitialised unwritten
#define R 3
__global__ void k(const float* x, float* y, int n) {
  __shared__ float tile[64 + 2 * R];
  int g = blockIdx.x * 64 + threadIdx.x, l = threadIdx.x + R;
  tile[l] = x[g];
  if (threadIdx.x < R) {
#if FAULT == 2
    tile[l - R] = x[g - R];
#else
    tile[l - R] = g >= R ? x[g - R] : 0.f;
#endif
#if FAULT != 4
    tile[l + 64] = g + 64 < n ? x[g + 64] : 0.f;
#endif
  }
#if FAULT != 1
  __syncthreads();
#endif
  float v = 0;
  for (int o = -R; o <= R; ++o) v += tile[l + o + (FAULT == 3 ? R : 0)];
  y[g] = v;
}
