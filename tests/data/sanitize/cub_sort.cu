// RUN: --grid 1 --block 64 --arg x=i32[256]:0..1000 --arg y=out:i32[256]
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
__global__ void k(int* x, int* y) {
  typedef cub::BlockRadixSort<int, 64, 4> Sort;
  typedef cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_TRANSPOSE> Load;
  typedef cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_TRANSPOSE> Store;
  __shared__ union { typename Sort::TempStorage s; typename Load::TempStorage l; typename Store::TempStorage t; } u;
  int v[4];
  Load(u.l).Load(x, v);
  __syncthreads();
  Sort(u.s).Sort(v);
  __syncthreads();
  Store(u.t).Store(y, v);
}
