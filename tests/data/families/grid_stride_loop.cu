// RUN: --grid 2 --block $B --arg x=$D[$N] --arg y=out:$D[$N] --arg n=i32:$N
// OVER: T=float,int,double B=32,64,128,160 N=100,257
__global__ void k(const $T *x, $T *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i @[<@|out-of-bounds:<=@] n; i += blockDim.x * gridDim.x)
    y[i] = x[@[i@|out-of-bounds:i + 1@]] * 2;
  @[@|race same-value:if (threadIdx.x == 1) y[0] = threadIdx.y + blockIdx.x;@]
}
