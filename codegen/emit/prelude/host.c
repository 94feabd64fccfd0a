/* Intrinsics of the host: C99 as TinyCC, gcc and clang share it; the mathematics is libm's.
 * One thread runs at a time, so a plain update is indivisible. */

//: T in ints
#define sub_T(a, b) ((T)((U)(a) - (U)(b)))

#define neg_T(a) ((T)(0 - (U)(a)))

//: T in floats
#define min_T min__T

#define max_T max__T

extern T exp@(T);
FN T exp_T(T x) { return exp@(x); }

extern T exp2@(T);
FN T exp2_T(T x) { return exp2@(x); }

extern T expm1@(T);
FN T expm1_T(T x) { return expm1@(x); }

extern T log@(T);
FN T log_T(T x) { return log@(x); }

extern T log2@(T);
FN T log2_T(T x) { return log2@(x); }

extern T log10@(T);
FN T log10_T(T x) { return log10@(x); }

extern T log1p@(T);
FN T log1p_T(T x) { return log1p@(x); }

extern T sqrt@(T);
FN T sqrt_T(T x) { return sqrt@(x); }

extern T sin@(T);
FN T sin_T(T x) { return sin@(x); }

extern T cos@(T);
FN T cos_T(T x) { return cos@(x); }

extern T tan@(T);
FN T tan_T(T x) { return tan@(x); }

extern T asin@(T);
FN T asin_T(T x) { return asin@(x); }

extern T acos@(T);
FN T acos_T(T x) { return acos@(x); }

extern T atan@(T);
FN T atan_T(T x) { return atan@(x); }

extern T sinh@(T);
FN T sinh_T(T x) { return sinh@(x); }

extern T cosh@(T);
FN T cosh_T(T x) { return cosh@(x); }

extern T tanh@(T);
FN T tanh_T(T x) { return tanh@(x); }

extern T asinh@(T);
FN T asinh_T(T x) { return asinh@(x); }

extern T acosh@(T);
FN T acosh_T(T x) { return acosh@(x); }

extern T atanh@(T);
FN T atanh_T(T x) { return atanh@(x); }

extern T erf@(T);
FN T erf_T(T x) { return erf@(x); }

extern T floor@(T);
FN T floor_T(T x) { return floor@(x); }

extern T ceil@(T);
FN T ceil_T(T x) { return ceil@(x); }

extern T trunc@(T);
FN T trunc_T(T x) { return trunc@(x); }

extern T rint@(T);
FN T round_T(T x) { return rint@(x); }

extern T fabs@(T);
FN T abs_T(T x) { return fabs@(x); }

FN T rsqrt_T(T x) { return 1 / sqrt_T(x); }

extern T pow@(T, T);
FN T pow_T(T x, T y) { return y == 0 || x == 1 ? (T)1 : pow@(x, y); } /* libm: NaN if signalling */

extern T atan2@(T, T);
FN T atan2_T(T x, T y) { return atan2@(x, y); }

extern T copysign@(T, T);
FN T copysign_T(T x, T y) { return copysign@(x, y); }

extern T fmod@(T, T);
FN T truncmod_T(T x, T y) { return fmod@(x, y); }

extern T fma@(T, T, T);
FN T fma_T(T x, T y, T z) { return fma@(x, y, z); }

//: F in i8 i16 u8 u16
#define cast_F_f32(x) ((f32)(x))

//:
#define cast_f8e4m3_f32(x) wide_f8e4m3__(x)

#define cast_f8e5m2_f32(x) wide_f8e5m2__(x)

FN f32 cast_f16_f32(f16 x) {
  u32 sign = (u32)(x & 0x8000u) << 16, e = x >> 10 & 31u, m = x & 1023u;
  f32 tiny;
  if (e == 31) return float__f32(sign | 0x7f800000u | m << 13);
  if (e != 0) return float__f32(sign | (e + 112u) << 23 | m << 13);
  tiny = (f32)(i32)m * 5.9604644775390625e-8f; /* 2^-24 */
  return sign ? -tiny : tiny;
}

