// RUN: --grid 4 --block 32 --arg x=u32[128] --arg y=out:u32[128] --arg z=out:u32[16]
// FAULT 1: unwaited race
// FAULT 2: uninitialised
// FAULT 3: race
// FAULT 4: hang
// FAULT 5: unfenced
// FAULT 6: race
// Each block of a pair adds to the other's sums by red.async, and a row of its own by a bulk copy.
__global__ void __cluster_dims__(2) k(const unsigned* x, unsigned* y, unsigned* z) {
  __shared__ alignas(16) unsigned sums[32], row[4], sent[4];
  __shared__ alignas(8) unsigned long long bar;
  int t = threadIdx.x, rank, i = blockIdx.x * 32 + t;
  auto at = [](void* p) { return (unsigned)__cvta_generic_to_shared(p); };
  auto over = [&](void* p) {
    unsigned far;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(at(p)), "r"(rank ^ 1));
    return far;
  };
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#if FAULT == 2
  if (t < 31)
#endif
  sums[t] = 1;
  if (t < 4) row[t] = 0;
  if (t < 4) sent[t] = x[i];
#if FAULT != 5
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
  if (t == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&bar)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at(&bar)), "r"(FAULT == 4 ? 288 : 272) : "memory");
  }
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
#if FAULT == 3
  sums[t] += 1;
#endif
  for (int half = 0; half < 2; ++half)  // two threads add to one sum
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
                 :: "r"(over(&sums[t / 2 * 2 + half])), "r"(x[i]), "r"(over(&bar)) : "memory");
  if (t == 0)
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.max.u32 [%0], [%1], 16, [%2];"
                 :: "r"(over(row)), "r"(at(sent)), "r"(over(&bar)) : "memory");
#if FAULT != 1
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.acquire.cluster.shared.b64 p, [%0], 0; @!p bra W; }" :: "r"(at(&bar)) : "memory");
#endif
  y[i] = sums[t];
  if (t < 4) z[blockIdx.x * 4 + t] = row[t];
#if FAULT == 6
  z[blockIdx.x * 4] = sums[t];
#endif
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
