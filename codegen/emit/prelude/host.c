/* Intrinsics of the host: C99 as TinyCC, gcc and clang share it; the mathematics is libm's.
 * One thread runs at a time, so a plain update is indivisible. */

//: T in floats
extern T exp@(T);
#define exp_T exp@

extern T exp2@(T);
#define exp2_T exp2@

extern T expm1@(T);
#define expm1_T expm1@

extern T log@(T);
#define log_T log@

extern T log2@(T);
#define log2_T log2@

extern T log10@(T);
#define log10_T log10@

extern T log1p@(T);
#define log1p_T log1p@

extern T sqrt@(T);
#define sqrt_T sqrt@

extern T sin@(T);
#define sin_T sin@

extern T cos@(T);
#define cos_T cos@

extern T tan@(T);
#define tan_T tan@

extern T asin@(T);
#define asin_T asin@

extern T acos@(T);
#define acos_T acos@

extern T atan@(T);
#define atan_T atan@

extern T sinh@(T);
#define sinh_T sinh@

extern T cosh@(T);
#define cosh_T cosh@

extern T tanh@(T);
#define tanh_T tanh@

extern T asinh@(T);
#define asinh_T asinh@

extern T acosh@(T);
#define acosh_T acosh@

extern T atanh@(T);
#define atanh_T atanh@

extern T erf@(T);
#define erf_T erf@

extern T floor@(T);
#define floor_T floor@

extern T ceil@(T);
#define ceil_T ceil@

extern T trunc@(T);
#define trunc_T trunc@

#define rsqrt_T(x) (1 / sqrt_T(x))

extern T rint@(T);
#define round_T rint@

extern T fabs@(T);
#define abs_T fabs@

extern T pow@(T, T);
#define pow_T pow@

extern T atan2@(T, T);
#define atan2_T atan2@

extern T copysign@(T, T);
#define copysign_T copysign@

extern T fma@(T, T, T);
#define fma_T fma@

extern T fmod@(T, T);
#define fmod_T fmod@

//:
FN f32 cast_f16_f32(f16 x) {
  u32 sign = (u32)(x & 0x8000u) << 16, e = x >> 10 & 31u, m = x & 1023u;
  f32 tiny;
  if (e == 31) return from_bits_f32(sign | 0x7f800000u | m << 13);
  if (e != 0) return from_bits_f32(sign | (e + 112u) << 23 | m << 13);
  tiny = (f32)(i32)m * 5.9604644775390625e-8f; /* 2^-24 */
  return sign ? -tiny : tiny;
}

/* Round to nearest, ties to even. */
FN f16 cast_f32_f16(f32 x) {
  u32 u = bits_f32(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu, m, r, rest, shift;
  if (a > 0x7f800000u) return (f16)(sign | 0x7e00u);
  if (a >= 0x477ff000u) return (f16)(sign | 0x7c00u); /* 65520 and more */
  if (a >= 0x38800000u) return (f16)(sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);
  if (a < 0x33000000u) return (f16)sign; /* below half of the least subnormal */
  shift = 126u - (a >> 23);
  m = (a & 0x7fffffu) | 0x800000u;
  r = m >> shift;
  rest = m << (32u - shift);
  return (f16)(sign | (r + (rest > 0x80000000u || (rest == 0x80000000u && (r & 1u)))));
}

FN bf16 cast_f32_bf16(f32 x) {
  u32 u = bits_f32(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (bf16)(u >> 16 | 0x40u);
  return (bf16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

//: T in types
#define load2_T(p) (*(const Tx2 *)aligned_((p), ALIGN2, __LINE__))

#define load4_T(p) (*(const Tx4 *)aligned_((p), ALIGN4, __LINE__))

#define store2_T(p, v) (*(Tx2 *)aligned_((p), ALIGN2, __LINE__) = (v))

#define store4_T(p, v) (*(Tx4 *)aligned_((p), ALIGN4, __LINE__) = (v))

//: T in i32 i64 u32 u64
FN void atomic_add_T(T *p, T v) { *p = add_T(*p, v); }

FN void atomic_mul_T(T *p, T v) { *p = mul_T(*p, v); }

//: T in floats
FN void atomic_add_T(T *p, T v) { *p = *p + v; }

FN void atomic_mul_T(T *p, T v) { *p = *p * v; }

//: T in i32 i64 u32 u64 floats
FN void atomic_min_T(T *p, T v) { *p = min_T(*p, v); }

FN void atomic_max_T(T *p, T v) { *p = max_T(*p, v); }
