// computes max, subtract, exp, sum, log, subtract_1, c, not_equal, c_1, where, reshape, gather_elements
// kernel @fused_max_subtract_exp_sum_log_subtrac_0(x: f32[360], labels: i64[9], gather_elements: f32[9, 1]) writes (gather_elements) attrs(schedule='rows', source=('max', 'subtract', 'exp', 'sum', 'log', 'subtract_1', 'c', 'not_equal', 'c_1', 'where', 'reshape', 'gather_elements')) {
//   for bx in 2 bound blockIdx.x {
//     alloc x_pick: f32[8] shared
//     for group in 8 bound threadIdx.y {
//       for lane in 16 bound threadIdx.x {
//         let row = bx * 8 + group
//         let at = min(row, 8)
//         let i0 = at
//         alloc x_row: f32[4] local
//         if row < 9 {
//           for turn_3 in 1 unrolled {
//             let k_3 = turn_3 * 16 + lane
//             if k_3 < 10 {
//               let part_3 = k_3
//               for v_3 in 4 vectorized {
//                 x_row[turn_3 * 4 + v_3] = x[(i0 * 10 + part_3) * 4 + v_3]
//               }
//             }
//           }
//         }
//         let labels_1 = labels[i0]
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         if row < 9 {
//           for turn_2 in 1 unrolled {
//             let k_2 = turn_2 * 16 + lane
//             if k_2 < 10 {
//               for v_2 in 4 unrolled {
//                 max_acc_part[] = max(max_acc_part[], x_row[turn_2 * 4 + v_2])
//               }
//             }
//           }
//         }
//         exchange max_acc_part_other = max_acc_part[] by 1 {
//           max_acc_part[] = max(max_acc_part[], max_acc_part_other)
//         }
//         exchange max_acc_part_other_1 = max_acc_part[] by 2 {
//           max_acc_part[] = max(max_acc_part[], max_acc_part_other_1)
//         }
//         exchange max_acc_part_other_2 = max_acc_part[] by 4 {
//           max_acc_part[] = max(max_acc_part[], max_acc_part_other_2)
//         }
//         exchange max_acc_part_other_3 = max_acc_part[] by 8 {
//           max_acc_part[] = max(max_acc_part[], max_acc_part_other_3)
//         }
//         let max_acc = max_acc_part[]
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         if row < 9 {
//           for turn_1 in 1 unrolled {
//             let k_1 = turn_1 * 16 + lane
//             if k_1 < 10 {
//               for v_1 in 4 unrolled {
//                 sum_acc_part[] = sum_acc_part[] + exp(x_row[turn_1 * 4 + v_1] - max_acc)
//               }
//             }
//           }
//         }
//         exchange sum_acc_part_other = sum_acc_part[] by 1 {
//           sum_acc_part[] = sum_acc_part[] + sum_acc_part_other
//         }
//         exchange sum_acc_part_other_1 = sum_acc_part[] by 2 {
//           sum_acc_part[] = sum_acc_part[] + sum_acc_part_other_1
//         }
//         exchange sum_acc_part_other_2 = sum_acc_part[] by 4 {
//           sum_acc_part[] = sum_acc_part[] + sum_acc_part_other_2
//         }
//         exchange sum_acc_part_other_3 = sum_acc_part[] by 8 {
//           sum_acc_part[] = sum_acc_part[] + sum_acc_part_other_3
//         }
//         let sum_acc = sum_acc_part[]
//         if row < 9 {
//           for turn in 1 unrolled {
//             let k = turn * 16 + lane
//             if k < 10 {
//               let part = k
//               for v in 4 unrolled {
//                 let k0_1 = part * 4 + v
//                 if k0_1 == min(max(select(labels_1 != -100, labels_1, 0), -40), 39) % 40 {
//                   x_pick[group] = x_row[turn * 4 + v]
//                 }
//               }
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
extern "C" __global__ void __launch_bounds__(128)
fused_max_subtract_exp_sum_log_subtrac_0(
    const f32 *__restrict__ x,
    const i64 *__restrict__ labels,
    f32 *__restrict__ gather_elements) {
  const i64 bx = blockIdx.x;
  __shared__ f32 x_pick[8];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 at = min_i64(row, 8);
  const i64 i0 = at;
  f32 x_row[4];
  if (row < 9) {
    #pragma unroll
    for (i64 turn_3 = 0; turn_3 < 1; ++turn_3) {
      const i64 k_3 = turn_3 * 16 + lane;
      if (k_3 < 10) {
        const i64 part_3 = k_3;
        const f32x4 x_x4 = load4_f32(&x[(i0 * 10 + part_3) * 4]);
        x_row[turn_3 * 4] = x_x4.x;
        x_row[turn_3 * 4 + 1] = x_x4.y;
        x_row[turn_3 * 4 + 2] = x_x4.z;
        x_row[turn_3 * 4 + 3] = x_x4.w;
      }
    }
  }
  const i64 labels_1 = labels[i0];
  f32 max_acc_part = -inf_f32();
  if (row < 9) {
    #pragma unroll
    for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
      const i64 k_2 = turn_2 * 16 + lane;
      if (k_2 < 10) {
        #pragma unroll
        for (i64 v_2 = 0; v_2 < 4; ++v_2) {
          max_acc_part = max_f32(max_acc_part, x_row[turn_2 * 4 + v_2]);
        }
      }
    }
  }
  const f32 max_acc_part_other = shuffle_xor_f32(max_acc_part, 1);
  max_acc_part = max_f32(max_acc_part, max_acc_part_other);
  const f32 max_acc_part_other_1 = shuffle_xor_f32(max_acc_part, 2);
  max_acc_part = max_f32(max_acc_part, max_acc_part_other_1);
  const f32 max_acc_part_other_2 = shuffle_xor_f32(max_acc_part, 4);
  max_acc_part = max_f32(max_acc_part, max_acc_part_other_2);
  const f32 max_acc_part_other_3 = shuffle_xor_f32(max_acc_part, 8);
  max_acc_part = max_f32(max_acc_part, max_acc_part_other_3);
  const f32 max_acc = max_acc_part;
  f32 sum_acc_part = 0.0f;
  if (row < 9) {
    #pragma unroll
    for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
      const i64 k_1 = turn_1 * 16 + lane;
      if (k_1 < 10) {
        #pragma unroll
        for (i64 v_1 = 0; v_1 < 4; ++v_1) {
          sum_acc_part = sum_acc_part + exp_f32(x_row[turn_1 * 4 + v_1] - max_acc);
        }
      }
    }
  }
  const f32 sum_acc_part_other = shuffle_xor_f32(sum_acc_part, 1);
  sum_acc_part = sum_acc_part + sum_acc_part_other;
  const f32 sum_acc_part_other_1 = shuffle_xor_f32(sum_acc_part, 2);
  sum_acc_part = sum_acc_part + sum_acc_part_other_1;
  const f32 sum_acc_part_other_2 = shuffle_xor_f32(sum_acc_part, 4);
  sum_acc_part = sum_acc_part + sum_acc_part_other_2;
  const f32 sum_acc_part_other_3 = shuffle_xor_f32(sum_acc_part, 8);
  sum_acc_part = sum_acc_part + sum_acc_part_other_3;
  const f32 sum_acc = sum_acc_part;
  if (row < 9) {
    #pragma unroll
    for (i64 turn = 0; turn < 1; ++turn) {
      const i64 k = turn * 16 + lane;
      if (k < 10) {
        const i64 part = k;
        #pragma unroll
        for (i64 v = 0; v < 4; ++v) {
          const i64 k0_1 = part * 4 + v;
          if (k0_1 == floormod_i64(min_i64(max_i64(labels_1 != -100 ? labels_1 : 0, -40), 39), 40)) {
            x_pick[group] = x_row[turn * 4 + v];
          }
        }
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
//     for group in 1 bound threadIdx.y {
//       for lane in 16 bound threadIdx.x {
//         let row = bx + group
//         alloc labels_row: i64[1] local
//         for turn_2 in 1 unrolled {
//           let k_2 = turn_2 * 16 + lane
//           if k_2 < 9 {
//             let k0_3 = k_2
//             labels_row[turn_2] = labels[k0_3]
//           }
//         }
//         alloc sum_2_acc_part: f32[] local
//         sum_2_acc_part[] = 0.0:f32
//         for turn_1 in 1 unrolled {
//           let k_1 = turn_1 * 16 + lane
//           if k_1 < 9 {
//             let k0_2 = k_1
//             sum_2_acc_part[] = sum_2_acc_part[] + select(labels_row[turn_1] != -100, -reshape_1[k0_2], 0.0:f32)
//           }
//         }
//         exchange sum_2_acc_part_other = sum_2_acc_part[] by 1 {
//           sum_2_acc_part[] = sum_2_acc_part[] + sum_2_acc_part_other
//         }
//         exchange sum_2_acc_part_other_1 = sum_2_acc_part[] by 2 {
//           sum_2_acc_part[] = sum_2_acc_part[] + sum_2_acc_part_other_1
//         }
//         exchange sum_2_acc_part_other_2 = sum_2_acc_part[] by 4 {
//           sum_2_acc_part[] = sum_2_acc_part[] + sum_2_acc_part_other_2
//         }
//         exchange sum_2_acc_part_other_3 = sum_2_acc_part[] by 8 {
//           sum_2_acc_part[] = sum_2_acc_part[] + sum_2_acc_part_other_3
//         }
//         let sum_2_acc = sum_2_acc_part[]
//         alloc sum_1_acc_part: f32[] local
//         sum_1_acc_part[] = 0.0:f32
//         for turn in 1 unrolled {
//           let k = turn * 16 + lane
//           if k < 9 {
//             sum_1_acc_part[] = sum_1_acc_part[] + f32(labels_row[turn] != -100)
//           }
//         }
//         exchange sum_1_acc_part_other = sum_1_acc_part[] by 1 {
//           sum_1_acc_part[] = sum_1_acc_part[] + sum_1_acc_part_other
//         }
//         exchange sum_1_acc_part_other_1 = sum_1_acc_part[] by 2 {
//           sum_1_acc_part[] = sum_1_acc_part[] + sum_1_acc_part_other_1
//         }
//         exchange sum_1_acc_part_other_2 = sum_1_acc_part[] by 4 {
//           sum_1_acc_part[] = sum_1_acc_part[] + sum_1_acc_part_other_2
//         }
//         exchange sum_1_acc_part_other_3 = sum_1_acc_part[] by 8 {
//           sum_1_acc_part[] = sum_1_acc_part[] + sum_1_acc_part_other_3
//         }
//         let sum_1_acc = sum_1_acc_part[]
//         if lane == 0 {
//           divide[] = sum_2_acc / sum_1_acc
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(16)
fused_not_equal_negative_where_cast_su_2(
    const i64 *__restrict__ labels,
    const f32 *__restrict__ reshape_1,
    f32 *__restrict__ divide) {
  const i64 bx = blockIdx.x;
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx + group;
  i64 labels_row;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
    const i64 k_2 = turn_2 * 16 + lane;
    if (k_2 < 9) {
      const i64 k0_3 = k_2;
      labels_row = labels[k0_3];
    }
  }
  f32 sum_2_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
    const i64 k_1 = turn_1 * 16 + lane;
    if (k_1 < 9) {
      const i64 k0_2 = k_1;
      sum_2_acc_part = sum_2_acc_part + (labels_row != -100 ? -reshape_1[k0_2] : 0.0f);
    }
  }
  const f32 sum_2_acc_part_other = shuffle_xor_f32(sum_2_acc_part, 1);
  sum_2_acc_part = sum_2_acc_part + sum_2_acc_part_other;
  const f32 sum_2_acc_part_other_1 = shuffle_xor_f32(sum_2_acc_part, 2);
  sum_2_acc_part = sum_2_acc_part + sum_2_acc_part_other_1;
  const f32 sum_2_acc_part_other_2 = shuffle_xor_f32(sum_2_acc_part, 4);
  sum_2_acc_part = sum_2_acc_part + sum_2_acc_part_other_2;
  const f32 sum_2_acc_part_other_3 = shuffle_xor_f32(sum_2_acc_part, 8);
  sum_2_acc_part = sum_2_acc_part + sum_2_acc_part_other_3;
  const f32 sum_2_acc = sum_2_acc_part;
  f32 sum_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn = 0; turn < 1; ++turn) {
    const i64 k = turn * 16 + lane;
    if (k < 9) {
      sum_1_acc_part = sum_1_acc_part + cast_b8_f32(labels_row != -100);
    }
  }
  const f32 sum_1_acc_part_other = shuffle_xor_f32(sum_1_acc_part, 1);
  sum_1_acc_part = sum_1_acc_part + sum_1_acc_part_other;
  const f32 sum_1_acc_part_other_1 = shuffle_xor_f32(sum_1_acc_part, 2);
  sum_1_acc_part = sum_1_acc_part + sum_1_acc_part_other_1;
  const f32 sum_1_acc_part_other_2 = shuffle_xor_f32(sum_1_acc_part, 4);
  sum_1_acc_part = sum_1_acc_part + sum_1_acc_part_other_2;
  const f32 sum_1_acc_part_other_3 = shuffle_xor_f32(sum_1_acc_part, 8);
  sum_1_acc_part = sum_1_acc_part + sum_1_acc_part_other_3;
  const f32 sum_1_acc = sum_1_acc_part;
  if (lane == 0) {
    divide[0] = sum_2_acc / sum_1_acc;
  }
}
