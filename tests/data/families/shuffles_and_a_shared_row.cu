// RUN: --grid 2 --block $B --arg x=$D[${2*N}] --arg y=out:$D[2] --arg n=i32:$N
// OVER: T=float,int,double B=64,96,128,256 N=100,257
template <typename F> __device__ F warp_sum(F v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
__global__ void k(const $T *x, $T *y, int n) {
  __shared__ $T part[@[$B / 32@|out-of-bounds:$B / 32 - 1@]];
  $T sum = 0;
  for (int i = threadIdx.x; i < n; i += $B) sum += x[blockIdx.x * n + i];
  @[sum = warp_sum(sum);@|inactive-lane warp-divergence:if (threadIdx.x % 32 < 20) sum = warp_sum(sum);@]
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  @[__syncthreads();@|race:__syncwarp();@]
  if (threadIdx.x == 0) {
    $T all = 0;
    for (int w = 0; w < @[$B / 32@|out-of-bounds:$B / 32 + 1@]; ++w) all += part[w];
    y[blockIdx.x] = all;
  }
}
