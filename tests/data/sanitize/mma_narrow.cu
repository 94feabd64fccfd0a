// RUN: --grid 1 --block 64 --arg a=u32[128] --arg b=u32[64] --arg y=out:f32[256] --arg z=out:i32[256] --arg w=out:i32[256]
// FAULT 1: race uninitialised
// FAULT 2: warp-divergence
// FAULT 3: uninitialised
// FAULT 4: uninitialised
// Two warps multiply what the first one brings: as floats of 8 bits, as integers of 8, and as bits.
#define PRODUCT(NAME, TYPE, REG, SUMS) \
  __device__ void NAME(TYPE* y, const unsigned* a, const unsigned* b) { \
    TYPE d[4] = {}; \
    asm volatile("mma.sync.aligned." SUMS " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+" REG(d[0]), "+" REG(d[1]), "+" REG(d[2]), "+" REG(d[3]) \
        : "r"(a[0]), "r"(a[64]), "r"(a[4]), "r"(a[68]), "r"(b[0]), "r"(b[4])); \
    for (int j = 0; j < 4; ++j) y[j] = d[j]; \
  }
PRODUCT(floats, float, "f", "m16n8k32.row.col.f32.e4m3.e4m3.f32")
PRODUCT(integers, int, "r", "m16n8k32.row.col.s32.s8.s8.s32")
PRODUCT(bits, int, "r", "m16n8k256.row.col.s32.b1.b1.s32.xor.popc")
__global__ void k(const unsigned* a, const unsigned* b, float* y, int* z, int* w) {
  __shared__ unsigned left[128], right[64];
  int t = threadIdx.x, lane = t % 32;
  if (t < 32) {
    for (int i = t; i < (FAULT == 4 ? 127 : 128); i += 32) left[i] = a[i];
    for (int i = t; i < (FAULT == 3 ? 63 : 64); i += 32) right[i] = b[i];
  }
#if FAULT != 1
  __syncthreads();
#endif
  unsigned at = lane / 4 * 8 + lane % 4;
#if FAULT == 2
  if (lane < 31)
#endif
  floats(y + t * 4, left + at, right + at);
  integers(z + t * 4, left + at, right + at);
  bits(w + t * 4, left + at, right + at);
}
