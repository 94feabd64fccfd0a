// computes multiply, reshape_1, mean, subtract, multiply_1, mean_1, c, add, sqrt, c_1, divide, multiply_2, mean_2, subtract_1, multiply_3, mean_3, multiply_4, subtract_2, multiply_5
// kernel @fused_multiply_reshape_mean_subtract_m_2(g: f32[4, 6, 5, 5], reshape: f32[6, 1, 1], reshape_2: f32[4, 2, 3, 5, 5], multiply_5: f32[4, 2, 3, 5, 5]) writes (multiply_5) attrs(schedule='rows', source=('multiply', 'reshape_1', 'mean', 'subtract', 'multiply_1', 'mean_1', 'c', 'add', 'sqrt', 'c_1', 'divide', 'multiply_2', 'mean_2', 'subtract_1', 'multiply_3', 'mean_3', 'multiply_4', 'subtract_2', 'multiply_5')) {
//   for bx in 1 bound blockIdx.x {
//     for group in 8 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 8 + group
//         let i0 = row // 2
//         let i1 = row % 2
//         alloc g_row: f32[3] local
//         alloc reshape_row: f32[3] local
//         alloc reshape_2_row: f32[3] local
//         for turn_5 in 3 unrolled {
//           let k_5 = turn_5 * 32 + lane
//           if k_5 < 75 {
//             let i2__5 = k_5 // 5 // 5
//             let i3_6 = k_5 // 5 % 5
//             let i4__5 = k_5 % 5
//             g_row[turn_5] = g[i0, i1 * 3 + i2__5, i3_6, i4__5]
//             reshape_row[turn_5] = reshape[i1 * 3 + i2__5, 0, 0]
//             reshape_2_row[turn_5] = reshape_2[i0, i1, i2__5, i3_6, i4__5]
//           }
//         }
//         alloc mean_acc_part: f32[] local
//         mean_acc_part[] = 0.0:f32
//         for turn_4 in 3 unrolled {
//           let k_4 = turn_4 * 32 + lane
//           if k_4 < 75 {
//             mean_acc_part[] = mean_acc_part[] + reshape_2_row[turn_4]
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
//         let mean = mean_acc / f32(75)
//         alloc mean_1_acc_part: f32[] local
//         mean_1_acc_part[] = 0.0:f32
//         for turn_3 in 3 unrolled {
//           let k_3 = turn_3 * 32 + lane
//           if k_3 < 75 {
//             let subtract = reshape_2_row[turn_3] - mean
//             mean_1_acc_part[] = mean_1_acc_part[] + subtract * subtract
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
//         let divide = 1.0:f32 / sqrt(mean_1_acc / f32(75) + 1e-05:f32)
//         alloc mean_2_acc_part: f32[] local
//         mean_2_acc_part[] = 0.0:f32
//         for turn_2 in 3 unrolled {
//           let k_2 = turn_2 * 32 + lane
//           if k_2 < 75 {
//             mean_2_acc_part[] = mean_2_acc_part[] + g_row[turn_2] * reshape_row[turn_2]
//           }
//         }
//         exchange mean_2_acc_part_other = mean_2_acc_part[] by 1 {
//           mean_2_acc_part[] = mean_2_acc_part[] + mean_2_acc_part_other
//         }
//         exchange mean_2_acc_part_other_1 = mean_2_acc_part[] by 2 {
//           mean_2_acc_part[] = mean_2_acc_part[] + mean_2_acc_part_other_1
//         }
//         exchange mean_2_acc_part_other_2 = mean_2_acc_part[] by 4 {
//           mean_2_acc_part[] = mean_2_acc_part[] + mean_2_acc_part_other_2
//         }
//         exchange mean_2_acc_part_other_3 = mean_2_acc_part[] by 8 {
//           mean_2_acc_part[] = mean_2_acc_part[] + mean_2_acc_part_other_3
//         }
//         exchange mean_2_acc_part_other_4 = mean_2_acc_part[] by 16 {
//           mean_2_acc_part[] = mean_2_acc_part[] + mean_2_acc_part_other_4
//         }
//         let mean_2_acc = mean_2_acc_part[]
//         let mean_2 = mean_2_acc / f32(75)
//         alloc mean_3_acc_part: f32[] local
//         mean_3_acc_part[] = 0.0:f32
//         for turn_1 in 3 unrolled {
//           let k_1 = turn_1 * 32 + lane
//           if k_1 < 75 {
//             mean_3_acc_part[] = mean_3_acc_part[] + g_row[turn_1] * reshape_row[turn_1] * ((reshape_2_row[turn_1] - mean) * divide)
//           }
//         }
//         exchange mean_3_acc_part_other = mean_3_acc_part[] by 1 {
//           mean_3_acc_part[] = mean_3_acc_part[] + mean_3_acc_part_other
//         }
//         exchange mean_3_acc_part_other_1 = mean_3_acc_part[] by 2 {
//           mean_3_acc_part[] = mean_3_acc_part[] + mean_3_acc_part_other_1
//         }
//         exchange mean_3_acc_part_other_2 = mean_3_acc_part[] by 4 {
//           mean_3_acc_part[] = mean_3_acc_part[] + mean_3_acc_part_other_2
//         }
//         exchange mean_3_acc_part_other_3 = mean_3_acc_part[] by 8 {
//           mean_3_acc_part[] = mean_3_acc_part[] + mean_3_acc_part_other_3
//         }
//         exchange mean_3_acc_part_other_4 = mean_3_acc_part[] by 16 {
//           mean_3_acc_part[] = mean_3_acc_part[] + mean_3_acc_part_other_4
//         }
//         let mean_3_acc = mean_3_acc_part[]
//         let mean_3 = mean_3_acc / f32(75)
//         for turn in 3 unrolled {
//           let k = turn * 32 + lane
//           if k < 75 {
//             let i2_ = k // 5 // 5
//             let i3_1 = k // 5 % 5
//             let i4_ = k % 5
//             multiply_5[i0, i1, i2_, i3_1, i4_] = divide * (g_row[turn] * reshape_row[turn] - mean_2 - (reshape_2_row[turn] - mean) * divide * mean_3)
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_multiply_reshape_mean_subtract_m_2(
    const f32 *__restrict__ g,
    const f32 *__restrict__ reshape,
    const f32 *__restrict__ reshape_2,
    f32 *__restrict__ multiply_5) {
  const i64 bx = blockIdx.x;
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 i0 = row / 2;
  const i64 i1 = row % 2;
  f32 g_row[3];
  f32 reshape_row[3];
  f32 reshape_2_row[3];
  #pragma unroll
  for (i64 turn_5 = 0; turn_5 < 3; ++turn_5) {
    const i64 k_5 = turn_5 * 32 + lane;
    if (k_5 < 75) {
      const i64 i2_5 = k_5 / 5 / 5;
      const i64 i3_6 = k_5 / 5 % 5;
      const i64 i4_5 = k_5 % 5;
      g_row[turn_5] = g[((i0 * 6 + (i1 * 3 + i2_5)) * 5 + i3_6) * 5 + i4_5];
      reshape_row[turn_5] = reshape[i1 * 3 + i2_5];
      reshape_2_row[turn_5] = reshape_2[(((i0 * 2 + i1) * 3 + i2_5) * 5 + i3_6) * 5 + i4_5];
    }
  }
  f32 mean_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_4 = 0; turn_4 < 3; ++turn_4) {
    const i64 k_4 = turn_4 * 32 + lane;
    if (k_4 < 75) {
      mean_acc_part = mean_acc_part + reshape_2_row[turn_4];
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
  const f32 mean = mean_acc / cast_i64_f32(75);
  f32 mean_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 3; ++turn_3) {
    const i64 k_3 = turn_3 * 32 + lane;
    if (k_3 < 75) {
      const f32 subtract = reshape_2_row[turn_3] - mean;
      mean_1_acc_part = mean_1_acc_part + subtract * subtract;
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
  const f32 divide = 1.0f / sqrt_f32(mean_1_acc / cast_i64_f32(75) + 1e-05f);
  f32 mean_2_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 3; ++turn_2) {
    const i64 k_2 = turn_2 * 32 + lane;
    if (k_2 < 75) {
      mean_2_acc_part = mean_2_acc_part + g_row[turn_2] * reshape_row[turn_2];
    }
  }
  const f32 mean_2_acc_part_other = shuffle_xor_f32(mean_2_acc_part, 1);
  mean_2_acc_part = mean_2_acc_part + mean_2_acc_part_other;
  const f32 mean_2_acc_part_other_1 = shuffle_xor_f32(mean_2_acc_part, 2);
  mean_2_acc_part = mean_2_acc_part + mean_2_acc_part_other_1;
  const f32 mean_2_acc_part_other_2 = shuffle_xor_f32(mean_2_acc_part, 4);
  mean_2_acc_part = mean_2_acc_part + mean_2_acc_part_other_2;
  const f32 mean_2_acc_part_other_3 = shuffle_xor_f32(mean_2_acc_part, 8);
  mean_2_acc_part = mean_2_acc_part + mean_2_acc_part_other_3;
  const f32 mean_2_acc_part_other_4 = shuffle_xor_f32(mean_2_acc_part, 16);
  mean_2_acc_part = mean_2_acc_part + mean_2_acc_part_other_4;
  const f32 mean_2_acc = mean_2_acc_part;
  const f32 mean_2 = mean_2_acc / cast_i64_f32(75);
  f32 mean_3_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 3; ++turn_1) {
    const i64 k_1 = turn_1 * 32 + lane;
    if (k_1 < 75) {
      mean_3_acc_part = mean_3_acc_part + g_row[turn_1] * reshape_row[turn_1] * ((reshape_2_row[turn_1] - mean) * divide);
    }
  }
  const f32 mean_3_acc_part_other = shuffle_xor_f32(mean_3_acc_part, 1);
  mean_3_acc_part = mean_3_acc_part + mean_3_acc_part_other;
  const f32 mean_3_acc_part_other_1 = shuffle_xor_f32(mean_3_acc_part, 2);
  mean_3_acc_part = mean_3_acc_part + mean_3_acc_part_other_1;
  const f32 mean_3_acc_part_other_2 = shuffle_xor_f32(mean_3_acc_part, 4);
  mean_3_acc_part = mean_3_acc_part + mean_3_acc_part_other_2;
  const f32 mean_3_acc_part_other_3 = shuffle_xor_f32(mean_3_acc_part, 8);
  mean_3_acc_part = mean_3_acc_part + mean_3_acc_part_other_3;
  const f32 mean_3_acc_part_other_4 = shuffle_xor_f32(mean_3_acc_part, 16);
  mean_3_acc_part = mean_3_acc_part + mean_3_acc_part_other_4;
  const f32 mean_3_acc = mean_3_acc_part;
  const f32 mean_3 = mean_3_acc / cast_i64_f32(75);
  #pragma unroll
  for (i64 turn = 0; turn < 3; ++turn) {
    const i64 k = turn * 32 + lane;
    if (k < 75) {
      const i64 i2_ = k / 5 / 5;
      const i64 i3_1 = k / 5 % 5;
      const i64 i4_ = k % 5;
      multiply_5[(((i0 * 2 + i1) * 3 + i2_) * 5 + i3_1) * 5 + i4_] = divide * (g_row[turn] * reshape_row[turn] - mean_2 - (reshape_2_row[turn] - mean) * divide * mean_3);
    }
  }
}
