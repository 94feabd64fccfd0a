/* Accesses of lanes to memory: each is checked, remembered and done, lane by lane.

   A byte has flags.  A cell of a few bytes has its last plain write, and a list of the reads and of
   the strong writes since: one node for each warp and kind.  An access races with another one that
   its lane does not know of, unless both are strong and their scopes include each other.

   A volatile store to global memory is FAINT: a read of a flag, whose value is TESTED, never races
   with it, and one that is BLIND, as of a message, does, whatever their strengths. */

enum { VALID = 1, INIT = 2, CONSTANT = 4, FLIGHT = 8, SOURCE = 16, ASYNC = 32 };
enum { READ, WRITE, UPDATE, ISSUE, LAND, BUSY, SEND }; /* SEND: an update that lands later */
enum { STRENGTH = 3, WRITES = 4, MANY = 8, EVERYONE = 16, ALIKE = 32 };
enum { TESTED = 64, BLIND = 128, FAINT = 256, MARK = 1 << 30 }; /* in the pc of a FAINT write */
enum { BOUNDS, SKEWED, FRESH, RACE, SAME, CONST, UNWAITED, EXITED, CHANGED, KINDS };
enum { FEW = 64, LOTS = 2048 };

typedef struct { int lane, time, pc, what, next; } Node;
typedef struct { int lane, time, pc; Node first; } Cell;
typedef struct { u8 *data, *flags; Cell *cells; i64 base, size, copies, shift; } Space;
typedef struct { i64 count, lane, other, pc, verb, address, space; } Found;
typedef struct {
  Space space[3]; /* global, shared, local */
  i64 now, pc, first, lanes, nodes, spare, changed;
  int *block, *bar, *warp, *mates, *fenced;
  int **rows;
  Node *pool;
  i64 quiet, fresh; /* whether fresh bytes are counted alone; how many accesses had some */
  i64 ranks;
  int *peers; /* of each block, the blocks of its cluster by rank */
  u8 *gone;
  u8 *strayed; /* lanes that have accessed what no allocation has, or have skewed an access */
  unsigned short *owner; /* of each 256 bytes of global memory: a copy of the grid, from 1 on */
  i64 one; /* lanes of a copy */
  Found found[KINDS];
} State;

static void tell(State *s, int kind, int lane, i64 at, int space, int other, int pc, int verb) {
  Found *f = &s->found[kind];
  if (s->strayed && (kind == BOUNDS || kind == SKEWED)) s->strayed[lane] = 1;
  if (f->count++) return;
  f->lane = lane; f->other = other; f->pc = pc; f->verb = verb; f->address = at; f->space = space;
}

/* Whether a lane knows of an access by `who`, or by its warp, or by every lane. */
static int knows(State *s, int me, int who, int time, int what) {
  int w = who - (int)s->first, k, *row = s->rows[me];
  if (w == me && !(what & (MANY | EVERYONE))) return 1;
  if (w < 0 || w >= s->lanes) return 0;
  if (what & EVERYONE) {
    for (k = 0; k < s->lanes; ++k)
      if (s->block[k] != s->block[me] || time > s->bar[s->block[me]])
        if (!row || row[k] < time) return 0;
    return 1;
  }
  if (s->block[w] == s->block[me] && time <= s->bar[s->block[me]]) return 1;
  if (w >> 5 == me >> 5) {
    if (time <= s->warp[me]) return 1;
    if (s->mates) {
      int *m = s->mates + me * 32;
      if (!(what & MANY)) { if (time <= m[w & 31]) return 1; }
      else {
        for (k = 0; k < 32 && time <= m[k]; ++k) ;
        if (k == 32) return 1;
      }
    }
  }
  if (!row) return 0;
  if (!(what & MANY)) return row[w] >= time;
  for (k = w & ~31; k <= (w | 31); ++k)
    if (row[k] < time) return 0;
  return 1;
}

static int fresh_node(State *s) {
  int at = (int)s->spare;
  if (at) s->spare = s->pool[at].next;
  else at = (int)s->nodes++;
  return at;
}

static void drop(State *s, int at) { s->pool[at].next = (int)s->spare; s->spare = at; }

