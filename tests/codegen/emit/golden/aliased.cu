// kernel @aliased(x: f32[64], y: f32[64]) writes (x, y) attrs(noalias=false) {
//   primfunc @after(old: f32[64], new: f32[64], y: f32[64]) writes (new, y) dims t in [0, 15] attrs(noalias=false) {
//     for v in 4 vectorized {
//       new[t * 4 + v] = old[t * 4 + v] + 1.0:f32
//       y[t * 4 + v] = old[t * 4 + v] * 2.0:f32
//     }
//   }
//   for t in 16 bound threadIdx.x {
//     call @after(x, x, y) dims (t)
//   }
// }
extern "C" __global__ void __launch_bounds__(16)
aliased(f32 *x, f32 *y) {
  const i64 t = threadIdx.x;
  {
    const i64 t_1 = t;
    #pragma unroll
    for (i64 v = 0; v < 4; ++v) {
      x[t_1 * 4 + v] = x[t_1 * 4 + v] + 1.0f;
      y[t_1 * 4 + v] = x[t_1 * 4 + v] * 2.0f;
    }
  }
}
