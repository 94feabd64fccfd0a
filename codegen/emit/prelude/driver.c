/* Runs a grid on the host, block by block.
 *
 * A kernel without barriers runs as a plain loop over its threads.  One with barriers gives each
 * thread a stack: a thread runs until it reaches a barrier or its end, then the next one does; when
 * all have, the barrier opens.  The order of threads and blocks is an argument, since a race shows
 * as a difference between orders.
 */
typedef struct { u32 x, y, z; } dim3_;
typedef struct {
  u64 *args;
  u8 *stacks;
  u32 *order;      /* of a block's threads, or 0: by index */
  u64 stack;       /* bytes of one */
  u64 stride, offset; /* block i of the order is block (i * stride + offset) % blocks */
  u32 grid[3], block[3];
  u32 fault, line, other_line, thread, other;
  u32 at[3];       /* the block of the fault */
} Launch_;
typedef struct { u32 bytes, gaps; const u32 *gap; } Shared_; /* gap: offsets of guard bytes */

enum { EXITED_ = 1, SITES_ = 2, SHARED_ = 3, MISALIGNED_ = 4, GAP_ = 64, GUARD_ = 0xB7 };

static dim3_ threadIdx, blockIdx, blockDim, gridDim;
static Launch_ *launch_;
static u64 shared_[SHARED_BYTES_ / 8 + 1] __attribute__((aligned(16)));

static void fault_(u32 what, u32 line, u32 other_line, u32 thread, u32 other) {
  if (launch_->fault) return;
  launch_->fault = what;
  launch_->line = line;
  launch_->other_line = other_line;
  launch_->thread = thread;
  launch_->other = other;
  launch_->at[0] = blockIdx.x;
  launch_->at[1] = blockIdx.y;
  launch_->at[2] = blockIdx.z;
}

static const void *misaligned_(const void *p, int line) {
  fault_(MISALIGNED_, line, 0, threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), 0);
  return p;
}
#define aligned_(p, n, line) \
  ((u64)(p) % (n) ? (void *)misaligned_((p), (line)) : (void *)(p))

static void poison_(const Shared_ *s) {
  u8 *p = (u8 *)shared_;
  u32 i, k;
  for (i = 0; i < s->bytes / 8; i++) shared_[i] = ~0ull;
  for (k = 0; k < s->gaps; k++)
    for (i = 0; i < GAP_; i++) p[s->gap[k] + i] = GUARD_;
}

static void check_(const Shared_ *s) {
  u8 *p = (u8 *)shared_;
  u32 i, k;
  for (k = 0; k < s->gaps; k++)
    for (i = 0; i < GAP_; i++)
      if (p[s->gap[k] + i] != GUARD_) fault_(SHARED_, 0, 0, k, 0);
}

static dim3_ thread_[1024];

static void threads_(u32 n) {
  u32 i;
  dim3_ t = {0, 0, 0};
  for (i = 0; i < n; i++) {
    thread_[i] = t;
    if (++t.x < blockDim.x) continue;
    t.x = 0;
    if (++t.y < blockDim.y) continue;
    t.y = 0;
    t.z++;
  }
}

#ifdef FIBERS_
static void *fiber_[1024], *main_;
static u32 line_[1024], current_; /* line 0: still to start or ended */
static u8 ended_[1024];
static void (*body_)(u64 *);

#if defined __x86_64__
void switch_(void **save, void *load);
__asm__(".text\nswitch_:\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n"
        " pop %rbp\n ret\n");
#define FRAME_ 64
#define ENTRY_ 48
#elif defined __aarch64__
/* x19-x30 and d8-d15 on the stack; the words are the code, since TinyCC has no assembler here. */
static const u32 switch_code_[] __attribute__((section(".text#"), aligned(16))) = {
  0xa9b67bfd, 0xa90153f3, 0xa9025bf5, 0xa90363f7, 0xa9046bf9, 0xa90573fb, 0x6d0627e8, 0x6d072fea,
  0x6d0837ec, 0x6d093fee, 0x910003e9, 0xf9000009, 0x9100003f, 0x6d493fee, 0x6d4837ec, 0x6d472fea,
  0x6d4627e8, 0xa94573fb, 0xa9446bf9, 0xa94363f7, 0xa9425bf5, 0xa94153f3, 0xa8ca7bfd, 0xd65f03c0};
#define switch_ ((void (*)(void **, void *))switch_code_)
#define FRAME_ 160
#define ENTRY_ 8
#endif

static void entry_(void) {
  body_(launch_->args);
  line_[current_] = 0;
  ended_[current_] = 1;
  switch_(&fiber_[current_], main_);
}

static void sync_(u32 line) {
  line_[current_] = line;
  switch_(&fiber_[current_], main_);
}
#define __syncthreads() sync_(__LINE__)

/* One block; 0 if it faulted. */
static int fibers_(Launch_ *l, u32 threads) {
  u32 i, k, ended, first;
  for (i = 0; i < threads; i++) {
    u8 *top = l->stacks + (i + 1) * l->stack - 64;
    fiber_[i] = top - FRAME_;
    *(void **)(top - FRAME_ + ENTRY_) = (void *)entry_;
    line_[i] = 0;
    ended_[i] = 0;
  }
  do {
    ended = 0;
    for (k = 0; k < threads; k++) {
      i = l->order ? l->order[k] : k;
      current_ = i;
      threadIdx = thread_[i];
      switch_(&main_, fiber_[i]);
      ended += ended_[i];
    }
    first = line_[0];
    for (i = 1; i < threads; i++)
      if (line_[i] != first) {
        int here = line_[i] != 0;
        fault_(ended ? EXITED_ : SITES_, here ? line_[i] : first, here ? first : 0, here ? i : 0,
               here ? 0 : i);
        return 0;
      }
  } while (!ended);
  return 1;
}
#endif

static void plain_(Launch_ *l, u32 threads, void (*body)(u64 *)) {
  u32 k;
  if (l->order)
    for (k = 0; k < threads; k++) {
      threadIdx = thread_[l->order[k]];
      body(l->args);
    }
  else
    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
      for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) body(l->args);
}

static void run_(Launch_ *l, void (*body)(u64 *), int barriers, const Shared_ *shared) {
  u32 threads = l->block[0] * l->block[1] * l->block[2];
  u64 q, b, blocks = (u64)l->grid[0] * l->grid[1] * l->grid[2];
  launch_ = l;
  blockDim.x = l->block[0];
  blockDim.y = l->block[1];
  blockDim.z = l->block[2];
  gridDim.x = l->grid[0];
  gridDim.y = l->grid[1];
  gridDim.z = l->grid[2];
  if (barriers || l->order) threads_(threads);
#ifdef FIBERS_
  body_ = body;
#endif
  for (q = 0; q < blocks && !l->fault; q++) {
    b = (q * l->stride + l->offset) % blocks;
    blockIdx.x = (u32)(b % gridDim.x);
    blockIdx.y = (u32)(b / gridDim.x % gridDim.y);
    blockIdx.z = (u32)(b / gridDim.x / gridDim.y);
    if (shared->bytes) poison_(shared);
#ifdef FIBERS_
    if (!barriers) plain_(l, threads, body);
    else if (!fibers_(l, threads)) return;
#else
    plain_(l, threads, body);
#endif
    if (shared->bytes) check_(shared);
  }
}
