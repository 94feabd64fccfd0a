// RUN: --grid 1 --block 64 --arg x=f32[64] --arg y=out:f32[64]
// FAULT 1: race
#include <cstdint>
template <typename T, int R, int C> struct Matrix { T d[R][C]; __device__ Matrix() {} __device__ T& operator()(int i, int j) { return d[i][j]; } __device__ Matrix operator*(const Matrix& o) const { Matrix r; for (int i = 0; i < R; ++i) for (int j = 0; j < C; ++j) { T s = 0; for (int k = 0; k < C; ++k) s += d[i][k] * o.d[k][j]; r.d[i][j] = s; } return r; } };
template <typename T> struct Optional { bool has; T v; __device__ Optional() : has(false) {} __device__ Optional(T t) : has(true), v(t) {} };
__device__ Optional<float> half(float x) { return x > 0 ? Optional<float>(x / 2) : Optional<float>(); }
struct Queue { int head, tail; float items[8]; __device__ void push(float v) { items[tail++ & 7] = v; } __device__ float pop() { return items[head++ & 7]; } };
union Bits { float f; uint32_t u; };
__global__ void k(const float* x, float* y) {
  Matrix<float, 3, 3> m; for (int i = 0; i < 9; ++i) m(i / 3, i % 3) = x[(threadIdx.x + i) & 63];
  m = m * m; Optional<float> o = half(x[threadIdx.x]); Optional<float> p = o;
  Queue q; q.head = q.tail = 0; q.push(m(0, 0)); q.push(p.has ? p.v : 1.f); Bits b; b.f = q.pop(); b.u ^= 1;
  auto f = [&](auto v) { return v + q.pop(); };
  __shared__ Optional<float> s[64]; s[threadIdx.x] = p;
#if FAULT != 1
  __syncthreads();
#endif
  y[threadIdx.x] = f(b.f) + (s[63 - threadIdx.x].has ? 1 : 2);
}
