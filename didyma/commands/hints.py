"""What the file of a kernel tells of its launch and of its structures, read off the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from didyma.commands import host_code
from didyma.commands.host_code import Buffer, plain
from didyma.judging.expressions import split
from didyma.judging.heads import Parameter, declared

Extents: TypeAlias = tuple[int, int, int]

_DIM3 = re.compile(r"\bdim3\s+(\w[^;]*);")
_NAMED = re.compile(r"(\w+)\s*(?:=\s*(?:dim3\s*)?)?[({](.*)[)}]", re.DOTALL)
_COMPONENT = re.compile(r"\b(\w+)\.([xyz])\b")
_NOTED = re.compile(r"--(block|grid)Dim[= ]\s*\[?([\d,\s]+)\]?")  # as GPUVerify's suites have it
_TILE = re.compile(
    r"\bblockIdx\.([xyz])\s*\*\s*(\w+)\b(?!\s*[.(])|\b(\w+)\s*\*\s*blockIdx\.([xyz])\b(?!\s*\*)"
)
_STEP = re.compile(r"=\s*threadIdx\.([xyz])\s*;[^;{}]*;\s*\w+\s*\+=\s*(\w+)\s*\)")  # of a loop
_ALIAS = re.compile(r"\b(\w+)\s*=\s*((?:threadIdx|blockIdx)\.[xyz])\s*[,;]")
_SHARED = re.compile(r"__shared__([^;()=]*);")
_SIZES = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)+)")
_SET = re.compile(r"[;{}]\s*(\w+)((?:\[[^\[\]]*\])+)\s*=[^=]")
_INDEX = re.compile(r"\[([^\[\]]*)\]")
_OWN = re.compile(r"threadIdx\.([xyz])(?:\s*\+\s*([A-Z]\w*|\d\d+))?$")  # or a block further
_TEMPLATE = re.compile(r"template\s*<([^<>{}]*)>\s*(?:__\w+__\s*(?:\([^()]*\)\s*)?)*void\s+(\w+)")
_STRUCT = (
    r"(?:struct|class)\b[^;{{}}()]*?\b{name}\s*(?::\s*(?:public\s+)?(\w+)\s*)?\{{([^{{}}]*)\}}"
)
_TYPEDEF = r"typedef\s+struct\b[^;{{}}]*?(?:\([^()]*\))?[^;{{}}]*\{{([^{{}}]*)\}}\s*{name}\s*;"
_BODY = re.compile(r"(\)|\belse|\bdo)\s*(?:(?:const|noexcept|override|final)\s*)*\{[^{}]*\}")
_ALIGNED = re.compile(r"\b(?:__align__|alignas)\s*\([^()]*\)")
_LEAST, _MOST = 8, 1024  # threads of a block
_DEEP = 4  # structures in structures


def launch(
    text: str, name: str, bound: Extents | None = None
) -> tuple[Extents | None, Extents | None]:
    """Return blocks and threads of a launch of a kernel, each as far as its file tells it.

    That is a launch on the host of known numbers, or a comment ``--blockDim=256 --gridDim=2``; else
    a block is as wide as what the kernel multiplies its ``blockIdx`` by, as the steps of a loop
    that begins at ``threadIdx``, or as a shared array of which each thread sets its own element.
    It is the block that the kernel is compiled for, its ``bound``, if that has other threads.

    >>> launch("const int T = 64; int main() { scan<<<4, dim3(T, 2)>>>(x); }", "scan")
    ((4, 1, 1), (64, 2, 1))
    >>> launch("__global__ void k() { int i = blockIdx.x * 48 + threadIdx.x; }", "k")
    (None, (48, 1, 1))
    >>> launch("__global__ void k() { for (int i = threadIdx.x; i < n; i += 64) {} }", "k")
    (None, (64, 1, 1))
    >>> launch("__global__ void k() { __shared__ int s[96]; int t = threadIdx.x; s[t] = 0; }", "k")
    (None, (96, 1, 1))
    >>> launch("int n = 99; dim3 b(16, 4), g((n + b.x - 1) / b.x); k<<<g, b>>>(x);", "k")
    ((7, 1, 1), (16, 4, 1))
    """
    bare = host_code.bare(text)
    known = host_code.constants(bare)
    most = _threads(bound) if bound else _MOST
    dims = _dims(bare)
    for call in host_code.calls_of(bare, name, known):
        found = [_extents(_without_dims(p, call.at, dims), known) for p in call.extents[:2]]
        if len(found) == 2 and found[1] and _threads(found[1]) <= most:
            return found[0], found[1]
    noted = {m[1]: _extents(m[2], known) for m in _NOTED.finditer(text)}
    if noted:
        return noted.get("grid"), noted.get("block")
    tile = _tile(_with_indices(_body(bare, name)), known | _numbers(bare, name))
    return None, tile if bound is None or (tile and _threads(tile) == most) else bound


def shared(text: str, name: str) -> int | None:
    """Return the bytes of dynamic shared memory of a launch of a kernel, as its file tells them.

    >>> shared("int main() { f<<<2, 64, 64 * sizeof(float)>>>(x); }", "f")
    256
    """
    bare = host_code.bare(text)
    known = host_code.constants(bare)
    calls = host_code.calls_of(bare, name, known)
    told = [c.extents[2] for c in calls if len(c.extents) > 2]
    return next((n for t in told if (n := host_code.whole(t, known)) is not None and n >= 0), None)


def arguments(text: str, name: str) -> tuple[int | float | Buffer | None, ...]:
    """Return what a launch of a kernel passes, as far as its file tells: numbers and memory.

    >>> arguments("int main() { cudaMalloc(&x, 40); f<<<1, 1>>>(x, 10, y); }", "f")
    (Buffer(nbytes=40, zero=False), 10, None)
    """
    bare = host_code.bare(text)
    known = host_code.constants(bare)
    memory = host_code.buffers(bare, known)

    dims = _dims(bare)

    def one(a: str, at: int) -> int | float | Buffer | None:
        found = memory.get(host_code.variable(a))
        return host_code.number(_without_dims(a, at, dims), known) if found is None else found

    told = host_code.calls_of(bare, name, known)
    return tuple(one(a, told[0].at) for a in told[0].arguments) if told else ()


def _dims(bare: str) -> list[tuple[int, str, str]]:
    """Return the variables of ``dim3`` that a text declares: where, their names, their extents."""
    rows = ((d.start(), _NAMED.fullmatch(p)) for d in _DIM3.finditer(bare) for p in split(d[1]))
    return [(at, m[1], m[2]) for at, m in rows if m]


def _without_dims(text: str, at: int, dims: Sequence[tuple[int, str, str]]) -> str:
    """Return an expression at some place with extents for variables of ``dim3``.

    Of several declarations of a name, the last one before that place counts.

    >>> _without_dims("(n + b.y) / 4", 9, [(0, "b", "16, 2 * a.x"), (5, "a", "4")])
    '(n + (2 * (4))) / 4'
    """
    by_name = {n: v for _, n, v in reversed(dims)} | {n: v for k, n, v in dims if k < at}
    text = by_name.get(text, text)

    def component(m: re.Match[str]) -> str:
        parts = (*split(by_name[m[1]]), "1", "1") if m[1] in by_name else ()
        return f"({parts['xyz'.index(m[2])]})" if parts else m[0]

    for _ in range(_DEEP):
        text = _COMPONENT.sub(component, text)
    return text


def _body(text: str, name: str) -> str:
    """Return the text of a kernel, up to the next one."""
    for part in text.split("__global__")[1:]:
        if re.search(rf"\b{re.escape(plain(name))}\s*\(", part.partition("{")[0]):
            return part
    return ""


def _extents(text: str, known: Mapping[str, int]) -> Extents | None:
    """Return one to three extents, such as of ``dim3(16, T)``; None where one is not known."""
    inner = re.sub(r"^\s*dim3\s*[({](.*)[)}]\s*$", r"\1", text, flags=re.DOTALL)
    numbers = [host_code.whole(p, known) for p in split(inner)]
    if not 1 <= len(numbers) <= 3 or any(n is not None and n < 1 for n in numbers):
        return None
    x, y, z = (*numbers, 1, 1)[:3]
    return None if x is None or y is None or z is None else (x, y, z)


def instance(text: str, name: str) -> dict[str, str]:
    """Return what an instance of a template is given, by the template's names for it.

    Where the name does not tell, it is the first instance that the file launches.

    >>> text = "template <class F, int N> __global__ void k(F f) {}  k<Add, 4><<<1, 1>>>(f);"
    >>> instance(text, "k")
    {'F': 'Add', 'N': '4'}
    """
    bare = host_code.bare(text)
    launched = (c.kernel for c in host_code.calls_of(bare, name, {}))
    full = next((n for n in (name, *launched) if "<" in n), "")
    given = split(full.partition("<")[2].rpartition(">")[0])
    for m in _TEMPLATE.finditer(bare):
        if m[2] == plain(name):
            names = [p.partition("=")[0].split()[-1] for p in split(m[1]) if p.split()]
            return {n: v for n, v in zip(names, given, strict=False) if v}
    return {}


def _numbers(text: str, name: str) -> dict[str, int]:
    given = instance(text, name).items()
    return {n: int(v) for n, v in given if v.isdecimal() and int(v)}


def _tile(text: str, known: Mapping[str, int]) -> Extents | None:
    """Return the block of a kernel that multiplies ``blockIdx`` by numbers, or steps by them.

    Else it has as many threads as shared arrays have elements that each sets for itself.
    """
    found: dict[str, int] = {}
    tiles = [(m[1] or m[4], m[2] or m[3]) for m in _TILE.finditer(text)]
    for axis, width in (*tiles, *_STEP.findall(text), *_elements(text)):
        value = host_code.whole(width, known)
        if value is not None and value > 0:
            found.setdefault(axis, value)
    block = found.get("x", 1), found.get("y", 1), found.get("z", 1)
    return block if _LEAST <= _threads(block) <= _MOST else None


def _with_indices(text: str) -> str:
    """Return a text with indices of threads and blocks in place of variables that hold one.

    >>> _with_indices("int b = blockIdx.x, t = threadIdx.x; y[b * 64 + t] = 0;").partition("; ")[2]
    'y[blockIdx.x * 64 + threadIdx.x] = 0;'
    """
    for name, index in _ALIAS.findall(text):
        changes = (
            rf"\b{name}\s*(?:[-+*/%&|^]|<<|>>)?=[^=]|\b{name}\s*(?:\+\+|--)|(?:\+\+|--){name}\b"
        )
        if len(re.findall(changes, text)) > 1:
            continue
        text = re.sub(rf"(?<![\w.]){name}\b(?!\s*=[^=])", index, text)
    return text


def _elements(text: str) -> Iterator[tuple[str, str]]:
    """Yield axes of threads, and the extents of shared arrays of which each sets its element.

    Where each sets one a block further, too, that tells the block, and comes first.

    >>> [*_elements("__shared__ int s[2][64]; s[1][threadIdx.x] = s[1][threadIdx.x + 32] = 0;")]
    [('x', '64')]
    >>> text = "__shared__ int s[64]; s[threadIdx.x] = 0; s[threadIdx.x + 32] = 0;"
    >>> [*_elements(text)]
    [('x', '32'), ('x', '64')]
    """
    declarations = _SHARED.findall(_ALIGNED.sub("", text))
    arrays = [a for d in declarations for a in _SIZES.findall(d)]
    extents = {name: _INDEX.findall(sizes) for name, sizes in arrays}
    own = [
        (m, extent)
        for name, indices in _SET.findall(text)
        for index, extent in zip(_INDEX.findall(indices), extents.get(name, ()), strict=False)
        if (m := _OWN.match(index))
    ]
    yield from ((m[1], m[2]) for m, _ in own if m[2])
    yield from ((m[1], extent) for m, extent in own if not m[2])


def _threads(block: Extents) -> int:
    return block[0] * block[1] * block[2]


def members(text: str, name: str, deep: int = 0) -> list[Parameter] | None:
    """Return the members of a structure as a text declares them; None where it does not tell.

    Those of structures in it, and of the one that it extends, are among them.

    >>> [p.name for p in members("struct A { int n; }; struct B : A { float *x, y; };", "B")]
    ['n', 'x', 'y']
    """
    bare = _without_bodies(host_code.bare(text))
    m = re.search(_STRUCT.format(name=re.escape(name)), bare)
    typedef = re.search(_TYPEDEF.format(name=re.escape(name)), bare) if m is None else None
    if deep > _DEEP or (m is None and typedef is None):
        return None
    found: list[Parameter] = []
    if m is not None and m[1]:
        base = members(bare, m[1], deep + 1)
        if base is None:
            return None
        found += base
    body = m[2] if m is not None else typedef[1] if typedef is not None else ""
    for p in _declarations(body):
        inner = members(bare, p.of, deep + 1) if p.dtype is None and not p.pointer else [p]
        if inner is None:
            return None
        found += inner
    return found


def _without_bodies(text: str) -> str:
    """Return a text in which functions are only declared, and nothing is aligned.

    >>> _without_bodies("struct F { int n; int f() const { if (n) { return 1; } return 0; } };")
    'struct F { int n; int f(); };'
    """
    before, text = "", _ALIGNED.sub("", text)
    while text != before:
        before, text = text, _BODY.sub(r"\1;", text)
    return text.replace(";;", ";")


def _declarations(body: str) -> Iterator[Parameter]:
    """Yield the data members of the body of a structure; ``int *a, b`` declares two."""
    for line in body.split(";"):
        words = re.sub(r"\b(?:public|private)\s*:", " ", line).strip()
        if not words or "(" in words or words.startswith("#"):
            continue
        first, *rest = split(words)
        kind = re.match(r"(.*?)[*\s]*\w+$", first.strip())
        for declaration in (first, *(f"{kind[1] if kind else ''} {r}" for r in rest)):
            yield declared(declaration)
