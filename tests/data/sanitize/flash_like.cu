// RUN: --grid 2 --block 32 --arg q=f32[2,32,16] --arg kk=f32[2,32,16] --arg v=f32[2,32,16] --arg o=out:f32[2,32,16] --arg n=i32:32
// FAULT 1: race
__global__ void k(const float* q, const float* kk, const float* v, float* o, int n) {
  __shared__ float ks[8][16], vs[8][16]; int t = threadIdx.x, base = blockIdx.x * n * 16; float qr[16], acc[16] = {}; float m = -INFINITY, l = 0;
  for (int d = 0; d < 16; ++d) qr[d] = q[base + t * 16 + d];
  for (int j0 = 0; j0 < n; j0 += 8) {
    for (int e = t; e < 128; e += 32) { ks[e / 16][e % 16] = kk[base + j0 * 16 + e]; vs[e / 16][e % 16] = v[base + j0 * 16 + e]; }
    __syncthreads();
    for (int j = 0; j < 8; ++j) { float s = 0; for (int d = 0; d < 16; ++d) s += qr[d] * ks[j][d]; float mn = fmaxf(m, s), a = expf(m - mn), p = expf(s - mn); l = l * a + p; for (int d = 0; d < 16; ++d) acc[d] = acc[d] * a + p * vs[j][d]; m = mn; }
#if FAULT != 1
    __syncthreads();
#endif
  }
  for (int d = 0; d < 16; ++d) o[base + t * 16 + d] = acc[d] / l;
}
