// kernel @scale_2(x: f32[1024], s: f32[1], y: f32[1024]) writes (y) {
//   for bx in 2 bound blockIdx.x {
//     for tx in 128 bound threadIdx.x {
//       let i = bx * 128 + tx
//       for v in 4 vectorized {
//         y[i * 4 + v] = x[i * 4 + v] * rsqrt(s[0])
//       }
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
scale_2(const f32 *__restrict__ x, const f32 *__restrict__ s, f32 *__restrict__ y) {
  const i64 bx = blockIdx.x;
  const i64 tx = threadIdx.x;
  const i64 i = bx * 128 + tx;
  const f32x4 x_x4 = load4_f32(&x[i * 4]);
  f32x4 y_x4;
  y_x4.x = x_x4.x * rsqrt_f32(s[0]);
  y_x4.y = x_x4.y * rsqrt_f32(s[0]);
  y_x4.z = x_x4.z * rsqrt_f32(s[0]);
  y_x4.w = x_x4.w * rsqrt_f32(s[0]);
  store4_f32(&y[i * 4], y_x4);
}
