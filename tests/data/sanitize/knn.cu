// RUN: --grid 2 --block 32 --arg p=f32[64,3] --arg idx=out:i32[64,4] --arg dist=out:f32[64,4] --arg n=i32:64
// FAULT 1: uninitialised unwritten
__global__ void k(const float* p, int* idx, float* dist, int n) {
  int i = blockIdx.x * 32 + threadIdx.x; if (i >= n) return;
  float best[4]; int who[4];
  for (int q = 0; q < (FAULT == 1 ? 3 : 4); ++q) { best[q] = 3.4e38f; who[q] = -1; }
  for (int j = 0; j < n; ++j) { if (j == i) continue; float d = 0; for (int c = 0; c < 3; ++c) { float e = p[3 * i + c] - p[3 * j + c]; d += e * e; }
    int q = 3; if (d >= best[3]) continue; while (q > 0 && best[q - 1] > d) { best[q] = best[q - 1]; who[q] = who[q - 1]; --q; } best[q] = d; who[q] = j; }
  for (int q = 0; q < 4; ++q) { idx[4 * i + q] = who[q]; dist[4 * i + q] = best[q]; }
}
