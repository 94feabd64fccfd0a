// computes exp, sum, multiply, subtract
// kernel @fused_exp_sum_multiply_subtract_0(y: f32[600], g: f32[600], subtract: f32[600]) writes (subtract) attrs(schedule='rows', source=('exp', 'sum', 'multiply', 'subtract')) {
//   for bx in 2 bound blockIdx.x {
//     for group in 4 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 4 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc g_row: f32[4] local
//         if row < 6 {
//           for turn_2 in 1 unrolled {
//             let k_2 = turn_2 * 32 + lane
//             if k_2 < 25 {
//               let part_2 = k_2
//               for v_2 in 4 vectorized {
//                 g_row[turn_2 * 4 + v_2] = g[(i0 * 25 + part_2) * 4 + v_2]
//               }
//             }
//           }
//         }
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         if row < 6 {
//           for turn_1 in 1 unrolled {
//             let k_1 = turn_1 * 32 + lane
//             if k_1 < 25 {
//               for v_1 in 4 unrolled {
//                 sum_acc_part[] = sum_acc_part[] + g_row[turn_1 * 4 + v_1]
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
//                 subtract[(i0 * 25 + part) * 4 + v] = g_row[turn * 4 + v] - exp(y[(i0 * 25 + part) * 4 + v]) * sum_acc
//               }
//             }
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_exp_sum_multiply_subtract_0(
    const f32 *__restrict__ y,
    const f32 *__restrict__ g,
    f32 *__restrict__ subtract) {
  const i64 bx = blockIdx.x;
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 4 + group;
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 g_row[4];
  if (row < 6) {
    #pragma unroll
    for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
      const i64 k_2 = turn_2 * 32 + lane;
      if (k_2 < 25) {
        const i64 part_2 = k_2;
        const f32x4 g_x4 = load4_f32(&g[(i0 * 25 + part_2) * 4]);
        g_row[turn_2 * 4] = g_x4.x;
        g_row[turn_2 * 4 + 1] = g_x4.y;
        g_row[turn_2 * 4 + 2] = g_x4.z;
        g_row[turn_2 * 4 + 3] = g_x4.w;
      }
    }
  }
  f32 sum_acc_part = 0.0f;
  if (row < 6) {
    #pragma unroll
    for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
      const i64 k_1 = turn_1 * 32 + lane;
      if (k_1 < 25) {
        #pragma unroll
        for (i64 v_1 = 0; v_1 < 4; ++v_1) {
          sum_acc_part = sum_acc_part + g_row[turn_1 * 4 + v_1];
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
        const f32x4 y_x4 = load4_f32(&y[(i0 * 25 + part) * 4]);
        f32x4 subtract_x4;
        subtract_x4.x = g_row[turn * 4] - exp_f32(y_x4.x) * sum_acc;
        subtract_x4.y = g_row[turn * 4 + 1] - exp_f32(y_x4.y) * sum_acc;
        subtract_x4.z = g_row[turn * 4 + 2] - exp_f32(y_x4.z) * sum_acc;
        subtract_x4.w = g_row[turn * 4 + 3] - exp_f32(y_x4.w) * sum_acc;
        store4_f32(&subtract[(i0 * 25 + part) * 4], subtract_x4);
      }
    }
  }
}
