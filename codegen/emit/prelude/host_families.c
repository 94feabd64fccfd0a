/* What intrinsics that only some devices have mean: the host does at once what those begin. */

//:
#define cp_async_commit() ((void)0)

#define cp_async_wait(most) ((void)(most))

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
