// computes multiply, mean, subtract, multiply_1, mean_1, c, add, sqrt, c_1, divide, multiply_2, mean_2, subtract_1, multiply_3, mean_3, multiply_4, subtract_2, multiply_5
// kernel @fused_multiply_mean_subtract_multiply_0(g: f32[6, 100], w: f32[100], x: f32[6, 100], multiply_2: f32[6, 100], multiply_5: f32[6, 100]) writes (multiply_2, multiply_5) attrs(schedule='rows', source=('multiply', 'mean', 'subtract', 'multiply_1', 'mean_1', 'c', 'add', 'sqrt', 'c_1', 'divide', 'multiply_2', 'mean_2', 'subtract_1', 'multiply_3', 'mean_3', 'multiply_4', 'subtract_2', 'multiply_5')) {
//   for bx in 1 bound blockIdx.x {
//     alloc mean_acc_tile: f32[8, 32] shared
//     alloc mean_1_acc_tile: f32[8, 32] shared
//     alloc mean_2_acc_tile: f32[8, 32] shared
//     alloc mean_3_acc_tile: f32[8, 32] shared
//     for group in 8 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 8 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc g_row: f32[4] local
//         for turn_7 in 4 unrolled {
//           let k_7 = turn_7 * 32 + lane
//           if row < 6 and k_7 < 100 {
//             let i1_8 = k_7
//             g_row[turn_7] = g[i0, i1_8]
//           }
//         }
//         alloc w_row: f32[4] local
//         for turn_6 in 4 unrolled {
//           let k_6 = turn_6 * 32 + lane
//           if row < 6 and k_6 < 100 {
//             let i1_7 = k_6
//             w_row[turn_6] = w[i1_7]
//           }
//         }
//         alloc x_row: f32[4] local
//         for turn_5 in 4 unrolled {
//           let k_5 = turn_5 * 32 + lane
//           if row < 6 and k_5 < 100 {
//             let i1_6 = k_5
//             x_row[turn_5] = x[i0, i1_6]
//           }
//         }
//         alloc mean_acc_part: f32[] local
//         mean_acc_part[] = 0.0:f32
//         for turn_4 in 4 unrolled {
//           let k_4 = turn_4 * 32 + lane
//           if row < 6 and k_4 < 100 {
//             mean_acc_part[] = mean_acc_part[] + x_row[turn_4]
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
//         let mean = mean_acc / f32(100)
//         alloc mean_1_acc_part: f32[] local
//         mean_1_acc_part[] = 0.0:f32
//         for turn_3 in 4 unrolled {
//           let k_3 = turn_3 * 32 + lane
//           if row < 6 and k_3 < 100 {
//             let subtract_1 = x_row[turn_3] - mean
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
//         let divide = 1.0:f32 / sqrt(mean_1_acc / f32(100) + 1e-05:f32)
//         alloc mean_2_acc_part: f32[] local
//         mean_2_acc_part[] = 0.0:f32
//         for turn_2 in 4 unrolled {
//           let k_2 = turn_2 * 32 + lane
//           if row < 6 and k_2 < 100 {
//             mean_2_acc_part[] = mean_2_acc_part[] + g_row[turn_2] * w_row[turn_2]
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
//         let mean_2 = mean_2_acc / f32(100)
//         alloc mean_3_acc_part: f32[] local
//         mean_3_acc_part[] = 0.0:f32
//         for turn_1 in 4 unrolled {
//           let k_1 = turn_1 * 32 + lane
//           if row < 6 and k_1 < 100 {
//             mean_3_acc_part[] = mean_3_acc_part[] + g_row[turn_1] * w_row[turn_1] * ((x_row[turn_1] - mean) * divide)
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
//         let mean_3 = mean_3_acc / f32(100)
//         for turn in 4 unrolled {
//           let k = turn * 32 + lane
//           if row < 6 and k < 100 {
//             let i1_1 = k
//             let multiply_2_1 = (x_row[turn] - mean) * divide
//             multiply_2[i0, i1_1] = multiply_2_1
//             multiply_5[i0, i1_1] = divide * (g_row[turn] * w_row[turn] - mean_2 - multiply_2_1 * mean_3)
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_multiply_mean_subtract_multiply_0(
    const f32 *__restrict__ g,
    const f32 *__restrict__ w,
    const f32 *__restrict__ x,
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
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 g_row[4];
  #pragma unroll
  for (i64 turn_7 = 0; turn_7 < 4; ++turn_7) {
    const i64 k_7 = turn_7 * 32 + lane;
    if (row < 6 && k_7 < 100) {
      const i64 i1_8 = k_7;
      g_row[turn_7] = g[i0 * 100 + i1_8];
    }
  }
  f32 w_row[4];
  #pragma unroll
  for (i64 turn_6 = 0; turn_6 < 4; ++turn_6) {
    const i64 k_6 = turn_6 * 32 + lane;
    if (row < 6 && k_6 < 100) {
      const i64 i1_7 = k_6;
      w_row[turn_6] = w[i1_7];
    }
  }
  f32 x_row[4];
  #pragma unroll
  for (i64 turn_5 = 0; turn_5 < 4; ++turn_5) {
    const i64 k_5 = turn_5 * 32 + lane;
    if (row < 6 && k_5 < 100) {
      const i64 i1_6 = k_5;
      x_row[turn_5] = x[i0 * 100 + i1_6];
    }
  }
  f32 mean_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_4 = 0; turn_4 < 4; ++turn_4) {
    const i64 k_4 = turn_4 * 32 + lane;
    if (row < 6 && k_4 < 100) {
      mean_acc_part = mean_acc_part + x_row[turn_4];
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
  const f32 mean = mean_acc / cast_i64_f32(100);
  f32 mean_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 4; ++turn_3) {
    const i64 k_3 = turn_3 * 32 + lane;
    if (row < 6 && k_3 < 100) {
      const f32 subtract_1 = x_row[turn_3] - mean;
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
  const f32 divide = 1.0f / sqrt_f32(mean_1_acc / cast_i64_f32(100) + 1e-05f);
  f32 mean_2_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 4; ++turn_2) {
    const i64 k_2 = turn_2 * 32 + lane;
    if (row < 6 && k_2 < 100) {
      mean_2_acc_part = mean_2_acc_part + g_row[turn_2] * w_row[turn_2];
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
  const f32 mean_2 = mean_2_acc / cast_i64_f32(100);
  f32 mean_3_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 4; ++turn_1) {
    const i64 k_1 = turn_1 * 32 + lane;
    if (row < 6 && k_1 < 100) {
      mean_3_acc_part = mean_3_acc_part + g_row[turn_1] * w_row[turn_1] * ((x_row[turn_1] - mean) * divide);
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
  const f32 mean_3 = mean_3_acc / cast_i64_f32(100);
  #pragma unroll
  for (i64 turn = 0; turn < 4; ++turn) {
    const i64 k = turn * 32 + lane;
    if (row < 6 && k < 100) {
      const i64 i1_1 = k;
      const f32 multiply_2_1 = (x_row[turn] - mean) * divide;
      multiply_2[i0 * 100 + i1_1] = multiply_2_1;
      multiply_5[i0 * 100 + i1_1] = divide * (g_row[turn] * w_row[turn] - mean_2 - multiply_2_1 * mean_3);
    }
  }
}

// computes multiply_6, sum, sum_1
// kernel @fused_multiply_sum_sum_1(g: f32[6, 100], multiply_2: f32[6, 100], sum: f32[100], sum_1: f32[100]) writes (sum, sum_1) attrs(schedule='rows', source=('multiply_6', 'sum', 'sum_1')) {
//   for bx in 1 bound blockIdx.x {
//     alloc sum_acc_tile: f32[2, 128] shared
//     alloc sum_1_acc_tile: f32[2, 128] shared
//     for lane in 2 bound threadIdx.y {
//       for group in 128 bound threadIdx.x {
//         let row = bx * 128 + group
//         let at = min(row, 99)
//         let i0 = at
//         alloc g_row: f32[3] local
//         for turn_2 in 3 unrolled {
//           let k_2 = turn_2 * 2 + lane
//           if row < 100 {
//             let k0_3 = k_2
//             g_row[turn_2] = g[k0_3, i0]
//           }
//         }
//         alloc sum_acc_part: f32[] local
//         sum_acc_part[] = 0.0:f32
//         for turn_1 in 3 unrolled {
//           let k_1 = turn_1 * 2 + lane
//           if row < 100 {
//             let k0_2 = k_1
//             sum_acc_part[] = sum_acc_part[] + g_row[turn_1] * multiply_2[k0_2, i0]
//           }
//         }
//         sum_acc_tile[lane, group] = sum_acc_part[]
//         barrier
//         for level_1 in 1 {
//           let half_1 = 1 >> level_1
//           if lane < half_1 {
//             sum_acc_tile[lane, group] = sum_acc_tile[lane, group] + sum_acc_tile[lane + half_1, group]
//           }
//           barrier
//         }
//         let sum_acc = sum_acc_tile[0, group]
//         alloc sum_1_acc_part: f32[] local
//         sum_1_acc_part[] = 0.0:f32
//         for turn in 3 unrolled {
//           let k = turn * 2 + lane
//           if row < 100 {
//             sum_1_acc_part[] = sum_1_acc_part[] + g_row[turn]
//           }
//         }
//         sum_1_acc_tile[lane, group] = sum_1_acc_part[]
//         barrier
//         for level in 1 {
//           let half = 1 >> level
//           if lane < half {
//             sum_1_acc_tile[lane, group] = sum_1_acc_tile[lane, group] + sum_1_acc_tile[lane + half, group]
//           }
//           barrier
//         }
//         let sum_1_acc = sum_1_acc_tile[0, group]
//         if lane == 0 and row < 100 {
//           sum[i0] = sum_acc
//           sum_1[i0] = sum_1_acc
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_multiply_sum_sum_1(
    const f32 *__restrict__ g,
    const f32 *__restrict__ multiply_2,
    f32 *__restrict__ sum,
    f32 *__restrict__ sum_1) {
  const i64 bx = blockIdx.x;
  __shared__ f32 sum_acc_tile[256];
  __shared__ f32 sum_1_acc_tile[256];
  const i64 lane = threadIdx.y;
  const i64 group = threadIdx.x;
  const i64 row = bx * 128 + group;
  const i64 at = min_i64(row, 99);
  const i64 i0 = at;
  f32 g_row[3];
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 3; ++turn_2) {
    const i64 k_2 = turn_2 * 2 + lane;
    if (row < 100) {
      const i64 k0_3 = k_2;
      g_row[turn_2] = g[k0_3 * 100 + i0];
    }
  }
  f32 sum_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 3; ++turn_1) {
    const i64 k_1 = turn_1 * 2 + lane;
    if (row < 100) {
      const i64 k0_2 = k_1;
      sum_acc_part = sum_acc_part + g_row[turn_1] * multiply_2[k0_2 * 100 + i0];
    }
  }
  sum_acc_tile[lane * 128 + group] = sum_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 1; ++level_1) {
    const i64 half_1 = shr_i64(1, level_1);
    if (lane < half_1) {
      sum_acc_tile[lane * 128 + group] = sum_acc_tile[lane * 128 + group] + sum_acc_tile[(lane + half_1) * 128 + group];
    }
    __syncthreads();
  }
  const f32 sum_acc = sum_acc_tile[group];
  f32 sum_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn = 0; turn < 3; ++turn) {
    const i64 k = turn * 2 + lane;
    if (row < 100) {
      sum_1_acc_part = sum_1_acc_part + g_row[turn];
    }
  }
  sum_1_acc_tile[lane * 128 + group] = sum_1_acc_part;
  __syncthreads();
  for (i64 level = 0; level < 1; ++level) {
    const i64 half = shr_i64(1, level);
    if (lane < half) {
      sum_1_acc_tile[lane * 128 + group] = sum_1_acc_tile[lane * 128 + group] + sum_1_acc_tile[(lane + half) * 128 + group];
    }
    __syncthreads();
  }
  const f32 sum_1_acc = sum_1_acc_tile[group];
  if (lane == 0 && row < 100) {
    sum[i0] = sum_acc;
    sum_1[i0] = sum_1_acc;
  }
}
