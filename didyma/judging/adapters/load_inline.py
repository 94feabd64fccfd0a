"""Kernels inside of Python files, as PyTorch's ``load_inline`` takes them: text, launch, arguments.

The host function in C++ tells blocks, threads and arguments.  It is read as far as such functions
are plain: numbers that are computed from sizes, new tensors, and launches one after the other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from didyma.codegen.runtime.ptx.sources import Source
from didyma.judging.expressions import split
from didyma.judging.heads import names
from didyma.judging.making import Launch
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import DType

_LAUNCH = re.compile(r"([\w:]+)\s*(<[^<>;]*>)?\s*<<<(.*?)>>>\s*\((.*?)\)\s*;", re.DOTALL)
_HOST = re.compile(r"(?:torch|at)::Tensor>?\s+(\w+)\s*\(([^)]*)\)\s*\{")
_TENSOR = re.compile(r"(?:const\s+)?(?:torch|at)::Tensor\s*[&]?\s*(\w+)")
_NEW = re.compile(
    r"\b(?:auto|(?:torch|at)::Tensor)\s+(\w+)\s*=\s*(?:torch|at)::"
    r"(zeros|empty|ones|full)(_like)?\s*\(([^;]*)\)\s*;"
)
_RETURNED = re.compile(r"\breturn\b([^;]*);")
_CONTROL = re.compile(r"\b(?:for|while|if|else|do|switch)\b")
_DTYPES = {
    "kFloat": DType.F32, "kFloat32": DType.F32, "kHalf": DType.F16, "kFloat16": DType.F16,
    "kBFloat16": DType.BF16, "kDouble": DType.F64, "kFloat64": DType.F64, "kInt": DType.I32,
    "kInt32": DType.I32, "kLong": DType.I64, "kInt64": DType.I64, "kChar": DType.I8,
    "kInt8": DType.I8, "kByte": DType.U8, "kUInt8": DType.U8, "kBool": DType.BOOL,
}  # fmt: skip
_NUMBER = re.compile(
    r"\b(?:const\s+|constexpr\s+)?(?:auto|int|unsigned(?:\s+int)?|long(?:\s+long)?|size_t|u?int(?:32|64)_t|float)"
    r"\s+(\w+)\s*=\s*([^;]+);"
)  # fmt: skip
_EXTENTS = re.compile(r"\bdim3\s+(\w+)\s*(?:=\s*dim3\s*)?(?:\(([^;]*)\)|=?\s*\{([^;]*)\})\s*;")
_CAST = re.compile(
    r"\((?:int|unsigned|long|long long|size_t|u?int\d+_t|float|double)\)|static_cast<[^<>]*>"
    r"|(?<=\bmin|\bmax)<[^<>]*>"
)
_SIZEOF = re.compile(r"\bsizeof\s*\(([^()]*)\)")
_BYTES = {
    "double": 8, "long long": 8, "int64_t": 8, "size_t": 8, "float": 4, "int": 4, "half": 2,
    "__half": 2, "__nv_bfloat16": 2, "char": 1, "float4": 16, "float2": 8,
}  # fmt: skip
_POINTER = re.compile(r"(\w+)\s*\.\s*(?:data_ptr|data)\s*(?:<[^<>]*>)?\s*\(\s*\)")


@dataclass(frozen=True, slots=True)
class Inline:
    """The kernels of a Python file, how its host function launches them, and what they share."""

    source: Source
    launches: tuple[Launch, ...]
    memory: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Host:
    """A host function: its body, its tensors and the numbers that it computes, as expressions."""

    body: str
    tensors: dict[str, str]  # names of inputs
    new: dict[str, str]  # new tensors, as items of memory
    returned: tuple[str, ...]
    known: dict[str, str]

    def is_result(self, name: str) -> bool:
        """Return whether a tensor is a result: one that is returned, or the only new one."""
        return name in self.returned or (name in self.new and len(self.new) < 2)


def read(text: str, file: str, spec: Module) -> Inline:
    """Return the kernels of a Python file, whose tensors are the inputs of a specification.

    They are taken in the order of the host function's parameters, and the tensors that it returns
    in the order of the specification's results.  DidymaError ``bad-option`` where there is no
    launch, or one that cannot be read.
    """
    start, cuda = _cuda(text, file)
    hosts = [h for h in _HOST.finditer(cuda) if "<<<" in _body(cuda, h.end())]
    if len(hosts) != 1:
        raise _unreadable(file, f"{len(hosts)} host functions that launch", "one")
    tensors = dict(
        zip(_TENSOR.findall(hosts[0][2]), (p.name for p in spec.entry.params), strict=False)
    )
    host = _host(_body(cuda, hosts[0].end()), tensors, spec)
    found = list(_LAUNCH.finditer(host.body))
    depths = {_depth(host.body[: m.start()]) for m in found}
    if len(found) > 1 and (len(depths) > 1 or any(_is_guarded(host.body, m) for m in found)):
        raise _unreadable(file, "launches in loops or behind conditions", "launches in order")
    device = _device(cuda)
    launches = tuple(_launch(m, host, spec, file, names(device, m[1])) for m in found)
    used = {a.rpartition("=")[2] for x in launches for a in x.args}
    # Lines count from the start of the Python file; what follows the kernels is of the host.
    device = "\n" * start + device
    memory = tuple(m for n, m in host.new.items() if n in used and not host.is_result(n))
    return Inline(Source(device, file.rpartition("/")[2]), launches, memory)


def _host(body: str, tensors: dict[str, str], spec: Module) -> _Host:
    known = _known(body, tensors)
    returned = [m[1] for m in _RETURNED.finditer(body)][-1:]
    made = {m[1]: m for m in _NEW.finditer(body)}
    names = tuple(w for r in returned for w in re.findall(r"\w+", r) if w in {*made, *tensors})
    new = {n: _memory(m, tensors, known, spec) for n, m in made.items()}
    return _Host(body, tensors, new, names, known)


def _memory(m: re.Match[str], tensors: dict[str, str], known: dict[str, str], spec: Module) -> str:
    """Return a new tensor as an item of memory."""
    types = {p.name: p.type for p in spec.entry.params}
    first, *rest = split(m[4].replace("{", "(").replace("}", ")"))
    named = [n for n in re.findall(r"\w+", ", ".join(rest) or first) if n in tensors]
    kinds = [_DTYPES[k] for k in re.findall(r"\bk\w+", m[4]) if k in _DTYPES]
    of = types[tensors[named[0]]].dtype if named else DType.F32
    dtype = kinds[-1] if kinds else of
    if m[3]:
        like = tensors.get(first.strip(), "")
        rank = len(types[like].shape) if like else 1
        sizes = ", ".join(f"size({like}, {k})" for k in range(rank))
    else:
        sizes = ", ".join(_expression(s, known) for s in split(first.strip().strip("()")))
    return f"{m[1]}={'zero:' if m[2] == 'zeros' else ''}{dtype.value}[{sizes}]"


def _launch(
    m: re.Match[str], host: _Host, spec: Module, file: str, params: Sequence[str]
) -> Launch:
    parts = [_expression(p, host.known) for p in split(m[3])]
    if len(parts) < 2:
        raise _unreadable(file, f"<<<{m[3]}>>>", "blocks and threads")
    items = tuple(_argument(a, host, spec) for a in split(m[4]))
    if len(params) == len(items):
        items = tuple(f"{name}={what}" for name, what in zip(params, items, strict=True))
    shared = parts[2] if len(parts) > 2 else "0"
    return Launch(f"{m[1]}{m[2] or ''}", parts[0], parts[1], shared, items)


def _depth(text: str) -> int:
    return text.count("{") - text.count("}")


def _is_guarded(body: str, m: re.Match[str]) -> bool:
    """Return whether a launch is the statement of a loop or of a condition."""
    before = max(body.rfind(c, 0, m.start()) for c in ";{}")
    return bool(_CONTROL.search(body[before + 1 : m.start()]))


def _cuda(text: str, file: str) -> tuple[int, str]:
    """Return the string with the kernels, and the lines before it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and "__global__" in str(node.value):
            return node.lineno - 1, str(node.value)
    raise _unreadable(file, "no string with __global__", "CUDA C++ for load_inline")


