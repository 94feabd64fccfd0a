// RUN: --grid 2 --block 64 --arg p=f32[128,4] --arg v=f32[128,4] --arg q=out:f32[128,4] --arg n=i32:128 --arg dt=f32:0.01
// FAULT 1: race
struct Body { float4 pos; };
__device__ float3 interact(float3 a, float4 bi, float4 bj) { float3 r; r.x = bj.x - bi.x; r.y = bj.y - bi.y; r.z = bj.z - bi.z; float d = r.x * r.x + r.y * r.y + r.z * r.z + 1e-3f; float inv = rsqrtf(d * d * d); float s = bj.w * inv; a.x += r.x * s; a.y += r.y * s; a.z += r.z * s; return a; }
__global__ void k(const float4* p, float4* v, float4* q, int n, float dt) {
  __shared__ float4 s[64];
  int i = blockIdx.x * 64 + threadIdx.x; float4 me = p[i]; float3 acc = {0, 0, 0};
  for (int t = 0; t < n / 64; ++t) { s[threadIdx.x] = p[t * 64 + threadIdx.x]; __syncthreads();
#pragma unroll 8
    for (int j = 0; j < 64; ++j) acc = interact(acc, me, s[j]);
#if FAULT != 1
    __syncthreads();
#endif
  }
  float4 vel = v[i]; vel.x += acc.x * dt; vel.y += acc.y * dt; vel.z += acc.z * dt; me.x += vel.x * dt; me.y += vel.y * dt; me.z += vel.z * dt; v[i] = vel; q[i] = me;
}
