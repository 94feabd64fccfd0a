// RUN: --grid 2 --block 128 --arg x=i32[256] --arg y=out:i32[256] --arg z=out:i32[2]
#include <cub/cub.cuh>
__global__ void k(const int* x, int* y, int* z) {
  typedef cub::BlockReduce<int, 128> Reduce;
  typedef cub::BlockScan<int, 128> Scan;
  __shared__ union { typename Reduce::TempStorage r; typename Scan::TempStorage s; } t;
  int i = blockIdx.x * 128 + threadIdx.x, v = x[i], out;
  int sum = Reduce(t.r).Sum(v);
  __syncthreads();
  Scan(t.s).ExclusiveSum(v, out);
  if (threadIdx.x == 0) z[blockIdx.x] = sum;
  y[i] = out;
}
