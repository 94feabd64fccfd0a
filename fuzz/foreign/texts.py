"""Draw kernels of plain CUDA C whose meaning C defines.

Each thread stores one element of each output, and threads meet only where their order is no
matter: in atomic updates of integers, and in shared memory that a thread reads no further than its
own place, so that threads may also run one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from didyma.fuzz.foreign.writer import KINDS, SMALL, Number, Writer

THREADS, BLOCKS = (1, 2, 4, 8), (1, 2, 3)
EXTRA = 3  # elements beyond those that threads store, which reads of neighbours reach
BINS = 4  # elements that threads update together
REFUSED = 12  # one kernel in so many has a row that makes it no plain C, as that is defined
# Rows in a kernel after that which declares ``i``, and before others.
OUTSIDE = (
    "if (i > 1) return; __syncthreads();", "if (i > 1) { return; } i = i; __syncthreads();",
    "{ if (i > 1) return; }", "if (i < 2) { if (i > 0) return; }",
    "for (int z = 0; z < 2; ++z) { if (z == n) return; }",
    "int z = 0; while (z < 2) { ++z; if (z == n) { return; } }", "if (i > 1) return; else i = i;",
    "other(i);", "float z = otherf(1.0f);", "int z = other + 1;", "other = 1;", "++other;",
    "switch (i) { case 0: break; }", "do { i = i; } while (0);", "goto z; z: ;",
    "for (;;) { break; }", "for (int z = 0; z < 2; ++z) { continue; }", "return; i = i;",
    "float z = 1.5f % 2;", "float z = 1.5f & 1;", "float z = ~1.5f;", "int z[i];", "int z[];",
    "float *z;", "int *z = 0;", "int *z = &i;", "int z = *i;", "int z = i[0];", "int z[2] = 3;",
    "struct { int a; } z;", "union { int a; } z;", "enum { A } z;", "int z = (i, 2);",
    "int z = sizeof(int);", "int z = 'a';", 'const char *z = "a";', "int z = i > 1 ? 2;",
    "int z = i +;", "int z = 1 = 2;", "other z = 1;", "void *z = 0;", "int z(int);", "i;",
    "int z = atomicAdd(&bins[0], 1);", "atomicAdd(&bins[0], 1, 2);", "atomicAdd(bins[0], 1);",
    "atomicXor(&bins[0], 1);", "max(1, 2);", "int z = max(1, 2, 3);", "int z = max(1);",
    "float z = sqrtf(1.0f)(2);", "int z = (++i);", "int z = i = 1;", "int z = threadIdx.w;",
    "int z = threadIdx;", "\n#ifdef A\n#endif\n", "\n#define F(x) x\n", "int z = 08;",
    "int z = 99999999999999999999;", "if (i) { int z = 1; } i = z;", "{ int z = 1; } ++z;",
    "for (int z = 0; z < 1; ++z) {} i = z;", "const int z; i = z[0];", "int z = __shfl(i, 1);",
)  # fmt: skip
RETURNS = ("if (i >= n) return;", "if (i >= n) return;", "if (i >= n) { return; }",
           "if (!(i < n)) { return; }", "if (n <= i) /* none */ return;")  # fmt: skip
NEAR = ("expf", "logf", "sinf", "cosf", "tanhf", "exp2f", "log2f", "log1pf", "expm1f", "erff",
        "atanf", "sinhf", "coshf", "log10f", "asinf", "acosf", "tanf")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel's text, and its launch: parameters, blocks, threads, and the seed of its inputs.

    ``params`` are the types of pointers by name, in the order of the kernel's parameters; the
    number ``n`` of elements that are stored, an int, stands before the pointer at place ``at``.
    The output ``near`` is a function of ``math.h``, which engines may round in another way.  A
    text that is ``refused`` has something that is not read.
    """

    text: str
    params: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    at: int
    blocks: int
    threads: int
    count: int
    seed: int
    near: str = ""
    refused: bool = False

    @property
    def room(self) -> int:
        """The elements of each array."""
        return self.blocks * self.threads + EXTRA


def record(case: Case) -> dict[str, Any]:
    """Return what a case is beside its text, in JSON types."""
    facts = asdict(case)
    del facts["text"]
    if not case.refused:
        del facts["refused"]
    return facts


def recorded(facts: Mapping[str, Any], text: str) -> Case:
    """Return the case of a record and a text."""
    known: dict[str, Any] = {**facts, "outputs": tuple(facts["outputs"])}
    known["params"] = tuple((name, kind) for name, kind in facts["params"])
    return Case(text, **known)