static void forget(State *s, Cell *c) {
  int at = c->first.next, next;
  for (; at; at = next) { next = s->pool[at].next; drop(s, at); }
  c->first.time = c->first.next = 0;
}

/* Whether the access `what` of a lane meets a node; the node goes where the access replaces it. */
static int meets(State *s, Node *n, int me, int what, int same, int *gone, i64 at, int space,
                 int own) {
  int w = n->lane - (int)s->first;
  int both = (what & STRENGTH) && (n->what & STRENGTH);
  int near = w >= 0 && w < s->lanes && s->block[w] == s->block[me] && !(n->what & EVERYONE);
  int wide = (what & STRENGTH) == 2 && (n->what & STRENGTH) == 2;
  int other = n->what & FAINT ? what : what & FAINT ? n->what : 0; /* of a faint store */
  int conflict = ((what | n->what) & WRITES) && !(other & TESTED) &&
                 (other & BLIND || !(both && (near || wide)));
  int known = conflict && own && (n->what & STRENGTH) ||
              (conflict || !(n->what & EVERYONE)) && knows(s, me, n->lane, n->time, n->what);
  if (conflict && !known)
    tell(s, same && n->what & WRITES ? SAME : RACE, me, at, space, n->lane, n->pc,
         (what & WRITES ? 1 : 0) | (n->what & WRITES ? 2 : 0));
  *gone = known && (!(n->what & WRITES) || (what & WRITES)) &&
          (n->what & STRENGTH) >= (what & STRENGTH) && !(n->what & ~what & (BLIND | FAINT)) &&
          !(what & ~n->what & TESTED);
  return n->lane >> 5 == (me + (int)s->first) >> 5 &&
         !((n->what ^ what) & (STRENGTH | WRITES | TESTED | BLIND | FAINT)) && !(n->what & EVERYONE);
}

/* Whether a node is an own strong write before a plain access: strong accesses to this very cell
   that are behind it in the list are before it for coherence. */
static int owns(State *s, Node *n, int me, int what) {
  return !(what & STRENGTH) && n->lane == me + (int)s->first && (n->what & STRENGTH) &&
         (n->what & WRITES) && !(n->what & (MANY | EVERYONE));
}

/* Whether an access is before what a lane does by a barrier of its block, or is its own: the usual
   case. */
static int settled(State *s, int me, int block, int lane, int time, int what) {
  int w = lane - (int)s->first;
  if (w == me && !(what & (MANY | EVERYONE))) return 1;
  return !(what & EVERYONE) && w >= 0 && w < s->lanes && s->block[w] == block &&
         time <= s->bar[block];
}

/* Whether an access `other` in a list and one that comes, a plain read or a strong access, are of
   one kind, of which none conflict. */
static int alike(int other, int what) {
  if ((other | what) & (BLIND | FAINT)) return 0;
  return what & STRENGTH ? (other & (STRENGTH | EVERYONE)) == 2
                         : !(other & (STRENGTH | WRITES | EVERYONE));
}

/* Whether an access could join a list in which nothing conflicts with it: a plain read among plain
   reads, or one as strong as can be among such.  It takes the place of an earlier one of its warp,
   or of one that a barrier has settled. */
static int again(State *s, Node *head, int me, int block, int what) {
  Node *n, *to = 0, *pool = s->pool;
  int first = (int)s->first, lane = me + first, bar = s->bar[block], count = 0, many = 0, w, slot;
  int kinds = STRENGTH | EVERYONE | (what ? 0 : WRITES); /* those of all must be as the head's */
  if (what & (BLIND | FAINT) || (head->what & kinds) != (what & STRENGTH) || head->next && !(head->what & ALIKE) || s->mates ||
      s->rows[me])
    return 0;
  for (n = head;; n = &pool[n->next]) {
    if (!((n->lane ^ lane) >> 5 | (n->what ^ what) & WRITES)) {
      to = n;
      if (n->what & (BLIND | FAINT)) return 0;
      what &= n->what | ~TESTED;
      many = n->time > bar && n->time > s->warp[me] && (n->lane != lane || n->what & MANY);
      break;
    }
    if (!to && n->time <= bar && !(n->what & WRITES & ~what)) {
      w = n->lane - first;
      if (w >= 0 && w < s->lanes && s->block[w] == block) to = n;
    }
    if (!n->next) break;
    if (++count == FEW) return 0;
  }
  if (!to) {
    slot = fresh_node(s);
    to = &pool[slot];
    to->next = head->next;
    head->next = slot;
  }
  if (to != head) {
    to->lane = head->lane; to->time = head->time; to->pc = head->pc; to->what = head->what;
  }
  head->lane = lane; head->time = (int)s->now; head->pc = (int)s->pc;
  head->what = what | ALIKE | (many ? MANY : 0);
  return 1;
}

