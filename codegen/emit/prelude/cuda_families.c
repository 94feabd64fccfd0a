/* Intrinsics of CUDA devices that only some have, by inline PTX.  The compiler must know that they
 * touch memory, and in which order. */

//:
FN u32 in_shared__(const void *p) { return (u32)__cvta_generic_to_shared(p); }

#define cp_async_commit() asm volatile("cp.async.commit_group;" ::: "memory")

#define cp_async_wait(most) asm volatile("cp.async.wait_group %0;" :: "n"(most) : "memory")

#define wgmma_fence() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")

#define wgmma_commit() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")

#define wgmma_wait(most) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(most) : "memory")

#define proxy_fence() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

FN void mbarrier_init(u64 *barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n\tfence.mbarrier_init.release.cluster;"
               :: "r"(in_shared__(barrier)), "r"(count) : "memory");
}

FN void mbarrier_arrive(u64 *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(in_shared__(barrier)) : "memory");
}

FN u32 at_rank__(const void *p, u32 rank) {
  u32 at;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(in_shared__(p)), "r"(rank));
  return at;
}

FN void mbarrier_arrive_at(u64 *barrier, u32 rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];"
               :: "r"(at_rank__(barrier, rank)) : "memory");
}

FN void mbarrier_expect(u64 *barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(in_shared__(barrier)), "r"(bytes) : "memory");
}

FN void mbarrier_wait(u64 *barrier, u32 parity) {
  u32 ended;
  do {
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(ended) : "r"(in_shared__(barrier)), "r"(parity) : "memory");
  } while (!ended);
}

#define tma_commit() asm volatile("cp.async.bulk.commit_group;" ::: "memory")

#define tma_wait(most) asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(most) : "memory")

#define tma_stored(most) asm volatile("cp.async.bulk.wait_group %0;" :: "n"(most) : "memory")

#define named_barrier(number, threads) \
  asm volatile("bar.sync %0, %1;" :: "r"((u32)(number)), "n"(threads) : "memory")

FN b8 any_b8(b8 x) { return (b8)(__any_sync(0xffffffffu, x) != 0); }

#define setmaxnreg_dec(registers) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(registers))

#define setmaxnreg_inc(registers) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(registers))

//: T in f32
FN void mbarrier_give_T(T *to, u32 rank, T v, u64 *barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
               :: "r"(at_rank__(to, rank)), "f"(v), "r"(at_rank__(barrier, rank)) : "memory");
}

//: T in f64
FN void mbarrier_give_T(T *to, u32 rank, T v, u64 *barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f64 [%0], %1, [%2];"
               :: "r"(at_rank__(to, rank)), "d"(v), "r"(at_rank__(barrier, rank)) : "memory");
}

//:
typedef struct __align__(64) { u64 words[16]; } tensor_map;

//: T in f16 bf16
/* A warp writes the map field by field, from zeros, and copies it to global memory: as the PTX ISA
 * has it, "tensormap.replace".  The copies see words of two bytes, whatever they mean. */
FN void tensor_map3_T(u64 *to, const T *from, i64 n0, i64 n1, i64 n2, i64 s1, i64 s2, u32 rows) {
  __shared__ __align__(128) u32 maps[32][32]; /* one of each warp */
  u32 *const map = maps[threadIdx.x / 32];
  const u32 at = in_shared__(map);
  __syncwarp();
  map[threadIdx.x % 32] = 0;
  __syncwarp();
  if (threadIdx.x % 32 == 0)
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;\n\t"
                 "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 2;\n\t"
                 "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, %7;\n\t"
                 "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %8;\n\t"
                 "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 2, %9;\n\t"
                 "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %2;\n\t"
                 "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %3;\n\t"
                 "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 2, %4;\n\t"
                 "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %5;\n\t"
                 "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 1, %6;\n\t"
                 "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, %9;\n\t"
                 "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, %9;\n\t"
                 "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 2, %9;\n\t"
                 "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 1;\n\t"
                 "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;\n\t"
                 "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;\n\t"
                 "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;"
                 :: "r"(at), "l"(from), "r"((u32)n0), "r"((u32)n1), "r"((u32)n2),
                    "l"(s1 * (i64)sizeof(T)), "l"(s2 * (i64)sizeof(T)), "r"(64), "r"(rows), "r"(1)
                 : "memory");
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
               " [%0], [%1], 128;" :: "l"(__cvta_generic_to_global(to)), "r"(at) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(to) : "memory");
}

FN void tma_load3_T(T *to, const void *map, i64 c0, i64 c1, i64 c2, u64 *barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3, %4}], [%5];"
               :: "r"(in_shared__(to)), "l"(map), "r"((i32)c0), "r"((i32)c1), "r"((i32)c2),
                  "r"(in_shared__(barrier)) : "memory");
}

FN void tma_share3_T(T *to, const void *map, i64 c0, i64 c1, i64 c2, u64 *barrier, u32 blocks) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;"
               :: "r"(in_shared__(to)), "l"(map), "r"((i32)c0), "r"((i32)c1), "r"((i32)c2),
                  "r"(in_shared__(barrier)), "h"((u16)blocks) : "memory");
}

FN void tma_im2col_T(
    T *to, const void *map, i64 c0, i64 x, i64 y, i64 image, i64 dx, i64 dy, u64 *barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
               :: "r"(in_shared__(to)), "l"(map), "r"((i32)c0), "r"((i32)x), "r"((i32)y),
                  "r"((i32)image), "r"(in_shared__(barrier)), "h"((u16)dx), "h"((u16)dy)
               : "memory");
}

