// computes multiply, reshape_1, mean, subtract, multiply_1, mean_1, c, add, sqrt, c_1, divide, multiply_2, mean_2, subtract_1, multiply_3, mean_3, multiply_4, subtract_2, multiply_5
// kernel @fused_multiply_reshape_mean_subtract_m_2(g: f32[4, 6, 5, 5], reshape: f32[6, 1, 1], reshape_2: f32[4, 2, 3, 5, 5], multiply_2: f32[4, 2, 3, 5, 5], multiply_5: f32[4, 2, 3, 5, 5]) writes (multiply_2, multiply_5) attrs(schedule='rows', source=('multiply', 'reshape_1', 'mean', 'subtract', 'multiply_1', 'mean_1', 'c', 'add', 'sqrt', 'c_1', 'divide', 'multiply_2', 'mean_2', 'subtract_1', 'multiply_3', 'mean_3', 'multiply_4', 'subtract_2', 'multiply_5')) {
//   for bx in 8 bound blockIdx.x {
//     alloc mean_acc_part_tile: f32[1, 4] shared
//     alloc mean_1_acc_part_tile: f32[1, 4] shared
//     alloc mean_2_acc_part_tile: f32[1, 4] shared
//     alloc mean_3_acc_part_tile: f32[1, 4] shared
//     for group in 1 bound threadIdx.y {
//       for lane in 128 bound threadIdx.x {
//         let row = bx + group
//         let i0 = row // 2
//         let i1 = row % 2
//         alloc reshape_2_row: f32[1] local
//         for turn_5 in 1 unrolled {
//           let k_5 = turn_5 * 128 + lane
//           if k_5 < 75 {
//             let i2__5 = k_5 // 5 // 5
//             let i3_6 = k_5 // 5 % 5
//             let i4__5 = k_5 % 5
//             reshape_2_row[turn_5] = reshape_2[i0, i1, i2__5, i3_6, i4__5]
//           }
//         }
//         alloc kept: f32[1] local
//         alloc mean_acc_part: f32[] local
//         mean_acc_part[] = 0.0:f32
//         for turn_4 in 1 unrolled {
//           let k_4 = turn_4 * 128 + lane
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
//         if (lane and 31) == 0 {
//           mean_acc_part_tile[group, lane >> 5] = mean_acc_part[]
//         }
//         barrier
//         mean_acc_part[] = mean_acc_part_tile[group, lane and 3]
//         exchange mean_acc_part_other_5 = mean_acc_part[] by 1 {
//           mean_acc_part[] = mean_acc_part[] + mean_acc_part_other_5
//         }
//         exchange mean_acc_part_other_6 = mean_acc_part[] by 2 {
//           mean_acc_part[] = mean_acc_part[] + mean_acc_part_other_6
//         }
//         let mean_acc = mean_acc_part[]
//         let mean = mean_acc / f32(75)
//         alloc mean_1_acc_part: f32[] local
//         mean_1_acc_part[] = 0.0:f32
//         for turn_3 in 1 unrolled {
//           let k_3 = turn_3 * 128 + lane
//           if k_3 < 75 {
//             let subtract_1 = reshape_2_row[turn_3] - mean
//             mean_1_acc_part[] = mean_1_acc_part[] + subtract_1 * subtract_1
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
//         if (lane and 31) == 0 {
//           mean_1_acc_part_tile[group, lane >> 5] = mean_1_acc_part[]
//         }
//         barrier
//         mean_1_acc_part[] = mean_1_acc_part_tile[group, lane and 3]
//         exchange mean_1_acc_part_other_5 = mean_1_acc_part[] by 1 {
//           mean_1_acc_part[] = mean_1_acc_part[] + mean_1_acc_part_other_5
//         }
//         exchange mean_1_acc_part_other_6 = mean_1_acc_part[] by 2 {
//           mean_1_acc_part[] = mean_1_acc_part[] + mean_1_acc_part_other_6
//         }
//         let mean_1_acc = mean_1_acc_part[]
//         let divide = 1.0:f32 / sqrt(mean_1_acc / f32(75) + 1e-05:f32)
//         alloc mean_2_acc_part: f32[] local
//         mean_2_acc_part[] = 0.0:f32
//         for turn_2 in 1 unrolled {
//           let k_2 = turn_2 * 128 + lane
//           if k_2 < 75 {
//             let i2__2 = k_2 // 5 // 5
//             let i3_3 = k_2 // 5 % 5
//             let i4__2 = k_2 % 5
//             kept[turn_2] = g[i0, i1 * 3 + i2__2, i3_3, i4__2] * reshape[i1 * 3 + i2__2, 0, 0]
//             mean_2_acc_part[] = mean_2_acc_part[] + kept[turn_2]
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
//         if (lane and 31) == 0 {
//           mean_2_acc_part_tile[group, lane >> 5] = mean_2_acc_part[]
//         }
//         barrier
//         mean_2_acc_part[] = mean_2_acc_part_tile[group, lane and 3]
//         exchange mean_2_acc_part_other_5 = mean_2_acc_part[] by 1 {
//           mean_2_acc_part[] = mean_2_acc_part[] + mean_2_acc_part_other_5
//         }
//         exchange mean_2_acc_part_other_6 = mean_2_acc_part[] by 2 {
//           mean_2_acc_part[] = mean_2_acc_part[] + mean_2_acc_part_other_6
//         }
//         let mean_2_acc = mean_2_acc_part[]
//         let mean_2 = mean_2_acc / f32(75)
//         alloc mean_3_acc_part: f32[] local
//         mean_3_acc_part[] = 0.0:f32
//         for turn_1 in 1 unrolled {
//           let k_1 = turn_1 * 128 + lane
//           if k_1 < 75 {
//             mean_3_acc_part[] = mean_3_acc_part[] + kept[turn_1] * ((reshape_2_row[turn_1] - mean) * divide)
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
//         if (lane and 31) == 0 {
//           mean_3_acc_part_tile[group, lane >> 5] = mean_3_acc_part[]
//         }
//         barrier
//         mean_3_acc_part[] = mean_3_acc_part_tile[group, lane and 3]
//         exchange mean_3_acc_part_other_5 = mean_3_acc_part[] by 1 {
//           mean_3_acc_part[] = mean_3_acc_part[] + mean_3_acc_part_other_5
//         }
//         exchange mean_3_acc_part_other_6 = mean_3_acc_part[] by 2 {
//           mean_3_acc_part[] = mean_3_acc_part[] + mean_3_acc_part_other_6
//         }
//         let mean_3_acc = mean_3_acc_part[]
//         let mean_3 = mean_3_acc / f32(75)
//         for turn in 1 unrolled {
//           let k = turn * 128 + lane
//           if k < 75 {
//             let i2_ = k // 5 // 5
//             let i3_1 = k // 5 % 5
//             let i4_ = k % 5
//             let multiply_2_1 = (reshape_2_row[turn] - mean) * divide
//             multiply_2[i0, i1, i2_, i3_1, i4_] = multiply_2_1
//             multiply_5[i0, i1, i2_, i3_1, i4_] = divide * (kept[turn] - mean_2 - multiply_2_1 * mean_3)
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_multiply_reshape_mean_subtract_m_2(
    const f32 *__restrict__ g,
    const f32 *__restrict__ reshape,
    const f32 *__restrict__ reshape_2,
    f32 *__restrict__ multiply_2,
    f32 *__restrict__ multiply_5) {
  const i64 bx = blockIdx.x;
  __shared__ f32 mean_acc_part_tile[4];
  __shared__ f32 mean_1_acc_part_tile[4];
  __shared__ f32 mean_2_acc_part_tile[4];
  __shared__ f32 mean_3_acc_part_tile[4];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx + group;
  const i64 i0 = row / 2;
  const i64 i1 = row % 2;
  f32 reshape_2_row;
  #pragma unroll
  for (i64 turn_5 = 0; turn_5 < 1; ++turn_5) {
    const i64 k_5 = turn_5 * 128 + lane;
    if (k_5 < 75) {
      const i64 i2_5 = k_5 / 5 / 5;
      const i64 i3_6 = k_5 / 5 % 5;
      const i64 i4_5 = k_5 % 5;
      reshape_2_row = reshape_2[(((i0 * 2 + i1) * 3 + i2_5) * 5 + i3_6) * 5 + i4_5];
    }
  }
  f32 kept;
  f32 mean_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_4 = 0; turn_4 < 1; ++turn_4) {
    const i64 k_4 = turn_4 * 128 + lane;
    if (k_4 < 75) {
      mean_acc_part = mean_acc_part + reshape_2_row;
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
  if ((lane & 31) == 0) {
    mean_acc_part_tile[group * 4 + shr_i64(lane, 5)] = mean_acc_part;
  }
  __syncthreads();
  mean_acc_part = mean_acc_part_tile[group * 4 + (lane & 3)];
  const f32 mean_acc_part_other_5 = shuffle_xor_f32(mean_acc_part, 1);
  mean_acc_part = mean_acc_part + mean_acc_part_other_5;
  const f32 mean_acc_part_other_6 = shuffle_xor_f32(mean_acc_part, 2);
  mean_acc_part = mean_acc_part + mean_acc_part_other_6;
  const f32 mean_acc = mean_acc_part;
  const f32 mean = mean_acc / cast_i64_f32(75);
  f32 mean_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 1; ++turn_3) {
    const i64 k_3 = turn_3 * 128 + lane;
    if (k_3 < 75) {
      const f32 subtract_1 = reshape_2_row - mean;
      mean_1_acc_part = mean_1_acc_part + subtract_1 * subtract_1;
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
  if ((lane & 31) == 0) {
    mean_1_acc_part_tile[group * 4 + shr_i64(lane, 5)] = mean_1_acc_part;
  }
  __syncthreads();
  mean_1_acc_part = mean_1_acc_part_tile[group * 4 + (lane & 3)];
  const f32 mean_1_acc_part_other_5 = shuffle_xor_f32(mean_1_acc_part, 1);
  mean_1_acc_part = mean_1_acc_part + mean_1_acc_part_other_5;
  const f32 mean_1_acc_part_other_6 = shuffle_xor_f32(mean_1_acc_part, 2);
  mean_1_acc_part = mean_1_acc_part + mean_1_acc_part_other_6;
  const f32 mean_1_acc = mean_1_acc_part;
  const f32 divide = 1.0f / sqrt_f32(mean_1_acc / cast_i64_f32(75) + 1e-05f);
  f32 mean_2_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
    const i64 k_2 = turn_2 * 128 + lane;
    if (k_2 < 75) {
      const i64 i2_2 = k_2 / 5 / 5;
      const i64 i3_3 = k_2 / 5 % 5;
      const i64 i4_2 = k_2 % 5;
      kept = g[((i0 * 6 + (i1 * 3 + i2_2)) * 5 + i3_3) * 5 + i4_2] * reshape[i1 * 3 + i2_2];
      mean_2_acc_part = mean_2_acc_part + kept;
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
  if ((lane & 31) == 0) {
    mean_2_acc_part_tile[group * 4 + shr_i64(lane, 5)] = mean_2_acc_part;
  }
  __syncthreads();
  mean_2_acc_part = mean_2_acc_part_tile[group * 4 + (lane & 3)];
  const f32 mean_2_acc_part_other_5 = shuffle_xor_f32(mean_2_acc_part, 1);
  mean_2_acc_part = mean_2_acc_part + mean_2_acc_part_other_5;
  const f32 mean_2_acc_part_other_6 = shuffle_xor_f32(mean_2_acc_part, 2);
  mean_2_acc_part = mean_2_acc_part + mean_2_acc_part_other_6;
  const f32 mean_2_acc = mean_2_acc_part;
  const f32 mean_2 = mean_2_acc / cast_i64_f32(75);
  f32 mean_3_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
    const i64 k_1 = turn_1 * 128 + lane;
    if (k_1 < 75) {
      mean_3_acc_part = mean_3_acc_part + kept * ((reshape_2_row - mean) * divide);
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
  if ((lane & 31) == 0) {
    mean_3_acc_part_tile[group * 4 + shr_i64(lane, 5)] = mean_3_acc_part;
  }
  __syncthreads();
  mean_3_acc_part = mean_3_acc_part_tile[group * 4 + (lane & 3)];
  const f32 mean_3_acc_part_other_5 = shuffle_xor_f32(mean_3_acc_part, 1);
  mean_3_acc_part = mean_3_acc_part + mean_3_acc_part_other_5;
  const f32 mean_3_acc_part_other_6 = shuffle_xor_f32(mean_3_acc_part, 2);
  mean_3_acc_part = mean_3_acc_part + mean_3_acc_part_other_6;
  const f32 mean_3_acc = mean_3_acc_part;
  const f32 mean_3 = mean_3_acc / cast_i64_f32(75);
  #pragma unroll
  for (i64 turn = 0; turn < 1; ++turn) {
    const i64 k = turn * 128 + lane;
    if (k < 75) {
      const i64 i2_ = k / 5 / 5;
      const i64 i3_1 = k / 5 % 5;
      const i64 i4_ = k % 5;
      const f32 multiply_2_1 = (reshape_2_row - mean) * divide;
      multiply_2[(((i0 * 2 + i1) * 3 + i2_) * 5 + i3_1) * 5 + i4_] = multiply_2_1;
      multiply_5[(((i0 * 2 + i1) * 3 + i2_) * 5 + i3_1) * 5 + i4_] = divide * (kept - mean_2 - multiply_2_1 * mean_3);
    }
  }
}

// computes reshape_3, multiply_6, sum, sum_1
// kernel @fused_reshape_multiply_sum_sum_4(multiply_2: f32[4, 2, 3, 5, 5], g: f32[4, 6, 5, 5], sum: f32[6], sum_1: f32[6]) writes (sum, sum_1) attrs(schedule='rows', source=('reshape_3', 'multiply_6', 'sum', 'sum_1')) {
//   for bx in 6 bound blockIdx.x {
//     alloc sum_acc_part_tile: f32[1, 4] shared
//     alloc sum_1_acc_part_tile: f32[1, 4] shared
//     for group in 1 bound threadIdx.y {
//       for lane in 128 bound threadIdx.x {
//         let row = bx + group
//         let i0 = row
//         alloc g_row: f32[1] local
//         for turn_2 in 1 unrolled {
//           let k_2 = turn_2 * 128 + lane
//           if k_2 < 100 {
//             let k0_3 = k_2 // 5 // 5
//             let k1_3 = k_2 // 5 % 5
//             let k2_3 = k_2 % 5
//             g_row[turn_2] = g[k0_3, i0, k1_3, k2_3]
//           }
//         }
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         for turn_1 in 1 unrolled {
//           let k_1 = turn_1 * 128 + lane
//           if k_1 < 100 {
//             let k0_2 = k_1 // 5 // 5
//             let k1_2 = k_1 // 5 % 5
//             let k2_2 = k_1 % 5
//             sum_acc_part[] = sum_acc_part[] + g_row[turn_1] * multiply_2[k0_2, i0 // 3, i0 % 3, k1_2, k2_2]
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
//         if (lane and 31) == 0 {
//           sum_acc_part_tile[group, lane >> 5] = sum_acc_part[]
//         }
//         barrier
//         sum_acc_part[] = sum_acc_part_tile[group, lane and 3]
//         exchange sum_acc_part_other_5 = sum_acc_part[] by 1 {
//           sum_acc_part[] = sum_acc_part[] + sum_acc_part_other_5
//         }
//         exchange sum_acc_part_other_6 = sum_acc_part[] by 2 {
//           sum_acc_part[] = sum_acc_part[] + sum_acc_part_other_6
//         }
//         let sum_acc = sum_acc_part[]
//         alloc sum_1_acc_part: f32[] local
//         sum_1_acc_part[] = 0.0:f32
//         for turn in 1 unrolled {
//           let k = turn * 128 + lane
//           if k < 100 {
//             sum_1_acc_part[] = sum_1_acc_part[] + g_row[turn]
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
//         exchange sum_1_acc_part_other_4 = sum_1_acc_part[] by 16 {
//           sum_1_acc_part[] = sum_1_acc_part[] + sum_1_acc_part_other_4
//         }
//         if (lane and 31) == 0 {
//           sum_1_acc_part_tile[group, lane >> 5] = sum_1_acc_part[]
//         }
//         barrier
//         sum_1_acc_part[] = sum_1_acc_part_tile[group, lane and 3]
//         exchange sum_1_acc_part_other_5 = sum_1_acc_part[] by 1 {
//           sum_1_acc_part[] = sum_1_acc_part[] + sum_1_acc_part_other_5
//         }
//         exchange sum_1_acc_part_other_6 = sum_1_acc_part[] by 2 {
//           sum_1_acc_part[] = sum_1_acc_part[] + sum_1_acc_part_other_6
//         }
//         let sum_1_acc = sum_1_acc_part[]
//         if lane == 0 {
//           sum[i0] = sum_acc
//           sum_1[i0] = sum_1_acc
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_reshape_multiply_sum_sum_4(
    const f32 *__restrict__ multiply_2,
    const f32 *__restrict__ g,
    f32 *__restrict__ sum,
    f32 *__restrict__ sum_1) {
  const i64 bx = blockIdx.x;
  __shared__ f32 sum_acc_part_tile[4];
  __shared__ f32 sum_1_acc_part_tile[4];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx + group;
  const i64 i0 = row;
  f32 g_row;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
    const i64 k_2 = turn_2 * 128 + lane;
    if (k_2 < 100) {
      const i64 k0_3 = k_2 / 5 / 5;
      const i64 k1_3 = k_2 / 5 % 5;
      const i64 k2_3 = k_2 % 5;
      g_row = g[((k0_3 * 6 + i0) * 5 + k1_3) * 5 + k2_3];
    }
  }
  f32 sum_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
    const i64 k_1 = turn_1 * 128 + lane;
    if (k_1 < 100) {
      const i64 k0_2 = k_1 / 5 / 5;
      const i64 k1_2 = k_1 / 5 % 5;
      const i64 k2_2 = k_1 % 5;
      sum_acc_part = sum_acc_part + g_row * multiply_2[(((k0_2 * 2 + i0 / 3) * 3 + i0 % 3) * 5 + k1_2) * 5 + k2_2];
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
  if ((lane & 31) == 0) {
    sum_acc_part_tile[group * 4 + shr_i64(lane, 5)] = sum_acc_part;
  }
  __syncthreads();
  sum_acc_part = sum_acc_part_tile[group * 4 + (lane & 3)];
  const f32 sum_acc_part_other_5 = shuffle_xor_f32(sum_acc_part, 1);
  sum_acc_part = sum_acc_part + sum_acc_part_other_5;
  const f32 sum_acc_part_other_6 = shuffle_xor_f32(sum_acc_part, 2);
  sum_acc_part = sum_acc_part + sum_acc_part_other_6;
  const f32 sum_acc = sum_acc_part;
  f32 sum_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn = 0; turn < 1; ++turn) {
    const i64 k = turn * 128 + lane;
    if (k < 100) {
      sum_1_acc_part = sum_1_acc_part + g_row;
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
  const f32 sum_1_acc_part_other_4 = shuffle_xor_f32(sum_1_acc_part, 16);
  sum_1_acc_part = sum_1_acc_part + sum_1_acc_part_other_4;
  if ((lane & 31) == 0) {
    sum_1_acc_part_tile[group * 4 + shr_i64(lane, 5)] = sum_1_acc_part;
  }
  __syncthreads();
  sum_1_acc_part = sum_1_acc_part_tile[group * 4 + (lane & 3)];
  const f32 sum_1_acc_part_other_5 = shuffle_xor_f32(sum_1_acc_part, 1);
  sum_1_acc_part = sum_1_acc_part + sum_1_acc_part_other_5;
  const f32 sum_1_acc_part_other_6 = shuffle_xor_f32(sum_1_acc_part, 2);
  sum_1_acc_part = sum_1_acc_part + sum_1_acc_part_other_6;
  const f32 sum_1_acc = sum_1_acc_part;
  if (lane == 0) {
    sum[i0] = sum_acc;
    sum_1[i0] = sum_1_acc;
  }
}
