// RUN: --grid 1 --block 64 --arg a=u32[128] --arg b=u32[64] --arg y=out:i32[256]
// FAULT 1: race uninitialised
// FAULT 2: warp-divergence
// FAULT 3: uninitialised
// Two warps multiply 16 by 32 by 8 elements of 8 bits that the first warp brings.
__global__ void k(const unsigned* a, const unsigned* b, int* y) {
  __shared__ unsigned left[128], right[64];
  int t = threadIdx.x, lane = t % 32;
  if (t < 32) {
    for (int i = t; i < 128; i += 32) left[i] = a[i];
    for (int i = t; i < (FAULT == 3 ? 63 : 64); i += 32) right[i] = b[i];
  }
#if FAULT != 1
  __syncthreads();
#endif
  unsigned at = lane / 4 * 8 + lane % 4;
  int d[4] = {};
#if FAULT == 2
  if (lane < 31)
#endif
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(left[at]), "r"(left[at + 64]), "r"(left[at + 4]), "r"(left[at + 68]), "r"(right[at]), "r"(right[at + 4]));
  for (int j = 0; j < 4; ++j) y[t * 4 + j] = d[j];
}
