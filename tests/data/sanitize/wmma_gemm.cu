// RUN: --grid 1 --block 32 --arg a=f16[16,16] --arg b=f16[16,16] --arg c=out:f32[16,16]
// FAULT 1: race
// FAULT 2: out-of-bounds
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void k(const half* a, const half* b, float* c) {
  __shared__ alignas(32) float s[16 * 16];
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  wmma::load_matrix_sync(fa, a, FAULT == 2 ? 32 : 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2;
  wmma::store_matrix_sync(s, fc, 16, wmma::mem_row_major);
#if FAULT != 1
  __syncwarp();
#endif
  for (int i = threadIdx.x; i < 256; i += 32) c[i] = s[255 - i];
}
