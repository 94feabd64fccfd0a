// RUN: --grid 2 --block 32 --arg data=zero:i32[4] --arg flag=zero:i32[1] --arg y=out:i32[1]
// FAULT 1: race
// FAULT 2: race
#include <cuda/atomic>
__global__ void k(int* data, int* flag, int* y) {
  cuda::atomic_ref<int, FAULT == 2 ? cuda::thread_scope_block : cuda::thread_scope_device> f(*flag);
  if (threadIdx.x) return;
  if (blockIdx.x == 0) { data[0] = 42; f.store(1, FAULT == 1 ? cuda::memory_order_relaxed : cuda::memory_order_release); }
  else { while (f.load(cuda::memory_order_acquire) == 0) {} y[0] = data[0]; }
}
