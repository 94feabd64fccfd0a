// kernel @vectors(x: f32[1024], z: f32[128, 8], y: f32[1024]) writes (z, y) {
//   for t in 128 bound threadIdx.x {
//     y[ramp(t * 4, 1, 4)] = x[ramp(t * 4, 1, 4)] * broadcast(x[t], 4)
//     z[t, ramp(6, -2, 4)] = rsqrt(x[ramp(t, 128, 4)])
//   }
// }
extern "C" __global__ void __launch_bounds__(128)
vectors(const f32 *__restrict__ x, f32 *__restrict__ z, f32 *__restrict__ y) {
  const i64 t = threadIdx.x;
  const f32x4 x_x4 = load4_f32(&x[t * 4]);
  f32x4 y_x4;
  y_x4.x = x_x4.x * x[t];
  y_x4.y = x_x4.y * x[t];
  y_x4.z = x_x4.z * x[t];
  y_x4.w = x_x4.w * x[t];
  store4_f32(&y[t * 4], y_x4);
  #pragma unroll
  for (i64 lane_1 = 0; lane_1 < 4; ++lane_1) {
    z[t * 8 + (6 + lane_1 * -2)] = rsqrt_f32(x[t + lane_1 * 128]);
  }
}
