/* What accesses do to bytes, whose checks are in shadow.c: moves, and updates of one number. */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

static void move(u8 *to, u8 *from, int nbytes) {
  switch (nbytes) {
    case 4: *(u32 *)to = *(u32 *)from; return;
    case 8: *(u64 *)to = *(u64 *)from; return;
    case 2: *(u16 *)to = *(u16 *)from; return;
    case 1: *to = *from; return;
    default: for (; nbytes > 0; nbytes -= 8, to += 8, from += 8) *(u64 *)to = *(u64 *)from;
  }
}

static int equal(u8 *a, u8 *b, int n) { while (n && *a == *b) { ++a; ++b; --n; } return !n; }
enum { ADD, MIN, MAX, AND, OR, XOR, EXCH, CAS, INC, DEC };

#define INTEGER(T) { T o = *(T *)p, x = *(T *)a, y = b ? *(T *)b : 0, r = o; \
  switch (op) { \
    case ADD: r = o + x; break; case MIN: r = x < o ? x : o; break; \
    case MAX: r = x > o ? x : o; break; case AND: r = o & x; break; \
    case OR: r = o | x; break; case XOR: r = o ^ x; break; case EXCH: r = x; break; \
    case CAS: r = o == x ? y : o; break; case INC: r = o >= x ? 0 : o + 1; break; \
    case DEC: r = o == 0 || o > x ? x : o - 1; break; } \
  *(T *)out = o; *(T *)p = r; return o != r; }
#define FLOATING(T) { T o = *(T *)p, x = *(T *)a, r = o; \
  switch (op) { case ADD: r = o + x; break; case MIN: r = x < o || o != o ? x : o; break; \
    case MAX: r = x > o || o != o ? x : o; break; case EXCH: r = x; break; } \
  *(T *)out = o; *(T *)p = r; if (r != r && op == ADD && sizeof(T) == 4) *(u32 *)p = 0x7fffffff; \
  return !equal(p, out, sizeof(T)); }

static int update(u8 *p, int op, int type, u8 *a, u8 *b, u8 *out) {
  switch (type) {
    case 0: INTEGER(u32)
    case 1: INTEGER(int)
    case 2: INTEGER(u64)
    case 3: INTEGER(i64)
    case 4: FLOATING(float)
    case 5: FLOATING(double)
    default: INTEGER(u16)
  }
}
