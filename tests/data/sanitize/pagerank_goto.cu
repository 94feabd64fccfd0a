// RUN: --grid 1 --block 64 --arg x=i32[64]:0..5 --arg y=out:i32[64]
__global__ void k(const int* x, int* y) {
  int v = x[threadIdx.x], r = 0, i = 0;
again:
  switch (v) { case 0: r += 1; break; case 1: r += 2; case 2: r += 3; break; case 3: { if (i++ < 4) { v = (v * 7 + i) % 6; goto again; } break; } default: r = -1; }
  do { r = r * 3 + 1; if (r > 100) break; } while (i-- > 0);
  y[threadIdx.x] = r;
}
