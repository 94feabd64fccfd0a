"""The parameters of a kernel, as its text declares them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.refimpl.ir.types import DType

_GLOBAL = re.compile(r"__global__\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ATTRIBUTE = re.compile(r"__(?:launch_bounds__|attribute__|cluster_dims__)\s*\(")
_NAME = re.compile(r"(\w+)\s*\(")
_LAST = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)$")
_C_TYPES: Mapping[str, DType] = MappingProxyType({
    "float": DType.F32, "double": DType.F64, "half": DType.F16, "__half": DType.F16,
    "__nv_bfloat16": DType.BF16, "nv_bfloat16": DType.BF16, "bool": DType.BOOL,
    "char": DType.I8, "signed char": DType.I8, "int8_t": DType.I8, "unsigned char": DType.U8,
    "uint8_t": DType.U8, "short": DType.I16, "int16_t": DType.I16, "unsigned short": DType.U16,
    "uint16_t": DType.U16, "int": DType.I32, "int32_t": DType.I32, "signed int": DType.I32,
    "signed": DType.I32, "unsigned": DType.U32, "unsigned int": DType.U32, "uint": DType.U32,
    "uint32_t": DType.U32, "long": DType.I64, "long int": DType.I64, "long long": DType.I64,
    "long long int": DType.I64, "int64_t": DType.I64, "ptrdiff_t": DType.I64,
    "unsigned long": DType.U64, "unsigned long long": DType.U64, "uint64_t": DType.U64,
    "size_t": DType.U64,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its name, bytes, whether it is a pointer and to what that may not write.

    ``dtype`` is None where the text does not tell it, ``pointer`` in PTX.  ``of`` is the type in
    C++, without what qualifies it.
    """

    name: str
    nbytes: int
    pointer: bool | None = None
    const: bool = False
    dtype: DType | None = None
    of: str = ""

    @property
    def is_float(self) -> bool:
        """Whether it is known to be a float, or to point to some."""
        return self.dtype is not None and self.dtype.is_float


def parameters(text: str, kernel: Kernel, name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel; ``name`` is its name in C++, empty for the only kernel.

    What a text of PTX does not tell, or a head that macros make, is left open.
    """
    sizes = [(p.name, p.size) for p in kernel.program.kernel.params]
    heads = dict(_heads(text))
    plain = re.split(r"[<(]", name)[0].split("::")[-1].strip()
    known = {**dict.fromkeys([""], next(iter(heads.values()), ())), **heads}
    found = known.get(plain or _source_name(kernel.name, heads), ())
    if len(found) != len(sizes):
        return tuple(Parameter(n, size, None if size == 8 else False) for n, size in sizes)
    return tuple(replace(p, nbytes=size) for p, (_, size) in zip(found, sizes, strict=True))


def names(text: str, kernel: str) -> tuple[str, ...]:
    """Return the names of the parameters of a kernel of CUDA C++; none where it is not found.

    >>> names("__global__ void f(float* y, int n) {}", "f<4>")
    ('y', 'n')
    """
    plain = re.split(r"[<(]", kernel)[0].split("::")[-1].strip()
    return tuple(p.name for p in dict(_heads(text)).get(plain, ()))


def source_name(text: str, kernel: Kernel) -> str:
    """Return the name of a kernel in its text; in PTX it is that of the entry."""
    return _source_name(kernel.name, dict(_heads(text))) or kernel.name


def _source_name(mangled: str, heads: Mapping[str, object]) -> str:
    near = [n for n in heads if n == mangled or f"{len(n)}{n}" in mangled]
    return max(near, key=len, default="")


def _heads(text: str) -> Iterator[tuple[str, tuple[Parameter, ...]]]:
    """Yield the name and the parameters of each kernel of CUDA C++."""
    bare = _COMMENT.sub(" ", text)
    for m in _GLOBAL.finditer(bare):
        at = m.end()
        while skipped := _ATTRIBUTE.search(bare, at):
            if bare[at : skipped.start()].strip() not in ("", "void", "static", "inline"):
                break
            at = closing(bare, skipped.end() - 1) + 1
        if named := _NAME.search(bare, at):
            inner = bare[named.end() : closing(bare, named.end() - 1)]
            yield named[1], tuple(declared(p) for p in _parts(inner) if p not in ("", "void"))


def closing(text: str, at: int) -> int:
    """Return where the parenthesis that opens at ``at`` closes."""
    depth = 0
    for k in range(at, len(text)):
        depth += (text[k] == "(") - (text[k] == ")")
        if not depth:
            return k
    return len(text)


def _parts(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += (c in "(<[") - (c in ")>]")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def declared(text: str) -> Parameter:
    """Read a declaration such as ``const float* __restrict__ x``.

    >>> declared("const float* __restrict__ x")
    Parameter(name='x', nbytes=0, pointer=True, const=True, dtype=<DType.F32: 'f32'>, of='float')
    """
    text = re.sub(r"\b__(?:restrict__|restrict|grid_constant__)\b|\brestrict\b", " ", text)
    text = text.partition("=")[0].strip()
    last = _LAST.search(text)
    name, array = (last[1], bool(last[2])) if last else (text, False)
    kind = text[: last.start()] if last else ""
    pointer = array or "*" in kind
    words = re.sub(r"[*&]", " ", kind).split()
    const = "const" in kind.partition("*")[0].split()
    plain = " ".join(w for w in words if w not in ("const", "volatile", "struct"))
    return Parameter(name, 0, pointer, const, _C_TYPES.get(plain), plain)
