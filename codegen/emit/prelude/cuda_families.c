/* Intrinsics of CUDA devices that only some have, by inline PTX.  The compiler must know that they
 * touch memory, and in which order. */

//:
FN u32 in_shared__(const void *p) { return (u32)__cvta_generic_to_shared(p); }

#define cp_async_commit() asm volatile("cp.async.commit_group;" ::: "memory")

#define cp_async_wait(most) asm volatile("cp.async.wait_group %0;" :: "n"(most) : "memory")

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
