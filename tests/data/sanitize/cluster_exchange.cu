// RUN: --grid 4 --block 32 --arg x=i32[128] --arg y=out:i32[128]
// FAULT 1: race uninitialised
// FAULT 2: race exited
// FAULT 3: exited unwritten
// Blocks of a cluster read each other's shared memory.
__device__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__global__ void __cluster_dims__(2, 1, 1) k(const int* x, int* y) {
  __shared__ int s[32];
  int i = blockIdx.x * 32 + threadIdx.x, t = threadIdx.x, rank;
  s[t] = x[i];
#if FAULT != 1
  sync_cluster();
#endif
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  unsigned mine = (unsigned)__cvta_generic_to_shared(&s[31 - t]), theirs;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(mine), "r"(rank ^ 1));
  int v;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(theirs) : "memory");
#if FAULT == 3
  if (rank == 0) return;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(theirs) : "memory");
#else
  sync_cluster();
#endif
#if FAULT == 2
  s[t] = i;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(theirs) : "memory");
#endif
  y[i] = v;
}
