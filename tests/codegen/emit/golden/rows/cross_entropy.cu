// computes max, subtract, exp, sum, log, subtract_1, c, not_equal, c_1, where, reshape, gather_elements
// kernel @fused_max_subtract_exp_sum_log_subtrac_0(x: f32[9, 40], labels: i64[9], gather_elements: f32[9, 1]) writes (gather_elements) attrs(schedule='rows', source=('max', 'subtract', 'exp', 'sum', 'log', 'subtract_1', 'c', 'not_equal', 'c_1', 'where', 'reshape', 'gather_elements')) {
//   for bx in 1 bound blockIdx.x {
//     alloc max_acc_tile: f32[16, 16] shared
//     alloc sum_acc_tile: f32[16, 16] shared
//     alloc x_pick: f32[16] shared
//     for group in 16 bound threadIdx.y {
//       for lane in 16 bound threadIdx.x {
//         let row = bx * 16 + group
//         let at = min(row, 8)
//         let i0 = at
//         alloc x_row: f32[3] local
//         for turn_3 in 3 unrolled {
//           let k_3 = turn_3 * 16 + lane
//           if row < 9 and k_3 < 40 {
//             let k0_4 = k_3
//             x_row[turn_3] = x[i0, k0_4]
//           }
//         }
//         let labels_1 = labels[i0]
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         for turn_2 in 3 unrolled {
//           let k_2 = turn_2 * 16 + lane
//           if row < 9 and k_2 < 40 {
//             max_acc_part[] = max(max_acc_part[], x_row[turn_2])
//           }
//         }
//         max_acc_tile[group, lane] = max_acc_part[]
//         barrier
//         for level_1 in 4 {
//           let half_1 = 8 >> level_1
//           if lane < half_1 {
//             max_acc_tile[group, lane] = max(max_acc_tile[group, lane], max_acc_tile[group, lane + half_1])
//           }
//           barrier
//         }
//         let max_acc = max_acc_tile[group, 0]
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         for turn_1 in 3 unrolled {
//           let k_1 = turn_1 * 16 + lane
//           if row < 9 and k_1 < 40 {
//             sum_acc_part[] = sum_acc_part[] + exp(x_row[turn_1] - max_acc)
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
//             let k0_1 = k
//             if k0_1 == min(max(select(labels_1 != -100, labels_1, 0), -40), 39) % 40 {
//               x_pick[group] = x_row[turn]
//             }
//           }
//         }
//         barrier
//         if lane == 0 and row < 9 {
//           gather_elements[i0, 0] = x_pick[group] - max_acc - log(sum_acc)
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_max_subtract_exp_sum_log_subtrac_0(
    const f32 *__restrict__ x,
    const i64 *__restrict__ labels,
    f32 *__restrict__ gather_elements) {
  const i64 bx = blockIdx.x;
  __shared__ f32 max_acc_tile[256];
  __shared__ f32 sum_acc_tile[256];
  __shared__ f32 x_pick[16];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 16 + group;
  const i64 at = min_i64(row, 8);
  const i64 i0 = at;
  f32 x_row[3];
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 3; ++turn_3) {
    const i64 k_3 = turn_3 * 16 + lane;
    if (row < 9 && k_3 < 40) {
      const i64 k0_4 = k_3;
      x_row[turn_3] = x[i0 * 40 + k0_4];
    }
  }
  const i64 labels_1 = labels[i0];
  f32 max_acc_part = -inf_f32();
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 3; ++turn_2) {
    const i64 k_2 = turn_2 * 16 + lane;
    if (row < 9 && k_2 < 40) {
      max_acc_part = max_f32(max_acc_part, x_row[turn_2]);
    }
  }
  max_acc_tile[group * 16 + lane] = max_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 4; ++level_1) {
    const i64 half_1 = shr_i64(8, level_1);
    if (lane < half_1) {
      max_acc_tile[group * 16 + lane] = max_f32(max_acc_tile[group * 16 + lane], max_acc_tile[group * 16 + (lane + half_1)]);
    }
    __syncthreads();
  }
  const f32 max_acc = max_acc_tile[group * 16];
  f32 sum_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 3; ++turn_1) {
    const i64 k_1 = turn_1 * 16 + lane;
    if (row < 9 && k_1 < 40) {
      sum_acc_part = sum_acc_part + exp_f32(x_row[turn_1] - max_acc);
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
      const i64 k0_1 = k;
      if (k0_1 == floormod_i64(min_i64(max_i64(labels_1 != -100 ? labels_1 : 0, -40), 39), 40)) {
        x_pick[group] = x_row[turn];
      }
    }
  }
  __syncthreads();
  if (lane == 0 && row < 9) {
    gather_elements[i0] = x_pick[group] - max_acc - log_f32(sum_acc);
  }
}

