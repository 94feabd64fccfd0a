/* What intrinsics that only some devices have mean: the host does at once what those begin. */

//:
#define cp_async_commit() ((void)0)

#define cp_async_wait(most) ((void)(most))

#define wgmma_fence() ((void)0)

#define wgmma_commit() ((void)0)

#define wgmma_wait(most) ((void)(most))

#define proxy_fence() ((void)0)

/* A barrier: the arrivals of a phase, those still to come, and the bytes still to come, twice, with
 * the parity of the phase. */

static void moves__(void);
FN void turned__(u64 *barrier) {
  u16 *arrivals = (u16 *)barrier;
  i32 *rest = (i32 *)barrier + 1;
  if (arrivals[1] || *rest >> 1) return;
  arrivals[1] = arrivals[0];
  *rest ^= 1;
  moves__();
}

static void in_turn__(void);
FN void mbarrier_init(u64 *barrier, u32 count) {
  in_turn__();
  ((u16 *)barrier)[0] = ((u16 *)barrier)[1] = (u16)count;
  ((i32 *)barrier)[1] = 0;
}

FN void mbarrier_arrive(u64 *barrier) {
  ((u16 *)barrier)[1]--;
  turned__(barrier);
}

static void *elsewhere__(const void *p, u32 rank, u32 line);
#define mbarrier_arrive_at(barrier, rank) \
  mbarrier_arrive((u64 *)elsewhere__((barrier), (rank), __LINE__))

FN void mbarrier_expect(u64 *barrier, u32 bytes) {
  ((i32 *)barrier)[1] += 2 * (i32)bytes;
  mbarrier_arrive(barrier);
}

FN void came__(u64 *barrier, u32 bytes) {
  ((i32 *)barrier)[1] -= 2 * (i32)bytes;
  turned__(barrier);
}

static void polls__(u32 line);
FN void ends__(u64 *barrier, u32 parity, u32 line) {
  while ((((u32 *)barrier)[1] & 1) == parity) polls__(line);
}

#define mbarrier_wait(barrier, parity) ends__((barrier), (parity), __LINE__)

static void gathers__(u32 number, u32 threads, u32 line);
#define named_barrier(number, threads) gathers__((number), (threads), __LINE__)

static u64 exchange__(u64 v, u32 mask, u32 line);
FN b8 any__(b8 x, u32 line) {
  u32 by;
  for (by = 16; by; by /= 2) x |= (b8)exchange__(x, by, line);
  return x;
}

#define any_b8(x) any__((x), __LINE__)

#define tma_commit() ((void)0)

#define tma_wait(most) ((void)(most))

#define tma_stored(most) ((void)(most))

#define setmaxnreg_dec(registers) ((void)(registers))

#define setmaxnreg_inc(registers) ((void)(registers))

//: T in floats
FN void given__T(T *to, T v, u64 *barrier) {
  *to = v;
  came__(barrier, sizeof(T));
}

#define mbarrier_give_T(to, rank, v, barrier) given__T( \
  (T *)elsewhere__((to), (rank), __LINE__), (v), (u64 *)elsewhere__((barrier), (rank), __LINE__))

//:
typedef struct { u64 words[16]; } tensor_map;

//: T in f16 bf16
/* A description: the first element, extents, strides, and the rows of a box.  One thread copies. */
FN void described__T(u64 *to, const T *from, i64 n0, i64 n1, i64 n2, i64 s1, i64 s2, u32 rows) {
  to[0] = (u64)from;
  to[1] = (u64)n0;
  to[2] = (u64)n1;
  to[3] = (u64)n2;
  to[4] = (u64)s1;
  to[5] = (u64)s2;
  to[6] = rows;
}

#define tensor_map3_T(to, from, n0, n1, n2, s1, s2, rows) described__T( \
  (u64 *)aligned__((to), 128, __LINE__), (const T *)aligned__((from), 16, __LINE__), (n0), (n1), (n2), \
  (s1), (s2), (rows))

