// RUN: --grid 1 --block 64 --arg x=i32[256] --arg y=out:i32[256]
// FAULT 1: unwaited race uninitialised
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
__global__ void k(const int* x, int* y) {
  __shared__ alignas(16) int s[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, x, sizeof(int) * 256);
#if FAULT != 1
  cg::wait(block);
#endif
  for (int i = threadIdx.x; i < 256; i += 64) y[i] = s[255 - i];
}