/* Empty the list of a cell if all in it is settled before a lane's access; return whether it was. */
static int cleared(State *s, Cell *c, int me, int block) {
  Node *n = &c->first;
  for (;; n = &s->pool[n->next]) {
    if (n->time && !settled(s, me, block, n->lane, n->time, n->what)) return 0;
    if (!n->next) break;
  }
  if (n != &c->first) { n->next = (int)s->spare; s->spare = c->first.next; }
  c->first.time = c->first.next = 0;
  return 1;
}

static void note(State *s, Cell *c, int me, int what, int same, i64 at, int space) {
  Node mine, *n;
  int own = 0, gone, many = 0, kept = 0, reads = 0, one = !what || (what & STRENGTH) == 2, to = 0, next, mate;
  int block = s->block[me];
  int mark = what & FAINT ? MARK : 0;
  if (c->time && !settled(s, me, block, c->lane, c->time, 0) &&
      !(what & TESTED && c->pc & MARK) && !knows(s, me, c->lane, c->time, 0))
    tell(s, same ? SAME : RACE, me, at, space, c->lane, c->pc & ~MARK, (what & WRITES ? 1 : 0) | 2);
  n = &c->first;
  if ((what & ~FAINT) == WRITES && cleared(s, c, me, block)) {
    c->lane = me + (int)s->first; c->time = (int)s->now; c->pc = (int)s->pc | mark;
    return;
  }
  if (n->time == s->now && n->lane >> 5 == (me + (int)s->first) >> 5 &&
      (n->what == (what | MANY) && !(what & WRITES) || n->what == (what | MANY | ALIKE)))
    return; /* its warp is there; what conflicts with it was found, or cannot be in the list */
  if ((n->what & ~ALIKE) == (what | EVERYONE) && !n->next && (what == 0 || what == (WRITES | 2))) {
    n->time = (int)s->now; n->lane = me + (int)s->first; n->pc = (int)s->pc;
    return;
  }
  if (n->time && (!what || (what & STRENGTH) == 2) && again(s, n, me, block, what)) return;
  mine.lane = me + (int)s->first; mine.time = (int)s->now; mine.pc = (int)s->pc;
  mine.what = what; mine.next = 0;
  if (n->time) {
    /* The list is walked once; what stays is linked again behind the new node. */
    Node head = *n;
    int at_ = head.next, last = 0;
    own = owns(s, &head, me, what);
    mate = meets(s, &head, me, what, same, &gone, at, space, own);
    if (mate && !gone) { many |= head.lane != mine.lane || (head.what & MANY); }
    else if (!gone) {
      to = fresh_node(s); s->pool[to] = head; s->pool[to].next = 0;
      last = to; ++kept; reads += !(head.what & WRITES); one &= alike(head.what, what);
    }
    for (; at_; at_ = next) {
      n = &s->pool[at_];
      next = n->next;
      own |= owns(s, n, me, what);
      mate = meets(s, n, me, what, same, &gone, at, space, own);
      if (mate && !gone) many |= n->lane != mine.lane || (n->what & MANY);
      if (mate || gone) { drop(s, at_); continue; }
      ++kept; reads += !(n->what & WRITES); one &= alike(n->what, what);
      n->next = 0;
      if (last) s->pool[last].next = at_; else to = at_;
      last = at_;
    }
    mine.next = to;
  }
  if (many) mine.what |= MANY;
  if (one) mine.what |= ALIKE; /* to all that is behind it */
  if ((what & ~FAINT) == WRITES) { /* a plain write replaces all */
    c->first = mine;
    forget(s, c);
    c->lane = mine.lane; c->time = mine.time; c->pc = mine.pc | mark;
    return;
  }
  c->first = mine;
  if (reads > FEW || kept > LOTS) {
    int least = what & STRENGTH, writes = what & (WRITES | BLIND | FAINT), tested = what & TESTED;
    for (next = mine.next; next; next = s->pool[next].next) {
      int t = s->pool[next].what;
      if ((t & STRENGTH) < least) least = t & STRENGTH;
      writes |= t & (WRITES | BLIND | FAINT);
      tested &= t;
    }
    forget(s, c);
    mine.next = 0; mine.what = least | writes | tested | EVERYONE;
    c->first = mine;
  }
}

