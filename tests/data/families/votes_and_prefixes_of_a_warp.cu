// RUN: --grid ${cdiv(N,B)} --block $B --arg x=$D[$N] --arg y=zero:i32[$N] --arg count=zero:i32[2] --arg n=i32:$N
// OVER: T=float,int,double B=32,64,128,160 N=100,257
__global__ void k(const $T *x, int *y, int *count, int n) {
  int i = blockIdx.x * $B + threadIdx.x, lane = threadIdx.x % 32;
  bool keep = i < n && x[i] > ($T)0;
  unsigned votes = @[__ballot_sync(0xffffffffu, keep);@|warp-divergence:keep ? __ballot_sync(0xffffffffu, keep) : 0u;@]
  int first = 0;
  if (lane == 0) first = @[atomicAdd(count, __popc(votes));@|race:*count; if (lane == 0) *count = first + __popc(votes);@]
  first = __shfl_sync(0xffffffffu, first, 0);
  if (keep) y[@[first + __popc(votes & ((1u << lane) - 1))@|out-of-bounds:first + $N@|race:0 * first@]] = i;
  @[@|inactive-lane:if (lane < 16) count[1] = __shfl_sync(0xffffu, lane, 20);@|wrong-mask warp-divergence:if (lane < 16) __syncwarp(0xffff0000u);@]
}
