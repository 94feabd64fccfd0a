// kernel @norms(x: f32[n, 8], y: f32[n], z: f32[n]) writes (y, z) dims n in [0, 4096] {
//   primfunc @add(row: f32[n, 8], sum: f32[] local) writes (sum) dims i in [0, 4095], k in [0, 7], n in [1, 4096] {
//     let v = row[i, k]
//     sum[] = sum[] + v * v
//   }
//   primfunc @norm(x: f32[n, 8], y: f32[n]) writes (y) dims n in [1, 4096], i in [0, 4095], from in [0, 4] {
//     alloc sum: f32[] local
//     sum[] = 0.0:f32
//     for k in 4 {
//       call @add(x, sum) dims (i, from + k, n)
//     }
//     y[i] = sum[]
//   }
//   for b in (n + 31) // 32 bound blockIdx.x {
//     for t in 32 bound threadIdx.x {
//       let i = b * 32 + t
//       if i < n {
//         call @norm(x, y) dims (n, i, 0)
//         call @norm(x, z) dims (n, n - 1 - i, 4)
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(32)
norms(const f32 *__restrict__ x, f32 *__restrict__ y, f32 *__restrict__ z, i64 n) {
  const i64 b = blockIdx.x;
  const i64 t = threadIdx.x;
  const i64 i = b * 32 + t;
  if (i < n) {
    {
      const i64 n_1 = n;
      const i64 i_1 = i;
      const i64 from = 0;
      f32 sum = 0.0f;
      for (i64 k = 0; k < 4; ++k) {
        {
          const i64 i_2 = i_1;
          const i64 k_1 = from + k;
          const i64 n_2 = n_1;
          const f32 v = x[i_2 * 8 + k_1];
          sum = sum + v * v;
        }
      }
      y[i_1] = sum;
    }
    {
      const i64 n_3 = n;
      const i64 i_3 = n - 1 - i;
      const i64 from_1 = 4;
      f32 sum_1 = 0.0f;
      for (i64 k_2 = 0; k_2 < 4; ++k_2) {
        {
          const i64 i_4 = i_3;
          const i64 k_3 = from_1 + k_2;
          const i64 n_4 = n_3;
          const f32 v_1 = x[i_4 * 8 + k_3];
          sum_1 = sum_1 + v_1 * v_1;
        }
      }
      z[i_3] = sum_1;
    }
  }
}