FN void boxed__T(T *to, const u64 *map, i64 c0, i64 c1, i64 c2, u64 *barrier) {
  const T *from = (const T *)map[0];
  const i64 *n = (const i64 *)map + 1;
  i64 i, k, rows = (i64)map[6];
  for (i = 0; i < rows; i++)
    for (k = 0; k < 64; k++) {
      i64 x = c0 + k, y = c1 + i;
      int inside = x >= 0 && x < n[0] && y >= 0 && y < n[1] && c2 >= 0 && c2 < n[2];
      to[i * 64 + (k / 8 ^ i % 8) * 8 + k % 8] = inside ? from[x + y * n[3] + c2 * n[4]] : 0;
    }
  came__(barrier, (u32)rows * 128);
}

#define tma_load3_T(to, map, c0, c1, c2, barrier) \
  boxed__T((T *)aligned__((to), 1024, __LINE__), (const u64 *)(map), (c0), (c1), (c2), (barrier))

static void *elsewhere__(const void *p, u32 rank, u32 line);
FN void shared__T(
    T *to, const u64 *map, i64 c0, i64 c1, i64 c2, u64 *barrier, u32 blocks, u32 line) {
  u32 rank;
  for (rank = 0; rank < 32; rank++)
    if (blocks >> rank & 1)
      boxed__T((T *)elsewhere__(to, rank, line), map, c0, c1, c2,
               (u64 *)elsewhere__(barrier, rank, line));
}

#define tma_share3_T(to, map, c0, c1, c2, barrier, blocks) \
  shared__T((T *)aligned__((to), 1024, __LINE__), (const u64 *)(map), (c0), (c1), (c2), (barrier), \
            (blocks), __LINE__)

/* Words behind those of an array: images, their step, where the walk of pixels begins, how far from
 * the last one it ends, and its strides, for both axes. */
FN void pixels__T(
    T *to, const u64 *map, i64 c0, i64 x, i64 y, i64 image, i64 dx, i64 dy, u64 *barrier) {
  const T *from = (const T *)map[0];
  const i64 *n = (const i64 *)map + 1;
  i64 i, k, rows = n[5];
  for (i = 0; i < rows; i++) {
    i64 across = x + dx, down = y + dy;
    int lies = across >= 0 && across < n[1] && down >= 0 && down < n[2] && image >= 0 && image < n[6];
    for (k = 0; k < 64; k++) {
      i64 c = c0 + k;
      to[i * 64 + (k / 8 ^ i % 8) * 8 + k % 8] = lies && c >= 0 && c < n[0]
          ? from[c + across * n[3] + down * n[4] + image * n[7]] : 0;
    }
    x += n[12];
    if (x < n[1] + n[10]) continue;
    x = n[8];
    y += n[13];
    if (y < n[2] + n[11]) continue;
    y = n[9];
    image++;
  }
  came__(barrier, (u32)rows * 128);
}

#define tma_im2col_T(to, map, c0, x, y, image, dx, dy, barrier) \
  pixels__T((T *)aligned__((to), 1024, __LINE__), (const u64 *)(map), (c0), (x), (y), (image), (dx), \
            (dy), (barrier))

FN void unboxed__T(const u64 *map, i64 c0, i64 c1, i64 c2, const T *from) {
  T *to = (T *)map[0];
  const i64 *n = (const i64 *)map + 1;
  i64 i, k, rows = (i64)map[6];
  for (i = 0; i < rows; i++)
    for (k = 0; k < 64; k++) {
      i64 x = c0 + k, y = c1 + i;
      if (x >= 0 && x < n[0] && y >= 0 && y < n[1] && c2 >= 0 && c2 < n[2])
        to[x + y * n[3] + c2 * n[4]] = from[i * 64 + (k / 8 ^ i % 8) * 8 + k % 8];
    }
}

#define tma_store3_T(map, c0, c1, c2, from) \
  unboxed__T((const u64 *)(map), (c0), (c1), (c2), (const T *)aligned__((from), 1024, __LINE__))

