// computes sum
// kernel @row_sum_1(x: f32[n, 512], y: f32[n]) writes (y) dims n in [1, 4096] attrs(source=('sum',)) {
//   for bx in n bound blockIdx.x {
//     alloc part: f32[64] shared
//     for tx in 64 bound threadIdx.x {
//       alloc acc: f32[] local {
//         acc[] = 0.0:f32
//         for k in 8 {
//           acc[] = acc[] + x[bx, k * 64 + tx]
//         }
//         part[tx] = acc[]
//       }
//       for k in 6 unrolled {
//         barrier
//         let half = 32 // (1 << k)
//         if tx < half {
//           part[tx] = part[tx] + part[tx + half]
//         }
//       }
//       if tx == 0 {
//         y[bx] = part[0]
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(64)
row_sum_1(const f32 *__restrict__ x, f32 *__restrict__ y, i64 n) {
  const i64 bx = blockIdx.x;
  __shared__ f32 part[64];
  const i64 tx = threadIdx.x;
  f32 acc = 0.0f;
  for (i64 k = 0; k < 8; ++k) {
    acc = acc + x[bx * 512 + (k * 64 + tx)];
  }
  part[tx] = acc;
  #pragma unroll
  for (i64 k_1 = 0; k_1 < 6; ++k_1) {
    __syncthreads();
    const i64 half = floordiv_i64(32, shl_i64(1, k_1));
    if (tx < half) {
      part[tx] = part[tx] + part[tx + half];
    }
  }
  if (tx == 0) {
    y[bx] = part[0];
  }
}