/* Find the bytes of an access and check them; -1 where there are none. */
static i64 reach(State *s, int me, i64 address, int nbytes, int how, int *where, i64 *offset) {
  int i = *where, k, block = s->block[me];
  Space *m;
  i64 at;
  u8 *f, all = 0xFF;
  if (i == 3) i = address >= s->space[1].base && address < s->space[1].base + (1ll << 40) ? 1
                : address >= s->space[2].base && address < s->space[2].base + (1ll << 40) ? 2 : 0;
  *where = i;
  m = &s->space[i];
  at = address >= m->base || !i ? address - m->base : address;
  if (i == 1 && at >> 24 > 0 && at >> 24 <= s->ranks) {
    block = s->peers[block * s->ranks + (at >> 24) - 1];
    at &= (1 << 24) - 1;
    if (s->gone[block]) tell(s, EXITED, me, at, i, 0, nbytes, how);
  }
  if (i == 2 && at >> 24 == me + 1) at &= (1 << 24) - 1; /* of another lane it is out of bounds */
  *offset = at;
  if (at < 0 || at + nbytes > m->size) { tell(s, BOUNDS, me, at, i, 0, nbytes, how); return -1; }
  if (at & (nbytes - 1)) { tell(s, SKEWED, me, at, i, 0, nbytes, how); return -1; }
  if (!i && s->owner && s->owner[at >> 8] && s->owner[at >> 8] != me / s->one + 1) {
    tell(s, BOUNDS, me, at, i, 0, nbytes, how);
    return -1;
  }
  if (m->copies) at += m->size * (m->copies == 1 ? block : me);
  f = m->flags + at;
  if (!(nbytes & 3)) { /* the usual case, four flags at once */
    u32 *four = (u32 *)f, mask = how == WRITE ? ~(0x01010101u * INIT) : ~0u;
    u32 want = 0x01010101u * (how == WRITE ? VALID : VALID | INIT);
    int words = how == READ || how == WRITE ? nbytes >> 2 : 0;
    for (k = 0; k < words && (four[k] & mask) == want; ++k) ;
    if (k && k == words) {
      for (k = 0; how == WRITE && k < words; ++k) four[k] = 0x01010101u * (VALID | INIT);
      return at;
    }
  }
  for (k = 0; k < nbytes; ++k) all &= f[k];
  if (!(all & VALID)) { tell(s, BOUNDS, me, *offset, i, 0, nbytes, how); return -1; }
  if (!(all & INIT) && (how == READ || how == UPDATE || how == BUSY || how == SEND)) {
    for (k = 0; k < nbytes && f[k] & (INIT | FLIGHT); ++k) ;
    if (k < nbytes && s->quiet && how == READ) ++s->fresh;
    else if (k < nbytes) tell(s, FRESH, me, *offset, i, 0, nbytes, how);
  }
  if (how == BUSY) for (k = 0; k < nbytes; ++k) f[k] |= SOURCE;
  else if (how != READ) {
    if (i == 1)
      for (k = 0; k < nbytes; ++k)
        if (f[k] & SOURCE) { tell(s, CHANGED, me, *offset, i, 0, nbytes, how); break; }
    if (f[0] & CONSTANT) { tell(s, CONST, me, *offset, i, 0, nbytes, how); return -1; }
    for (k = 0; k < nbytes; ++k) f[k] = (f[k] | INIT) & ~ASYNC;
  }
  if (how == LAND) { for (k = 0; k < nbytes; ++k) f[k] &= ~FLIGHT; }
  else if (i == 1 && how != SEND)
    for (k = 0; k < nbytes; ++k)
      if (f[k] & FLIGHT) { tell(s, UNWAITED, me, *offset, i, 0, nbytes, how); break; }
  if (how == ISSUE || how == SEND) for (k = 0; k < nbytes; ++k) f[k] |= FLIGHT;
  return at;
}

