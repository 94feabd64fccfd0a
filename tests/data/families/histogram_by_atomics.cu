// RUN: --grid 2 --block $B --arg x=i32[$N]:0..63 --arg bins=zero:$D[64] --arg n=i32:$N
// OVER: T=int,unsigned,float B=64,96,128 N=1000,2049
__global__ void k(const int *x, $T *bins, int n) {
  __shared__ $T own[64];
  for (int b = threadIdx.x; b < 64; b += $B) @[own[b] = 0;@|uninitialised:if (b < 60) own[b] = 0;@]
  @[__syncthreads();@|race:@]
  for (int i = blockIdx.x * $B + threadIdx.x; i < n; i += $B * gridDim.x)
    @[atomicAdd(&own[x[i]], ($T)1);@|race:own[x[i]] += ($T)1;@|out-of-bounds:atomicAdd(&own[x[i] + 8], ($T)1);@]
  @[__syncthreads();@|race:@]
  for (int b = threadIdx.x; b < 64; b += $B)
    @[atomicAdd(bins + b, own[b]);@|race:bins[b] += own[b];@|race:bins[b] = own[b] + blockIdx.x;@]
}
