/* Intrinsics of CUDA devices: what differs from the host; no header is needed.  The mathematics is
 * CUDA's own, without fast-math, but for what is said below. */

/* Before 13.5 the assembler drops negations of what a chain of two 32-bit minima or maxima takes
 * (VIMNMX3 on sm_90); a negation it cannot tell from other arithmetic is kept. */
FN u32 minus__(u32 a) {
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1305
  u32 r;
  asm("not.b32 %0, %1;" : "=r"(r) : "r"(a));
  return r + 1u;
#else
  return 0u - a;
#endif
}

//: T in i8 i16 i32 u8 u16 u32
#define sub_T(a, b) ((T)((U)(a) + minus__((U)(b))))

#define neg_T(a) ((T)minus__((U)(a)))

//: T in i64 u64
#define sub_T(a, b) ((T)((U)(a) - (U)(b)))

#define neg_T(a) ((T)(0 - (U)(a)))

/* One instruction does what the comparisons of other devices do. */

//: T in f32
FN T min_T(T a, T b) {
#if __CUDA_ARCH__ >= 800
  T r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return min__T(a, b);
#endif
}

FN T max_T(T a, T b) {
#if __CUDA_ARCH__ >= 800
  T r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return max__T(a, b);
#endif
}

//: T in f64
#define min_T min__T

#define max_T max__T

//: T in floats
FN T exp_T(T x) { return exp@(x); }

FN T exp2_T(T x) { return exp2@(x); }

FN T expm1_T(T x) { return expm1@(x); }

FN T log_T(T x) { return log@(x); }

FN T log2_T(T x) { return log2@(x); }

FN T log10_T(T x) { return log10@(x); }

FN T log1p_T(T x) { return log1p@(x); }

FN T sqrt_T(T x) { return sqrt@(x); }

FN T sin_T(T x) { return sin@(x); }

FN T cos_T(T x) { return cos@(x); }

FN T tan_T(T x) { return tan@(x); }

FN T asin_T(T x) { return asin@(x); }

FN T acos_T(T x) { return acos@(x); }

FN T atan_T(T x) { return atan@(x); }

FN T sinh_T(T x) { return sinh@(x); }

FN T cosh_T(T x) { return cosh@(x); }

FN T tanh_T(T x) { return tanh@(x); }

FN T asinh_T(T x) { return asinh@(x); }

FN T acosh_T(T x) { return acosh@(x); }

FN T atanh_T(T x) { return atanh@(x); }

FN T erf_T(T x) { return erf@(x); }

FN T floor_T(T x) { return floor@(x); }

FN T ceil_T(T x) { return ceil@(x); }

FN T trunc_T(T x) { return trunc@(x); }

FN T round_T(T x) { return rint@(x); }

FN T abs_T(T x) { return fabs@(x); }

FN T rsqrt_T(T x) { return rsqrt@(x); }

FN T pow_T(T x, T y) { return pow@(x, y); }

FN T atan2_T(T x, T y) { return atan2@(x, y); }

FN T copysign_T(T x, T y) { return copysign@(x, y); }

FN T truncmod_T(T x, T y) { return fmod@(x, y); }

FN T fma_T(T x, T y, T z) { return fma@(x, y, z); }

/* A short integer is the last bits of a large float, which takes a sum; fewer units convert
 * than add. */

//: F in i8 i16
FN f32 cast_F_f32(F x) { return float__f32(0x4b400000u + (u32)(i32)x) - 12582912.0f; }

//: F in u8 u16
FN f32 cast_F_f32(F x) { return float__f32(0x4b000000u + x) - 8388608.0f; }

//:
FN f32 cast_f16_f32(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

FN f32 cast_f8e4m3_f32(f8e4m3 x) {
#if __CUDA_ARCH__ >= 890
  u32 pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((u16)x));
  return cast_f16_f32((f16)pair);
#else
  return wide_f8e4m3__(x);
#endif
}

