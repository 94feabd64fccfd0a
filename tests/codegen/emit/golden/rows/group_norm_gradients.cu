// computes multiply, reshape_1, mean, subtract, multiply_1, mean_1, c, add, sqrt, c_1, divide, multiply_2, mean_2, subtract_1, multiply_3, mean_3, multiply_4, subtract_2, multiply_5
// kernel @fused_multiply_reshape_mean_subtract_m_2(g: f32[4, 6, 5, 5], reshape: f32[6, 1, 1], reshape_2: f32[4, 2, 3, 5, 5], multiply_2: f32[4, 2, 3, 5, 5], multiply_5: f32[4, 2, 3, 5, 5]) writes (multiply_2, multiply_5) attrs(schedule='rows', source=('multiply', 'reshape_1', 'mean', 'subtract', 'multiply_1', 'mean_1', 'c', 'add', 'sqrt', 'c_1', 'divide', 'multiply_2', 'mean_2', 'subtract_1', 'multiply_3', 'mean_3', 'multiply_4', 'subtract_2', 'multiply_5')) {
//   for bx in 1 bound blockIdx.x {
//     alloc mean_acc_tile: f32[8, 32] shared
//     alloc mean_1_acc_tile: f32[8, 32] shared
//     alloc mean_2_acc_tile: f32[8, 32] shared
//     alloc mean_3_acc_tile: f32[8, 32] shared
//     for group in 8 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 8 + group
//         let i0 = row // 2
//         let i1 = row % 2
//         alloc g_row: f32[3] local
//         for turn_7 in 3 unrolled {
//           let k_7 = turn_7 * 32 + lane
//           if k_7 < 75 {
//             let i2__7 = k_7 // 5 // 5
//             let i3_8 = k_7 // 5 % 5
//             let i4__7 = k_7 % 5
//             g_row[turn_7] = g[i0, i1 * 3 + i2__7, i3_8, i4__7]
//           }
//         }
//         alloc reshape_row: f32[3] local
//         for turn_6 in 3 unrolled {
//           let k_6 = turn_6 * 32 + lane
//           if k_6 < 75 {
//             let i2__6 = k_6 // 5 // 5
//             reshape_row[turn_6] = reshape[i1 * 3 + i2__6, 0, 0]
//           }
//         }
//         alloc reshape_2_row: f32[3] local
//         for turn_5 in 3 unrolled {
//           let k_5 = turn_5 * 32 + lane
//           if k_5 < 75 {
//             let i2__5 = k_5 // 5 // 5
//             let i3_6 = k_5 // 5 % 5
//             let i4__5 = k_5 % 5
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
//         mean_acc_tile[group, lane] = mean_acc_part[]
//         barrier
//         for level_3 in 5 {
//           let half_3 = 16 >> level_3
//           if lane < half_3 {
//             mean_acc_tile[group, lane] = mean_acc_tile[group, lane] + mean_acc_tile[group, lane + half_3]
//           }
//           barrier
//         }
//         let mean_acc = mean_acc_tile[group, 0]
//         let mean = mean_acc / f32(75)
//         alloc mean_1_acc_part: f32[] local
//         mean_1_acc_part[] = 0.0:f32
//         for turn_3 in 3 unrolled {
//           let k_3 = turn_3 * 32 + lane
//           if k_3 < 75 {
//             let subtract_1 = reshape_2_row[turn_3] - mean
//             mean_1_acc_part[] = mean_1_acc_part[] + subtract_1 * subtract_1
//           }
//         }
//         mean_1_acc_tile[group, lane] = mean_1_acc_part[]
//         barrier
//         for level_2 in 5 {
//           let half_2 = 16 >> level_2
//           if lane < half_2 {
//             mean_1_acc_tile[group, lane] = mean_1_acc_tile[group, lane] + mean_1_acc_tile[group, lane + half_2]
//           }
//           barrier
//         }
//         let mean_1_acc = mean_1_acc_tile[group, 0]
//         let divide = 1.0:f32 / sqrt(mean_1_acc / f32(75) + 1e-05:f32)
//         alloc mean_2_acc_part: f32[] local
//         mean_2_acc_part[] = 0.0:f32
//         for turn_2 in 3 unrolled {
//           let k_2 = turn_2 * 32 + lane
//           if k_2 < 75 {
//             mean_2_acc_part[] = mean_2_acc_part[] + g_row[turn_2] * reshape_row[turn_2]
//           }
//         }
//         mean_2_acc_tile[group, lane] = mean_2_acc_part[]
//         barrier
//         for level_1 in 5 {
//           let half_1 = 16 >> level_1
//           if lane < half_1 {
//             mean_2_acc_tile[group, lane] = mean_2_acc_tile[group, lane] + mean_2_acc_tile[group, lane + half_1]
//           }
//           barrier
//         }
//         let mean_2_acc = mean_2_acc_tile[group, 0]
//         let mean_2 = mean_2_acc / f32(75)
//         alloc mean_3_acc_part: f32[] local
//         mean_3_acc_part[] = 0.0:f32
//         for turn_1 in 3 unrolled {
//           let k_1 = turn_1 * 32 + lane
//           if k_1 < 75 {
//             mean_3_acc_part[] = mean_3_acc_part[] + g_row[turn_1] * reshape_row[turn_1] * ((reshape_2_row[turn_1] - mean) * divide)
//           }
//         }
//         mean_3_acc_tile[group, lane] = mean_3_acc_part[]
//         barrier
//         for level in 5 {
//           let half = 16 >> level
//           if lane < half {
//             mean_3_acc_tile[group, lane] = mean_3_acc_tile[group, lane] + mean_3_acc_tile[group, lane + half]
//           }
//           barrier
//         }
//         let mean_3_acc = mean_3_acc_tile[group, 0]
//         let mean_3 = mean_3_acc / f32(75)
//         for turn in 3 unrolled {
//           let k = turn * 32 + lane
//           if k < 75 {
//             let i2_ = k // 5 // 5
//             let i3_1 = k // 5 % 5
//             let i4_ = k % 5
//             let multiply_2_1 = (reshape_2_row[turn] - mean) * divide
//             multiply_2[i0, i1, i2_, i3_1, i4_] = multiply_2_1
//             multiply_5[i0, i1, i2_, i3_1, i4_] = divide * (g_row[turn] * reshape_row[turn] - mean_2 - multiply_2_1 * mean_3)
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
    f32 *__restrict__ multiply_2,
    f32 *__restrict__ multiply_5) {
  const i64 bx = blockIdx.x;
  __shared__ f32 mean_acc_tile[256];
  __shared__ f32 mean_1_acc_tile[256];
  __shared__ f32 mean_2_acc_tile[256];
  __shared__ f32 mean_3_acc_tile[256];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 i0 = row / 2;
  const i64 i1 = row % 2;
  f32 g_row[3];
  #pragma unroll
  for (i64 turn_7 = 0; turn_7 < 3; ++turn_7) {
    const i64 k_7 = turn_7 * 32 + lane;
    if (k_7 < 75) {
      const i64 i2_7 = k_7 / 5 / 5;
      const i64 i3_8 = k_7 / 5 % 5;
      const i64 i4_7 = k_7 % 5;
      g_row[turn_7] = g[((i0 * 6 + (i1 * 3 + i2_7)) * 5 + i3_8) * 5 + i4_7];
    }
  }
  f32 reshape_row[3];
  #pragma unroll
  for (i64 turn_6 = 0; turn_6 < 3; ++turn_6) {
    const i64 k_6 = turn_6 * 32 + lane;
    if (k_6 < 75) {
      const i64 i2_6 = k_6 / 5 / 5;
      reshape_row[turn_6] = reshape[i1 * 3 + i2_6];
    }
  }
  f32 reshape_2_row[3];
  #pragma unroll
  for (i64 turn_5 = 0; turn_5 < 3; ++turn_5) {
    const i64 k_5 = turn_5 * 32 + lane;
    if (k_5 < 75) {
      const i64 i2_5 = k_5 / 5 / 5;
      const i64 i3_6 = k_5 / 5 % 5;
      const i64 i4_5 = k_5 % 5;
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
  mean_acc_tile[group * 32 + lane] = mean_acc_part;
  __syncthreads();
  for (i64 level_3 = 0; level_3 < 5; ++level_3) {
    const i64 half_3 = shr_i64(16, level_3);
    if (lane < half_3) {
      mean_acc_tile[group * 32 + lane] = mean_acc_tile[group * 32 + lane] + mean_acc_tile[group * 32 + (lane + half_3)];
    }
    __syncthreads();
  }
  const f32 mean_acc = mean_acc_tile[group * 32];
  const f32 mean = mean_acc / cast_i64_f32(75);
  f32 mean_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 3; ++turn_3) {
    const i64 k_3 = turn_3 * 32 + lane;
    if (k_3 < 75) {
      const f32 subtract_1 = reshape_2_row[turn_3] - mean;
      mean_1_acc_part = mean_1_acc_part + subtract_1 * subtract_1;
    }
  }
  mean_1_acc_tile[group * 32 + lane] = mean_1_acc_part;
  __syncthreads();
  for (i64 level_2 = 0; level_2 < 5; ++level_2) {
    const i64 half_2 = shr_i64(16, level_2);
    if (lane < half_2) {
      mean_1_acc_tile[group * 32 + lane] = mean_1_acc_tile[group * 32 + lane] + mean_1_acc_tile[group * 32 + (lane + half_2)];
    }
    __syncthreads();
  }
  const f32 mean_1_acc = mean_1_acc_tile[group * 32];
  const f32 divide = 1.0f / sqrt_f32(mean_1_acc / cast_i64_f32(75) + 1e-05f);
  f32 mean_2_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 3; ++turn_2) {
    const i64 k_2 = turn_2 * 32 + lane;
    if (k_2 < 75) {
      mean_2_acc_part = mean_2_acc_part + g_row[turn_2] * reshape_row[turn_2];
    }
  }
  mean_2_acc_tile[group * 32 + lane] = mean_2_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 5; ++level_1) {
    const i64 half_1 = shr_i64(16, level_1);
    if (lane < half_1) {
      mean_2_acc_tile[group * 32 + lane] = mean_2_acc_tile[group * 32 + lane] + mean_2_acc_tile[group * 32 + (lane + half_1)];
    }
    __syncthreads();
  }
  const f32 mean_2_acc = mean_2_acc_tile[group * 32];
  const f32 mean_2 = mean_2_acc / cast_i64_f32(75);
  f32 mean_3_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 3; ++turn_1) {
    const i64 k_1 = turn_1 * 32 + lane;
    if (k_1 < 75) {
      mean_3_acc_part = mean_3_acc_part + g_row[turn_1] * reshape_row[turn_1] * ((reshape_2_row[turn_1] - mean) * divide);
    }
  }
  mean_3_acc_tile[group * 32 + lane] = mean_3_acc_part;
  __syncthreads();
  for (i64 level = 0; level < 5; ++level) {
    const i64 half = shr_i64(16, level);
    if (lane < half) {
      mean_3_acc_tile[group * 32 + lane] = mean_3_acc_tile[group * 32 + lane] + mean_3_acc_tile[group * 32 + (lane + half)];
    }
    __syncthreads();
  }
  const f32 mean_3_acc = mean_3_acc_tile[group * 32];
  const f32 mean_3 = mean_3_acc / cast_i64_f32(75);
  #pragma unroll
  for (i64 turn = 0; turn < 3; ++turn) {
    const i64 k = turn * 32 + lane;
    if (k < 75) {
      const i64 i2_ = k / 5 / 5;
      const i64 i3_1 = k / 5 % 5;
      const i64 i4_ = k % 5;
      const f32 multiply_2_1 = (reshape_2_row[turn] - mean) * divide;
      multiply_2[(((i0 * 2 + i1) * 3 + i2_) * 5 + i3_1) * 5 + i4_] = multiply_2_1;
      multiply_5[(((i0 * 2 + i1) * 3 + i2_) * 5 + i3_1) * 5 + i4_] = divide * (g_row[turn] * reshape_row[turn] - mean_2 - multiply_2_1 * mean_3);
    }
  }
}