def draw(r: Random) -> Case:
    """Return a kernel; of one in four no thread returns early, and threads share an array."""
    blocks, threads = r.choice(BLOCKS), r.choice(THREADS)
    count = blocks * threads - (r.randrange(threads) if r.random() < 0.7 else 0)
    room = blocks * threads + EXTRA
    inputs = [(f"in{k}", r.choice(KINDS)) for k in range(r.randint(1, 3))]
    outputs = [(f"out{k}", r.choice(KINDS[:5])) for k in range(r.randint(1, 2))]
    near = r.choice(NEAR) if r.random() < 0.4 else ""
    outputs += [("near", "float")] if near else []
    outputs += [("bins", r.choice(("int", "unsigned")))]
    w = Writer(r)
    w.numbers.append(Number("n", "int", count, count))
    heads = [_head(w) for _ in range(r.randint(0, 2))] + (_macros(w) if r.random() < 0.3 else [])
    w.arrays += [(name, kind, room) for name, kind in inputs]
    share = r.random() < 0.25
    own = ("blockIdx.x * blockDim.x + threadIdx.x;", "threadIdx.x + blockDim.x * blockIdx.x; // it")
    w.put(f"{r.choice(('int', 'unsigned'))} i = {r.choice(own)}")
    w.numbers += [
        Number("i", "int" if w.rows[0].startswith("  int") else "unsigned", 0, room - EXTRA),
        Number("threadIdx.x", "unsigned", 0, threads - 1),
        Number("gridDim.x", "unsigned", blocks, blocks),
    ]
    if share:
        _shared(w, threads)
    early = not share and r.random() < 0.5
    refused = r.randrange(REFUSED) == 0
    if refused:
        w.put(r.choice(OUTSIDE))
    w.put(r.choice(RETURNS) if early else "if (i < n) {")
    for _ in range(r.randint(1, 5)):
        w.statement(2)
        if r.random() < 0.05:
            w.put(r.choice(("if ({}) return;", "if ({}) {{ return; }}")).format(w.condition(1)))
    for name, kind in outputs:
        if name == "bins":
            op = r.choice(("atomicAdd", "atomicMax", "atomicMin"))
            w.put(f"{op}(&bins[{w.index(BINS)}], {_small(w, kind)});")
        elif name == "near":
            w.put(f"near[i] = {near}(in_near[i]);")
        else:
            w.put(f"{name}[i] = {w.value(kind).text};")
    if not early:
        w.put("}")
    params = [*inputs, *outputs, *([("in_near", "float")] if near else [])]
    r.shuffle(params)
    at = r.randint(0, len(params))
    names = tuple(name for name, _ in outputs)
    text = _text(w, heads, params, names, at)
    seed = r.randrange(1 << 30)
    return Case(text, tuple(params), names, at, blocks, threads, count, seed, near, refused)


def _small(w: Writer, kind: str) -> str:
    a = w.bits(1)
    return f"({kind})({a.text} % 9)"


def _shared(w: Writer, threads: int) -> None:
    kind = w.r.choice(("int", "float"))
    w.put(f"__shared__ {kind} s[{threads}];")
    value = w.value(kind) if kind == "float" else Number(_small(w, kind), "int", 0, 9)
    w.put(f"s[threadIdx.x] = {value.text};")
    w.put("__syncthreads();")
    w.put(f"const {kind} own = s[threadIdx.x], before = s[threadIdx.x / 2];")
    w.numbers += [Number(n, kind, 0, 9) for n in ("own", "before")]


def _head(w: Writer) -> str:
    """Return what stands before a kernel: a number, or a helper function."""
    name, n = w.fresh("K"), w.r.randint(1, 9)
    match w.r.randrange(3):
        case 0:
            w.numbers.append(Number(name, "int", n, n))
            return w.r.choice((f"#define {name} {n}", f"#define {name} ({n - 1} + 1)"))
        case 1:
            w.numbers.append(Number(name, "int", n, n))
            return f"const int {name} = {n};"
        case _:
            kind = w.r.choice(("float", "double"))
            inner = replace(w, numbers=[Number("v", "float"), Number("k", "int", -SMALL, SMALL)],
                            rows=[], arrays=[], helpers=list(w.helpers))  # fmt: skip
            body = Number("v", "float") if w.r.random() < 0.2 else inner.real()
            found = f"static __device__ {kind} h{name}(float v, int k)"
            w.helpers.append((f"h{name}", kind))
            return f"{found} {{ return {body.text} + (k & 3); }}"


def _macros(w: Writer) -> list[str]:
    """Return macros of which one mentions the other, in either order; both are integers."""
    a, b, n = w.fresh("M"), w.fresh("M"), w.r.randint(1, 9)
    w.numbers += [Number(a, "int", n, n), Number(b, "int", 2 * n + 1, 2 * n + 1)]
    rows = [f"#define {a} {n}", f"#define {b} (2 * {a} + 1)"]
    return w.r.choice((rows, rows[::-1]))


def _commented(r: Random, row: str) -> str:
    """Return a row, at times with a comment where a space is, or behind it."""
    inner = row.strip()
    if r.random() > 0.08 or "#" in row:
        return row
    if r.random() < 0.5 and " " in inner:
        return "  " + inner.replace(" ", r.choice(("/**/", "/* ; */", "/* a\n} b */")), 1)
    return row + r.choice((" // if (", " /* } */", "// = 1;"))


def _text(
    w: Writer,
    heads: list[str],
    params: list[tuple[str, str]],
    outputs: tuple[str, ...],
    at: int,
) -> str:
    r, rows = w.r, [_commented(w.r, row) for row in w.rows]
    mark = r.choice(("", " __restrict__"))
    given = [f"{'' if n in outputs else 'const '}{w.spelled(k)} *{mark} {n}" for n, k in params]
    given.insert(at, "int n")
    head = r.choice(("__global__ void kernel(", 'extern "C" __global__ void kernel('))
    first = r.choice(("", "#include <math.h>\n", "/* a kernel\n of two lines */\n"))
    return "\n".join((*heads, f"{first}{head}{', '.join(given)}) {{", *rows, "}", ""))