//: T in types
/* A copy is done when it starts. */
FN void copied__T(T *to, const T *from, u32 n, u32 many) {
  u32 i;
  for (i = 0; i < n; i++) to[i] = from[i];
  for (; i < many; i++) to[i] = 0;
}

#define async__T(to, from, n, bytes) copied__T( \
  (T *)aligned__((to), (bytes), __LINE__), (const T *)aligned__((from), (bytes), __LINE__), \
  at_most__((n), (bytes) / sizeof(T), __LINE__), (bytes) / sizeof(T))

#define cp_async16_T(to, from) async__T(to, from, 16 / sizeof(T), 16)

#define cp_async8_T(to, from) async__T(to, from, 8 / sizeof(T), 8)

#define cp_async4_T(to, from) async__T(to, from, 4 / sizeof(T), 4)

#define cp_async16_zfill_T(to, from, n) async__T(to, from, n, 16)

#define cp_async8_zfill_T(to, from, n) async__T(to, from, n, 8)

#define cp_async4_zfill_T(to, from, n) async__T(to, from, n, 4)

//: T in bytes1
static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line);
FN Tx4 matrices1__T(const T *p, u32 line) { Tx4 r; rows__(&r, p, 1, 0, line); return r; }

static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line);
FN Tx8 matrices2__T(const T *p, u32 line) { Tx8 r; rows__(&r, p, 2, 0, line); return r; }

static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line);
FN Tx16 matrices4__T(const T *p, u32 line) { Tx16 r; rows__(&r, p, 4, 0, line); return r; }

#define ldmatrix1_T(p) matrices1__T((p), __LINE__)

#define ldmatrix2_T(p) matrices2__T((p), __LINE__)

#define ldmatrix4_T(p) matrices4__T((p), __LINE__)

//: T in bytes2
static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line);
FN Tx2 matrices1__T(const T *p, u32 on, u32 line) { Tx2 r; rows__(&r, p, 1, on, line); return r; }

static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line);
FN Tx4 matrices2__T(const T *p, u32 on, u32 line) { Tx4 r; rows__(&r, p, 2, on, line); return r; }

static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line);
FN Tx8 matrices4__T(const T *p, u32 on, u32 line) { Tx8 r; rows__(&r, p, 4, on, line); return r; }

#define ldmatrix1_T(p) matrices1__T((p), 0, __LINE__)

#define ldmatrix2_T(p) matrices2__T((p), 0, __LINE__)

#define ldmatrix4_T(p) matrices4__T((p), 0, __LINE__)

#define ldmatrix1_trans_T(p) matrices1__T((p), 1, __LINE__)

#define ldmatrix2_trans_T(p) matrices2__T((p), 1, __LINE__)

#define ldmatrix4_trans_T(p) matrices4__T((p), 1, __LINE__)

//: T in bytes4
static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line);
FN Tx2 matrices2__T(const T *p, u32 line) { Tx2 r; rows__(&r, p, 2, 0, line); return r; }

static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line);
FN Tx4 matrices4__T(const T *p, u32 line) { Tx4 r; rows__(&r, p, 4, 0, line); return r; }

#define ldmatrix2_T(p) matrices2__T((p), __LINE__)

#define ldmatrix4_T(p) matrices4__T((p), __LINE__)

/* Four warps share operands in shared memory: each thread adds up its own sums, along k in order. */

//: T in f16 bf16
FN Tx2 narrow2_T(f32 x, f32 y) { Tx2 r; r.x = cast_f32_T(x); r.y = cast_f32_T(y); return r; }

FN u32 lies__T(u32 at) { return at ^ at / 64 % 8 * 8; }