static void race(State *s, Space *m, i64 at, int nbytes, int me, int what, u8 *value, i64 offset,
                 int where) {
  int wide = 1 << m->shift, k;
  for (k = 0; k < nbytes; k += wide) {
    int same = value && (what & WRITES) && equal(m->data + at + k, value + k, wide < nbytes ? wide : nbytes);
    note(s, &m->cells[(at + k) >> m->shift], me, what, same, offset + k, where);
  }
}

/* Whether bytes are valid and written, or for a store, valid at least; a store writes them. */
static int usual_flags(u8 *f, int n, int stores) {
  int k;
  for (k = 0; k < n; ++k)
    if ((stores ? f[k] | INIT : f[k]) != (VALID | INIT)) return 0;
  if (stores) for (k = 0; k < n; ++k) f[k] = VALID | INIT;
  return 1;
}

/* Load, store, or mark what asynchronous copies do, for each of `n` lanes. */
void access_(State *s, i64 n, int *lanes, i64 *addresses, i64 nbytes, i64 where, i64 how,
             i64 strength, u8 *values, i64 *places) {
  i64 i, offset, last = -1;
  Space *usual = &s->space[where < 2 ? where : 0];
  int wide = 1 << usual->shift, k, cells = (int)nbytes >> usual->shift;
  int plain = !strength && where < 2 && (how == READ || how == WRITE) && values && usual->cells && cells &&
              usual->size >= nbytes;
  int near = usual->copies == 1 && !s->ranks; /* only lanes of the block are there */
  int warp = -1, block, known, reads = how == READ, *blocks = s->block, *bars = s->bar;
  int word = nbytes == 4, once = word && cells == 1, now = (int)s->now, first = (int)s->first;
  i64 apart = usual->copies ? usual->size : 0, odd = nbytes - 1;
  u32 all = 0x01010101u * (VALID | INIT), written = how == WRITE ? 0x01010101u * INIT : 0;
  i64 base = usual->base, end = usual->size - nbytes, low = where ? base : (i64)1 << 63;
  u8 *flags = usual->flags, *data = usual->data, *f, *to, *v = values;
  Cell *c, *table = usual->cells;
  int shift = (int)usual->shift, pc = (int)s->pc;
  for (i = 0; i < n; ++i, v += nbytes) {
    int me = lanes[i], w = (int)where, what = (int)strength;
    i64 at = addresses[i];
    if (plain) { /* the usual access to memory that is valid and, for a load, written */
      if (at == last && me >> 5 == warp) { /* a word, as the lane before, of its warp */
        *(u32 *)v = ((u32 *)v)[-1];
        if (places) places[i] = places[i - 1];
        continue;
      }
      last = -1;
      i64 from = at >= low ? at - base : at;
      if ((u64)from <= (u64)end && !(from & odd)) {
        block = blocks[me];
        at = from + apart * block;
        f = flags + at;
        if (word ? (*(u32 *)f | written) == all : usual_flags(f, (int)nbytes, !reads)) {
          c = &table[at >> shift];
          known = near ? bars[block] : 0;
          to = data + at;
          if (places) places[i] = at;
          if (reads) {
            if (word) *(u32 *)v = *(u32 *)to; else move(v, to, (int)nbytes);
            for (k = 0; k < cells; ++k, ++c) {
              Node *head = &c->first;
              if (c->time > known) note(s, c, me, 0, 0, from + k * wide, w);
              else if (!head->time) {
                head->lane = me + first; head->time = now; head->pc = pc; head->what = ALIKE;
                head->next = 0;
              } else if (head->time != now || (head->lane ^ me + first) >> 5 ||
                         (head->what | MANY) != (MANY | ALIKE)) {
                if (!again(s, head, me, block, 0)) note(s, c, me, 0, 0, from + k * wide, w);
              } else {
                if (head->what == ALIKE) { head->lane = me + first; head->what = MANY | ALIKE; }
                if (once) last = addresses[i], warp = me >> 5;
              }
            }
            continue;
          }
          if (word) *(u32 *)f = all;
          for (k = 0; k < cells; ++k, ++c, to += wide) {
            u8 *from_ = v + k * wide;
            int same = wide == 4 ? *(u32 *)to == *(u32 *)from_ : equal(to, from_, wide);
            if (c->first.time > known || (c->first.what & (ALIKE | EVERYONE)) != ALIKE && c->first.time ||
                c->time > known && c->lane != me + first)
              note(s, c, me, WRITES, same, from + k * wide, w);
            else { /* a barrier is behind all others: the head of a list is its latest access */
              c->lane = me + first; c->time = now; c->pc = pc;
            }
            if (same) continue;
            s->changed = 1;
            if (wide == 4) *(u32 *)to = *(u32 *)from_; else move(to, from_, wide);
          }
          continue;
        }
      }
    }
    at = reach(s, me, addresses[i], (int)nbytes, (int)how, &w, &offset);
    Space *m = &s->space[w];
    if (places) places[i] = at;
    if (at < 0) {
      if ((how == READ || how == BUSY) && values) { int k; for (k = 0; k < nbytes; ++k) v[k] = 0; }
      continue;
    }
    if ((what & STRENGTH) == 3) { /* volatile */
      what = how == READ ? what - 1 : s->fenced[me] | FAINT;
      if (w) what &= STRENGTH;
    }
    if (how == LAND) {
      if (m->cells && values) { /* without values an update lands, which is done as an atomic */
        int k, wide = 1 << m->shift;
        for (k = 0; k < nbytes; k += wide) {
          Cell *c = &m->cells[(at + k) >> m->shift];
          c->lane = me + (int)s->first; c->time = (int)s->now; c->pc = (int)s->pc;
        }
      }
    } else if (m->cells)
      race(s, m, at, (int)nbytes, me, what | (how == READ || how == BUSY ? 0 : WRITES),
           how == WRITE ? v : 0, offset, w);
    if (!values || how == ISSUE) continue;
    if (how == READ || how == BUSY) move(v, m->data + at, (int)nbytes);
    else if (how != UPDATE) {
      if (!s->changed && w != 2 && !equal(m->data + at, v, (int)nbytes)) s->changed = 1;
      move(m->data + at, v, (int)nbytes);
    }
  }
}

