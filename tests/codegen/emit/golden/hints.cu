// kernel @hints(x: f32[n, 64], y: f32[n]) writes (y) dims n in [1, 4096] {
//   for b in n bound blockIdx.x {
//     assert x[b, 0] >= 0.0:f32, 'rows begin with a count'
//     prefetch x[min(b + 1, n - 1), 0]
//     evaluate exp(x[b, 1])
//     attr remark = 'the rest is data' {
//       alloc acc: f32[] local
//       acc[] = 0.0:f32
//       attr unroll = 4 {
//         for k in 63 {
//           acc[] = acc[] + x[b, k + 1]
//         }
//       }
//       y[b] = acc[]
//     }
//   }
// }
extern "C" __global__ void __launch_bounds__(1)
hints(const f32 *__restrict__ x, f32 *__restrict__ y, i64 n) {
  const i64 b = blockIdx.x;
  assert_b8(x[b * 64] >= 0.0f);  // "rows begin with a count"
  prefetch_f32(&x[min_i64(b + 1, n - 1) * 64]);
  (void)(exp_f32(x[b * 64 + 1]));
  // "the rest is data"
  f32 acc = 0.0f;
  #pragma unroll 4
  for (i64 k = 0; k < 63; ++k) {
    acc = acc + x[b * 64 + (k + 1)];
  }
  y[b] = acc;
}
