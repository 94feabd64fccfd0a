// RUN: --grid ${cdiv(B,16)},${cdiv(N,16)} --block 16,16 --arg x=$D[$N,$B] --arg y=out:$D[$B,$N] --arg rows=i32:$N --arg columns=i32:$B
// OVER: T=float,int,double B=20,37 N=33,50
__global__ void k(const $T *x, $T *y, int rows, int columns) {
  __shared__ $T tile[16][17];
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (@[r < rows && @|out-of-bounds:@]c < columns) tile[threadIdx.y][threadIdx.x] = x[r * columns + c];
  @[__syncthreads();@|race:@|barrier-divergence:if (c < columns) __syncthreads();@]
  int i = blockIdx.x * 16 + threadIdx.y, j = blockIdx.y * 16 + threadIdx.x;
  if (i < columns && j < rows) y[@[i * rows + j@|race unwritten:i + j@|out-of-bounds:i * rows + j + rows@]] = tile[threadIdx.x][threadIdx.y];
}
