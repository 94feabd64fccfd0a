// computes multiply, multiply_1, mean, c, add, sqrt, c_1, divide, multiply_2, multiply_3, mean_1, multiply_4, subtract, multiply_5
// kernel @fused_multiply_multiply_mean_add_sqrt_0(g: f32[600], w: f32[100], x: f32[600], multiply_2: f32[600], multiply_5: f32[600]) writes (multiply_2, multiply_5) attrs(schedule='rows', source=('multiply', 'multiply_1', 'mean', 'c', 'add', 'sqrt', 'c_1', 'divide', 'multiply_2', 'multiply_3', 'mean_1', 'multiply_4', 'subtract', 'multiply_5')) {
//   for bx in 2 bound blockIdx.x {
//     for group in 4 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 4 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc g_row: f32[4] local
//         alloc w_row: f32[4] local
//         alloc x_row: f32[4] local
//         if row < 6 {
//           for turn_3 in 1 unrolled {
//             let k_3 = turn_3 * 32 + lane
//             if k_3 < 25 {
//               let part_3 = k_3
//               for v_3 in 4 vectorized {
//                 g_row[turn_3 * 4 + v_3] = g[(i0 * 25 + part_3) * 4 + v_3]
//                 w_row[turn_3 * 4 + v_3] = w[part_3 * 4 + v_3]
//                 x_row[turn_3 * 4 + v_3] = x[(i0 * 25 + part_3) * 4 + v_3]
//               }
//             }
//           }
//         }
//         alloc mean_acc_part: f32[] local
//         mean_acc_part[] = 0.0:f32
//         if row < 6 {
//           for turn_2 in 1 unrolled {
//             let k_2 = turn_2 * 32 + lane
//             if k_2 < 25 {
//               for v_2 in 4 unrolled {
//                 let x_2 = x_row[turn_2 * 4 + v_2]
//                 mean_acc_part[] = mean_acc_part[] + x_2 * x_2
//               }
//             }
//           }
//         }
//         exchange mean_acc_part_other = mean_acc_part[] by 1 {
//           mean_acc_part[] = mean_acc_part[] + mean_acc_part_other
//         }
//         exchange mean_acc_part_other_1 = mean_acc_part[] by 2 {
//           mean_acc_part[] = mean_acc_part[] + mean_acc_part_other_1
//         }
//         exchange mean_acc_part_other_2 = mean_acc_part[] by 4 {
//           mean_acc_part[] = mean_acc_part[] + mean_acc_part_other_2
//         }
//         exchange mean_acc_part_other_3 = mean_acc_part[] by 8 {
//           mean_acc_part[] = mean_acc_part[] + mean_acc_part_other_3
//         }
//         exchange mean_acc_part_other_4 = mean_acc_part[] by 16 {
//           mean_acc_part[] = mean_acc_part[] + mean_acc_part_other_4
//         }
//         let mean_acc = mean_acc_part[]
//         let divide = 1.0:f32 / sqrt(mean_acc / f32(100) + 1e-05:f32)
//         alloc mean_1_acc_part: f32[] local
//         mean_1_acc_part[] = 0.0:f32
//         if row < 6 {
//           for turn_1 in 1 unrolled {
//             let k_1 = turn_1 * 32 + lane
//             if k_1 < 25 {
//               for v_1 in 4 unrolled {
//                 mean_1_acc_part[] = mean_1_acc_part[] + g_row[turn_1 * 4 + v_1] * w_row[turn_1 * 4 + v_1] * (x_row[turn_1 * 4 + v_1] * divide)
//               }
//             }
//           }
//         }
//         exchange mean_1_acc_part_other = mean_1_acc_part[] by 1 {
//           mean_1_acc_part[] = mean_1_acc_part[] + mean_1_acc_part_other
//         }
//         exchange mean_1_acc_part_other_1 = mean_1_acc_part[] by 2 {
//           mean_1_acc_part[] = mean_1_acc_part[] + mean_1_acc_part_other_1
//         }
//         exchange mean_1_acc_part_other_2 = mean_1_acc_part[] by 4 {
//           mean_1_acc_part[] = mean_1_acc_part[] + mean_1_acc_part_other_2
//         }
//         exchange mean_1_acc_part_other_3 = mean_1_acc_part[] by 8 {
//           mean_1_acc_part[] = mean_1_acc_part[] + mean_1_acc_part_other_3
//         }
//         exchange mean_1_acc_part_other_4 = mean_1_acc_part[] by 16 {
//           mean_1_acc_part[] = mean_1_acc_part[] + mean_1_acc_part_other_4
//         }
//         let mean_1_acc = mean_1_acc_part[]
//         let mean_1 = mean_1_acc / f32(100)
//         if row < 6 {
//           for turn in 1 unrolled {
//             let k = turn * 32 + lane
//             if k < 25 {
//               let part = k
//               for v in 4 vectorized {
//                 let multiply_2_1 = x_row[turn * 4 + v] * divide
//                 multiply_2[(i0 * 25 + part) * 4 + v] = multiply_2_1
//                 multiply_5[(i0 * 25 + part) * 4 + v] = divide * (g_row[turn * 4 + v] * w_row[turn * 4 + v] - multiply_2_1 * mean_1)
//               }
//             }
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_multiply_multiply_mean_add_sqrt_0(
    const f32 *__restrict__ g,
    const f32 *__restrict__ w,
    const f32 *__restrict__ x,
    f32 *__restrict__ multiply_2,
    f32 *__restrict__ multiply_5) {
  const i64 bx = blockIdx.x;
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 4 + group;
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 g_row[4];
  f32 w_row[4];
  f32 x_row[4];
  if (row < 6) {
    #pragma unroll
    for (i64 turn_3 = 0; turn_3 < 1; ++turn_3) {
      const i64 k_3 = turn_3 * 32 + lane;
      if (k_3 < 25) {
        const i64 part_3 = k_3;
        const f32x4 g_x4 = load4_f32(&g[(i0 * 25 + part_3) * 4]);
        const f32x4 w_x4 = load4_f32(&w[part_3 * 4]);
        const f32x4 x_x4 = load4_f32(&x[(i0 * 25 + part_3) * 4]);
        g_row[turn_3 * 4] = g_x4.x;
        w_row[turn_3 * 4] = w_x4.x;
        x_row[turn_3 * 4] = x_x4.x;
        g_row[turn_3 * 4 + 1] = g_x4.y;
        w_row[turn_3 * 4 + 1] = w_x4.y;
        x_row[turn_3 * 4 + 1] = x_x4.y;
        g_row[turn_3 * 4 + 2] = g_x4.z;
        w_row[turn_3 * 4 + 2] = w_x4.z;
        x_row[turn_3 * 4 + 2] = x_x4.z;
        g_row[turn_3 * 4 + 3] = g_x4.w;
        w_row[turn_3 * 4 + 3] = w_x4.w;
        x_row[turn_3 * 4 + 3] = x_x4.w;
      }
    }
  }
  f32 mean_acc_part = 0.0f;
  if (row < 6) {
    #pragma unroll
    for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
      const i64 k_2 = turn_2 * 32 + lane;
      if (k_2 < 25) {
        #pragma unroll
        for (i64 v_2 = 0; v_2 < 4; ++v_2) {
          const f32 x_2 = x_row[turn_2 * 4 + v_2];
          mean_acc_part = mean_acc_part + x_2 * x_2;
        }
      }
    }
  }
  const f32 mean_acc_part_other = shuffle_xor_f32(mean_acc_part, 1);
  mean_acc_part = mean_acc_part + mean_acc_part_other;
  const f32 mean_acc_part_other_1 = shuffle_xor_f32(mean_acc_part, 2);
  mean_acc_part = mean_acc_part + mean_acc_part_other_1;
  const f32 mean_acc_part_other_2 = shuffle_xor_f32(mean_acc_part, 4);
  mean_acc_part = mean_acc_part + mean_acc_part_other_2;
  const f32 mean_acc_part_other_3 = shuffle_xor_f32(mean_acc_part, 8);
  mean_acc_part = mean_acc_part + mean_acc_part_other_3;
  const f32 mean_acc_part_other_4 = shuffle_xor_f32(mean_acc_part, 16);
  mean_acc_part = mean_acc_part + mean_acc_part_other_4;
  const f32 mean_acc = mean_acc_part;
  const f32 divide = 1.0f / sqrt_f32(mean_acc / cast_i64_f32(100) + 1e-05f);
  f32 mean_1_acc_part = 0.0f;
  if (row < 6) {
    #pragma unroll
    for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
      const i64 k_1 = turn_1 * 32 + lane;
      if (k_1 < 25) {
        #pragma unroll
        for (i64 v_1 = 0; v_1 < 4; ++v_1) {
          mean_1_acc_part = mean_1_acc_part + g_row[turn_1 * 4 + v_1] * w_row[turn_1 * 4 + v_1] * (x_row[turn_1 * 4 + v_1] * divide);
        }
      }
    }
  }
  const f32 mean_1_acc_part_other = shuffle_xor_f32(mean_1_acc_part, 1);
  mean_1_acc_part = mean_1_acc_part + mean_1_acc_part_other;
  const f32 mean_1_acc_part_other_1 = shuffle_xor_f32(mean_1_acc_part, 2);
  mean_1_acc_part = mean_1_acc_part + mean_1_acc_part_other_1;
  const f32 mean_1_acc_part_other_2 = shuffle_xor_f32(mean_1_acc_part, 4);
  mean_1_acc_part = mean_1_acc_part + mean_1_acc_part_other_2;
  const f32 mean_1_acc_part_other_3 = shuffle_xor_f32(mean_1_acc_part, 8);
  mean_1_acc_part = mean_1_acc_part + mean_1_acc_part_other_3;
  const f32 mean_1_acc_part_other_4 = shuffle_xor_f32(mean_1_acc_part, 16);
  mean_1_acc_part = mean_1_acc_part + mean_1_acc_part_other_4;
  const f32 mean_1_acc = mean_1_acc_part;
  const f32 mean_1 = mean_1_acc / cast_i64_f32(100);
  if (row < 6) {
    #pragma unroll
    for (i64 turn = 0; turn < 1; ++turn) {
      const i64 k = turn * 32 + lane;
      if (k < 25) {
        const i64 part = k;
        f32x4 multiply_2_x4;
        f32x4 multiply_5_x4;
        const f32 multiply_2_1 = x_row[turn * 4] * divide;
        multiply_2_x4.x = multiply_2_1;
        multiply_5_x4.x = divide * (g_row[turn * 4] * w_row[turn * 4] - multiply_2_1 * mean_1);
        const f32 multiply_2_1_1 = x_row[turn * 4 + 1] * divide;
        multiply_2_x4.y = multiply_2_1_1;
        multiply_5_x4.y = divide * (g_row[turn * 4 + 1] * w_row[turn * 4 + 1] - multiply_2_1_1 * mean_1);
        const f32 multiply_2_1_2 = x_row[turn * 4 + 2] * divide;
        multiply_2_x4.z = multiply_2_1_2;
        multiply_5_x4.z = divide * (g_row[turn * 4 + 2] * w_row[turn * 4 + 2] - multiply_2_1_2 * mean_1);
        const f32 multiply_2_1_3 = x_row[turn * 4 + 3] * divide;
        multiply_2_x4.w = multiply_2_1_3;
        multiply_5_x4.w = divide * (g_row[turn * 4 + 3] * w_row[turn * 4 + 3] - multiply_2_1_3 * mean_1);
        store4_f32(&multiply_2[(i0 * 25 + part) * 4], multiply_2_x4);
        store4_f32(&multiply_5[(i0 * 25 + part) * 4], multiply_5_x4);
      }
    }
  }
}