def _device(cuda: str) -> str:
    """Return the text without headers of PyTorch and without host functions; lines stay."""
    text = re.sub(
        r"^[ \t]*#include\s*<(?:torch|ATen|c10|pybind)[^>]*>", "", cuda, flags=re.MULTILINE
    )
    for host in [*_HOST.finditer(text)][::-1]:
        end = host.end() + len(_body(text, host.end()))
        begin = text.rfind("\n", 0, host.start()) + 1
        text = text[:begin] + "\n" * text.count("\n", begin, end) + text[end:]
    return text


def _body(text: str, at: int) -> str:
    depth = 1
    for k in range(at, len(text)):
        depth += (text[k] == "{") - (text[k] == "}")
        if not depth:
            return text[at : k + 1]
    return text[at:]


def _known(body: str, tensors: dict[str, str]) -> dict[str, str]:
    """Return what names of a host function stand for, as expressions; new tensors as roles."""
    known = {f"tensor {n}": t for n, t in tensors.items()}
    known |= {f"new {m[1]}": "zero" if m[2] == "zeros" else "" for m in _NEW.finditer(body)}
    numbers = [
        (m.start() + k, name, value)
        for m in _NUMBER.finditer(body)
        if "torch::" not in m[2] and "data_ptr" not in m[2]
        for k, (name, value) in enumerate(_declared(m[1], m[2]))
    ]
    extents = [(m.start(), m[1], m[2] or m[3]) for m in _EXTENTS.finditer(body)]
    for _, name, value in sorted([*numbers, *extents]):
        parts = [_expression(p, known) for p in split(value)]
        known[name] = ", ".join(parts)
    return known


