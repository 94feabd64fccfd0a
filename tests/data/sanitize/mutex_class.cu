// RUN: --grid 3 --block 64 --arg lock=zero:i32[1] --arg d=zero:i32[64] --arg n=i32:64
// FAULT 1: race
struct Lock { int* m; __device__ void lock() { while (atomicCAS(m, 0, 1)) __nanosleep(20);
#if FAULT != 1
__threadfence();
#endif
} __device__ void unlock() {
#if FAULT != 1
__threadfence();
#endif
atomicExch(m, 0); } };
__global__ void k(int* lock, int* d, int n) { Lock l{lock}; if (threadIdx.x == 0) l.lock(); __syncthreads(); if (threadIdx.x < n) d[threadIdx.x] += 1; __syncthreads(); if (threadIdx.x == 0) l.unlock(); }
