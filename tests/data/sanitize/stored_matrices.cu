// RUN: --grid 1 --block 64 --arg x=u32[256] --arg y=out:u32[256]
// FAULT 1: race
// FAULT 2: race
// FAULT 3: misaligned
// FAULT 4: out-of-bounds
// Warps store matrices, and each then reads what the other has stored.
__global__ void k(const unsigned* x, unsigned* y) {
  __shared__ alignas(16) unsigned s[256];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  unsigned row = (unsigned)__cvta_generic_to_shared(s + warp * (FAULT == 2 ? 64 : 128) + lane * 4);
  if (FAULT == 3 && t == 3) row += 8;
  if (FAULT == 4 && t == 63) row += 16;
  const unsigned* from = x + warp * 128 + lane;
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(row), "r"(from[0]), "r"(from[32]), "r"(from[64]), "r"(from[96]) : "memory");
#if FAULT != 1
  __syncthreads();
#endif
#if FAULT == 2
  if (t < 48)
#endif
  for (int i = t; i < 256; i += 64) y[i] = s[255 - i];
}
