// RUN: --grid 2 --block $B --arg x=$D[2,$B]
// OVER: T=float,int,double B=64,128,256 N=1,2
__global__ void k($T *x) {
  __shared__ $T s[$B];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * $B + t];
  @[__syncthreads();@|race:@]
  for (int size = 2; size <= $B; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      int other = t @[^@|out-of-bounds race:+@] step;
      if (other > t@[@|race: || other < t@]) {
        bool up = (t & size) == 0;
        $T a = s[t], b = s[other];
        if ((a > b) == up) { s[t] = b; s[other] = a; }
      }
      @[__syncthreads();@|race:@|barrier-divergence:if (other > t) __syncthreads();@]
    }
  x[blockIdx.x * $B + @[t@|race:t / 2@|out-of-bounds:t + 1@]] = s[t];
}