FN f32 cast_f8e5m2_f32(f8e5m2 x) {
#if __CUDA_ARCH__ >= 890
  u32 pair;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"((u16)x));
  return cast_f16_f32((f16)pair);
#else
  return wide_f8e5m2__(x);
#endif
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

FN f32 exp2_flush_f32(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* A power of two of the rounded exponent, times 1 and what rounding took from it: (float)log(2) is
 * off by 2**-29, which the remainder of -40 tells by 2 ulp.  The clamp makes 0 of -inf, and no NaN.
 * Where something else is called for expf, as in the ring, it is here, too. */

FN f32 exp_flush_f32(f32 x) {
#ifdef expf
  return expf(x);
#else
  f32 z = max_f32(x, -104.0f), p = __fmul_rn(z, 0x1.715476p+0f), y = exp2_flush_f32(p);
  return __fmaf_rn(y, __fmaf_rn(p, -0x1.62e430p-1f, z), y);
#endif
}

/* Many numbers divided by one.  With a reciprocal, correctly rounded, two fused steps round the
 * quotient correctly, if neither overflows nor loses bits of the remainder: what could differ is a
 * quotient within 3/2**25 of an ulp of the middle of two floats, and none of these does (P. Markstein,
 * Computation of elementary functions on the IBM RISC System/6000 processor, 1990, has the theorem
 * for a first quotient within an ulp; tests/codegen/runtime/test_quotients.py the others).
 *
 * A zero by a positive number, as a masked softmax has many, is right too: the remainder is +0, and
 * what is taken from the quotient for it is a zero that leaves the sign.  So zeros must not look too
 * small: with 1 taken from twice their bits they look largest of all.
 *
 * All others are divided in f64, with one step to a quotient that is exact or off by less than a float
 * can be from the middle of two: a remainder of zero, or NaN, says that the first quotient stands. */

//:
FN b8 near__(f32 a, f32 least, f32 most) {
  return (fabsf(a) >= least) & (fabsf(a) <= most);
}

FN b8 divides__(f32 b) { return near__(b, 0x1p-20f, 0x1p20f); }

FN f32 quotient__(f32 a, f32 b, f32 y) {
  f32 q = a * y;
  return __fmaf_rn(-__fmaf_rn(q, b, -a), y, q);
}

FN u32 least__(u32 least, f32 a, u32 zero) {
  u32 x = __float_as_uint(a) * 2u - zero;
  return x < least ? x : least;
}

FN b8 all_plain__(f32 b, u32 least, f32 sum) {
  return divides__(b) & (least >= 0x1b000000u) & (sum <= 0x1p100f);
}

FN f32 divided__(f32 a, f32 b, f64 y) {
  f64 q = (f64)a * y, r = __fma_rn(-q, (f64)b, (f64)a);
  return (f32)((r < 0.0) | (r > 0.0) ? __fma_rn(r, y, q) : q);
}

//: $ in widths
FN f32x$ quotients$_f32(f32x$ a, f32 b) {
  f32x$ q;
  f32 y = __frcp_rn(b);
  u32 zero = b > 0.0f, least = ~0u;
  f32 sum = 0.0f;
  q.` = quotient__(a.`, b, y);
  least = least__(least, a.`, zero);
  sum += fabsf(a.`);
  if (!all_plain__(b, least, sum)) {
    f64 z = __drcp_rn((f64)b);
    q.` = divided__(a.`, b, z);
  }
  return q;
}

/* A struct is copied lane by lane, whatever its alignment: the words of CUDA's own are not. */

//: T in types, $ in widths
FN Tx$ load$_T(const T *p) {
  union { WORD$ words[PARTS$]; Tx$ lanes; } v;
#pragma unroll
  for (i32 i = 0; i < PARTS$; ++i) v.words[i] = ((const WORD$ *)p)[i];
  return v.lanes;
}

FN void store$_T(T *p, Tx$ x) {
  union { WORD$ words[PARTS$]; Tx$ lanes; } v;
  v.lanes = x;
#pragma unroll
  for (i32 i = 0; i < PARTS$; ++i) ((WORD$ *)p)[i] = v.words[i];
}

FN Tx$ load$_pass_T(const T *p) {
  union { WORD$ words[PARTS$]; Tx$ lanes; } v;
#pragma unroll
  for (i32 i = 0; i < PARTS$; ++i) v.words[i] = __ldcs((const WORD$ *)p + i);
  return v.lanes;
}

FN void store$_pass_T(T *p, Tx$ x) {
  union { WORD$ words[PARTS$]; Tx$ lanes; } v;
  v.lanes = x;
#pragma unroll
  for (i32 i = 0; i < PARTS$; ++i) __stcs((WORD$ *)p + i, v.words[i]);
}

//: T in types
FN void prefetch_T(const T *p) { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }

/* What another block of the cluster has where this one has *p, in shared memory; a device without
   clusters has one block in each. */

FN T cluster_load_T(const T *p, u32 rank) { return *(const T *)elsewhere__(p, rank); }

FN void cluster_store_T(T *p, u32 rank, T v) { *(T *)elsewhere__(p, rank) = v; }

//:
FN u64 elsewhere__(const void *p, u32 rank) {
  u64 at = (u64)p;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"(p), "r"(rank));
#endif
  return at;
}

FN void cluster_barrier(void) {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}

FN void assert_b8(b8 holds) { if (!holds) __trap(); }

//: T in i32 u32 i64 u64 floats
FN T shuffle_xor_T(T v, u32 mask) { return __shfl_xor_sync(0xffffffffu, v, (i32)mask); }

//: T in i8 i16 u8 u16 b8
FN T shuffle_xor_T(T v, u32 mask) { return (T)__shfl_xor_sync(0xffffffffu, (i32)v, (i32)mask); }

//:
#define device_fence() __threadfence()

FN i32 atomic_fetch_add_i32(i32 *p, i32 v) { return atomicAdd(p, v); }

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
  while ((seen = atomicCAS((U *)p, old, bits__T(float__T(old) * v))) != old) old = seen;
}

FN void atomic_min_T(T *p, T v) {
  U old = *(volatile U *)p, seen;
  while ((seen = atomicCAS((U *)p, old, bits__T(min_T(float__T(old), v)))) != old) old = seen;
}

FN void atomic_max_T(T *p, T v) {
  U old = *(volatile U *)p, seen;
  while ((seen = atomicCAS((U *)p, old, bits__T(max_T(float__T(old), v)))) != old) old = seen;
}
