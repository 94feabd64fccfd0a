// RUN: --grid 2 --block $B --arg x=$D[$N] --arg y=out:$D[2] --arg n=i32:$N
// OVER: T=float,int,double B=32,64,128,160 N=100,257
__global__ void k(const $T *x, $T *y, int n) {
  __shared__ $T s[@[$B@|out-of-bounds:$B - 1@]];
  int i = blockIdx.x * $B + threadIdx.x;
  @[s[threadIdx.x] = i < n ? x[i] : ($T)0;@|uninitialised:if (threadIdx.x < $B - 3) s[threadIdx.x] = i < n ? x[i] : ($T)0;@]
  @[__syncthreads();@|race:@|barrier-divergence:if (threadIdx.x < $B - 1) __syncthreads();@]
  for (int d = 1; d < $B; d *= 2) {
    $T v = threadIdx.x % (2 * d) == 0 && threadIdx.x + d < $B ? s[threadIdx.x + d] : ($T)0;
    __syncthreads();
    s[threadIdx.x] += v;
    @[__syncthreads();@|race:@]
  }
  if (threadIdx.x == 0) @[y[blockIdx.x] = s[0];@|unwritten race:y[0] = s[0] + blockIdx.x;@|out-of-bounds:y[blockIdx.x + 1] = s[0];@]
}
