// computes max, subtract, exp, sum, divide, multiply
// kernel @fused_max_subtract_exp_sum_divide_mult_1(x: f32[600], reshape: f32[6, 1], multiply: f32[600]) writes (multiply) attrs(schedule='rows', source=('max', 'subtract', 'exp', 'sum', 'divide', 'multiply')) {
//   for bx in 2 bound blockIdx.x {
//     for group in 4 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 4 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc x_row: f32[4] local
//         if row < 6 {
//           for turn_3 in 1 unrolled {
//             let k_3 = turn_3 * 32 + lane
//             if k_3 < 25 {
//               let part_3 = k_3
//               for v_3 in 4 vectorized {
//                 x_row[turn_3 * 4 + v_3] = x[(i0 * 25 + part_3) * 4 + v_3]
//               }
//             }
//           }
//         }
//         alloc kept: f32[4] local
//         let reshape_1 = reshape[i0, 0]
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         if row < 6 {
//           for turn_2 in 1 unrolled {
//             let k_2 = turn_2 * 32 + lane
//             if k_2 < 25 {
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
//         exchange max_acc_part_other_4 = max_acc_part[] by 16 {
//           max_acc_part[] = max(max_acc_part[], max_acc_part_other_4)
//         }
//         let max_acc = max_acc_part[]
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         if row < 6 {
//           for turn_1 in 1 unrolled {
//             let k_1 = turn_1 * 32 + lane
//             if k_1 < 25 {
//               for v_1 in 4 unrolled {
//                 kept[turn_1 * 4 + v_1] = exp(x_row[turn_1 * 4 + v_1] - max_acc)
//                 sum_acc_part[] = sum_acc_part[] + kept[turn_1 * 4 + v_1]
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
//         exchange sum_acc_part_other_4 = sum_acc_part[] by 16 {
//           sum_acc_part[] = sum_acc_part[] + sum_acc_part_other_4
//         }
//         let sum_acc = sum_acc_part[]
//         if row < 6 {
//           for turn in 1 unrolled {
//             let k = turn * 32 + lane
//             if k < 25 {
//               let part = k
//               for v in 4 vectorized {
//                 multiply[(i0 * 25 + part) * 4 + v] = reshape_1 * (kept[turn * 4 + v] / sum_acc)
//               }
//             }
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_max_subtract_exp_sum_divide_mult_1(
    const f32 *__restrict__ x,
    const f32 *__restrict__ reshape,
    f32 *__restrict__ multiply) {
  const i64 bx = blockIdx.x;
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 4 + group;
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 x_row[4];
  if (row < 6) {
    #pragma unroll
    for (i64 turn_3 = 0; turn_3 < 1; ++turn_3) {
      const i64 k_3 = turn_3 * 32 + lane;
      if (k_3 < 25) {
        const i64 part_3 = k_3;
        const f32x4 x_x4 = load4_f32(&x[(i0 * 25 + part_3) * 4]);
        x_row[turn_3 * 4] = x_x4.x;
        x_row[turn_3 * 4 + 1] = x_x4.y;
        x_row[turn_3 * 4 + 2] = x_x4.z;
        x_row[turn_3 * 4 + 3] = x_x4.w;
      }
    }
  }
  f32 kept[4];
  const f32 reshape_1 = reshape[i0];
  f32 max_acc_part = -inf_f32();
  if (row < 6) {
    #pragma unroll
    for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
      const i64 k_2 = turn_2 * 32 + lane;
      if (k_2 < 25) {
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
  const f32 max_acc_part_other_4 = shuffle_xor_f32(max_acc_part, 16);
  max_acc_part = max_f32(max_acc_part, max_acc_part_other_4);
  const f32 max_acc = max_acc_part;
  f32 sum_acc_part = 0.0f;
  if (row < 6) {
    #pragma unroll
    for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
      const i64 k_1 = turn_1 * 32 + lane;
      if (k_1 < 25) {
        #pragma unroll
        for (i64 v_1 = 0; v_1 < 4; ++v_1) {
          kept[turn_1 * 4 + v_1] = exp_f32(x_row[turn_1 * 4 + v_1] - max_acc);
          sum_acc_part = sum_acc_part + kept[turn_1 * 4 + v_1];
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
  const f32 sum_acc_part_other_4 = shuffle_xor_f32(sum_acc_part, 16);
  sum_acc_part = sum_acc_part + sum_acc_part_other_4;
  const f32 sum_acc = sum_acc_part;
  if (row < 6) {
    #pragma unroll
    for (i64 turn = 0; turn < 1; ++turn) {
      const i64 k = turn * 32 + lane;
      if (k < 25) {
        const i64 part = k;
        f32x4 multiply_x4;
        f32x4 above_x4;
        above_x4.x = kept[turn * 4];
        above_x4.y = kept[turn * 4 + 1];
        above_x4.z = kept[turn * 4 + 2];
        above_x4.w = kept[turn * 4 + 3];
        const f32x4 quotients_x4 = quotients4_f32(above_x4, sum_acc);
        multiply_x4.x = reshape_1 * quotients_x4.x;
        multiply_x4.y = reshape_1 * quotients_x4.y;
        multiply_x4.z = reshape_1 * quotients_x4.z;
        multiply_x4.w = reshape_1 * quotients_x4.w;
        store4_f32(&multiply[(i0 * 25 + part) * 4], multiply_x4);
      }
    }
  }
}
