// RUN: --grid 1 --block $B --arg x=$D[$N,${B//2}] --arg y=out:$D[$N,${B//2}] --arg rounds=i32:$N
// OVER: T=float,int,double B=64,128,192 N=2,5
__global__ void k(const $T *x, $T *y, int rounds) {
  __shared__ $T s[$B];
  int t = threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    if (t < $B / 2) {
      s[t] = x[r * $B / 2 + t];
      @[asm volatile("bar.arrive 1, $B;" ::: "memory");@|hang barrier-divergence:asm volatile("bar.arrive 3, $B;" ::: "memory");@|hang barrier-divergence:@]
      @[asm volatile("bar.sync 2, $B;" ::: "memory");@|race:asm volatile("bar.sync 4, ${B//2};" ::: "memory");@]
    } else {
      @[asm volatile("bar.sync 1, $B;" ::: "memory");@|race:asm volatile("bar.sync 5, ${B//2};" ::: "memory");@]
      y[r * $B / 2 + t - $B / 2] = s[$B - 1 - t];
      asm volatile("bar.arrive 2, $B;" ::: "memory");
    }
  }
}