static u32 first__(u32 *t);
FN void group__T(f32 *d, const T *a, const T *b, u32 n, u32 by_m, u32 by_n) {
  const T *left = (const T *)((u64)a / 1024 * 1024), *right = (const T *)((u64)b / 1024 * 1024);
  u32 t, i, k, warp = first__(&t) / 32 % 4, from = (u32)(a - left), to = (u32)(b - right);
  for (i = 0; i < n / 2; i++) {
    u32 row = warp * 16 + t / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
    for (k = 0; k < 16; k++) {
      u32 x = from + (by_m ? k * 64 + row : row * 64 + k);
      u32 y = to + (by_n ? column / 64 * 4096 + k * 64 + column % 64 : column * 64 + k);
      d[i] = d[i] + cast_T_f32(left[lies__T(x)]) * cast_T_f32(right[lies__T(y)]);
    }
  }
}

/* Each thread of a warp gives eight elements of a; the four that hold a row read each other's. */
static u32 *together__(const void *a, const void *b, u32 line), first__(u32 *t), apart__(u32 line);
FN void held__T(f32 *d, const T *a, const T *b, u32 n, u32 by_n, u32 line) {
  const T *right = (const T *)((u64)b / 1024 * 1024), *all;
  u32 t, i, k, words[4], none[2] = {0, 0}, to = (u32)(b - right);
  for (i = 0; i < 4; i++) words[i] = (u32)a[2 * i] | (u32)a[2 * i + 1] << 16;
  all = (const T *)together__(words, none, line);
  all += 12 * first__(&t);
  for (i = 0; i < n / 2; i++) {
    u32 column = i / 4 * 8 + t % 4 * 2 + i % 2;
    for (k = 0; k < 16; k++) {
      u32 y = to + (by_n ? column / 64 * 4096 + k * 64 + column % 64 : column * 64 + k);
      T x = all[12 * (t / 4 * 4 + k % 8 / 2) + k / 8 * 4 + i / 2 % 2 * 2 + k % 2];
      d[i] = d[i] + cast_T_f32(x) * cast_T_f32(right[lies__T(y)]);
    }
  }
  apart__(line);
}

//: T in f16 bf16, $ in 32 64 80 96 112 128 144 160 176 192 208 224 240 256
#define wgmma_m64n$k16_T_rn(d, a, b) held__T((d), (a), (b), $, 1, __LINE__)

//: T in f16 bf16, $ in 32 64 96 128 160 192 224 256
#define wgmma_m64n$k16_T_rk(d, a, b) held__T((d), (a), (b), $, 0, __LINE__)

#define wgmma_m64n$k16_T_kk(d, a, b) group__T((d), (a), (b), $, 0, 0)

#define wgmma_m64n$k16_T_kn(d, a, b) group__T((d), (a), (b), $, 0, 1)

#define wgmma_m64n$k16_T_mk(d, a, b) group__T((d), (a), (b), $, 1, 0)

#define wgmma_m64n$k16_T_mn(d, a, b) group__T((d), (a), (b), $, 1, 1)

//:
static u32 first__(u32 *t);
FN void group__f32(f32 *d, const f32 *a, const f32 *b, u32 n) {
  const f32 *left = (const f32 *)((u64)a / 1024 * 1024), *right = (const f32 *)((u64)b / 1024 * 1024);
  u32 t, i, k, warp = first__(&t) / 32 % 4, from = (u32)(a - left), to = (u32)(b - right);
  for (i = 0; i < n / 2; i++) {
    u32 row = warp * 16 + t / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
    for (k = 0; k < 8; k++) {
      u32 x = from + row * 32 + k, y = to + column * 32 + k;
      d[i] = d[i] + left[x ^ x / 32 % 8 * 4] * right[y ^ y / 32 % 8 * 4];
    }
  }
}

//:
static u32 first__(u32 *t);
FN void group__i8(i32 *d, const i8 *a, const i8 *b, u32 n) {
  const i8 *left = (const i8 *)((u64)a / 1024 * 1024), *right = (const i8 *)((u64)b / 1024 * 1024);
  u32 t, i, k, warp = first__(&t) / 32 % 4, from = (u32)(a - left), to = (u32)(b - right);
  for (i = 0; i < n / 2; i++) {
    u32 row = warp * 16 + t / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2, sum = 0;
    for (k = 0; k < 32; k++) {
      u32 x = from + row * 128 + k, y = to + column * 128 + k;
      sum += (u32)(left[x ^ x / 128 % 8 * 16] * right[y ^ y / 128 % 8 * 16]);
    }
    d[i] = (i32)((u32)d[i] + sum);
  }
}

