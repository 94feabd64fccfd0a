// computes mean, subtract, square, mean_1, constant, add, rsqrt, multiply, reshape_1, multiply_1, add_1
// kernel @fused_mean_subtract_square_mean_add_rs_2(reshape: f32[4, 2, 3, 5, 5], reshape_2: f32[6, 1, 1], reshape_3: f32[6, 1, 1], add_1: f32[4, 6, 5, 5]) writes (add_1) attrs(schedule='rows', source=('mean', 'subtract', 'square', 'mean_1', 'constant', 'add', 'rsqrt', 'multiply', 'reshape_1', 'multiply_1', 'add_1')) {
//   for bx in 1 bound blockIdx.x {
//     alloc mean_acc_tile: f32[8, 32] shared
//     alloc mean_1_acc_tile: f32[8, 32] shared
//     for group in 8 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 8 + group
//         let i0 = row // 2
//         let i1 = row % 2
//         alloc reshape_row: f32[3] local
//         for turn_3 in 3 unrolled {
//           let k_3 = turn_3 * 32 + lane
//           if k_3 < 75 {
//             let i2__3 = k_3 // 5 // 5
//             let i3_4 = k_3 // 5 % 5
//             let i4__3 = k_3 % 5
//             reshape_row[turn_3] = reshape[i0, i1, i2__3, i3_4, i4__3]
//           }
//         }
//         alloc mean_acc_part: f32[] local
//         mean_acc_part[] = 0.0:f32
//         for turn_2 in 3 unrolled {
//           let k_2 = turn_2 * 32 + lane
//           if k_2 < 75 {
//             mean_acc_part[] = mean_acc_part[] + reshape_row[turn_2]
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
//         let mean = mean_acc / f32(75)
//         alloc mean_1_acc_part: f32[] local
//         mean_1_acc_part[] = 0.0:f32
//         for turn_1 in 3 unrolled {
//           let k_1 = turn_1 * 32 + lane
//           if k_1 < 75 {
//             let subtract_1 = reshape_row[turn_1] - mean
//             mean_1_acc_part[] = mean_1_acc_part[] + subtract_1 * subtract_1
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
//         let rsqrt = rsqrt(mean_1_acc / f32(75) + 1e-05:f32)
//         for turn in 3 unrolled {
//           let k = turn * 32 + lane
//           if k < 75 {
//             let i2_ = k // 5 // 5
//             let i3_1 = k // 5 % 5
//             let i4_ = k % 5
//             add_1[i0, i1 * 3 + i2_, i3_1, i4_] = (reshape_row[turn] - mean) * rsqrt * reshape_2[i1 * 3 + i2_, 0, 0] + reshape_3[i1 * 3 + i2_, 0, 0]
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(256)
fused_mean_subtract_square_mean_add_rs_2(
    const f32 *__restrict__ reshape,
    const f32 *__restrict__ reshape_2,
    const f32 *__restrict__ reshape_3,
    f32 *__restrict__ add_1) {
  const i64 bx = blockIdx.x;
  __shared__ f32 mean_acc_tile[256];
  __shared__ f32 mean_1_acc_tile[256];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 8 + group;
  const i64 i0 = row / 2;
  const i64 i1 = row % 2;
  f32 reshape_row[3];
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 3; ++turn_3) {
    const i64 k_3 = turn_3 * 32 + lane;
    if (k_3 < 75) {
      const i64 i2_3 = k_3 / 5 / 5;
      const i64 i3_4 = k_3 / 5 % 5;
      const i64 i4_3 = k_3 % 5;
      reshape_row[turn_3] = reshape[(((i0 * 2 + i1) * 3 + i2_3) * 5 + i3_4) * 5 + i4_3];
    }
  }
  f32 mean_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 3; ++turn_2) {
    const i64 k_2 = turn_2 * 32 + lane;
    if (k_2 < 75) {
      mean_acc_part = mean_acc_part + reshape_row[turn_2];
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
  const f32 mean = mean_acc / cast_i64_f32(75);
  f32 mean_1_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_1 = 0; turn_1 < 3; ++turn_1) {
    const i64 k_1 = turn_1 * 32 + lane;
    if (k_1 < 75) {
      const f32 subtract_1 = reshape_row[turn_1] - mean;
      mean_1_acc_part = mean_1_acc_part + subtract_1 * subtract_1;
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
  const f32 rsqrt = rsqrt_f32(mean_1_acc / cast_i64_f32(75) + 1e-05f);
  #pragma unroll
  for (i64 turn = 0; turn < 3; ++turn) {
    const i64 k = turn * 32 + lane;
    if (k < 75) {
      const i64 i2_ = k / 5 / 5;
      const i64 i3_1 = k / 5 % 5;
      const i64 i4_ = k % 5;
      add_1[((i0 * 6 + (i1 * 3 + i2_)) * 5 + i3_1) * 5 + i4_] = (reshape_row[turn] - mean) * rsqrt * reshape_2[i1 * 3 + i2_] + reshape_3[i1 * 3 + i2_];
    }
  }
}
