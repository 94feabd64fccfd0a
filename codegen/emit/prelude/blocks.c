/* Runs the blocks of a grid on one of several threads of the host, which take them by turns. */
typedef struct {
  u64 *args;
  u64 blocks, next, grain;
  u32 grid[3];
} Work__;

/* The next blocks to run, from *b to *end; 0 if none are left. */
static inline int next__(Work__ *w, u64 *b, u64 *end) {
  *b = __atomic_fetch_add(&w->next, w->grain, __ATOMIC_RELAXED);
  if (*b >= w->blocks) return 0;
  *end = w->blocks - *b < w->grain ? w->blocks : *b + w->grain;
  return 1;
}
