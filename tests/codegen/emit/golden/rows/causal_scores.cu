// computes c, multiply, c_1, iota, iota_1, reshape, less_equal, where, max, subtract, exp, sum, divide
// kernel @fused_multiply_iota_iota_reshape_less_0(s: f32[1440], divide: f32[1440]) writes (divide) attrs(schedule='rows', source=('c', 'multiply', 'c_1', 'iota', 'iota_1', 'reshape', 'less_equal', 'where', 'max', 'subtract', 'exp', 'sum', 'divide')) {
//   for bx in 5 bound blockIdx.x {
//     for group in 16 bound threadIdx.y {
//       for lane in 8 bound threadIdx.x {
//         let row = bx * 16 + group
//         let at = min(row, 71)
//         let i0 = at // 12 // 3
//         let i1 = at // 12 % 3
//         let %'i2' = at % 12
//         alloc s_row: f32[4] local
//         if row < 72 {
//           for turn_3 in 1 unrolled {
//             let k_3 = turn_3 * 8 + lane
//             if k_3 < 5 {
//               let part_3 = k_3
//               for v_3 in 4 vectorized {
//                 s_row[turn_3 * 4 + v_3] = s[(i0 * 180 + i1 * 60 + %'i2' * 5 + part_3) * 4 + v_3]
//               }
//             }
//           }
//         }
//         alloc kept: f32[4] local
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         if row < 72 {
//           for turn_2 in 1 unrolled {
//             let k_2 = turn_2 * 8 + lane
//             if k_2 < 5 {
//               let part_2 = k_2
//               for v_2 in 4 unrolled {
//                 let i3_3 = part_2 * 4 + v_2
//                 max_acc_part[] = max(max_acc_part[], select(i3_3 <= %'i2', s_row[turn_2 * 4 + v_2] * 0.125:f32, -inf:f32))
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
//         let max_acc = max_acc_part[]
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         if row < 72 {
//           for turn_1 in 1 unrolled {
//             let k_1 = turn_1 * 8 + lane
//             if k_1 < 5 {
//               let part_1 = k_1
//               for v_1 in 4 unrolled {
//                 let i3_2 = part_1 * 4 + v_1
//                 kept[turn_1 * 4 + v_1] = exp(select(i3_2 <= %'i2', s_row[turn_1 * 4 + v_1] * 0.125:f32, -inf:f32) - max_acc)
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
//         let sum_acc = sum_acc_part[]
//         if row < 72 {
//           for turn in 1 unrolled {
//             let k = turn * 8 + lane
//             if k < 5 {
//               let part = k
//               for v in 4 vectorized {
//                 divide[(i0 * 180 + i1 * 60 + %'i2' * 5 + part) * 4 + v] = kept[turn * 4 + v] / sum_acc
//               }
//             }
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_multiply_iota_iota_reshape_less_0(const f32 *__restrict__ s, f32 *__restrict__ divide) {
  const i64 bx = blockIdx.x;
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 16 + group;
  const i64 at = min_i64(row, 71);
  const i64 i0 = at / 12 / 3;
  const i64 i1 = at / 12 % 3;
  const i64 i2 = at % 12;
  f32 s_row[4];
  if (row < 72) {
    #pragma unroll
    for (i64 turn_3 = 0; turn_3 < 1; ++turn_3) {
      const i64 k_3 = turn_3 * 8 + lane;
      if (k_3 < 5) {
        const i64 part_3 = k_3;
        const f32x4 s_x4 = load4_f32(&s[(i0 * 180 + i1 * 60 + i2 * 5 + part_3) * 4]);
        s_row[turn_3 * 4] = s_x4.x;
        s_row[turn_3 * 4 + 1] = s_x4.y;
        s_row[turn_3 * 4 + 2] = s_x4.z;
        s_row[turn_3 * 4 + 3] = s_x4.w;
      }
    }
  }
  f32 kept[4];
  f32 max_acc_part = -inf_f32();
  if (row < 72) {
    #pragma unroll
    for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
      const i64 k_2 = turn_2 * 8 + lane;
      if (k_2 < 5) {
        const i64 part_2 = k_2;
        #pragma unroll
        for (i64 v_2 = 0; v_2 < 4; ++v_2) {
          const i64 i3_3 = part_2 * 4 + v_2;
          max_acc_part = max_f32(max_acc_part, i3_3 <= i2 ? s_row[turn_2 * 4 + v_2] * 0.125f : -inf_f32());
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
  const f32 max_acc = max_acc_part;
  f32 sum_acc_part = 0.0f;
  if (row < 72) {
    #pragma unroll
    for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
      const i64 k_1 = turn_1 * 8 + lane;
      if (k_1 < 5) {
        const i64 part_1 = k_1;
        #pragma unroll
        for (i64 v_1 = 0; v_1 < 4; ++v_1) {
          const i64 i3_2 = part_1 * 4 + v_1;
          kept[turn_1 * 4 + v_1] = exp_f32((i3_2 <= i2 ? s_row[turn_1 * 4 + v_1] * 0.125f : -inf_f32()) - max_acc);
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
  const f32 sum_acc = sum_acc_part;
  if (row < 72) {
    #pragma unroll
    for (i64 turn = 0; turn < 1; ++turn) {
      const i64 k = turn * 8 + lane;
      if (k < 5) {
        const i64 part = k;
        f32x4 divide_x4;
        f32x4 above_x4;
        above_x4.x = kept[turn * 4];
        above_x4.y = kept[turn * 4 + 1];
        above_x4.z = kept[turn * 4 + 2];
        above_x4.w = kept[turn * 4 + 3];
        const f32x4 quotients_x4 = quotients4_f32(above_x4, sum_acc);
        divide_x4.x = quotients_x4.x;
        divide_x4.y = quotients_x4.y;
        divide_x4.z = quotients_x4.z;
        divide_x4.w = quotients_x4.w;
        store4_f32(&divide[(i0 * 180 + i1 * 60 + i2 * 5 + part) * 4], divide_x4);
      }
    }
  }
}