//: $ in 32 64 96 128 160 192 224 256
#define wgmma_m64n$k8_tf32_kk(d, a, b) group__f32((d), (a), (b), $)

#define wgmma_m64n$k32_i8_kk(d, a, b) group__i8((d), (a), (b), $)

/* Each thread gives its words of a and b, 6 of them, and adds up four sums along k, in order: of
 * thread t those of row t / 4 and the row 8 below, in columns t % 4 * 2 and the next. */

//: T in f16 bf16
static u32 *together__(const void *a, const void *b, u32 line), first__(u32 *t), apart__(u32 line);
FN f32x4 product__T(Tx8 a, Tx4 b, f32x4 c, u32 line) {
  const T *all = (const T *)together__(&a, &b, line);
  f32 *s = (f32 *)&c;
  u32 t, j, k;
  all += 12 * first__(&t);
  for (j = 0; j < 4; j++)
    for (k = 0; k < 16; k++) {
      const T *row = all + 12 * (t / 4 * 4 + k % 8 / 2) + j / 2 * 2 + k / 8 * 4 + k % 2;
      const T *column = all + 12 * ((t % 4 * 2 + j % 2) * 4 + k % 8 / 2) + 8 + k / 8 * 2 + k % 2;
      s[j] = s[j] + cast_T_f32(*row) * cast_T_f32(*column);
    }
  apart__(line);
  return c;
}

#define mma_m16n8k16_T(a, b, c) product__T((a), (b), (c), __LINE__)

//:
static u32 *together__(const void *a, const void *b, u32 line), first__(u32 *t), apart__(u32 line);
FN f32x4 product__f32(f32x4 a, f32x2 b, f32x4 c, u32 line) {
  const f32 *all = (const f32 *)together__(&a, &b, line);
  f32 *s = (f32 *)&c;
  u32 t, j, k;
  all += 6 * first__(&t);
  for (j = 0; j < 4; j++)
    for (k = 0; k < 8; k++) {
      const f32 *row = all + 6 * (t / 4 * 4 + k % 4) + j / 2 + k / 4 * 2;
      s[j] = s[j] + *row * all[6 * ((t % 4 * 2 + j % 2) * 4 + k % 4) + 4 + k / 4];
    }
  apart__(line);
  return c;
}

#define mma_m16n8k8_tf32(a, b, c) product__f32((a), (b), (c), __LINE__)

static u32 *together__(const void *a, const void *b, u32 line), first__(u32 *t), apart__(u32 line);
FN i32x4 product__i8(i8x16 a, i8x8 b, i32x4 c, u32 line) {
  const i8 *all = (const i8 *)together__(&a, &b, line);
  u32 *s = (u32 *)&c;
  u32 t, j, k;
  all += 24 * first__(&t);
  for (j = 0; j < 4; j++)
    for (k = 0; k < 32; k++) {
      const i8 *row = all + 24 * (t / 4 * 4 + k % 16 / 4) + j / 2 * 4 + k / 16 * 8 + k % 4;
      const i8 *column = all + 24 * ((t % 4 * 2 + j % 2) * 4 + k % 16 / 4) + 16 + k / 16 * 4 + k % 4;
      s[j] += (u32)(*row * *column);
    }
  apart__(line);
  return c;
}

#define mma_m16n8k32_i8(a, b, c) product__i8((a), (b), (c), __LINE__)

FN f32 tf32_f32(f32 x) {
  u32 u = bits__f32(x);
  return (u & 0x7f800000u) == 0x7f800000u ? x : float__f32((u + 0x1000u) & 0xffffe000u);
}
