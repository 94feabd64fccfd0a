// computes mean, subtract, square, mean_1, constant, add, rsqrt, multiply, reshape_1, multiply_1, add_1
// kernel @fused_mean_subtract_square_mean_add_rs_2(reshape: f32[4, 2, 3, 5, 5], reshape_2: f32[6, 1, 1], reshape_3: f32[6, 1, 1], add_1: f32[4, 6, 5, 5]) writes (add_1) attrs(schedule='rows', source=('mean', 'subtract', 'square', 'mean_1', 'constant', 'add', 'rsqrt', 'multiply', 'reshape_1', 'multiply_1', 'add_1')) {
//   for bx in 8 bound blockIdx.x {
//     alloc mean_acc_part_tile: f32[1, 4] shared
//     alloc mean_1_acc_part_tile: f32[1, 4] shared
//     for group in 1 bound threadIdx.y {
//       for lane in 128 bound threadIdx.x {
//         let row = bx + group
//         let i0 = row // 2
//         let i1 = row % 2
//         alloc reshape_row: f32[1] local
//         for turn_3 in 1 unrolled {
//           let k_3 = turn_3 * 128 + lane
//           if k_3 < 75 {
//             let i2__3 = k_3 // 5 // 5
//             let i3_4 = k_3 // 5 % 5
//             let i4__3 = k_3 % 5
//             reshape_row[turn_3] = reshape[i0, i1, i2__3, i3_4, i4__3]
//           }
//         }
//         alloc mean_acc_part: f32[] local
//         mean_acc_part[] = 0.0:f32
//         for turn_2 in 1 unrolled {
//           let k_2 = turn_2 * 128 + lane
//           if k_2 < 75 {
//             mean_acc_part[] = mean_acc_part[] + reshape_row[turn_2]
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
//         for turn_1 in 1 unrolled {
//           let k_1 = turn_1 * 128 + lane
//           if k_1 < 75 {
//             let subtract_1 = reshape_row[turn_1] - mean
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
//         let rsqrt = rsqrt(mean_1_acc / f32(75) + 1e-05:f32)
//         for turn in 1 unrolled {
//           let k = turn * 128 + lane
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
extern "C" __global__ void __launch_bounds__(128)
fused_mean_subtract_square_mean_add_rs_2(
    const f32 *__restrict__ reshape,
    const f32 *__restrict__ reshape_2,
    const f32 *__restrict__ reshape_3,
    f32 *__restrict__ add_1) {
  const i64 bx = blockIdx.x;
  __shared__ f32 mean_acc_part_tile[4];
  __shared__ f32 mean_1_acc_part_tile[4];
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx + group;
  const i64 i0 = row / 2;
  const i64 i1 = row % 2;
  f32 reshape_row;
  #pragma unroll
  for (i64 turn_3 = 0; turn_3 < 1; ++turn_3) {
    const i64 k_3 = turn_3 * 128 + lane;
    if (k_3 < 75) {
      const i64 i2_3 = k_3 / 5 / 5;
      const i64 i3_4 = k_3 / 5 % 5;
      const i64 i4_3 = k_3 % 5;
      reshape_row = reshape[(((i0 * 2 + i1) * 3 + i2_3) * 5 + i3_4) * 5 + i4_3];
    }
  }
  f32 mean_acc_part = 0.0f;
  #pragma unroll
  for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
    const i64 k_2 = turn_2 * 128 + lane;
    if (k_2 < 75) {
      mean_acc_part = mean_acc_part + reshape_row;
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
  for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
    const i64 k_1 = turn_1 * 128 + lane;
    if (k_1 < 75) {
      const f32 subtract_1 = reshape_row - mean;
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
  const f32 rsqrt = rsqrt_f32(mean_1_acc / cast_i64_f32(75) + 1e-05f);
  #pragma unroll
  for (i64 turn = 0; turn < 1; ++turn) {
    const i64 k = turn * 128 + lane;
    if (k < 75) {
      const i64 i2_ = k / 5 / 5;
      const i64 i3_1 = k / 5 % 5;
      const i64 i4_ = k % 5;
      add_1[((i0 * 6 + (i1 * 3 + i2_)) * 5 + i3_1) * 5 + i4_] = (reshape_row - mean) * rsqrt * reshape_2[i1 * 3 + i2_] + reshape_3[i1 * 3 + i2_];
    }
  }
}
