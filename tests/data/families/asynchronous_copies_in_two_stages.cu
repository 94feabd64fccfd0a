// RUN: --grid 1 --block $B --arg x=$D[$N,$B] --arg y=out:$D[$N,$B] --arg rounds=i32:$N
// OVER: T=float,int,double B=32,64,128,160 N=3,6
__device__ void copy(void *to, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], @[%2@|misaligned:16; //@];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(sizeof($T)) : "memory");
}
__global__ void k(const $T *x, $T *y, int rounds) {
  __shared__ $T s[2][$B];
  int t = threadIdx.x;
  copy(&s[0][t], x + t);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int r = 0; r < rounds; ++r) {
    if (r + 1 < @[rounds@|out-of-bounds:rounds + 1@]) copy(&s[(r + 1) % 2][t], x + (r + 1) * $B + t);
    asm volatile("cp.async.commit_group;" ::: "memory");
    @[asm volatile("cp.async.wait_group 1;" ::: "memory");@|unwaited race:asm volatile("cp.async.wait_group 2;" ::: "memory");@|unwaited race:@]
    @[__syncthreads();@|race unwaited:@]
    y[r * $B + t] = s[r % 2][$B - 1 - t];
    @[__syncthreads();@|race overwritten:@]
  }
}
