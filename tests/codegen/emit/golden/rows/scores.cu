// computes c, multiply, c_1, where, max, subtract, exp, sum, divide
// kernel @fused_multiply_where_max_subtract_exp_0(s: f32[2, 3, 12, 20], mask: bool[12, 20], divide: f32[2, 3, 12, 20]) writes (divide) attrs(schedule='rows', source=('c', 'multiply', 'c_1', 'where', 'max', 'subtract', 'exp', 'sum', 'divide')) {
//   for bx in 3 bound blockIdx.x {
//     alloc max_acc_tile: f32[32, 8] shared
//     alloc sum_acc_tile: f32[32, 8] shared
//     for group in 32 bound threadIdx.y {
//       for lane in 8 bound threadIdx.x {
//         let row = bx * 32 + group
//         let at = min(row, 71)
//         let i0 = at // 12 // 3
//         let i1 = at // 12 % 3
//         let %'i2' = at % 12
//         alloc mask_row: bool[3] local
//         for turn_4 in 3 unrolled {
//           let k_4 = turn_4 * 8 + lane
//           if row < 72 and k_4 < 20 {
//             let i3_5 = k_4
//             mask_row[turn_4] = mask[%'i2', i3_5]
//           }
//         }
//         alloc s_row: f32[3] local
//         for turn_3 in 3 unrolled {
//           let k_3 = turn_3 * 8 + lane
//           if row < 72 and k_3 < 20 {
//             let i3_4 = k_3
//             s_row[turn_3] = s[i0, i1, %'i2', i3_4]
//           }
//         }
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         for turn_2 in 3 unrolled {
//           let k_2 = turn_2 * 8 + lane
//           if row < 72 and k_2 < 20 {
//             max_acc_part[] = max(max_acc_part[], select(mask_row[turn_2], s_row[turn_2] * 0.125:f32, -inf:f32))
//           }
//         }
//         max_acc_tile[group, lane] = max_acc_part[]
//         barrier
//         for level_1 in 3 {
//           let half_1 = 4 >> level_1
//           if lane < half_1 {
//             max_acc_tile[group, lane] = max(max_acc_tile[group, lane], max_acc_tile[group, lane + half_1])
//           }
//           barrier
//         }
//         let max_acc = max_acc_tile[group, 0]
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         for turn_1 in 3 unrolled {
//           let k_1 = turn_1 * 8 + lane
//           if row < 72 and k_1 < 20 {
//             sum_acc_part[] = sum_acc_part[] + exp(select(mask_row[turn_1], s_row[turn_1] * 0.125:f32, -inf:f32) - max_acc)
//           }
//         }
//         sum_acc_tile[group, lane] = sum_acc_part[]
//         barrier
//         for level in 3 {
//           let half = 4 >> level
//           if lane < half {
//             sum_acc_tile[group, lane] = sum_acc_tile[group, lane] + sum_acc_tile[group, lane + half]
//           }
//           barrier
//         }
//         let sum_acc = sum_acc_tile[group, 0]
//         for turn in 3 unrolled {
//           let k = turn * 8 + lane
//           if row < 72 and k < 20 {
//             let i3_1 = k
//             divide[i0, i1, %'i2', i3_1] = exp(select(mask_row[turn], s_row[turn] * 0.125:f32, -inf:f32) - max_acc) / sum_acc
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_multiply_where_max_subtract_exp_0(
    const f32 *__restrict__ s,
    const b8 *__restrict__ mask,
    f32 *__restrict__ divide) {
  const i64 bx = blockIdx.x;
  __shared__ f32 max_acc_tile[256];
  __shared__ f32 sum_acc_tile[256];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 32 + group;
  const i64 at = min_i64(row, 71);
  const i64 i0 = at / 12 / 3;
  const i64 i1 = at / 12 % 3;
  const i64 i2 = at % 12;
  b8 mask_row[3];
  #pragma unroll
  for (i64 turn_4 = 0; turn_4 < 3; ++turn_4) {
    const i64 k_4 = turn_4 * 8 + lane;
    if (row < 72 && k_4 < 20) {
      const i64 i3_5 = k_4;
      mask_row[turn_4] = mask[i2 * 20 + i3_5];
    }
  }
  f32 s_row[3];
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 3; ++turn_3) {
    const i64 k_3 = turn_3 * 8 + lane;
    if (row < 72 && k_3 < 20) {
      const i64 i3_4 = k_3;
      s_row[turn_3] = s[((i0 * 3 + i1) * 12 + i2) * 20 + i3_4];
    }
  }
  f32 max_acc_part = -inf_f32();
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 3; ++turn_2) {
    const i64 k_2 = turn_2 * 8 + lane;
    if (row < 72 && k_2 < 20) {
      max_acc_part = max_f32(max_acc_part, mask_row[turn_2] ? s_row[turn_2] * 0.125f : -inf_f32());
    }
  }
  max_acc_tile[group * 8 + lane] = max_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 3; ++level_1) {
    const i64 half_1 = shr_i64(4, level_1);
    if (lane < half_1) {
      max_acc_tile[group * 8 + lane] = max_f32(max_acc_tile[group * 8 + lane], max_acc_tile[group * 8 + (lane + half_1)]);
    }
    __syncthreads();
  }
  const f32 max_acc = max_acc_tile[group * 8];
  f32 sum_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 3; ++turn_1) {
    const i64 k_1 = turn_1 * 8 + lane;
    if (row < 72 && k_1 < 20) {
      sum_acc_part = sum_acc_part + exp_f32((mask_row[turn_1] ? s_row[turn_1] * 0.125f : -inf_f32()) - max_acc);
    }
  }
  sum_acc_tile[group * 8 + lane] = sum_acc_part;
  __syncthreads();
  for (i64 level = 0; level < 3; ++level) {
    const i64 half = shr_i64(4, level);
    if (lane < half) {
      sum_acc_tile[group * 8 + lane] = sum_acc_tile[group * 8 + lane] + sum_acc_tile[group * 8 + (lane + half)];
    }
    __syncthreads();
  }
  const f32 sum_acc = sum_acc_tile[group * 8];
  #pragma unroll
  for (i64 turn = 0; turn < 3; ++turn) {
    const i64 k = turn * 8 + lane;
    if (row < 72 && k < 20) {
      const i64 i3_1 = k;
      divide[((i0 * 3 + i1) * 12 + i2) * 20 + i3_1] = exp_f32((mask_row[turn] ? s_row[turn] * 0.125f : -inf_f32()) - max_acc) / sum_acc;
    }
  }
}
