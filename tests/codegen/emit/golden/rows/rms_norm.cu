// computes square, mean, constant, add, rsqrt, multiply, multiply_1
// kernel @fused_square_mean_add_rsqrt_multiply_m_0(x: f32[600], w: f32[100], multiply_1: f32[600]) writes (multiply_1) attrs(schedule='rows', source=('square', 'mean', 'constant', 'add', 'rsqrt', 'multiply', 'multiply_1')) {
//   for bx in 2 bound blockIdx.x {
//     for group in 4 bound threadIdx.y {
//       for lane in 32 bound threadIdx.x {
//         let row = bx * 4 + group
//         let at = min(row, 5)
//         let i0 = at
//         alloc x_row: f32[4] local
//         if row < 6 {
//           for turn_2 in 1 unrolled {
//             let k_2 = turn_2 * 32 + lane
//             if k_2 < 25 {
//               let part_2 = k_2
//               for v_2 in 4 vectorized {
//                 x_row[turn_2 * 4 + v_2] = x[(i0 * 25 + part_2) * 4 + v_2]
//               }
//             }
//           }
//         }
//         alloc mean_acc_part: f32[] local
//         mean_acc_part[] = 0.0:f32
//         if row < 6 {
//           for turn_1 in 1 unrolled {
//             let k_1 = turn_1 * 32 + lane
//             if k_1 < 25 {
//               for v_1 in 4 unrolled {
//                 let x_2 = x_row[turn_1 * 4 + v_1]
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
//         let rsqrt = rsqrt(mean_acc / f32(100) + 1e-06:f32)
//         if row < 6 {
//           for turn in 1 unrolled {
//             let k = turn * 32 + lane
//             if k < 25 {
//               let part = k
//               for v in 4 vectorized {
//                 multiply_1[(i0 * 25 + part) * 4 + v] = x_row[turn * 4 + v] * rsqrt * w[part * 4 + v]
//               }
//             }
//           }
//         }
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
fused_square_mean_add_rsqrt_multiply_m_0(
    const f32 *__restrict__ x,
    const f32 *__restrict__ w,
    f32 *__restrict__ multiply_1) {
  const i64 bx = blockIdx.x;
  const i64 group = threadIdx.y;
  const i64 lane = threadIdx.x;
  const i64 row = bx * 4 + group;
  const i64 at = min_i64(row, 5);
  const i64 i0 = at;
  f32 x_row[4];
  if (row < 6) {
    #pragma unroll
    for (i64 turn_2 = 0; turn_2 < 1; ++turn_2) {
      const i64 k_2 = turn_2 * 32 + lane;
      if (k_2 < 25) {
        const i64 part_2 = k_2;
        const f32x4 x_x4 = load4_f32(&x[(i0 * 25 + part_2) * 4]);
        x_row[turn_2 * 4] = x_x4.x;
        x_row[turn_2 * 4 + 1] = x_x4.y;
        x_row[turn_2 * 4 + 2] = x_x4.z;
        x_row[turn_2 * 4 + 3] = x_x4.w;
      }
    }
  }
  f32 mean_acc_part = 0.0f;
  if (row < 6) {
    #pragma unroll
    for (i64 turn_1 = 0; turn_1 < 1; ++turn_1) {
      const i64 k_1 = turn_1 * 32 + lane;
      if (k_1 < 25) {
        #pragma unroll
        for (i64 v_1 = 0; v_1 < 4; ++v_1) {
          const f32 x_2 = x_row[turn_1 * 4 + v_1];
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
  const f32 rsqrt = rsqrt_f32(mean_acc / cast_i64_f32(100) + 1e-06f);
  if (row < 6) {
    #pragma unroll
    for (i64 turn = 0; turn < 1; ++turn) {
      const i64 k = turn * 32 + lane;
      if (k < 25) {
        const i64 part = k;
        const f32x4 w_x4 = load4_f32(&w[part * 4]);
        f32x4 multiply_1_x4;
        multiply_1_x4.x = x_row[turn * 4] * rsqrt * w_x4.x;
        multiply_1_x4.y = x_row[turn * 4 + 1] * rsqrt * w_x4.y;
        multiply_1_x4.z = x_row[turn * 4 + 2] * rsqrt * w_x4.z;
        multiply_1_x4.w = x_row[turn * 4 + 3] * rsqrt * w_x4.w;
        store4_f32(&multiply_1[(i0 * 25 + part) * 4], multiply_1_x4);
      }
    }
  }
}
