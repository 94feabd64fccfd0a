// RUN: --grid 2 --block 64 --arg x=f32[128] --arg y=out:f32[128]
// FAULT 1: unwaited race uninitialised
// FAULT 2: hang
// FAULT 3: unfenced
// FAULT 4: overwritten race unwaited
// FAULT 5: misaligned
// Bulk copies in and out of shared memory, counted by an mbarrier and in groups.
__device__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__global__ void k(const float* x, float* y) {
  __shared__ alignas(128) float s[64];
  __shared__ alignas(8) unsigned long long bar;
  int t = threadIdx.x;
  if (t == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&bar)));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(address(s)), "l"(x + blockIdx.x * 64), "r"(FAULT == 5 ? 250 : 256), "r"(address(&bar)) : "memory");
    unsigned bytes = FAULT == 2 ? 512 : 256;
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(address(&bar)), "r"(bytes) : "memory");
  }
#if FAULT != 1
  asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%0], 0; @p bra DONE; bra WAIT; DONE: }"
               ::"r"(address(&bar)) : "memory");
#endif
  s[t] = s[t] * 2 + 1;
#if FAULT != 3
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(y + blockIdx.x * 64), "r"(address(s)) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
#if FAULT == 4
    s[3] = 7;
#endif
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}
