/* Runs the steps of a tape, which didyma_runtime/replay.py records, by one call from Python.
 *
 * A tape is of inputs of known dtypes, shapes and, where they are read as they lie, strides.  `replay__` is a method of CPython: it returns None
 * for any other inputs, for those that kernels cannot read as they lie, without memory for results, and
 * while another thread runs kernels of this library; else it empties the list of arguments and returns
 * the list of results.
 */
typedef struct {
  i64 references;
  void *type;
} Object__;
typedef struct { /* of NumPy */
  Object__ head;
  u8 *data;
  i32 rank;
  i64 *shape, *strides;
  void *base, *dtype;
  i32 flags; /* bit 0: in row-major order */
} Array__;
typedef struct {
  void *(*item)(void *list, i64 at); /* PyList_GetItem, and so on */
  i64 (*size)(void *list);
  i32 (*set_slice)(void *list, i64 first, i64 last, void *items);
  void *(*list)(i64 size);
  i32 (*set)(void *list, i64 at, void *item);
  void (*keep)(void *object);
  void (*drop)(void *object);
  void *(*call)(void *function, void *arguments);
  void *(*address)(void *number);
  void *(*save)(void); /* lets other threads of Python go on */
  void (*restore)(void *state);
  void *(*allocate)(u64 nbytes);
  void (*release)(void *memory);
  void *(*copy)(void *to, const void *from, u64 nbytes);
  void (*clear)(void);             /* what was raised */
  void *(*empty)(i32 rank, const i64 *shape, void *dtype, i32 columns); /* PyArray_Empty */
} Python__;
typedef struct {
  void *dtype;
  i64 rank, *shape;
  i64 *strides;             /* in bytes, of an input that is read as it lies; else 0: in row-major order */
  i64 before, nbytes;       /* of its memory that is read: before its first element, and in all */
} Type__;
typedef struct { i64 slot, offset; u64 *word; } Patch__; /* an address among a launch's arguments */
typedef struct { i64 kind, a, b, c, d, e; } Step__;
typedef struct {
  void *array, *list, *none, **failed;  /* types, None, and what raises the error of each step */
  i64 itemsize;                         /* where a dtype of NumPy has the bytes of an element */
  i64 inputs, outputs, slots, steps;
  const Type__ *input, *output;
  void **held, **made, **memory;        /* inputs that are still needed, results, allocations */
  u8 **at;                              /* addresses of inputs, results and allocations; 0 first */
  const Step__ *step;
  const Patch__ *patch;
} Tape__;
enum { LAUNCH__, TAKE__, GIVE__, COPY__, DROP__, ALIGNMENT__ = 256, WIDEST__ = 16 };

Python__ python__;
u32 launching__, replaying__; /* whether somebody does; set by who has Python's global lock */

/* Whether an input has strides, and all memory that is read is of it or of the array that it is a view of. */
static i32 lies__(const Tape__ *t, const Array__ *a, const Type__ *wanted) {
  i32 viewed = a->base && ((const Object__ *)a->base)->type == t->array;
  const Array__ *whole = viewed ? (const Array__ *)a->base : a;
  const u8 *start = a->data - wanted->before;
  i64 k, nbytes = *(const i32 *)((const u8 *)whole->dtype + t->itemsize);
  for (k = 0; k < wanted->rank; k++)
    if (wanted->shape[k] > 1 && a->strides[k] != wanted->strides[k]) return 0;
  if (!(whole->flags & 1)) return 0;
  for (k = 0; k < whole->rank; k++) nbytes *= whole->shape[k];
  return whole->data <= start && start + wanted->nbytes <= whole->data + nbytes;
}

