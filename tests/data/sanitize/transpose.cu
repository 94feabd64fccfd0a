// RUN: --grid 2,2 --block 16,8 --arg x=f32[32,32] --arg y=out:f32[32,32] --arg n=i32:32
// FAULT 1: race uninitialised
// FAULT 2: unwritten
// FAULT 3: race unwritten
__global__ void k(const float* __restrict__ x, float* y, int n) {
  __shared__ float t[16][17];
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  for (int j = 0; j < 16; j += 8) t[threadIdx.y + j][threadIdx.x] = x[(r + j) * n + c];
#if FAULT != 1
  __syncthreads();
#endif
  c = blockIdx.y * 16 + threadIdx.x, r = blockIdx.x * 16 + threadIdx.y;
#if FAULT == 3
  c = blockIdx.x * 16 + threadIdx.x;
#endif
  for (int j = 0; j < (FAULT == 2 ? 8 : 16); j += 8) y[(r + j) * n + c] = t[threadIdx.x][threadIdx.y + j];
}
