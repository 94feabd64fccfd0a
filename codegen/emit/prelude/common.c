/* Intrinsics with one text for every target.
 *
 * A paragraph defines one name; only the paragraphs a kernel needs are emitted.  `//: T in ints`
 * repeats the paragraphs below it for each dtype: a word, or a part of a name between underscores,
 * that is T, F, U, BITS, TMIN, TMAX, LO, HI, INF or NAN is replaced, as are ALIGN, WORD and PARTS
 * of vectors, and @ becomes the suffix of a float literal or libm function.  U is the unsigned type
 * T computes in, so that nothing overflows.  `//: $ in widths` repeats it for vectors of each number
 * of lanes, $, and a line with ` stands there once for each lane, ` being the lane's name;
 * `OP in add mul` repeats it for names of intrinsics.
 * Macros evaluate each argument once; what would evaluate one twice is a function (FN).
 */

//: T in ints
#define add_T(a, b) ((T)((U)(a) + (U)(b)))

#define mul_T(a, b) ((T)((U)(a) * (U)(b)))

FN T min_T(T a, T b) { return b < a ? b : a; }

FN T max_T(T a, T b) { return a < b ? b : a; }

FN T shl_T(T a, T b) { return (U)b < BITS ? (T)((U)a << b) : (T)0; }

#define add__T(a, b) add_T((a), (b))

#define mul__T(a, b) mul_T((a), (b))

//: T in floats
#define add__T(a, b) ((a) + (b))

#define mul__T(a, b) ((a) * (b))

//: T in signed
FN T abs_T(T a) { return a < 0 ? neg_T(a) : a; }

FN T truncdiv_T(T a, T b) { return b == 0 ? (T)0 : b == -1 ? (T)(0 - (U)a) : (T)(a / b); }

FN T truncmod_T(T a, T b) { return b == 0 || b == -1 ? (T)0 : (T)(a % b); }

FN T floordiv_T(T a, T b) {
  T q;
  if (b == 0) return 0;
  if (b == -1) return (T)(0 - (U)a);
  q = (T)(a / b);
  return (a ^ b) < 0 && q * b != a ? (T)(q - 1) : q;
}

FN T floormod_T(T a, T b) {
  T r;
  if (b == 0 || b == -1) return 0;
  r = (T)(a % b);
  return r != 0 && (r ^ b) < 0 ? (T)(r + b) : r;
}

FN T shr_T(T a, T b) { return (U)b < BITS ? (T)(a >> b) : (T)(a < 0 ? -1 : 0); }

FN T pow_T(T a, T b) {
  U r = 1, x = (U)a;
  if (b < 0) return a == 1 ? (T)1 : a == -1 ? (T)(b & 1 ? -1 : 1) : (T)0;
  for (; b; b >>= 1) {
    if (b & 1) r *= x;
    x *= x;
  }
  return (T)r;
}

//: T in unsigned
#define abs_T(a) ((T)(a))

FN T truncdiv_T(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }

FN T truncmod_T(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }

#define floordiv_T truncdiv_T

#define floormod_T truncmod_T

FN T shr_T(T a, T b) { return (U)b < BITS ? (T)(a >> b) : (T)0; }

FN T pow_T(T a, T b) {
  U r = 1, x = (U)a;
  for (; b; b >>= 1) {
    if (b & 1) r *= x;
    x *= x;
  }
  return (T)r;
}

//: T in floats
FN U bits__T(T x) {
  union { T f; U u; } v;
  v.f = x;
  return v.u;
}

FN T float__T(U x) {
  union { T f; U u; } v;
  v.u = x;
  return v.f;
}

FN b8 isnan_T(T x) { return x != x; }

FN b8 isinf_T(T x) { return x == inf_T() || x == -inf_T(); }

FN b8 signbit_T(T x) { return (b8)(bits__T(x) >> (BITS - 1)); }

