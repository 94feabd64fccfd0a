/* Runs a grid on the host, block by block.
 *
 * A kernel without barriers runs as a plain loop over its threads.  One with barriers gives each
 * thread a stack: a thread runs until it reaches a barrier or its end, then the next one does; when
 * all have, the barrier opens.  The order of threads and blocks is an argument, since a race shows
 * as a difference between orders.
 */
typedef struct { u32 x, y, z; } dim3__;
typedef struct {
  u64 *args;
  u8 *stacks;
  u32 *order;      /* of a block's threads, or 0: by index */
  u64 stack;       /* bytes of one */
  u64 stride, offset; /* block i of the order is block (i * stride + offset) % blocks */
  u32 grid[3], block[3];
  u32 fault, line, other_line, thread, other;
  u32 at[3];       /* the block of the fault */
} Launch__;
typedef struct { u32 bytes, gaps; const u32 *gap; } Shared__; /* gap: offsets of guard bytes */

enum { EXITED__ = 1, SITES__ = 2, SHARED__ = 3, MISALIGNED__ = 4, ASSERT__ = 5, HANG__ = 6, RANK__ = 7,
       GAP__ = 64, GUARD__ = 0xB7 };

static dim3__ threadIdx, blockIdx, blockDim, gridDim;
static Launch__ *launch__;
#ifndef CLUSTER__
#define CLUSTER__ 1
#endif
enum { MOST__ = 1024 * CLUSTER__ }; /* threads that run together */
static u64 memory__[CLUSTER__][SHARED_BYTES__ / 1024 * 128 + 128] __attribute__((aligned(1024)));
static u32 rank__, cluster__; /* of the block in its cluster, and how many blocks that has */
#define shared__ memory__[rank__]

static void fault__(u32 what, u32 line, u32 other_line, u32 thread, u32 other) {
  if (launch__->fault) return;
  launch__->fault = what;
  launch__->line = line;
  launch__->other_line = other_line;
  launch__->thread = thread;
  launch__->other = other;
  launch__->at[0] = blockIdx.x;
  launch__->at[1] = blockIdx.y;
  launch__->at[2] = blockIdx.z;
}

