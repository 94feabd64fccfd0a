// RUN: --grid 2 --block 128 --arg x=u8[1000] --arg h=zero:u32[256] --arg n=i32:1000
// FAULT 1: race
// FAULT 2: race
// FAULT 3: race
__global__ void k(const unsigned char* x, unsigned* h, int n) {
  __shared__ unsigned s[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
#if FAULT != 1
  __syncthreads();
#endif
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
#if FAULT == 2
    s[x[i]]++;
#else
    atomicAdd(&s[x[i]], 1u);
#endif
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
#if FAULT == 3
    h[i] += s[i];
#else
    atomicAdd(&h[i], s[i]);
#endif
}
