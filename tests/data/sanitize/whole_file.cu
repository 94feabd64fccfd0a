// RUN: --kernel saxpy --grid 4 --block 64 --arg n=i32:200 --arg a=f32:2.5 --arg x=f32[200] --arg y=f32[200]
// FAULT 1: out-of-bounds
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <vector>
#include <cuda_runtime.h>
#include "helper_cuda.h"
#define CHECK(call) do { cudaError_t e = call; if (e != cudaSuccess) { std::cerr << cudaGetErrorString(e); exit(1); } } while (0)
constexpr int THREADS = 64;
struct Timer { cudaEvent_t start, stop; Timer() { cudaEventCreate(&start); } float elapsed() { return 0; } };
template <typename T> class Buffer { std::vector<T> host; T* device; public: explicit Buffer(size_t n) : host(n) {} };
int divide_up(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ inline float scaled(float a, float b) { return a * b; }
static void fill(std::vector<float>& v) { std::iota(v.begin(), v.end(), 0.f); }
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n + (FAULT == 1)) y[i] += scaled(a, x[i]);
}
int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 200;
  std::vector<float> x(n), y(n);
  fill(x);
  float *dx, *dy;
  CHECK(cudaMalloc(&dx, n * sizeof(float)));
  CHECK(cudaMalloc(&dy, n * sizeof(float)));
  saxpy<<<divide_up(n, THREADS), THREADS>>>(n, 2.5f, dx, dy);
  CHECK(cudaDeviceSynchronize());
  std::cout << std::max(y[0], y[1]) << std::endl;
  return 0;
}
