// RUN: --grid ${cdiv(N,8)},${cdiv(N,8)} --block 8,8 --arg a=$D[$N,$N] --arg b=$D[$N,$N] --arg c=out:$D[$N,$N] --arg n=i32:$N
// OVER: T=float,int,double B=64 N=13,20,27
__global__ void k(const $T *a, const $T *b, $T *c, int n) {
  __shared__ $T p[8][8], q[8][@[8@|out-of-bounds:7@]];
  int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 8 + y, j = blockIdx.x * 8 + x;
  $T sum = 0;
  for (int k = 0; k < n; k += 8) {
    p[y][x] = i < n && k + x < n ? a[i * n + k + x] : ($T)0;
    q[y][x] = @[k + y < n && @|out-of-bounds:@]j < n ? b[(k + y) * n + j] : ($T)0;
    @[__syncthreads();@|race:@|barrier-divergence:if (i < n) __syncthreads();@]
    for (int m = 0; m < 8; ++m) sum += p[y][m] * q[m][x];
    @[__syncthreads();@|race:@]
  }
  @[if (i < n && j < n) @|out-of-bounds:if (j < n) @]c[i * n + j] = sum;
}