def _declared(first: str, rest: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of ``int a = 1, b = 2``, whose type comes before ``first``.

    >>> list(_declared("a", "f(1, 2), b = a + 1"))
    [('a', 'f(1, 2)'), ('b', 'a + 1')]
    """
    for part in split(f"{first} = {rest}"):
        name, _, value = part.partition("=")
        yield name.strip(), value.strip()


def _expression(text: str, known: dict[str, str]) -> str:
    """Return an expression of C++ as one of sizes."""
    text = _SIZEOF.sub(lambda m: str(_BYTES.get(m[1].strip(), 4)), text)
    text = _CAST.sub("", text).replace("std::", "")
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"\b(\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)[fF]\b", r"\1", text)
    text = re.sub(r"\bdim3\s*\((.*)\)\s*$", r"\1", text.strip(), flags=re.DOTALL)
    for name in [k.split()[1] for k in known if k.startswith("tensor ")]:
        real = known[f"tensor {name}"]
        text = re.sub(rf"\b{name}\.sizes?\(\s*(-?\d+)\s*\)", rf"size({real}, \1)", text)
        text = re.sub(rf"\b{name}\.stride\(\s*(-?\d+)\s*\)", rf"stride({real}, \1)", text)
        text = re.sub(rf"\b{name}\.numel\(\s*\)", f"numel({real})", text)
    for name, value in known.items():
        if " " not in name:
            plain = value if "," in value or re.fullmatch(r"[\w.]+", value) else f"({value})"
            text = re.sub(rf"\b{name}\b(?!\s*\()", plain.replace("\\", r"\\"), text)
    return " ".join(text.split())


def _argument(text: str, host: _Host, spec: Module) -> str:
    """Return what is passed: an input, a result, memory, or an expression of sizes."""
    m = _POINTER.search(text)
    if m is None:
        return _expression(text, host.known)
    name, results = m[1], spec.entry.results
    if name in host.tensors:
        return host.tensors[name]
    at = host.returned.index(name) if name in host.returned else 0
    if host.is_result(name):
        result = results[min(at, len(results) - 1)]
        return f"zero:{result}" if host.known.get(f"new {name}") == "zero" else result
    return name


def _unreadable(file: str, got: str, want: str) -> DidymaError:
    return DidymaError(
        "bad-option", file, got=got, want=want,
        help="give the text of the kernel as a .cu file, with --grid, --block and --arg",
    )  # fmt: skip
