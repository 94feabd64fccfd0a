// computes exp, sum, multiply, subtract
// kernel @fused_exp_sum_multiply_subtract_0(y: f32[6, 100], g: f32[6, 100], subtract: f32[6, 100]) writes (subtract) attrs(schedule='rows', source=('exp', 'sum', 'multiply', 'subtract')) {
//   for bx in 1 bound blockIdx.x {
//     alloc sum_acc_tile: f32[8, 32] shared
//     for group in 8 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 8 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc g_row: f32[4] local
//         for turn_2 in 4 unrolled {
//           let k_2 = turn_2 * 32 + lane
//           if row < 6 and k_2 < 100 {
//             let i1_3 = k_2
//             g_row[turn_2] = g[i0, i1_3]
//           }
//         }
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         for turn_1 in 4 unrolled {
//           let k_1 = turn_1 * 32 + lane
//           if row < 6 and k_1 < 100 {
//             sum_acc_part[] = sum_acc_part[] + g_row[turn_1]
//           }
//         }
//         sum_acc_tile[group, lane] = sum_acc_part[]
//         barrier
//         for level in 5 {
//           let half = 16 >> level
//           if lane < half {
//             sum_acc_tile[group, lane] = sum_acc_tile[group, lane] + sum_acc_tile[group, lane + half]
//           }
//           barrier
//         }
//         let sum_acc = sum_acc_tile[group, 0]
//         for turn in 4 unrolled {
//           let k = turn * 32 + lane
//           if row < 6 and k < 100 {
//             let i1_1 = k
//             subtract[i0, i1_1] = g_row[turn] - exp(y[i0, i1_1]) * sum_acc
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_exp_sum_multiply_subtract_0(
    const f32 *__restrict__ y,
    const f32 *__restrict__ g,
    f32 *__restrict__ subtract) {
  const i64 bx = blockIdx.x;
  __shared__ f32 sum_acc_tile[256];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 g_row[4];
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 4; ++turn_2) {
    const i64 k_2 = turn_2 * 32 + lane;
    if (row < 6 && k_2 < 100) {
      const i64 i1_3 = k_2;
      g_row[turn_2] = g[i0 * 100 + i1_3];
    }
  }
  f32 sum_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 4; ++turn_1) {
    const i64 k_1 = turn_1 * 32 + lane;
    if (row < 6 && k_1 < 100) {
      sum_acc_part = sum_acc_part + g_row[turn_1];
    }
  }
  sum_acc_tile[group * 32 + lane] = sum_acc_part;
  __syncthreads();
  for (i64 level = 0; level < 5; ++level) {
    const i64 half = shr_i64(16, level);
    if (lane < half) {
      sum_acc_tile[group * 32 + lane] = sum_acc_tile[group * 32 + lane] + sum_acc_tile[group * 32 + (lane + half)];
    }
    __syncthreads();
  }
  const f32 sum_acc = sum_acc_tile[group * 32];
  #pragma unroll
  for (i64 turn = 0; turn < 4; ++turn) {
    const i64 k = turn * 32 + lane;
    if (row < 6 && k < 100) {
      const i64 i1_1 = k;
      subtract[i0 * 100 + i1_1] = g_row[turn] - exp_f32(y[i0 * 100 + i1_1]) * sum_acc;
    }
  }
}
