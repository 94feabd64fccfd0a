// RUN: --grid 4 --block 64 --arg x=i32[256] --arg y=out:i32[256]
// FAULT 1: race
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void k(int* x, int* y) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto tile = cg::tiled_partition<8>(warp);
  int i = blockIdx.x * 64 + threadIdx.x;
  int v = cg::reduce(tile, x[i], cg::plus<int>());
  v += warp.shfl_xor(v, 8);
  auto some = cg::coalesced_threads();
  if (v & 1) { auto odd = cg::coalesced_threads(); v += odd.size(); }
  v += some.thread_rank() - some.thread_rank();
  __shared__ int s[64];
  s[threadIdx.x] = v;
#if FAULT != 1
  block.sync();
#endif
  y[i] = s[63 - threadIdx.x];
}