static u32 number__(void) {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

static const void *misaligned__(const void *p, int line) {
  fault__(MISALIGNED__, line, 0, number__(), 0);
  return p;
}

static void failed__(int line) { fault__(ASSERT__, line, 0, number__(), 0); }

static u32 at_most__(u32 n, u32 most, int line) {
  if (n <= most) return n;
  failed__(line);
  return most;
}
#define aligned__(p, n, line) \
  ((u64)(p) % (n) ? (void *)misaligned__((p), (line)) : (void *)(p))

static void poison__(const Shared__ *s) {
  u8 *p = (u8 *)shared__;
  u32 i, k;
  for (i = 0; i < s->bytes / 8; i++) shared__[i] = ~0ull;
  for (k = 0; k < s->gaps; k++)
    for (i = 0; i < GAP__; i++) p[s->gap[k] + i] = GUARD__;
}

static void check__(const Shared__ *s) {
  u8 *p = (u8 *)shared__;
  u32 i, k;
  for (k = 0; k < s->gaps; k++)
    for (i = 0; i < GAP__; i++)
      if (p[s->gap[k] + i] != GUARD__) fault__(SHARED__, 0, 0, k, 0);
}

static dim3__ thread__[MOST__];

static void threads__(u32 n) {
  u32 i;
  dim3__ t = {0, 0, 0};
  for (i = 0; i < n; i++) {
    thread__[i] = t;
    if (++t.x < blockDim.x) continue;
    t.x = 0;
    if (++t.y < blockDim.y) continue;
    t.y = 0;
    t.z++;
  }
}

#ifdef FIBERS__
static void *fiber__[MOST__], *main__;
static u32 line__[MOST__], current__; /* line 0: still to start or ended */
static u8 ended__[MOST__], met__[MOST__]; /* met: waits for all of the cluster */
static void (*body__)(u64 *);

#if defined __x86_64__
void switch__(void **save, void *load);
__asm__(".text\nswitch__:\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n"
        " pop %rbp\n ret\n");
#define FRAME__ 64
#define ENTRY__ 48
#elif defined __aarch64__
/* x19-x30 and d8-d15 on the stack; the words are the code, since TinyCC has no assembler here. */
static const u32 switch_code__[] __attribute__((section(".text#"), aligned(16))) = {
  0xa9b67bfd, 0xa90153f3, 0xa9025bf5, 0xa90363f7, 0xa9046bf9, 0xa90573fb, 0x6d0627e8, 0x6d072fea,
  0x6d0837ec, 0x6d093fee, 0x910003e9, 0xf9000009, 0x9100003f, 0x6d493fee, 0x6d4837ec, 0x6d472fea,
  0x6d4627e8, 0xa94573fb, 0xa9446bf9, 0xa94363f7, 0xa9425bf5, 0xa94153f3, 0xa8ca7bfd, 0xd65f03c0};
#define switch__ ((void (*)(void **, void *))switch_code__)
#define FRAME__ 160
#define ENTRY__ 8
#endif

static void entry__(void) {
  body__(launch__->args);
  line__[current__] = 0;
  ended__[current__] = 1;
  switch__(&fiber__[current__], main__);
}

static void sync__(u32 line) {
  line__[current__] = line;
  switch__(&fiber__[current__], main__);
}
#define __syncthreads() sync__(__LINE__)

static void all_meet__(u32 line) {
  met__[current__] = 1;
  sync__(line);
}

/* Where another block of the cluster has what this one has at p, in shared memory. */
static void *elsewhere__(const void *p, u32 rank, u32 line) {
  if (rank >= cluster__) fault__(RANK__, line, 0, number__(), rank);
  return (u8 *)memory__[rank % CLUSTER__] + ((const u8 *)p - (u8 *)shared__);
}

/* Threads that wait for their warp, stay until all wait for the block, or look again and again. */
enum { GOES__, HELD__, STAYS__, POLLS__, WARP__ = 32 };
static u8 state__[MOST__];
static u32 polling__, moved__; /* threads that look again, and what has changed that they look at */
static u32 gathered__[16 * CLUSTER__], gatherings__[16 * CLUSTER__];

static void moves__(void) { moved__++; }

static void polls__(u32 line) {
  state__[current__] = POLLS__;
  polling__++;
  sync__(line);
  state__[current__] = GOES__;
}

static void gathers__(u32 number, u32 threads, u32 line) {
  u32 at = rank__ * 16 + number % 16;
  u32 *n = &gathered__[at], *turn = &gatherings__[at], mine = *turn;
  if (++*n == threads) {
    *n = 0;
    ++*turn;
    moves__();
  }
  while (*turn == mine) polls__(line);
}

static u32 held__, words__[MOST__][6];

static void meet__(u32 line) {
  state__[current__] = HELD__;
  held__++;
  sync__(line);
}

static u64 given__[MOST__];
static u8 turns__; /* whether warps of the block wait at barriers in shared memory */

static void in_turn__(void) { turns__ = 1; }

/* All threads of a block exchange together; or those of a warp, where warps go their own ways. */
static u64 exchange__(u64 v, u32 mask, u32 line) {
  u32 threads = blockDim.x * blockDim.y * blockDim.z, first = rank__ * threads;
  u32 partner = first + (current__ - first ^ mask);
  void (*all)(u32) = turns__ ? meet__ : sync__;
  given__[current__] = v;
  all(line); /* have given */
  if (partner - first >= threads)
    fault__(EXITED__, line, 0, current__, partner);
  else v = given__[partner];
  all(line); /* have taken */
  return v;
}

/* Let warps go on whose threads all wait for each other.  Those of which some still look again wait on,
 * while anything moves.  0 where threads wait for what never comes. */
static int warps__(u32 threads, int moves) {
  u32 w, i, left = 0, lost = 0;
  for (w = 0; w < threads; w += WARP__) {
    u32 end = w + WARP__ < threads ? w + WARP__ : threads, held = 0, polls = 0, first = end;
    for (i = w; i < end; i++) {
      if (state__[i] == HELD__ && first == end) first = i;
      held += state__[i] == HELD__ && line__[i] == line__[first];
      polls += state__[i] == POLLS__;
    }
    for (i = w; i < end; i++) {
      u8 was = state__[i];
      if (was == POLLS__) continue;
      if (was == HELD__ && held + polls < WARP__) {
        fault__(SITES__, line__[i], line__[w] == line__[i] ? 0 : line__[w], i, w);
        return 0;
      }
      if (was == HELD__ && polls) {
        left++;
        lost = i;
      } else {
        moves |= was == HELD__;
        state__[i] = was == HELD__ ? GOES__ : STAYS__;
      }
    }
  }
  held__ = left;
  if (moves || !left) return 1;
  w = lost / WARP__ * WARP__;
  while (state__[w] != POLLS__) w++;
  fault__(SITES__, line__[lost], line__[w], lost, w);
  return 0;
}

static u32 *together__(const void *a, const void *b, u32 line) {
  u32 i;
  for (i = 0; i < 4; i++) words__[current__][i] = ((const u32 *)a)[i];
  for (i = 0; i < 2; i++) words__[current__][4 + i] = ((const u32 *)b)[i];
  meet__(line);
  return words__[0];
}

/* The number of the warp's first thread, and that of this one from there. */
static u32 first__(u32 *t) {
  *t = current__ % WARP__;
  return current__ - *t;
}

static u32 apart__(u32 line) {
  meet__(line);
  return 0;
}

static void rows__(void *to, const void *row, u32 n, u32 turned, u32 line) {
  u32 i, t = current__ % WARP__, *words = (u32 *)to;
  if (t < 8 * n) aligned__(row, 16, line);
  given__[current__] = (u64)row;
  meet__(line);
  for (i = 0; i < n; i++) {
    const u64 *rows = given__ + (current__ - t) + 8 * i;
    if (!turned) words[i] = ((const u32 *)rows[t / 4])[t % 4];
    else {
      u32 low = ((const u16 *)rows[t % 4 * 2])[t / 4];
      words[i] = low | (u32)((const u16 *)rows[t % 4 * 2 + 1])[t / 4] << 16;
    }
  }
  meet__(line);
}

static u32 leads__(void) { return current__ == 0; }

/* What the first thread of a block gives, to all of them. */
static u64 handed__(u64 v, u32 line) {
  if (current__ == 0) given__[0] = v;
  sync__(line);
  v = given__[0];
  sync__(line); /* all have taken */
  return v;
}

/* Open the barriers at which all threads of a block wait, and that of a cluster at which all do.
 * Returns how many blocks have ended; -1 where threads of a block wait at different ones. */
static int opens__(u32 threads, u32 cluster) {
  u32 b, i, ended = 0, met = 0, far = 0;
  for (b = 0; b < cluster; b++) {
    u32 from = b * threads, first = line__[from], some = 0;
    for (i = from; i < from + threads; i++) some += ended__[i];
    for (i = from + 1; i < from + threads; i++)
      if (line__[i] != first || met__[i] != met__[from]) {
        int here = line__[i] != 0;
        rank__ = b;
        blockIdx.x += b;
        fault__(some ? EXITED__ : SITES__, here ? line__[i] : first, here ? first : 0,
               (here ? i : from) - from, (here ? from : i) - from);
        return -1;
      }
    ended += some != 0;
    met += met__[from];
    if (met__[from]) far = from;
  }
  if (met && ended) {
    fault__(EXITED__, line__[far], 0, 0, 0);
    return -1;
  }
  for (i = 0; i < threads * cluster; i++) {
    u32 waits = met__[i] && met < cluster;
    state__[i] = ended__[i] || waits ? STAYS__ : GOES__;
    if (!waits) met__[i] = 0;
  }
  return (int)ended;
}

/* The blocks of a cluster, from block ``first`` on; 0 if one faulted. */
static int fibers__(Launch__ *l, u32 threads, u32 cluster) {
  u32 i, k, all = threads * cluster, first = blockIdx.x;
  int ended;
  for (i = 0; i < all; i++) {
    u8 *top = l->stacks + (i + 1) * l->stack - 64;
    fiber__[i] = top - FRAME__;
    *(void **)(top - FRAME__ + ENTRY__) = (void *)entry__;
    line__[i] = 0;
    ended__[i] = met__[i] = 0;
    state__[i] = GOES__;
  }
  held__ = turns__ = 0;
  for (i = 0; i < 16 * CLUSTER__; i++) gathered__[i] = 0;
  do {
    u32 before = moved__;
    ended = polling__ = 0;
    for (k = 0; k < all; k++) {
      u32 own = l->order ? l->order[k % threads] : k % threads;
      rank__ = k / threads;
      i = rank__ * threads + own;
      if (state__[i] == STAYS__ || state__[i] == HELD__) continue;
      current__ = i;
      threadIdx = thread__[own];
      blockIdx.x = first + rank__;
      switch__(&main__, fiber__[i]);
    }
    blockIdx.x = first;
    if (held__) {
      if (!warps__(all, moved__ != before)) return 0;
      continue;
    }
    if (polling__) {
      for (i = 0; i < all; i++)
        if (state__[i] == GOES__) state__[i] = STAYS__;
      if (moved__ != before) continue;
      for (i = 0; i < all && state__[i] != POLLS__; i++) {}
      fault__(HANG__, line__[i], 0, i % threads, 0);
      return 0;
    }
    ended = opens__(threads, cluster);
    if (ended < 0) return 0;
  } while (ended < (int)cluster);
  return 1;
}
#endif

static void plain__(Launch__ *l, u32 threads, void (*body)(u64 *)) {
  u32 k;
  if (l->order)
    for (k = 0; k < threads; k++) {
      threadIdx = thread__[l->order[k]];
      body(l->args);
    }
  else
    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
      for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) body(l->args);
}

