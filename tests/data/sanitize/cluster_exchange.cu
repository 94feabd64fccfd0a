// RUN: --grid 4 --block 32 --arg x=i32[128] --arg y=out:i32[128]
// FAULT 1: race uninitialised
// FAULT 2: race exited
// Blocks of a cluster read each other's shared memory.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) k(const int* x, int* y) {
  __shared__ int s[32];
  auto cluster = cg::this_cluster();
  int i = blockIdx.x * 32 + threadIdx.x;
  s[threadIdx.x] = x[i];
#if FAULT != 1
  cluster.sync();
#endif
  int* other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
  y[i] = other[31 - threadIdx.x];
#if FAULT != 2
  cluster.sync();
#else
  cluster.sync();
  s[threadIdx.x] = i;
  y[i] += other[threadIdx.x];
#endif
}