FN T min__T(T a, T b) {
  if (a != a || b != b) return a + b;
  if (a == b) return signbit_T(a) ? a : b;
  return a < b ? a : b;
}

FN T max__T(T a, T b) {
  if (a != a || b != b) return a + b;
  if (a == b) return signbit_T(a) ? b : a;
  return a < b ? b : a;
}

/* Sign of the divisor, also on a zero; a quotient is exact only through its remainder. */
FN T floormod_T(T a, T b) {
  T r = truncmod_T(a, b);
  if (b == 0 || r != r) return r;
  if (r == 0) return copysign_T(0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

FN T floordiv_T(T a, T b) {
  T r = truncmod_T(a, b), q, w;
  if (b == 0) return a / b;
  q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q = q - 1;
  if (q == 0) return copysign_T(0, a / b);
  w = floor_T(q);
  return q - w > 0.5@ ? w + 1 : w;
}

//: T in floats
#define inf_T() float__T(INF)

#define nan_T() float__T(NAN)

//: F in ints b8, T in ints
#define cast_F_T(x) ((T)(x))

//: T in f64, F in small b8
#define cast_F_T(x) ((T)(x))

//: T in f32, F in i32 u32 i64 b8
#define cast_F_T(x) ((T)(x))

//: T in floats, F in u64
/* Halved with the lost bit kept sticky, so that the one rounding is right. */
FN T cast_F_T(F x) {
  return (i64)x >= 0 ? (T)(i64)x : (T)(i64)(x >> 1 | (x & 1)) * 2;
}

//: F in ints floats b8
#define cast_F_b8(x) ((b8)((x) != 0))

//: F in floats, T in signed
FN T cast_F_T(F x) {
  if (x != x) return 0;
  if (x >= HI@) return TMAX;
  return x <= LO@ ? TMIN : (T)(i64)x;
}

//: F in floats, T in u8 u16 u32
FN T cast_F_T(F x) {
  if (!(x > 0)) return 0;
  return x >= HI@ ? TMAX : (T)(i64)x;
}

//: F in floats, T in u64
FN T cast_F_T(F x) {
  if (!(x > 0)) return 0;
  if (x >= HI@) return TMAX;
  if (x < 9223372036854775808.0@) return (u64)(i64)x;
  return (u64)(i64)(x - 9223372036854775808.0@) ^ 1ull << 63;
}

//: F in floats, T in floats
#define cast_F_T(x) ((T)(x))

//:
FN f32 cast_bf16_f32(bf16 x) { return float__f32((u32)x << 16); }

//: T in f32
#define bitcast_T_u32 bits__T

#define bitcast_u32_T float__T

//: T in f64
#define bitcast_T_u64 bits__T

#define bitcast_u64_T float__T

//: T in f16 bf16
#define bitcast_T_u16(x) ((u16)(x))

#define bitcast_u16_T(x) ((T)(x))

//: T in f8s
#define bitcast_T_u8(x) ((u8)(x))

#define bitcast_u8_T(x) ((T)(x))

//:
/* f8 of `m` bits of mantissa, apart from its NaN and infinities. */
FN f32 widened__(u32 x, u32 m, u32 bias) {
  u32 sign = (x & 0x80u) << 24, e = (x & 0x7fu) >> m, rest = x & ((1u << m) - 1u);
  f32 tiny;
  if (e != 0) return float__f32(sign | (e + 127u - bias) << 23 | rest << (23u - m));
  tiny = (f32)(i32)rest * float__f32((128u - bias - m) << 23);
  return sign ? -tiny : tiny;
}

/* A size rounded to nearest, ties to even, on a scale without an end; `a` is not NaN. */
FN u32 narrowed__(u32 a, u32 m, u32 bias) {
  u32 e = a >> 23, r, rest, shift;
  if (e >= 128u - bias) {
    r = a - ((127u - bias) << 23);
    return (r + (1u << (22u - m)) - 1u + (r >> (23u - m) & 1u)) >> (23u - m);
  }
  if (e < 127u - bias - m) return 0; /* below half of the least subnormal */
  shift = 151u - bias - m - e;
  a = (a & 0x7fffffu) | 0x800000u;
  r = a >> shift;
  rest = a << (32u - shift);
  return r + (rest > 0x80000000u || (rest == 0x80000000u && (r & 1u)));
}

FN f32 wide_f8e4m3__(f8e4m3 x) {
  return (x & 0x7fu) == 0x7fu ? nan_f32() : widened__(x, 3u, 7u);
}

FN f32 cast_f8e4m3fnuz_f32(f8e4m3fnuz x) { return x == 0x80u ? nan_f32() : widened__(x, 3u, 8u); }

FN f32 wide_f8e5m2__(f8e5m2 x) {
  if ((x & 0x7fu) > 0x7cu) return nan_f32();
  if ((x & 0x7fu) == 0x7cu) return x & 0x80u ? -inf_f32() : inf_f32();
  return widened__(x, 2u, 15u);
}

FN f32 cast_f8e5m2fnuz_f32(f8e5m2fnuz x) { return x == 0x80u ? nan_f32() : widened__(x, 2u, 16u); }

FN f32 cast_f8e8m0_f32(f8e8m0 x) {
  if (x == 0xffu) return nan_f32();
  return float__f32(x != 0 ? (u32)x << 23 : 0x400000u);
}

FN f8e4m3 cast_f32_f8e4m3(f32 x) {
  u32 u = bits__f32(x), a = u & 0x7fffffffu, r;
  r = a > 0x7f800000u ? 0x7fu : narrowed__(a, 3u, 7u);
  return (f8e4m3)((u >> 24 & 0x80u) | (r > 0x7fu ? 0x7fu : r));
}

FN f8e4m3fnuz cast_f32_f8e4m3fnuz(f32 x) {
  u32 u = bits__f32(x), a = u & 0x7fffffffu, r;
  r = a > 0x7f800000u ? 0x80u : narrowed__(a, 3u, 8u);
  if (r > 0x7fu) return 0x80u;
  return (f8e4m3fnuz)(r == 0 ? 0 : (u >> 24 & 0x80u) | r);
}

FN f8e5m2 cast_f32_f8e5m2(f32 x) {
  u32 u = bits__f32(x), a = u & 0x7fffffffu, r;
  if (a > 0x7f800000u) return 0x7eu;
  r = narrowed__(a, 2u, 15u);
  return (f8e5m2)((u >> 24 & 0x80u) | (r > 0x7cu ? 0x7cu : r));
}

FN f8e5m2fnuz cast_f32_f8e5m2fnuz(f32 x) {
  u32 u = bits__f32(x), a = u & 0x7fffffffu, r;
  r = a > 0x7f800000u ? 0x80u : narrowed__(a, 2u, 16u);
  if (r > 0x7fu) return 0x80u;
  return (f8e5m2fnuz)(r == 0 ? 0 : (u >> 24 & 0x80u) | r);
}

/* Halves go up; the least, 2^-127, is an f32 subnormal. */
FN f8e8m0 cast_f32_f8e8m0(f32 x) {
  u32 a = bits__f32(x), e = a >> 23, m = a & 0x7fffffu;
  if (a == 0 || a >= 0x7f800000u) return 0xffu; /* 0, NaN, infinity, and what has a sign */
  if (e == 0) return (f8e8m0)(m >= 0x600000u);
  return (f8e8m0)(e + (m >= 0x400000u));
}

//: T in types
typedef struct { T x, y; } __attribute__((aligned(ALIGN2))) Tx2;

typedef struct { T x, y, z, w; } __attribute__((aligned(ALIGN4))) Tx4;

typedef struct { T s0, s1, s2, s3, s4, s5, s6, s7; } __attribute__((aligned(ALIGN8))) Tx8;

typedef struct { T s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf; } __attribute__((aligned(ALIGN16))) Tx16;
