// RUN: --grid ${cdiv(N,B)} --block $B --shared ${8*(B+2)} --arg x=$D[$N] --arg y=out:$D[$N] --arg n=i32:$N
// OVER: T=double B=64,128,160 N=300,513
__global__ void k(const $T *x, $T *y, int n) {
  extern __shared__ $T s[];
  int t = threadIdx.x, i = blockIdx.x * $B + t;
  s[t + 1] = i < n ? x[i] : ($T)0;
  if (t == 0) s[0] = i > 0 ? x[@[i - 1@|out-of-bounds:i - 1 - $N@]] : ($T)0;
  @[if (t == $B - 1) s[t + 2] = i + 1 < n ? x[i + 1] : ($T)0;@|uninitialised:@|out-of-bounds:if (t == $B - 1) s[t + 3] = 0;@]
  @[__syncthreads();@|race:__syncwarp();@]
  if (i < n) y[i] = s[t] + s[t + 1] + s[t + 2];
}
