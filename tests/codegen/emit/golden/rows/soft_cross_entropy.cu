// computes max, subtract, exp, sum, log, subtract_1, multiply, sum_1
// kernel @fused_max_subtract_exp_sum_log_subtrac_0(x: f32[360], target: f32[360], sum_1: f32[9]) writes (sum_1) attrs(schedule='rows', source=('max', 'subtract', 'exp', 'sum', 'log', 'subtract_1', 'multiply', 'sum_1')) {
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
//               for v_4 in 4 vectorized {
//                 x_row[turn_3 * 4 + v_4] = x[(i0 * 10 + part_3) * 4 + v_4]
//               }
//             }
//           }
//         }
//         alloc max_acc_part: f32[] local
//         max_acc_part[] = -inf:f32
//         if row < 9 {
//           for turn_2 in 1 unrolled {
//             let k_2 = turn_2 * 16 + lane
//             if k_2 < 10 {
//               for v_3 in 4 unrolled {
//                 max_acc_part[] = max(max_acc_part[], x_row[turn_2 * 4 + v_3])
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
//               for v_2 in 4 unrolled {
//                 sum_acc_part[] = sum_acc_part[] + exp(x_row[turn_1 * 4 + v_2] - max_acc)
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
//         let log = log(sum_acc)
//         alloc sum_1_acc_part: f32[] local
//         sum_1_acc_part[] = 0.0:f32
//         if row < 9 {
//           for turn in 1 unrolled {
//             let k = turn * 16 + lane
//             if k < 10 {
//               let part = k
//               alloc target_some: f32[4] local
//               for v in 4 vectorized {
//                 target_some[v] = target[(i0 * 10 + part) * 4 + v]
//               }
//               for v_1 in 4 unrolled {
//                 sum_1_acc_part[] = sum_1_acc_part[] + (x_row[turn * 4 + v_1] - max_acc - log) * target_some[v_1]
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
//         if lane == 0 and row < 9 {
//           sum_1[i0] = sum_1_acc
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_max_subtract_exp_sum_log_subtrac_0(
    const f32 *__restrict__ x,
    const f32 *__restrict__ target,
    f32 *__restrict__ sum_1) {
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
  f32 max_acc_part = -inf_f32();
  if (row < 9) {
    #pragma unroll
    for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
      const i64 k_2 = turn_2 * 16 + lane;
      if (k_2 < 10) {
        #pragma unroll
        for (i64 v_3 = 0; v_3 < 4; ++v_3) {
          max_acc_part = max_f32(max_acc_part, x_row[turn_2 * 4 + v_3]);
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
        for (i64 v_2 = 0; v_2 < 4; ++v_2) {
          sum_acc_part = sum_acc_part + exp_f32(x_row[turn_1 * 4 + v_2] - max_acc);
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
  const f32 log = log_f32(sum_acc);
  f32 sum_1_acc_part = 0.0f;
  if (row < 9) {
    #pragma unroll
    for (i64 turn = 0; turn < 1; ++turn) {
      const i64 k = turn * 16 + lane;
      if (k < 10) {
        const i64 part = k;
        f32 target_some[4];
        const f32x4 target_x4 = load4_f32(&target[(i0 * 10 + part) * 4]);
        target_some[0] = target_x4.x;
        target_some[1] = target_x4.y;
        target_some[2] = target_x4.z;
        target_some[3] = target_x4.w;
        #pragma unroll
        for (i64 v_1 = 0; v_1 < 4; ++v_1) {
          sum_1_acc_part = sum_1_acc_part + (x_row[turn * 4 + v_1] - max_acc - log) * target_some[v_1];
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
  if (lane == 0 && row < 9) {
    sum_1[i0] = sum_1_acc;
  }
}

// computes negative, mean
// kernel @fused_negative_mean_1(sum_1: f32[9], mean: f32[]) writes (mean) attrs(schedule='fold', source=('negative', 'mean')) {
//   for bx in 1 bound blockIdx.x {
//     for tx in 1 bound threadIdx.x {
//       alloc mean_acc: f32[] local
//       mean_acc[] = 0.0:f32
//       for k0 in 9 unrolled {
//         mean_acc[] = mean_acc[] + -sum_1[k0]
//       }
//       mean[] = mean_acc[] / f32(9)
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(1)
fused_negative_mean_1(const f32 *__restrict__ sum_1, f32 *__restrict__ mean) {
  const i64 bx = blockIdx.x;
  const i64 tx = threadIdx.x;
  f32 mean_acc = 0.0f;
  #pragma unroll
  for (i64 k0 = 0; k0 < 9; ++k0) {
    mean_acc = mean_acc + -sum_1[k0];
  }
  mean[0] = mean_acc / cast_i64_f32(9);
}
