// RUN: --grid 1 --block 64 --arg x=f32[128] --arg y=out:f32[128]
// FAULT 1: unfenced
// FAULT 2: unfenced
// FAULT 3: race unfenced
// FAULT 4: overwritten
// FAULT 5: unwaited race uninitialised
// A row comes by a bulk copy, is changed, and goes by another one; then its memory is used again.
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__global__ void k(const float* x, float* y) {
  __shared__ alignas(128) float s[64];
  __shared__ alignas(8) unsigned long long bar;
  int t = threadIdx.x;
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(at(&bar)) : "memory");
  __syncthreads();
  for (int i = 0; i < 2; ++i) {
    if (t == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" :: "r"(at(&bar)) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                   :: "r"(at(s)), "l"(x + i * 64), "r"(at(&bar)) : "memory");
    }
    int phase = FAULT == 5 ? 1 - i : i;
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W; }" :: "r"(at(&bar)), "r"(phase) : "memory");
    s[t] += 1;
#if FAULT == 2
    if (t < 32)
#endif
#if FAULT != 1
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
#if FAULT != 3
    __syncthreads();
#endif
    if (t == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" :: "l"(y + i * 64), "r"(at(s)) : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#if FAULT != 4
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
    }
    __syncthreads();
  }
  if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
