// RUN: --grid 4 --block $B --arg x=$D[$N] --arg part=zero:$D[4] --arg y=out:$D[1] --arg n=i32:$N
// OVER: T=float,int,double B=32,64,128,160 N=100,900
__device__ unsigned done;
__global__ void k(const $T *x, volatile $T *part, $T *y, int n) {
  __shared__ bool last;
  __shared__ $T s[$B];
  int t = threadIdx.x;
  s[t] = 0;
  for (int i = blockIdx.x * $B + t; i < n; i += $B * gridDim.x) s[t] += x[i];
  @[__syncthreads();@|race:@]
  if (t == 0) {
    $T sum = 0;
    for (int i = 0; i < $B; ++i) sum += s[i];
    part[blockIdx.x] = sum;
    @[__threadfence();@|race:@]
    last = @[atomicAdd(&done, 1u)@|race:done++@] == gridDim.x - 1;
  }
  @[__syncthreads();@|race:@]
  if (last && t == 0) {
    $T all = 0;
    for (int b = 0; b < gridDim.x; ++b) all += part[b];
    *y = all;
  }
}
