// primfunc @scalars(x: f32[n], y: f32[n], alpha: f32, beta: f64, step: i8, k: i64, mask: u32, on: bool) writes (y) dims n in [1, 64] {
//   primfunc @scaled(x: f32[n], y: f32[n], by: f32, turn: i64) writes (y) dims n in [1, 64], i in [0, 63] {
//     y[i] = y[i] * 2.0:f32 + by * x[i] + f32(turn)
//   }
//   for i in n {
//     y[i] = select(on, f32(beta), f32(mask))
//     for j in k {
//       call @scaled(x, y) scalars (alpha + f32(step), j * k) dims (n, i)
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(1)
scalars(
    const f32 *__restrict__ x,
    f32 *__restrict__ y,
    i64 n,
    f32 alpha,
    f64 beta,
    i8 step,
    i64 k,
    u32 mask,
    b8 on) {
  for (i64 i = 0; i < n; ++i) {
    y[i] = on ? cast_f64_f32(beta) : cast_u32_f32(mask);
    const i64 j_end = k;
    for (i64 j = 0; j < j_end; ++j) {
      {
        const i64 n_1 = n;
        const i64 i_1 = i;
        const f32 by = alpha + cast_i8_f32(step);
        const i64 turn = mul_i64(j, k);
        y[i_1] = y[i_1] * 2.0f + by * x[i_1] + cast_i64_f32(turn);
      }
    }
  }
}
