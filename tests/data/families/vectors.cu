// RUN: --grid ${cdiv(N,B)} --block $B --arg x=$D[$N] --arg y=out:$D[$N] --arg n=i32:$N
// OVER: T=float,int,double B=32,64,128,160 N=101,255
struct alignas(16) Four { $T v[16 / sizeof($T)]; };
__global__ void k(const $T *x, $T *y, int n) {
  constexpr int W = 16 / sizeof($T);
  int i = (blockIdx.x * $B + threadIdx.x) * W;
  if (i @[+ W <= n@|out-of-bounds:< n@]) {
    Four f = *reinterpret_cast<const Four *>(x + i@[@|misaligned: + 1@]);
    for (int k = 0; k < W; ++k) f.v[k] += f.v[k];
    *reinterpret_cast<Four *>(y + i) = f;
  } else {
    for (; i < @[n@|unwritten:n - 1@]; ++i) y[i] = x[i] + x[i];
  }
}
