/* Intrinsics of CUDA devices: what differs from the host; no header is needed.  The mathematics is
 * CUDA's own, without fast-math. */

//: T in floats
#define exp_T exp@

#define exp2_T exp2@

#define expm1_T expm1@

#define log_T log@

#define log2_T log2@

#define log10_T log10@

#define log1p_T log1p@

#define sqrt_T sqrt@

#define sin_T sin@

#define cos_T cos@

#define tan_T tan@

#define asin_T asin@

#define acos_T acos@

#define atan_T atan@

#define sinh_T sinh@

#define cosh_T cosh@

#define tanh_T tanh@

#define asinh_T asinh@

#define acosh_T acosh@

#define atanh_T atanh@

#define erf_T erf@

#define floor_T floor@

#define ceil_T ceil@

#define trunc_T trunc@

#define rsqrt_T rsqrt@

#define round_T rint@

#define abs_T fabs@

#define pow_T pow@

#define atan2_T atan2@

#define copysign_T copysign@

#define fma_T fma@

#define fmod_T fmod@

//:
FN f32 cast_f16_f32(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

FN f16 cast_f32_f16(f32 x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

FN bf16 cast_f32_bf16(f32 x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

//: T in types
#define load2_T(p) (*(const Tx2 *)(p))

#define load4_T(p) (*(const Tx4 *)(p))

#define store2_T(p, v) (*(Tx2 *)(p) = (v))

#define store4_T(p, v) (*(Tx4 *)(p) = (v))

//: T in i32 u32 f32 f64
FN void atomic_add_T(T *p, T v) { atomicAdd(p, v); }

//: T in i32 u32
FN void atomic_min_T(T *p, T v) { atomicMin(p, v); }

FN void atomic_max_T(T *p, T v) { atomicMax(p, v); }

//: T in i64 u64
FN void atomic_add_T(T *p, T v) { atomicAdd((u64 *)p, (u64)v); }

FN void atomic_min_T(T *p, T v) { atomicMin(p, v); }

FN void atomic_max_T(T *p, T v) { atomicMax(p, v); }

//: T in i32 u32 i64 u64
FN void atomic_mul_T(T *p, T v) {
  U old = *(volatile U *)p, seen;
  while ((seen = atomicCAS((U *)p, old, old * (U)v)) != old) old = seen;
}

//: T in floats
FN void atomic_mul_T(T *p, T v) {
  U old = *(volatile U *)p, seen;
  while ((seen = atomicCAS((U *)p, old, bits_T(from_bits_T(old) * v))) != old) old = seen;
}

FN void atomic_min_T(T *p, T v) {
  U old = *(volatile U *)p, seen;
  while ((seen = atomicCAS((U *)p, old, bits_T(min_T(from_bits_T(old), v)))) != old) old = seen;
}

FN void atomic_max_T(T *p, T v) {
  U old = *(volatile U *)p, seen;
  while ((seen = atomicCAS((U *)p, old, bits_T(max_T(from_bits_T(old), v)))) != old) old = seen;
}