// computes c, not_equal, negative, c_2, where_1, cast, sum_1, sum_2, divide
// kernel @fused_not_equal_negative_where_cast_su_2(labels: i64[9], reshape_1: f32[9], divide: f32[]) writes (divide) attrs(schedule='rows', source=('c', 'not_equal', 'negative', 'c_2', 'where_1', 'cast', 'sum_1', 'sum_2', 'divide')) {
//   for bx in 1 bound blockIdx.x {
//     alloc sum_2_acc_tile: f32[1, 8] shared
//     alloc sum_1_acc_tile: f32[1, 8] shared
//     for group in 1 bound threadIdx.y {
//       for lane in 8 bound threadIdx.x {
//         let row = bx + group
//         alloc labels_row: i64[2] local
//         for turn_2 in 2 unrolled {
//           let k_2 = turn_2 * 8 + lane
//           if k_2 < 9 {
//             let k0_3 = k_2
//             labels_row[turn_2] = labels[k0_3]
//           }
//         }
//         alloc sum_2_acc_part: f32[] local
//         sum_2_acc_part[] = 0.0:f32
//         for turn_1 in 2 unrolled {
//           let k_1 = turn_1 * 8 + lane
//           if k_1 < 9 {
//             let k0_2 = k_1
//             sum_2_acc_part[] = sum_2_acc_part[] + select(labels_row[turn_1] != -100, -reshape_1[k0_2], 0.0:f32)
//           }
//         }
//         sum_2_acc_tile[group, lane] = sum_2_acc_part[]
//         barrier
//         for level_1 in 3 {
//           let half_1 = 4 >> level_1
//           if lane < half_1 {
//             sum_2_acc_tile[group, lane] = sum_2_acc_tile[group, lane] + sum_2_acc_tile[group, lane + half_1]
//           }
//           barrier
//         }
//         let sum_2_acc = sum_2_acc_tile[group, 0]
//         alloc sum_1_acc_part: f32[] local
//         sum_1_acc_part[] = 0.0:f32
//         for turn in 2 unrolled {
//           let k = turn * 8 + lane
//           if k < 9 {
//             sum_1_acc_part[] = sum_1_acc_part[] + f32(labels_row[turn] != -100)
//           }
//         }
//         sum_1_acc_tile[group, lane] = sum_1_acc_part[]
//         barrier
//         for level in 3 {
//           let half = 4 >> level
//           if lane < half {
//             sum_1_acc_tile[group, lane] = sum_1_acc_tile[group, lane] + sum_1_acc_tile[group, lane + half]
//           }
//           barrier
//         }
//         let sum_1_acc = sum_1_acc_tile[group, 0]
//         if lane == 0 {
//           divide[] = sum_2_acc / sum_1_acc
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(8)
fused_not_equal_negative_where_cast_su_2(
    const i64 *__restrict__ labels,
    const f32 *__restrict__ reshape_1,
    f32 *__restrict__ divide) {
  const i64 bx = blockIdx.x;
  __shared__ f32 sum_2_acc_tile[8];
  __shared__ f32 sum_1_acc_tile[8];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx + group;
  i64 labels_row[2];
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 2; ++turn_2) {
    const i64 k_2 = turn_2 * 8 + lane;
    if (k_2 < 9) {
      const i64 k0_3 = k_2;
      labels_row[turn_2] = labels[k0_3];
    }
  }
  f32 sum_2_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 2; ++turn_1) {
    const i64 k_1 = turn_1 * 8 + lane;
    if (k_1 < 9) {
      const i64 k0_2 = k_1;
      sum_2_acc_part = sum_2_acc_part + (labels_row[turn_1] != -100 ? -reshape_1[k0_2] : 0.0f);
    }
  }
  sum_2_acc_tile[group * 8 + lane] = sum_2_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 3; ++level_1) {
    const i64 half_1 = shr_i64(4, level_1);
    if (lane < half_1) {
      sum_2_acc_tile[group * 8 + lane] = sum_2_acc_tile[group * 8 + lane] + sum_2_acc_tile[group * 8 + (lane + half_1)];
    }
    __syncthreads();
  }
  const f32 sum_2_acc = sum_2_acc_tile[group * 8];
  f32 sum_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn = 0; turn < 2; ++turn) {
    const i64 k = turn * 8 + lane;
    if (k < 9) {
      sum_1_acc_part = sum_1_acc_part + cast_b8_f32(labels_row[turn] != -100);
    }
  }
  sum_1_acc_tile[group * 8 + lane] = sum_1_acc_part;
  __syncthreads();
  for (i64 level = 0; level < 3; ++level) {
    const i64 half = shr_i64(4, level);
    if (lane < half) {
      sum_1_acc_tile[group * 8 + lane] = sum_1_acc_tile[group * 8 + lane] + sum_1_acc_tile[group * 8 + (lane + half)];
    }
    __syncthreads();
  }
  const f32 sum_1_acc = sum_1_acc_tile[group * 8];
  if (lane == 0) {
    divide[0] = sum_2_acc / sum_1_acc;
  }
}
