// computes max, subtract, exp, sum, divide, constant, add, constant_1, less, where, reshape, iota, equal, constant_2, constant_3, where_1, subtract_1, c, divide_1
// kernel @fused_max_subtract_exp_sum_divide_add_0(x: f32[360], labels: i64[9], divide_1: f32[360]) writes (divide_1) attrs(schedule='rows', source=('max', 'subtract', 'exp', 'sum', 'divide', 'constant', 'add', 'constant_1', 'less', 'where', 'reshape', 'iota', 'equal', 'constant_2', 'constant_3', 'where_1', 'subtract_1', 'c', 'divide_1')) {
//   for bx in 2 bound blockIdx.x {
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
//         alloc kept: f32[4] local
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
//         let sum_acc = sum_acc_part[]
//         let labels_1 = labels[i0]
//         let where = select(labels_1 < 0, labels_1 + 40, labels_1)
//         if row < 9 {
//           for turn in 1 unrolled {
//             let k = turn * 16 + lane
//             if k < 10 {
//               let part = k
//               for v in 4 vectorized {
//                 let i1_1 = part * 4 + v
//                 divide_1[(i0 * 10 + part) * 4 + v] = (kept[turn * 4 + v] / sum_acc - select(where == i1_1, 1.0:f32, 0.0:f32)) / 9.0:f32
//               }
//             }
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_max_subtract_exp_sum_divide_add_0(
    const f32 *__restrict__ x,
    const i64 *__restrict__ labels,
    f32 *__restrict__ divide_1) {
  const i64 bx = blockIdx.x;
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
  f32 kept[4];
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
  const f32 sum_acc = sum_acc_part;
  const i64 labels_1 = labels[i0];
  const i64 where = labels_1 < 0 ? add_i64(labels_1, 40) : labels_1;
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
        const f32x4 quotients_x4 = quotients4_f32(above_x4, sum_acc);
        const i64 i1_1 = part * 4;
        divide_1_x4.x = (quotients_x4.x - (where == i1_1 ? 1.0f : 0.0f)) / 9.0f;
        const i64 i1_1_1 = part * 4 + 1;
        divide_1_x4.y = (quotients_x4.y - (where == i1_1_1 ? 1.0f : 0.0f)) / 9.0f;
        const i64 i1_1_2 = part * 4 + 2;
        divide_1_x4.z = (quotients_x4.z - (where == i1_1_2 ? 1.0f : 0.0f)) / 9.0f;
        const i64 i1_1_3 = part * 4 + 3;
        divide_1_x4.w = (quotients_x4.w - (where == i1_1_3 ? 1.0f : 0.0f)) / 9.0f;
        store4_f32(&divide_1[(i0 * 10 + part) * 4], divide_1_x4);
      }
    }
  }
}
