// RUN: --grid 4 --block 256 --arg x=f32[1000] --arg y=out:f32[4] --arg n=i32:1000
// FAULT 1: race
// FAULT 2: out-of-bounds
// FAULT 3: uninitialised unwritten
// FAULT 4: race
// FAULT 5: barrier-divergence
// The classic tree reduction in shared memory.
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[256];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
#if FAULT == 2
  s[t] = x[i];
#elif FAULT == 3
  if (i < n - 300) s[t] = x[i];
#else
  s[t] = i < n ? x[i] : 0.f;
#endif
#if FAULT != 4
  __syncthreads();
#endif
  for (int d = blockDim.x / 2; d > 0; d >>= 1) {
    if (t < d) {
      s[t] += s[t + d];
#if FAULT == 5
      __syncthreads();
    }
#elif FAULT == 1
    }
#else
    }
    __syncthreads();
#endif
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