/* Atomic operations, one lane after the other; `places` gets where each was, or -1. */
void atomic_(State *s, i64 n, int *lanes, i64 *addresses, i64 nbytes, i64 where, i64 strength,
             i64 op, i64 type, u8 *a, u8 *b, u8 *out, i64 *places) {
  i64 i, offset;
  for (i = 0; i < n; ++i) {
    int w = (int)where;
    i64 at = reach(s, lanes[i], addresses[i], (int)nbytes, UPDATE, &w, &offset);
    Space *m = &s->space[w];
    places[i] = at;
    if (at < 0) continue;
    places[i] = at * 4 + w;
    if (m->cells) race(s, m, at, (int)nbytes, lanes[i], (int)strength | WRITES, 0, offset, w);
    if (op < 0) continue;
    if (update(m->data + at, (int)op, (int)type, a + i * nbytes, b ? b + i * nbytes : 0, out + i * nbytes))
      s->changed = 1;
  }
}

/* For accesses that were done: which bytes nothing has written (`forget` 0), or let those that
   `bytes` names count as not written. */
void fresh_(State *s, i64 n, int *lanes, i64 *addresses, i64 nbytes, i64 where, i64 forget, u8 *bytes) {
  i64 i, offset;
  int k;
  i64 quiet = s->quiet;
  s->quiet = 1;
  for (i = 0; i < n; ++i) {
    int w = (int)where;
    i64 at = reach(s, lanes[i], addresses[i], (int)nbytes, READ, &w, &offset);
    u8 *f = s->space[w].flags + at, *b = bytes + i * nbytes;
    if (at < 0) continue;
    for (k = 0; k < nbytes; ++k)
      if (forget) { if (b[k]) f[k] &= ~INIT; }
      else b[k] = !(f[k] & (INIT | FLIGHT));
  }
  s->quiet = quiet;
  s->fresh = 0;
  for (k = 0; k < KINDS; ++k) s->found[k].count = 0;
}