FN void tma_store3_T(const void *map, i64 c0, i64 c1, i64 c2, const T *from) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
               :: "l"(map), "r"((i32)c0), "r"((i32)c1), "r"((i32)c2), "r"(in_shared__(from))
               : "memory");
}

//:
/* Volatile, that it stays before a wgmma_fence. */
FN bf16x2 narrow2_bf16(f32 x, f32 y) {
  union { u32 word; bf16x2 lanes; } v;
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v.word) : "f"(y), "f"(x));
  return v.lanes;
}

FN f16x2 narrow2_f16(f32 x, f32 y) {
  union { u32 word; f16x2 lanes; } v;
  asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v.word) : "f"(y), "f"(x));
  return v.lanes;
}

//: T in types
FN void cp_async16_T(T *to, const T *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"(in_shared__(to)), "l"(from) : "memory");
}

FN void cp_async8_T(T *to, const T *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;"
               :: "r"(in_shared__(to)), "l"(from) : "memory");
}

FN void cp_async4_T(T *to, const T *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :: "r"(in_shared__(to)), "l"(from) : "memory");
}

FN void cp_async16_zfill_T(T *to, const T *from, u32 n) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(in_shared__(to)), "l"(from), "r"(n * (u32)sizeof(T)) : "memory");
}

FN void cp_async8_zfill_T(T *to, const T *from, u32 n) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
               :: "r"(in_shared__(to)), "l"(from), "r"(n * (u32)sizeof(T)) : "memory");
}

FN void cp_async4_zfill_T(T *to, const T *from, u32 n) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"(in_shared__(to)), "l"(from), "r"(n * (u32)sizeof(T)) : "memory");
}

//: T in bytes1
FN Tx4 ldmatrix1_T(const T *p) {
  union { u32 words[1]; Tx4 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(v.words[0]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

FN Tx8 ldmatrix2_T(const T *p) {
  union { u32 words[2]; Tx8 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(v.words[0]), "=r"(v.words[1]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

FN Tx16 ldmatrix4_T(const T *p) {
  union { u32 words[4]; Tx16 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

//: T in bytes2
FN Tx2 ldmatrix1_T(const T *p) {
  union { u32 words[1]; Tx2 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(v.words[0]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

FN Tx2 ldmatrix1_trans_T(const T *p) {
  union { u32 words[1]; Tx2 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(v.words[0]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

FN Tx4 ldmatrix2_T(const T *p) {
  union { u32 words[2]; Tx4 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(v.words[0]), "=r"(v.words[1]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

FN Tx4 ldmatrix2_trans_T(const T *p) {
  union { u32 words[2]; Tx4 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(v.words[0]), "=r"(v.words[1]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

FN Tx8 ldmatrix4_T(const T *p) {
  union { u32 words[4]; Tx8 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

FN Tx8 ldmatrix4_trans_T(const T *p) {
  union { u32 words[4]; Tx8 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

//: T in bytes4
FN Tx2 ldmatrix2_T(const T *p) {
  union { u32 words[2]; Tx2 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(v.words[0]), "=r"(v.words[1]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

FN Tx4 ldmatrix4_T(const T *p) {
  union { u32 words[4]; Tx4 lanes; } v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3]) : "r"(in_shared__(p)) : "memory");
  return v.lanes;
}

//:
FN f32x4 mma_m16n8k16_f16(f16x8 a, f16x4 b, f32x4 c) {
  union { f16x8 lanes; u32 words[4]; } x;
  union { f16x4 lanes; u32 words[2]; } y;
  x.lanes = a;
  y.lanes = b;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
      : "r"(x.words[0]), "r"(x.words[1]), "r"(x.words[2]), "r"(x.words[3]), "r"(y.words[0]),
        "r"(y.words[1]));
  return c;
}

FN f32x4 mma_m16n8k16_bf16(bf16x8 a, bf16x4 b, f32x4 c) {
  union { bf16x8 lanes; u32 words[4]; } x;
  union { bf16x4 lanes; u32 words[2]; } y;
  x.lanes = a;
  y.lanes = b;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
      : "r"(x.words[0]), "r"(x.words[1]), "r"(x.words[2]), "r"(x.words[3]), "r"(y.words[0]),
        "r"(y.words[1]));
  return c;
}

FN f32x4 mma_m16n8k8_tf32(f32x4 a, f32x2 b, f32x4 c) {
  union { f32x4 lanes; u32 words[4]; } x;
  union { f32x2 lanes; u32 words[2]; } y;
  x.lanes = a;
  y.lanes = b;
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
      : "r"(x.words[0]), "r"(x.words[1]), "r"(x.words[2]), "r"(x.words[3]), "r"(y.words[0]),
        "r"(y.words[1]));
  return c;
}

FN i32x4 mma_m16n8k32_i8(i8x16 a, i8x8 b, i32x4 c) {
  union { i8x16 lanes; u32 words[4]; } x;
  union { i8x8 lanes; u32 words[2]; } y;
  x.lanes = a;
  y.lanes = b;
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c.x), "+r"(c.y), "+r"(c.z), "+r"(c.w)
      : "r"(x.words[0]), "r"(x.words[1]), "r"(x.words[2]), "r"(x.words[3]), "r"(y.words[0]),
        "r"(y.words[1]));
  return c;
}

FN f32 tf32_f32(f32 x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return __uint_as_float(r);
}
