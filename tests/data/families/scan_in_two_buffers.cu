// RUN: --grid ${cdiv(N,B)} --block $B --arg x=$D[$N] --arg y=out:$D[$N] --arg n=i32:$N
// OVER: T=float,int,double B=48,64,128,160 N=90,201
__global__ void k(const $T *x, $T *y, int n) {
  __shared__ $T s[2][$B];
  int t = threadIdx.x, i = blockIdx.x * $B + t, in = 0;
  s[0][t] = i < n ? x[i] : ($T)0;
  @[__syncthreads();@|race:@]
  for (int d = 1; d < $B; d *= 2) {
    int out = @[1 - in@|race:in@];
    s[out][t] = s[in][t] + (t @[>=@|out-of-bounds uninitialised race:>= -@] d ? s[in][t - d] : ($T)0);
    in = out;
    @[__syncthreads();@|race:__syncwarp();@|barrier-divergence:if (t >= d) __syncthreads();@]
  }
  @[if (i < n) @|out-of-bounds:@]y[i] = s[in][t];
}
