// RUN: --grid 1 --block 64 --arg x=i32[512] --arg y=out:i32[256]
// FAULT 1: unwaited race
// FAULT 2: race
// FAULT 3: race unwaited
// FAULT 4: unwaited
// Two stages of asynchronous copies; those that are not waited for land late.
__device__ void copy(int* to, const int* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__global__ void k(const int* x, int* y) {
  __shared__ int s[2][64];
  int t = threadIdx.x;
  copy(&s[0][t], x + t);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int i = 0; i < 4; ++i) {
    if (i < 3) copy(&s[(i + 1) % 2][t], x + (i + 1) * 64 + t);
#if FAULT != 4
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
#if FAULT == 1
    asm volatile("cp.async.wait_group 2;" ::: "memory");
#else
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
#if FAULT != 2
    __syncthreads();
#endif
    y[i * 64 + t] = s[i % 2][t ^ 33];
#if FAULT != 3
    __syncthreads();
#endif
  }
}
