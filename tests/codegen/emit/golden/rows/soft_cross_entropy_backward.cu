// computes sum, max, subtract, exp, sum_1, divide, multiply, subtract_1, c, divide_1
// kernel @fused_sum_max_subtract_exp_sum_divide_0(target: f32[9, 40], x: f32[9, 40], divide_1: f32[9, 40]) writes (divide_1) attrs(schedule='rows', source=('sum', 'max', 'subtract', 'exp', 'sum_1', 'divide', 'multiply', 'subtract_1', 'c', 'divide_1')) {
//   for bx in 1 bound blockIdx.x {
//     alloc max_acc_tile: f32[16, 16] shared
//     alloc sum_1_acc_tile: f32[16, 16] shared
//     alloc sum_acc_tile: f32[16, 16] shared
//     for group in 16 bound threadIdx.y {
//       for lane in 16 bound threadIdx.x {
//         let row = bx * 16 + group
//         let at = min(row, 8)
//         let i0 = at
//         alloc target_row: f32[3] local
//         for turn_5 in 3 unrolled {
//           let k_5 = turn_5 * 16 + lane
//           if row < 9 and k_5 < 40 {
//             let i1_6 = k_5
//             target_row[turn_5] = target[i0, i1_6]
//           }
//         }
//         alloc x_row: f32[3] local
//         for turn_4 in 3 unrolled {
//           let k_4 = turn_4 * 16 + lane
//           if row < 9 and k_4 < 40 {
//             let i1_5 = k_4
//             x_row[turn_4] = x[i0, i1_5]
//           }
//         }
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         for turn_3 in 3 unrolled {
//           let k_3 = turn_3 * 16 + lane
//           if row < 9 and k_3 < 40 {
//             max_acc_part[] = max(max_acc_part[], x_row[turn_3])
//           }
//         }
//         max_acc_tile[group, lane] = max_acc_part[]
//         barrier
//         for level_2 in 4 {
//           let half_2 = 8 >> level_2
//           if lane < half_2 {
//             max_acc_tile[group, lane] = max(max_acc_tile[group, lane], max_acc_tile[group, lane + half_2])
//           }
//           barrier
//         }
//         let max_acc = max_acc_tile[group, 0]
//         alloc sum_1_acc_part: f32[] local
//         sum_1_acc_part[] = 0.0:f32
//         for turn_2 in 3 unrolled {
//           let k_2 = turn_2 * 16 + lane
//           if row < 9 and k_2 < 40 {
//             sum_1_acc_part[] = sum_1_acc_part[] + exp(x_row[turn_2] - max_acc)
//           }
//         }
//         sum_1_acc_tile[group, lane] = sum_1_acc_part[]
//         barrier
//         for level_1 in 4 {
//           let half_1 = 8 >> level_1
//           if lane < half_1 {
//             sum_1_acc_tile[group, lane] = sum_1_acc_tile[group, lane] + sum_1_acc_tile[group, lane + half_1]
//           }
//           barrier
//         }
//         let sum_1_acc = sum_1_acc_tile[group, 0]
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         for turn_1 in 3 unrolled {
//           let k_1 = turn_1 * 16 + lane
//           if row < 9 and k_1 < 40 {
//             sum_acc_part[] = sum_acc_part[] + target_row[turn_1]
//           }
//         }
//         sum_acc_tile[group, lane] = sum_acc_part[]
//         barrier
//         for level in 4 {
//           let half = 8 >> level
//           if lane < half {
//             sum_acc_tile[group, lane] = sum_acc_tile[group, lane] + sum_acc_tile[group, lane + half]
//           }
//           barrier
//         }
//         let sum_acc = sum_acc_tile[group, 0]
//         for turn in 3 unrolled {
//           let k = turn * 16 + lane
//           if row < 9 and k < 40 {
//             let i1_1 = k
//             divide_1[i0, i1_1] = (exp(x_row[turn] - max_acc) / sum_1_acc * sum_acc - target_row[turn]) / 9.0:f32
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_sum_max_subtract_exp_sum_divide_0(
    const f32 *__restrict__ target,
    const f32 *__restrict__ x,
    f32 *__restrict__ divide_1) {
  const i64 bx = blockIdx.x;
  __shared__ f32 max_acc_tile[256];
  __shared__ f32 sum_1_acc_tile[256];
  __shared__ f32 sum_acc_tile[256];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 16 + group;
  const i64 at = min_i64(row, 8);
  const i64 i0 = at;
  f32 target_row[3];
  #pragma unroll
  for (i64 turn_5 = 0; turn_5 < 3; ++turn_5) {
    const i64 k_5 = turn_5 * 16 + lane;
    if (row < 9 && k_5 < 40) {
      const i64 i1_6 = k_5;
      target_row[turn_5] = target[i0 * 40 + i1_6];
    }
  }
  f32 x_row[3];
  #pragma unroll
  for (i64 turn_4 = 0; turn_4 < 3; ++turn_4) {
    const i64 k_4 = turn_4 * 16 + lane;
    if (row < 9 && k_4 < 40) {
      const i64 i1_5 = k_4;
      x_row[turn_4] = x[i0 * 40 + i1_5];
    }
  }
  f32 max_acc_part = -inf_f32();
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 3; ++turn_3) {
    const i64 k_3 = turn_3 * 16 + lane;
    if (row < 9 && k_3 < 40) {
      max_acc_part = max_f32(max_acc_part, x_row[turn_3]);
    }
  }
  max_acc_tile[group * 16 + lane] = max_acc_part;
  __syncthreads();
  for (i64 level_2 = 0; level_2 < 4; ++level_2) {
    const i64 half_2 = shr_i64(8, level_2);
    if (lane < half_2) {
      max_acc_tile[group * 16 + lane] = max_f32(max_acc_tile[group * 16 + lane], max_acc_tile[group * 16 + (lane + half_2)]);
    }
    __syncthreads();
  }
  const f32 max_acc = max_acc_tile[group * 16];
  f32 sum_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 3; ++turn_2) {
    const i64 k_2 = turn_2 * 16 + lane;
    if (row < 9 && k_2 < 40) {
      sum_1_acc_part = sum_1_acc_part + exp_f32(x_row[turn_2] - max_acc);
    }
  }
  sum_1_acc_tile[group * 16 + lane] = sum_1_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 4; ++level_1) {
    const i64 half_1 = shr_i64(8, level_1);
    if (lane < half_1) {
      sum_1_acc_tile[group * 16 + lane] = sum_1_acc_tile[group * 16 + lane] + sum_1_acc_tile[group * 16 + (lane + half_1)];
    }
    __syncthreads();
  }
  const f32 sum_1_acc = sum_1_acc_tile[group * 16];
  f32 sum_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 3; ++turn_1) {
    const i64 k_1 = turn_1 * 16 + lane;
    if (row < 9 && k_1 < 40) {
      sum_acc_part = sum_acc_part + target_row[turn_1];
    }
  }
  sum_acc_tile[group * 16 + lane] = sum_acc_part;
  __syncthreads();
  for (i64 level = 0; level < 4; ++level) {
    const i64 half = shr_i64(8, level);
    if (lane < half) {
      sum_acc_tile[group * 16 + lane] = sum_acc_tile[group * 16 + lane] + sum_acc_tile[group * 16 + (lane + half)];
    }
    __syncthreads();
  }
  const f32 sum_acc = sum_acc_tile[group * 16];
  #pragma unroll
  for (i64 turn = 0; turn < 3; ++turn) {
    const i64 k = turn * 16 + lane;
    if (row < 9 && k < 40) {
      const i64 i1_1 = k;
      divide_1[i0 * 40 + i1_1] = (exp_f32(x_row[turn] - max_acc) / sum_1_acc * sum_acc - target_row[turn]) / 9.0f;
    }
  }
}
