// computes sum, max, subtract, exp, sum_1, divide, multiply, subtract_1, c, divide_1
// kernel @fused_sum_max_subtract_exp_sum_divide_0(target: f32[360], x: f32[360], divide_1: f32[360]) writes (divide_1) attrs(schedule='rows', source=('sum', 'max', 'subtract', 'exp', 'sum_1', 'divide', 'multiply', 'subtract_1', 'c', 'divide_1')) {
//   for bx in 2 bound blockIdx.x {
//     for group in 8 bound threadIdx.y {
//       for lane in 16 bound threadIdx.x {
//         let row = bx * 8 + group
//         let at = min(row, 8)
//         let i0 = at
//         alloc target_row: f32[4] local
//         alloc x_row: f32[4] local
//         if row < 9 {
//           for turn_4 in 1 unrolled {
//             let k_4 = turn_4 * 16 + lane
//             if k_4 < 10 {
//               let part_4 = k_4
//               for v_4 in 4 vectorized {
//                 target_row[turn_4 * 4 + v_4] = target[(i0 * 10 + part_4) * 4 + v_4]
//                 x_row[turn_4 * 4 + v_4] = x[(i0 * 10 + part_4) * 4 + v_4]
//               }
//             }
//           }
//         }
//         alloc kept: f32[4] local
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         if row < 9 {
//           for turn_3 in 1 unrolled {
//             let k_3 = turn_3 * 16 + lane
//             if k_3 < 10 {
//               for v_3 in 4 unrolled {
//                 max_acc_part[] = max(max_acc_part[], x_row[turn_3 * 4 + v_3])
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
//         alloc sum_1_acc_part: f32[] local
//         sum_1_acc_part[] = 0.0:f32
//         if row < 9 {
//           for turn_2 in 1 unrolled {
//             let k_2 = turn_2 * 16 + lane
//             if k_2 < 10 {
//               for v_2 in 4 unrolled {
//                 kept[turn_2 * 4 + v_2] = exp(x_row[turn_2 * 4 + v_2] - max_acc)
//                 sum_1_acc_part[] = sum_1_acc_part[] + kept[turn_2 * 4 + v_2]
//               }
//             }
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
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         if row < 9 {
//           for turn_1 in 1 unrolled {
//             let k_1 = turn_1 * 16 + lane
//             if k_1 < 10 {
//               for v_1 in 4 unrolled {
//                 sum_acc_part[] = sum_acc_part[] + target_row[turn_1 * 4 + v_1]
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
//               for v in 4 vectorized {
//                 divide_1[(i0 * 10 + part) * 4 + v] = (kept[turn * 4 + v] / sum_1_acc * sum_acc - target_row[turn * 4 + v]) / 9.0:f32
//               }
//             }
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_sum_max_subtract_exp_sum_divide_0(
    const f32 *__restrict__ target,
    const f32 *__restrict__ x,
    f32 *__restrict__ divide_1) {
  const i64 bx = blockIdx.x;
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 at = min_i64(row, 8);
  const i64 i0 = at;
  f32 target_row[4];
  f32 x_row[4];
  if (row < 9) {
    #pragma unroll
    for (i64 turn_4 = 0; turn_4 < 1; ++turn_4) {
      const i64 k_4 = turn_4 * 16 + lane;
      if (k_4 < 10) {
        const i64 part_4 = k_4;
        const f32x4 target_x4 = load4_f32(&target[(i0 * 10 + part_4) * 4]);
        const f32x4 x_x4 = load4_f32(&x[(i0 * 10 + part_4) * 4]);
        target_row[turn_4 * 4] = target_x4.x;
        x_row[turn_4 * 4] = x_x4.x;
        target_row[turn_4 * 4 + 1] = target_x4.y;
        x_row[turn_4 * 4 + 1] = x_x4.y;
        target_row[turn_4 * 4 + 2] = target_x4.z;
        x_row[turn_4 * 4 + 2] = x_x4.z;
        target_row[turn_4 * 4 + 3] = target_x4.w;
        x_row[turn_4 * 4 + 3] = x_x4.w;
      }
    }
  }
  f32 kept[4];
  f32 max_acc_part = -inf_f32();
  if (row < 9) {
    #pragma unroll
    for (i64 turn_3 = 0; turn_3 < 1; ++turn_3) {
      const i64 k_3 = turn_3 * 16 + lane;
      if (k_3 < 10) {
        #pragma unroll
        for (i64 v_3 = 0; v_3 < 4; ++v_3) {
          max_acc_part = max_f32(max_acc_part, x_row[turn_3 * 4 + v_3]);
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
  f32 sum_1_acc_part = 0.0f;
  if (row < 9) {
    #pragma unroll
    for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
      const i64 k_2 = turn_2 * 16 + lane;
      if (k_2 < 10) {
        #pragma unroll
        for (i64 v_2 = 0; v_2 < 4; ++v_2) {
          kept[turn_2 * 4 + v_2] = exp_f32(x_row[turn_2 * 4 + v_2] - max_acc);
          sum_1_acc_part = sum_1_acc_part + kept[turn_2 * 4 + v_2];
        }
      }
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
  f32 sum_acc_part = 0.0f;
  if (row < 9) {
    #pragma unroll
    for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
      const i64 k_1 = turn_1 * 16 + lane;
      if (k_1 < 10) {
        #pragma unroll
        for (i64 v_1 = 0; v_1 < 4; ++v_1) {
          sum_acc_part = sum_acc_part + target_row[turn_1 * 4 + v_1];
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
        f32x4 divide_1_x4;
        f32x4 above_x4;
        above_x4.x = kept[turn * 4];
        above_x4.y = kept[turn * 4 + 1];
        above_x4.z = kept[turn * 4 + 2];
        above_x4.w = kept[turn * 4 + 3];
        const f32x4 quotients_x4 = quotients4_f32(above_x4, sum_1_acc);
        divide_1_x4.x = (quotients_x4.x * sum_acc - target_row[turn * 4]) / 9.0f;
        divide_1_x4.y = (quotients_x4.y * sum_acc - target_row[turn * 4 + 1]) / 9.0f;
        divide_1_x4.z = (quotients_x4.z * sum_acc - target_row[turn * 4 + 2]) / 9.0f;
        divide_1_x4.w = (quotients_x4.w * sum_acc - target_row[turn * 4 + 3]) / 9.0f;
        store4_f32(&divide_1[(i0 * 10 + part) * 4], divide_1_x4);
      }
    }
  }
}