static i32 fits__(const Tape__ *t, void *args) {
  i64 i, k;
  if (((Object__ *)args)->type != t->list || python__.size(args) != t->inputs) return 0;
  for (i = 0; i < t->inputs; i++) {
    const Array__ *a = (const Array__ *)python__.item(args, i);
    const Type__ *wanted = t->input + i;
    if (a->head.type != t->array || a->dtype != wanted->dtype || a->rank != wanted->rank) return 0;
    if ((u64)(a->data - wanted->before) % WIDEST__) return 0;
    for (k = 0; k < wanted->rank; k++)
      if (a->shape[k] != wanted->shape[k]) return 0;
    if (!(wanted->strides ? lies__(t, a, wanted) : a->flags & 1)) return 0;
  }
  return 1;
}

static void launch_step__(const Tape__ *t, const Step__ *s) {
  const Patch__ *p = t->patch + s->c, *end = p + s->d;
  for (; p < end; p++) *p->word = (u64)(t->at[p->slot] + p->offset);
  ((void (*)(void *))s->a)((void *)s->b);
}

static void give__(const Tape__ *t, i64 slot) {
  python__.release(t->memory[slot]);
  t->memory[slot] = 0;
}

static void drop__(const Tape__ *t, i64 input) {
  if (t->held[input]) python__.drop(t->held[input]);
  t->held[input] = 0;
}

/* Returns the step that failed, or their number. */
static i64 steps__(const Tape__ *t) {
  void *state = python__.save();
  i64 i;
  for (i = 0; i < t->steps; i++) {
    const Step__ *s = t->step + i;
    if (s->kind == LAUNCH__) {
      launch_step__(t, s);
      if (((Launch__ *)s->b)->fault) break;
    } else if (s->kind == TAKE__) {
      t->memory[s->a] = python__.allocate(s->b + ALIGNMENT__);
      if (!t->memory[s->a]) break;
      t->at[s->a] = (u8 *)(((u64)t->memory[s->a] + ALIGNMENT__ - 1) / ALIGNMENT__ * ALIGNMENT__);
    } else if (s->kind == GIVE__) {
      give__(t, s->a);
    } else if (s->kind == COPY__) {
      python__.copy(t->at[s->a] + s->b, t->at[s->c] + s->d, s->e);
    } else { /* DROP__ */
      python__.restore(state);
      drop__(t, s->a);
      state = python__.save();
    }
  }
  python__.restore(state);
  return i;
}

/* Returns 0 where there is no memory for the results. */
static i32 results__(const Tape__ *t) {
  i64 i;
  for (i = 0; i < t->outputs; i++) {
    const Type__ *type = t->output + i;
    python__.keep(type->dtype); /* for the array */
    t->made[i] = python__.empty((i32)type->rank, type->shape, type->dtype, 0);
    if (!t->made[i]) {
      python__.clear();
      while (i-- > 0) python__.drop(t->made[i]);
      return 0;
    }
    t->at[1 + t->inputs + i] = ((Array__ *)t->made[i])->data;
  }
  return 1;
}

static void take_inputs__(const Tape__ *t, void *args) {
  i64 i;
  for (i = 0; i < t->inputs; i++) {
    t->held[i] = python__.item(args, i);
    python__.keep(t->held[i]);
    t->at[1 + i] = ((Array__ *)t->held[i])->data - t->input[i].before;
  }
  python__.set_slice(args, 0, t->inputs, 0);
}

void *replay__(void *self, void *args) {
  const Tape__ *t = (const Tape__ *)python__.address(self);
  void *list = 0;
  i64 i, ended;
  if (launching__ || replaying__ || !fits__(t, args) || !results__(t)) {
    python__.keep(t->none);
    return t->none;
  }
  take_inputs__(t, args);
  replaying__ = 1;
  ended = steps__(t);
  for (i = 0; i < t->inputs; i++) drop__(t, i);
  for (i = 0; i < t->slots; i++) if (t->memory[i]) give__(t, i);
  if (ended == t->steps) list = python__.list(t->outputs);
  for (i = 0; i < t->outputs; i++)
    if (list) python__.set(list, i, t->made[i]);
    else python__.drop(t->made[i]);
  if (ended < t->steps) python__.call(t->failed[ended], 0);
  replaying__ = 0;
  return list;
}