/* Round to nearest, ties to even. */
FN f16 cast_f32_f16(f32 x) {
  u32 u = bits__f32(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu, m, r, rest, shift;
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
  u32 u = bits__f32(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (bf16)(u >> 16 | 0x40u);
  return (bf16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

extern f32 exp2f(f32);
FN f32 exp2_flush_f32(f32 x) { return x < -126.0f ? 0.0f : exp2f(x); }

FN f32 exp_flush_f32(f32 x) { return x < -87.33654f ? 0.0f : exp_f32(x); }

//: $ in widths
FN f32x$ quotients$_f32(f32x$ a, f32 b) {
  a.` = a.` / b;
  return a;
}

//: T in types, $ in widths
#define load$_T(p) (*(const Tx$ *)aligned__((p), ALIGN$, __LINE__))

#define store$_T(p, v) (*(Tx$ *)aligned__((p), ALIGN$, __LINE__) = (v))

#define load$_pass_T(p) load$_T(p)

#define store$_pass_T(p, v) store$_T(p, v)

//: T in types
#ifdef __TINYC__
#define prefetch_T(p) ((void)(p))
#else
#define prefetch_T(p) __builtin_prefetch(p)
#endif

#define cluster_load_T(p, rank) (*(const T *)elsewhere__((p), (rank), __LINE__))

#define cluster_store_T(p, rank, v) ((void)(*(T *)elsewhere__((p), (rank), __LINE__) = (v)))

//:
#define cluster_barrier() all_meet__(__LINE__)

/* The thread ends; a block that waits for it is no further fault. */
#define assert_b8(holds) do { if (!(holds)) { failed__(__LINE__); return; } } while (0)

//: T in ints floats b8
FN u64 whole__T(T v) {
  union { T part; u64 all; } u;
  u.all = 0;
  u.part = v;
  return u.all;
}

FN T part__T(u64 w) {
  union { T part; u64 all; } u;
  u.all = w;
  return u.part;
}

#define shuffle_xor_T(v, mask) part__T(exchange__(whole__T(v), (mask), __LINE__))

//:
#define device_fence() ((void)0)

FN i32 atomic_fetch_add_i32(i32 *p, i32 v) {
  i32 was = *p;
  *p = add_i32(was, v);
  return was;
}

//: T in i32 i64 u32 u64
FN void atomic_add_T(T *p, T v) { *p = add_T(*p, v); }

FN void atomic_mul_T(T *p, T v) { *p = mul_T(*p, v); }

//: T in floats
FN void atomic_add_T(T *p, T v) { *p = *p + v; }

FN void atomic_mul_T(T *p, T v) { *p = *p * v; }

//: T in i32 i64 u32 u64 floats
FN void atomic_min_T(T *p, T v) { *p = min_T(*p, v); }

FN void atomic_max_T(T *p, T v) { *p = max_T(*p, v); }

/* Blocks run one after another, whatever their order, so that each finds what those before it come
 * to.  The first thread of a block looks, and hands what it finds to the others. */

//: T in ints floats
FN T chain_add__T(i32 *states, T *totals, i64 n, i64 blocks, T start, T value) {
  T before = n % blocks ? totals[2 * n - 1] : start;
  totals[2 * n] = value;
  totals[2 * n + 1] = add__T(before, value);
  states[n + 1] = 2;
  return before;
}

FN T chain_mul__T(i32 *states, T *totals, i64 n, i64 blocks, T start, T value) {
  T before = n % blocks ? totals[2 * n - 1] : start;
  totals[2 * n] = value;
  totals[2 * n + 1] = mul__T(before, value);
  states[n + 1] = 2;
  return before;
}

#define chain_add_T(s, t, n, blocks, start, v) \
  part__T(handed__(leads__() ? whole__T(chain_add__T((s), (t), (n), (blocks), (start), (v))) : 0, __LINE__))

#define chain_mul_T(s, t, n, blocks, start, v) \
  part__T(handed__(leads__() ? whole__T(chain_mul__T((s), (t), (n), (blocks), (start), (v))) : 0, __LINE__))

//:
#define chain_ticket(states) ((i64)handed__(leads__() ? (u64)(*(states))++ : 0, __LINE__))
