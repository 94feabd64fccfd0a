/* Chains of blocks on CUDA devices. */

/* A chain of blocks, each of which needs what all before it come to (decoupled look-back: D. Merrill
 * and M. Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016).
 *
 * A block first says what it gives (state 1), then looks for the nearest block before it that knows
 * what all up to it come to (state 2), and adds what those between give, in their order: so it has
 * what a fold from the first block on has, to the bit, whichever blocks it finds ready.  It waits for
 * blocks with smaller numbers alone, which have begun, as blocks take numbers when they begin. */

//:
#define WINDOW__ 128

FN u32 thread__(void) {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

FN i64 chain_ticket(i32 *states) {
  __shared__ u32 ticket;
  if (thread__() == 0) ticket = atomicAdd((u32 *)states, 1u);
  __syncthreads();
  return ticket;
}

FN i32 acquire__(const i32 *p) {
  i32 v;
  asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

FN void release__(i32 *p, i32 v) {
  asm volatile("st.release.gpu.b32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}

/* The lane that looks at the nearest of 32 blocks which knows what it comes to, 32 if none does; those
 * nearer have given.  Lane i looks at the block i before the one whose state is at p, of so many. */
FN i32 chain_look__(const i32 *p, i64 blocks) {
  i64 lane = thread__();
  for (;;) {
    i32 state = lane < blocks ? acquire__(p - lane) : 2;
    u32 known = __ballot_sync(0xffffffffu, state == 2);
    u32 given = __ballot_sync(0xffffffffu, state != 0);
    i32 nearest = known ? __ffs(known) - 1 : 32;
    u32 nearer = nearest == 32 ? 0xffffffffu : (1u << nearest) - 1u;
    if ((given & nearer) == nearer) return nearest;
  }
}

//: T in ints floats, OP in add mul
FN T chain_OP_T(i32 *states, T *totals, i64 n, i64 blocks, T start, T value) {
  __shared__ T window[WINDOW__], before;
  volatile T *all = totals;
  i32 *state = states + n + 1, lane = (i32)thread__();
  if (lane == 0) {
    all[2 * n] = value;
    release__(state, 1);
  }
  if (lane < 32) {
    i64 first = (u32)n % (u32)blocks; /* blocks before this one */
    i32 seen = 0, nearest;
    T sum = start;
    for (;;) {
      i64 back = seen + lane + 1;
      nearest = chain_look__(state - seen - 1, first - seen);
      if (lane <= nearest)
        window[seen + lane] = back > first ? start : all[2 * (n - back) + (lane == nearest)];
      seen += nearest;
      if (nearest < 32) break;
      if (seen == WINDOW__) seen = 0; /* too far to be kept: look again */
    }
    __syncwarp();
    if (lane == 0) {
      sum = window[seen];
#pragma unroll 8
      for (i32 i = seen; i > 0; --i) sum = OP__T(sum, window[i - 1]);
      all[2 * n + 1] = OP__T(sum, value);
      release__(state, 2);
      before = sum;
    }
  }
  __syncthreads();
  return before;
}