// computes reshape_3, multiply_6, sum, sum_1
// kernel @fused_reshape_multiply_sum_sum_4(multiply_2: f32[4, 2, 3, 5, 5], g: f32[4, 6, 5, 5], sum: f32[6], sum_1: f32[6]) writes (sum, sum_1) attrs(schedule='rows', source=('reshape_3', 'multiply_6', 'sum', 'sum_1')) {
//   for bx in 1 bound blockIdx.x {
//     alloc sum_acc_tile: f32[8, 32] shared
//     alloc sum_1_acc_tile: f32[8, 32] shared
//     for group in 8 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 8 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc g_row: f32[4] local
//         for turn_2 in 4 unrolled {
//           let k_2 = turn_2 * 32 + lane
//           if row < 6 and k_2 < 100 {
//             let k0_3 = k_2 // 5 // 5
//             let k1_3 = k_2 // 5 % 5
//             let k2_3 = k_2 % 5
//             g_row[turn_2] = g[k0_3, i0, k1_3, k2_3]
//           }
//         }
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         for turn_1 in 4 unrolled {
//           let k_1 = turn_1 * 32 + lane
//           if row < 6 and k_1 < 100 {
//             let k0_2 = k_1 // 5 // 5
//             let k1_2 = k_1 // 5 % 5
//             let k2_2 = k_1 % 5
//             sum_acc_part[] = sum_acc_part[] + g_row[turn_1] * multiply_2[k0_2, i0 // 3, i0 % 3, k1_2, k2_2]
//           }
//         }
//         sum_acc_tile[group, lane] = sum_acc_part[]
//         barrier
//         for level_1 in 5 {
//           let half_1 = 16 >> level_1
//           if lane < half_1 {
//             sum_acc_tile[group, lane] = sum_acc_tile[group, lane] + sum_acc_tile[group, lane + half_1]
//           }
//           barrier
//         }
//         let sum_acc = sum_acc_tile[group, 0]
//         alloc sum_1_acc_part: f32[] local
//         sum_1_acc_part[] = 0.0:f32
//         for turn in 4 unrolled {
//           let k = turn * 32 + lane
//           if row < 6 and k < 100 {
//             sum_1_acc_part[] = sum_1_acc_part[] + g_row[turn]
//           }
//         }
//         sum_1_acc_tile[group, lane] = sum_1_acc_part[]
//         barrier
//         for level in 5 {
//           let half = 16 >> level
//           if lane < half {
//             sum_1_acc_tile[group, lane] = sum_1_acc_tile[group, lane] + sum_1_acc_tile[group, lane + half]
//           }
//           barrier
//         }
//         let sum_1_acc = sum_1_acc_tile[group, 0]
//         if lane == 0 and row < 6 {
//           sum[i0] = sum_acc
//           sum_1[i0] = sum_1_acc
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_reshape_multiply_sum_sum_4(
    const f32 *__restrict__ multiply_2,
    const f32 *__restrict__ g,
    f32 *__restrict__ sum,
    f32 *__restrict__ sum_1) {
  const i64 bx = blockIdx.x;
  __shared__ f32 sum_acc_tile[256];
  __shared__ f32 sum_1_acc_tile[256];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 g_row[4];
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 4; ++turn_2) {
    const i64 k_2 = turn_2 * 32 + lane;
    if (row < 6 && k_2 < 100) {
      const i64 k0_3 = k_2 / 5 / 5;
      const i64 k1_3 = k_2 / 5 % 5;
      const i64 k2_3 = k_2 % 5;
      g_row[turn_2] = g[((k0_3 * 6 + i0) * 5 + k1_3) * 5 + k2_3];
    }
  }
  f32 sum_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 4; ++turn_1) {
    const i64 k_1 = turn_1 * 32 + lane;
    if (row < 6 && k_1 < 100) {
      const i64 k0_2 = k_1 / 5 / 5;
      const i64 k1_2 = k_1 / 5 % 5;
      const i64 k2_2 = k_1 % 5;
      sum_acc_part = sum_acc_part + g_row[turn_1] * multiply_2[(((k0_2 * 2 + i0 / 3) * 3 + i0 % 3) * 5 + k1_2) * 5 + k2_2];
    }
  }
  sum_acc_tile[group * 32 + lane] = sum_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 5; ++level_1) {
    const i64 half_1 = shr_i64(16, level_1);
    if (lane < half_1) {
      sum_acc_tile[group * 32 + lane] = sum_acc_tile[group * 32 + lane] + sum_acc_tile[group * 32 + (lane + half_1)];
    }
    __syncthreads();
  }
  const f32 sum_acc = sum_acc_tile[group * 32];
  f32 sum_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn = 0; turn < 4; ++turn) {
    const i64 k = turn * 32 + lane;
    if (row < 6 && k < 100) {
      sum_1_acc_part = sum_1_acc_part + g_row[turn];
    }
  }
  sum_1_acc_tile[group * 32 + lane] = sum_1_acc_part;
  __syncthreads();
  for (i64 level = 0; level < 5; ++level) {
    const i64 half = shr_i64(16, level);
    if (lane < half) {
      sum_1_acc_tile[group * 32 + lane] = sum_1_acc_tile[group * 32 + lane] + sum_1_acc_tile[group * 32 + (lane + half)];
    }
    __syncthreads();
  }
  const f32 sum_1_acc = sum_1_acc_tile[group * 32];
  if (lane == 0 && row < 6) {
    sum[i0] = sum_acc;
    sum_1[i0] = sum_1_acc;
  }
}
