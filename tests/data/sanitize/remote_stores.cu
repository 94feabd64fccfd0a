// RUN: --grid 4 --block 32 --arg x=i32[128] --arg y=out:i32[128]
// FAULT 1: unwaited uninitialised race
// FAULT 2: hang
// FAULT 3: race
// FAULT 4: hang uninitialised race unwaited
// Each block of a pair sends its row to the other by st.async, which counts in the other's mbarrier.
__global__ void __cluster_dims__(2) k(const int* x, int* y) {
  __shared__ alignas(16) int row[32];
  __shared__ alignas(8) unsigned long long bar;
  int t = threadIdx.x, rank, i = blockIdx.x * 32 + t;
  unsigned b = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(&row[t]), far, far_bar;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#if FAULT == 3
  row[t] = 0;
#endif
  if (t == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(b), "r"(FAULT == 2 ? 256 : 128) : "memory");
  }
#if FAULT == 3
  asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::: "memory");
#elif FAULT != 4
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
#endif
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(to), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far_bar) : "r"(b), "r"(rank ^ 1));
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
               :: "r"(far), "r"(x[i]), "r"(far_bar) : "memory");
#if FAULT != 1
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.acquire.cluster.shared.b64 p, [%0], 0; @!p bra W; }" :: "r"(b) : "memory");
#endif
  y[i] = row[31 - t];
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
