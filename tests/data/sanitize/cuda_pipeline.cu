// RUN: --grid 1 --block 64 --arg x=i32[512] --arg y=out:i32[64] --arg n=i32:8
// FAULT 1: unwaited race uninitialised
// FAULT 2: race unwaited overwritten
#include <cuda/pipeline>
#include <cooperative_groups.h>
__global__ void k(const int* x, int* y, int n) {
  __shared__ alignas(16) int s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cooperative_groups::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0, next = 0;
  for (int i = 0; i < n; ++i) {
    for (; next < n && next < i + 2; ++next) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[FAULT == 2 ? 0 : next % 2], x + next * 64, cuda::aligned_size_t<16>(256), pipe);
      pipe.producer_commit();
    }
#if FAULT != 1
    pipe.consumer_wait();
#endif
    sum += s[i % 2][63 - threadIdx.x];
#if FAULT == 1
    pipe.consumer_wait();
#endif
    pipe.consumer_release();
  }
  y[threadIdx.x] = sum;
}