/* The blocks of a cluster whose threads wait for none: one after another. */
static void ranks__(Launch__ *l, u32 threads, u32 cluster, void (*body)(u64 *)) {
  u32 first = blockIdx.x;
  for (rank__ = 0; rank__ < cluster; rank__++) {
    blockIdx.x = first + rank__;
    plain__(l, threads, body);
  }
}

/* Blocks of a cluster run together, in the order of their ranks. */
static void run__(Launch__ *l, void (*body)(u64 *), int barriers, const Shared__ *shared, u32 cluster) {
  u32 threads = l->block[0] * l->block[1] * l->block[2];
  u64 q, b, blocks = (u64)l->grid[0] / cluster * l->grid[1] * l->grid[2];
  launch__ = l;
  cluster__ = cluster;
  blockDim.x = l->block[0];
  blockDim.y = l->block[1];
  blockDim.z = l->block[2];
  gridDim.x = l->grid[0];
  gridDim.y = l->grid[1];
  gridDim.z = l->grid[2];
  if (barriers || l->order) threads__(threads);
#ifdef FIBERS__
  body__ = body;
#endif
  for (q = 0; q < blocks && !l->fault; q++) {
    u32 across = gridDim.x / cluster;
    b = (q * l->stride + l->offset) % blocks;
    blockIdx.x = (u32)(b % across) * cluster;
    blockIdx.y = (u32)(b / across % gridDim.y);
    blockIdx.z = (u32)(b / across / gridDim.y);
    if (shared->bytes)
      for (rank__ = 0; rank__ < cluster; rank__++) poison__(shared);
    rank__ = 0;
#ifdef FIBERS__
    if (!barriers) ranks__(l, threads, cluster, body);
    else if (!fibers__(l, threads, cluster)) return;
#else
    ranks__(l, threads, cluster, body);
#endif
    if (shared->bytes)
      for (rank__ = 0; rank__ < cluster; rank__++) check__(shared);
    rank__ = 0;
  }
}
