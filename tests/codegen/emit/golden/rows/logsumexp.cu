// computes max, subtract, exp, sum, log, add
// kernel @fused_max_subtract_exp_sum_log_add_0(x: f32[6, 100], add: f32[6, 1]) writes (add) attrs(schedule='rows', source=('max', 'subtract', 'exp', 'sum', 'log', 'add')) {
//   for bx in 1 bound blockIdx.x {
//     alloc max_acc_tile: f32[8, 32] shared
//     alloc sum_acc_tile: f32[8, 32] shared
//     for group in 8 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 8 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc x_row: f32[4] local
//         for turn_2 in 4 unrolled {
//           let k_2 = turn_2 * 32 + lane
//           if row < 6 and k_2 < 100 {
//             let k1_3 = k_2
//             x_row[turn_2] = x[i0, k1_3]
//           }
//         }
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         for turn_1 in 4 unrolled {
//           let k_1 = turn_1 * 32 + lane
//           if row < 6 and k_1 < 100 {
//             max_acc_part[] = max(max_acc_part[], x_row[turn_1])
//           }
//         }
//         max_acc_tile[group, lane] = max_acc_part[]
//         barrier
//         for level_1 in 5 {
//           let half_1 = 16 >> level_1
//           if lane < half_1 {
//             max_acc_tile[group, lane] = max(max_acc_tile[group, lane], max_acc_tile[group, lane + half_1])
//           }
//           barrier
//         }
//         let max_acc = max_acc_tile[group, 0]
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         for turn in 4 unrolled {
//           let k = turn * 32 + lane
//           if row < 6 and k < 100 {
//             sum_acc_part[] = sum_acc_part[] + exp(x_row[turn] - max_acc)
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
//         if lane == 0 and row < 6 {
//           add[i0, 0] = log(sum_acc) + max_acc
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_max_subtract_exp_sum_log_add_0(const f32 *__restrict__ x, f32 *__restrict__ add) {
  const i64 bx = blockIdx.x;
  __shared__ f32 max_acc_tile[256];
  __shared__ f32 sum_acc_tile[256];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 x_row[4];
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 4; ++turn_2) {
    const i64 k_2 = turn_2 * 32 + lane;
    if (row < 6 && k_2 < 100) {
      const i64 k1_3 = k_2;
      x_row[turn_2] = x[i0 * 100 + k1_3];
    }
  }
  f32 max_acc_part = -inf_f32();
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 4; ++turn_1) {
    const i64 k_1 = turn_1 * 32 + lane;
    if (row < 6 && k_1 < 100) {
      max_acc_part = max_f32(max_acc_part, x_row[turn_1]);
    }
  }
  max_acc_tile[group * 32 + lane] = max_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 5; ++level_1) {
    const i64 half_1 = shr_i64(16, level_1);
    if (lane < half_1) {
      max_acc_tile[group * 32 + lane] = max_f32(max_acc_tile[group * 32 + lane], max_acc_tile[group * 32 + (lane + half_1)]);
    }
    __syncthreads();
  }
  const f32 max_acc = max_acc_tile[group * 32];
  f32 sum_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn = 0; turn < 4; ++turn) {
    const i64 k = turn * 32 + lane;
    if (row < 6 && k < 100) {
      sum_acc_part = sum_acc_part + exp_f32(x_row[turn] - max_acc);
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
  if (lane == 0 && row < 6) {
    add[i0] = log_f32(sum_acc) + max_acc;
  }
}
