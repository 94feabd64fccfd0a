"""Kernel text of which it is known what its head says, or on which line it is wrong.

Such texts are put together of rows, each with what it means: whether it stores to the array that it
names, or leaves the subset of kernel text.  Nothing runs them; their reader is judged alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from didyma.codegen.emit.text_kernel import Head, Reader, renamed
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError

KINDS = ("f32", "f64", "i32", "i64", "u32", "u64", "f16", "u8", "b8")
ATOMIC = ("i32", "i64", "u32", "u64", "f32", "f64")  # kinds of which there are atomics
READS = (
    "{t} r{k} = {p}[i];", "if ({p}[i] == {p}[0]) {{ i += 1; }}", "// {p}[i] = 0;",
    "i64 r{k} = i; // {p}[i]++", "for (i64 r{k} = 0; r{k} < 2; ++r{k}) {{ i += {p}[r{k}] > 0; }}",
    "const {t} r{k} = ({t})({p}[i] + {p}[i + 1]);", "{t} r{k}[2]; r{k}[0] = {p}[1];",
    "__shared__ {t} r{k}[8]; r{k}[threadIdx.x] = {p}[i]; __syncthreads();",
    "while ({p}[i] > {p}[i]) {{ i = i - 1; }}", "i64 r{k} = ({p}[i] ? 1 : 2);",
)  # fmt: skip
STORES = (
    "{p}[i] = {p}[0];", "{p}[i + 1] += 1;",
    "if (i > 1) {{ {p}[0] = 1; }} else {{ i = 2; }}", "{{ {{ {p}[i] <<= 1; }} }}",
    "for (i64 r{k} = 0; r{k} < 2; {p}[i] = r{k}++) {{ }}",
)  # fmt: skip
HANDED = (
    "atomic_{f}_{t}(&{p}[i], ({t})1);", "atomic_{f}_{t}({p} + i, ({t})1);",
    "atomic_{f}_{t}({p}, {p}[i]);",
)  # fmt: skip
WRONG = (
    "i = other;", "other = 1;", "i = o[i];", "i = other(1);", "f32 z = exp_f31(1.0f);", "i += ;",
    "f32 z[n];", "f32 z[2 * 2];", "__shared__ f32 z[i];", "f32 z[3][n];", "i = 1",
    "atomic_add_f32(&z[0], 1.0f);", "f32 z = 1; atomic_add_f32(z, 1.0f);",
    "f32 z[2]; atomic_add_f32(z - 1, 1.0f);", "f32 z[2]; atomic_add_f32(1 + z, 1.0f);",
    "f32 z[2]; atomic_add_f32(z + 1 + i, 1.0f);", "f32 z[2]; atomic_add_f32(&z[0] + 1, 1.0f);",
    "f32 z[2]; atomic_add_f32(z[0], 1.0f);", "f32 z[2]; atomic_add_f32((f32 *)z, 1.0f);",
    "cp_async_wait(i);", "wgmma_wait(n);", "i = other.x;", "i = threadIdx.x + threadidx.x;",
    "if (other) {{ i = 1; }}", "for (z = 0; z < 2; ++z) {{ }}", "i = (i;", "goto;", "return other;",
    "return;", "do {{ i = 1; }} while (i);", "for (;;) {{ }}", "i = +i;", "n = i = 1;", "float z;",
    "f32 z[1][2];", "f32 z[2]; ++z[0];", "f32 z[2]; f32 *w = z;", "f32 z[2] = {{0, 1}};",
    "i64 z; {{ i64 z = 1; }}", "{{ i64 z = 1; }} i = z;", "const i64 z = 1; z = 2;",
    "gridDim.x = 1;",
)  # fmt: skip
CALL = "other(1)"  # of a function that is not there unless the reader is told of it
ARGS = ("float *x", "f32 x", "i32 m", "f32 **x", "void *x", "tensor_map x", "f33 *x", "const i64 *")


@dataclass(frozen=True, slots=True)
class Text:
    """A text and its head, or else the ``line`` of what is wrong with it; 0 for the whole."""

    source: str
    head: Head | None
    line: int = 0


def drawn(r: Random) -> Text:
    """Return a text, which is wrong in one of two."""
    pointers = [(f"p{k}", r.choice(KINDS), r.random() < 0.4) for k in range(r.randint(1, 4))]
    symbols = tuple(r.sample(("n", "m", "k"), r.randint(1, 3)))
    symbols = symbols if "n" in symbols else ("n", *symbols)
    maps = ("map",) if r.random() < 0.15 else ()
    rows, stored = ["i64 i = blockIdx.x * blockDim.x + threadIdx.x;"], set[str]()
    for k in range(r.randint(1, 6)):
        p, t, const = r.choice(pointers)
        some = READS if const else (*READS, *STORES)
        some = (*some, *HANDED) if not const and t in ATOMIC else some
        row = r.choice(some)
        stored |= {p} if row in STORES or row in HANDED else set()
        rows.append(row.format(p=p, t=t, k=k, f=r.choice(("add", "max", "min", "mul"))))
    cluster = r.choice((1, 1, 2, 4))
    above = r.choice(("", "// a kernel\n", "\n\n"))
    bounds = r.choice(("", "", "__launch_bounds__(64) "))
    shape = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
    args = [f"{'const ' if const else ''}{t} *{p}" for p, t, const in pointers]
    mark = r.choice(("*", "*__restrict__ "))
    args = [a.replace("*", mark) for a in args]
    args += [f"const __grid_constant__ tensor_map {m}" for m in maps]
    args += [f"i64 {s}" for s in symbols]
    broken, line, at = r.randrange(8) if r.random() < 0.5 else -1, 0, 0
    if broken == 0:
        args.insert(r.randint(0, len(args)), r.choice(ARGS))
        line = above.count("\n") + 1
    elif broken == 1:
        first = len(pointers)  # arguments that come after maps, or last
        at = first + len(maps) if maps and r.random() < 0.5 else len(args)
        args = [*args[first:at], *args[:first], *args[at:]]
        line = above.count("\n") + 1
    elif broken > 2:
        at = r.randint(1, len(rows))
        rows.insert(at, r.choice(WRONG).format())
        line = above.count("\n") + 2 + at
    begin = f'{above}extern "C" __global__ void {bounds}{shape}name({", ".join(args)}) {{\n'
    source = begin + "".join(f"  {row}\n" for row in rows) + "}\n"
    if broken == 2:
        source = r.choice(
            (
                source.replace('extern "C" ', ""), source.replace("__global__ ", ""),
                source + source.replace(" name(", " other("), source + "i64 one(i64 x) { }\n",
            )
        )  # fmt: skip
    elif broken > 2 and at == len(rows) - 1:
        source = source.removesuffix("\n}\n") + " }"  # it is wrong on its last line
    if broken >= 0:
        return Text(source, None, line)
    idle = tuple(p for p, _, const in pointers if not const and p not in stored)
    return Text(source, Head("name", tuple(pointers), symbols, idle, cluster, maps))


def judged(text: Text) -> Iterator[Finding]:
    """Yield what is wrong with what the reader of kernel text says of a text."""
    where = "kernel text"
    try:
        found = Reader(text.source, where).head()
        other = Reader(renamed(text.source, "name", "name_"), where).head()
    except DidymaError as e:
        if CALL in text.source and text.line > 0:
            yield from _called(text)
        at = e.line if text.head is None and e.code == "bad-kernel" else -1
        if at not in (text.line, text.line + 1):  # a row that is no C may end on the next
            yield Finding("emit", where, "refused", f"{e}\n{text.source}")
        elif at > 0 and e.shown != [*text.source.split("\n"), ""][at - 1]:
            yield Finding("emit", where, "shown", f"{e.shown!r} is not line {at}:\n{text.source}")
        return
    except Exception as e:
        yield Finding("emit", where, "error", f"{type(e).__name__}: {e}\n{text.source}")
        return
    if text.head is None:
        yield Finding("emit", where, "accepted", f"line {text.line} is wrong:\n{text.source}")
    elif found != text.head or other.name != "name_":
        yield Finding("emit", where, "head", f"{found}, want {text.head}:\n{text.source}")


def _called(text: Text) -> Iterator[Finding]:
    """Yield that a function is not known which the reader of a text is told of."""
    try:
        Reader(text.source, "kernel text", ("other",)).head()
    except DidymaError as e:
        yield Finding("emit", "kernel text", "refused", f"{e}\n{text.source}")