// computes multiply_6, sum
// kernel @fused_multiply_sum_1(g: f32[6, 100], multiply_2: f32[6, 100], sum: f32[100]) writes (sum) attrs(schedule='fold', source=('multiply_6', 'sum')) {
//   for bx in 1 bound blockIdx.x {
//     for tx in 128 bound threadIdx.x {
//       let i0 = bx * 128 + tx
//       if i0 < 100 {
//         alloc sum_acc: f32[] local
//         sum_acc[] = 0.0:f32
//         for k0 in 6 unrolled {
//           sum_acc[] = sum_acc[] + g[k0, i0] * multiply_2[k0, i0]
//         }
//         sum[i0] = sum_acc[]
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_multiply_sum_1(
    const f32 *__restrict__ g,
    const f32 *__restrict__ multiply_2,
    f32 *__restrict__ sum) {
  const i64 bx = blockIdx.x;
  const i64 tx = threadIdx.x;
  const i64 i0 = bx * 128 + tx;
  if (i0 < 100) {
    f32 sum_acc = 0.0f;
    #pragma unroll
    for (i64 k0 = 0; k0 < 6; ++k0) {
      sum_acc = sum_acc + g[k0 * 100 + i0] * multiply_2[k0 * 100 + i0];
    }
    sum[i0] = sum_acc;
  }
}
