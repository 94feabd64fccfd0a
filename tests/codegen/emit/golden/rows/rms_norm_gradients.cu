// computes multiply, multiply_1, mean, c, add, sqrt, c_1, divide, multiply_2, multiply_3, mean_1, multiply_4, subtract, multiply_5
// kernel @fused_multiply_multiply_mean_add_sqrt_0(g: f32[6, 100], w: f32[100], x: f32[6, 100], multiply_2: f32[6, 100], multiply_5: f32[6, 100]) writes (multiply_2, multiply_5) attrs(schedule='rows', source=('multiply', 'multiply_1', 'mean', 'c', 'add', 'sqrt', 'c_1', 'divide', 'multiply_2', 'multiply_3', 'mean_1', 'multiply_4', 'subtract', 'multiply_5')) {
//   for bx in 1 bound blockIdx.x {
//     alloc mean_acc_tile: f32[8, 32] shared
//     alloc mean_1_acc_tile: f32[8, 32] shared
//     for group in 8 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 8 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc g_row: f32[4] local
//         for turn_5 in 4 unrolled {
//           let k_5 = turn_5 * 32 + lane
//           if row < 6 and k_5 < 100 {
//             let i1_6 = k_5
//             g_row[turn_5] = g[i0, i1_6]
//           }
//         }
//         alloc w_row: f32[4] local
//         for turn_4 in 4 unrolled {
//           let k_4 = turn_4 * 32 + lane
//           if row < 6 and k_4 < 100 {
//             let i1_5 = k_4
//             w_row[turn_4] = w[i1_5]
//           }
//         }
//         alloc x_row: f32[4] local
//         for turn_3 in 4 unrolled {
//           let k_3 = turn_3 * 32 + lane
//           if row < 6 and k_3 < 100 {
//             let i1_4 = k_3
//             x_row[turn_3] = x[i0, i1_4]
//           }
//         }
//         alloc mean_acc_part: f32[] local
//         mean_acc_part[] = 0.0:f32
//         for turn_2 in 4 unrolled {
//           let k_2 = turn_2 * 32 + lane
//           if row < 6 and k_2 < 100 {
//             let x_2 = x_row[turn_2]
//             mean_acc_part[] = mean_acc_part[] + x_2 * x_2
//           }
//         }
//         mean_acc_tile[group, lane] = mean_acc_part[]
//         barrier
//         for level_1 in 5 {
//           let half_1 = 16 >> level_1
//           if lane < half_1 {
//             mean_acc_tile[group, lane] = mean_acc_tile[group, lane] + mean_acc_tile[group, lane + half_1]
//           }
//           barrier
//         }
//         let mean_acc = mean_acc_tile[group, 0]
//         let divide = 1.0:f32 / sqrt(mean_acc / f32(100) + 1e-05:f32)
//         alloc mean_1_acc_part: f32[] local
//         mean_1_acc_part[] = 0.0:f32
//         for turn_1 in 4 unrolled {
//           let k_1 = turn_1 * 32 + lane
//           if row < 6 and k_1 < 100 {
//             mean_1_acc_part[] = mean_1_acc_part[] + g_row[turn_1] * w_row[turn_1] * (x_row[turn_1] * divide)
//           }
//         }
//         mean_1_acc_tile[group, lane] = mean_1_acc_part[]
//         barrier
//         for level in 5 {
//           let half = 16 >> level
//           if lane < half {
//             mean_1_acc_tile[group, lane] = mean_1_acc_tile[group, lane] + mean_1_acc_tile[group, lane + half]
//           }
//           barrier
//         }
//         let mean_1_acc = mean_1_acc_tile[group, 0]
//         let mean_1 = mean_1_acc / f32(100)
//         for turn in 4 unrolled {
//           let k = turn * 32 + lane
//           if row < 6 and k < 100 {
//             let i1_1 = k
//             let multiply_2_1 = x_row[turn] * divide
//             multiply_2[i0, i1_1] = multiply_2_1
//             multiply_5[i0, i1_1] = divide * (g_row[turn] * w_row[turn] - multiply_2_1 * mean_1)
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_multiply_multiply_mean_add_sqrt_0(
    const f32 *__restrict__ g,
    const f32 *__restrict__ w,
    const f32 *__restrict__ x,
    f32 *__restrict__ multiply_2,
    f32 *__restrict__ multiply_5) {
  const i64 bx = blockIdx.x;
  __shared__ f32 mean_acc_tile[256];
  __shared__ f32 mean_1_acc_tile[256];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 g_row[4];
  #pragma unroll
  for (i64 turn_5 = 0; turn_5 < 4; ++turn_5) {
    const i64 k_5 = turn_5 * 32 + lane;
    if (row < 6 && k_5 < 100) {
      const i64 i1_6 = k_5;
      g_row[turn_5] = g[i0 * 100 + i1_6];
    }
  }
  f32 w_row[4];
  #pragma unroll
  for (i64 turn_4 = 0; turn_4 < 4; ++turn_4) {
    const i64 k_4 = turn_4 * 32 + lane;
    if (row < 6 && k_4 < 100) {
      const i64 i1_5 = k_4;
      w_row[turn_4] = w[i1_5];
    }
  }
  f32 x_row[4];
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 4; ++turn_3) {
    const i64 k_3 = turn_3 * 32 + lane;
    if (row < 6 && k_3 < 100) {
      const i64 i1_4 = k_3;
      x_row[turn_3] = x[i0 * 100 + i1_4];
    }
  }
  f32 mean_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 4; ++turn_2) {
    const i64 k_2 = turn_2 * 32 + lane;
    if (row < 6 && k_2 < 100) {
      const f32 x_2 = x_row[turn_2];
      mean_acc_part = mean_acc_part + x_2 * x_2;
    }
  }
  mean_acc_tile[group * 32 + lane] = mean_acc_part;
  __syncthreads();
  for (i64 level_1 = 0; level_1 < 5; ++level_1) {
    const i64 half_1 = shr_i64(16, level_1);
    if (lane < half_1) {
      mean_acc_tile[group * 32 + lane] = mean_acc_tile[group * 32 + lane] + mean_acc_tile[group * 32 + (lane + half_1)];
    }
    __syncthreads();
  }
  const f32 mean_acc = mean_acc_tile[group * 32];
  const f32 divide = 1.0f / sqrt_f32(mean_acc / cast_i64_f32(100) + 1e-05f);
  f32 mean_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 4; ++turn_1) {
    const i64 k_1 = turn_1 * 32 + lane;
    if (row < 6 && k_1 < 100) {
      mean_1_acc_part = mean_1_acc_part + g_row[turn_1] * w_row[turn_1] * (x_row[turn_1] * divide);
    }
  }
  mean_1_acc_tile[group * 32 + lane] = mean_1_acc_part;
  __syncthreads();
  for (i64 level = 0; level < 5; ++level) {
    const i64 half = shr_i64(16, level);
    if (lane < half) {
      mean_1_acc_tile[group * 32 + lane] = mean_1_acc_tile[group * 32 + lane] + mean_1_acc_tile[group * 32 + (lane + half)];
    }
    __syncthreads();
  }
  const f32 mean_1_acc = mean_1_acc_tile[group * 32];
  const f32 mean_1 = mean_1_acc / cast_i64_f32(100);
  #pragma unroll
  for (i64 turn = 0; turn < 4; ++turn) {
    const i64 k = turn * 32 + lane;
    if (row < 6 && k < 100) {
      const i64 i1_1 = k;
      const f32 multiply_2_1 = x_row[turn] * divide;
      multiply_2[i0 * 100 + i1_1] = multiply_2_1;
      multiply_5[i0 * 100 + i1_1] = divide * (g_row[turn] * w_row[turn] - multiply_2_1 * mean_1);
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
