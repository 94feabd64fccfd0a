// RUN: --grid 2,2 --block 16,16 --arg a=f32[32,40] --arg b=f32[40,32] --arg c=out:f32[32,32] --arg m=i32:32 --arg n=i32:32 --arg p=i32:40
// FAULT 1: race
// FAULT 2: race uninitialised
// FAULT 3: out-of-bounds
template <int T> __device__ void product(const float* a, const float* b, float* c, int m, int n, int p) {
  __shared__ float l[T][T], r[T][T];
  int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < (p + T - 1) / T; ++t) {
    int ac = t * T + threadIdx.x, br = t * T + threadIdx.y;
    l[threadIdx.y][threadIdx.x] = row < m && (FAULT == 3 || ac < p) ? a[row * p + ac] : 0.f;
    r[threadIdx.y][threadIdx.x] = br < p && col < n ? b[br * n + col] : 0.f;
#if FAULT != 2
    __syncthreads();
#endif
#pragma unroll
    for (int q = 0; q < T; ++q) sum += l[threadIdx.y][q] * r[q][threadIdx.x];
#if FAULT != 1
    __syncthreads();
#endif
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
__global__ void k(const float* a, const float* b, float* c, int m, int n, int p) { product<16>(a, b, c, m, n, p); }
