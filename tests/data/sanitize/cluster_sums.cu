// RUN: --grid 4 --block 64 --arg x=i32[256]:0..31 --arg y=out:i32[64]
// FAULT 1: uninitialised race
// FAULT 2: race exited uninitialised
// FAULT 3: race
// FAULT 4: out-of-bounds
// A histogram in the shared memory of a cluster: its blocks add to each other's by atomics.
__device__ int* mapped(int* p, int rank) {
  unsigned long long a;
  asm("mapa.u64 %0, %1, %2;" : "=l"(a) : "l"(p), "r"(rank));
  return (int*)a;
}
__device__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
__global__ void __cluster_dims__(2) k(const int* x, int* y) {
  __shared__ int bins[16];
  int t = threadIdx.x, rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (t < 16) bins[t] = 0;
#if FAULT == 1
  __syncthreads();
#else
  sync_cluster();
#endif
  int bin = x[blockIdx.x * 64 + t];
  int* to = mapped(bins, bin / 16) + bin % 16 + (FAULT == 4 && t == 9 ? 16 : 0);
#if FAULT == 3
  *to += 1;
#else
  atomicAdd(to, 1);
#endif
#if FAULT == 2
  __syncthreads();
#else
  sync_cluster();
#endif
  if (t < 16) y[blockIdx.x * 16 + t] = bins[t];
}
