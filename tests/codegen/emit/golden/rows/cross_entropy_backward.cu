// computes max, subtract, exp, sum, divide, constant, add, constant_1, less, where, reshape, iota, equal, constant_2, constant_3, where_1, subtract_1, c, divide_1
// kernel @fused_max_subtract_exp_sum_divide_add_0(x: f32[9, 40], labels: i64[9], divide_1: f32[9, 40]) writes (divide_1) attrs(schedule='rows', source=('max', 'subtract', 'exp', 'sum', 'divide', 'constant', 'add', 'constant_1', 'less', 'where', 'reshape', 'iota', 'equal', 'constant_2', 'constant_3', 'where_1', 'subtract_1', 'c', 'divide_1')) {
//   for bx in 1 bound blockIdx.x {
//     alloc max_acc_tile: f32[16, 16] shared
//     alloc sum_acc_tile: f32[16, 16] shared
//     for group in 16 bound threadIdx.y {
//       for lane in 16 bound threadIdx.x {
//         let row = bx * 16 + group
//         let at = min(row, 8)
//         let i0 = at
//         alloc x_row: f32[3] local
//         for turn_3 in 3 unrolled {
//           let k_3 = turn_3 * 16 + lane
//           if row < 9 and k_3 < 40 {
//             let i1_4 = k_3
//             x_row[turn_3] = x[i0, i1_4]
//           }
//         }
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
//         let labels_1 = labels[i0]
//         let where = select(labels_1 < 0, labels_1 + 40, labels_1)
//         for turn in 3 unrolled {
//           let k = turn * 16 + lane
//           if row < 9 and k < 40 {
//             let i1_1 = k
//             divide_1[i0, i1_1] = (exp(x_row[turn] - max_acc) / sum_acc - select(where == i1_1, 1.0:f32, 0.0:f32)) / 9.0:f32
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_max_subtract_exp_sum_divide_add_0(
    const f32 *__restrict__ x,
    const i64 *__restrict__ labels,
    f32 *__restrict__ divide_1) {
  const i64 bx = blockIdx.x;
  __shared__ f32 max_acc_tile[256];
  __shared__ f32 sum_acc_tile[256];
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
      const i64 i1_4 = k_3;
      x_row[turn_3] = x[i0 * 40 + i1_4];
    }
  }
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
  const i64 labels_1 = labels[i0];
  const i64 where = labels_1 < 0 ? add_i64(labels_1, 40) : labels_1;
  #pragma unroll
  for (i64 turn = 0; turn < 3; ++turn) {
    const i64 k = turn * 16 + lane;
    if (row < 9 && k < 40) {
      const i64 i1_1 = k;
      divide_1[i0 * 40 + i1_1] = (exp_f32(x_row[turn] - max_acc) / sum_acc - (where == i1_1 ? 1.0f : 0.0f)) / 9.0f;
    }
  }
}
