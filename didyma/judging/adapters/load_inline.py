"""Kernels inside of Python files, as PyTorch's ``load_inline`` takes them: text, launch, arguments.

The host function in C++ tells blocks, threads and arguments.  It is read as far as such functions
are plain: numbers that are computed from sizes, new tensors, and one launch.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from didyma.codegen.runtime.ptx.sanitize import Source
from didyma.judging.expressions import split
from didyma.judging.making import Launch
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module

_LAUNCH = re.compile(r"([\w:]+)\s*(<[^<>;]*>)?\s*<<<(.*?)>>>\s*\((.*?)\)\s*;", re.DOTALL)
_HOST = re.compile(r"(?:torch|at)::Tensor>?\s+(\w+)\s*\(([^)]*)\)\s*\{")
_TENSOR = re.compile(r"(?:const\s+)?(?:torch|at)::Tensor\s*[&]?\s*(\w+)")
_NEW = re.compile(
    r"\b(?:auto|(?:torch|at)::Tensor)\s+(\w+)\s*=\s*(?:torch|at)::(zeros|empty|ones|full)(?:_like)?\b"
)
_NUMBER = re.compile(
    r"\b(?:const\s+|constexpr\s+)?(?:auto|int|unsigned(?:\s+int)?|long(?:\s+long)?|size_t|u?int(?:32|64)_t|float)"
    r"\s+(\w+)\s*=\s*([^;]+);"
)  # fmt: skip
_EXTENTS = re.compile(r"\bdim3\s+(\w+)\s*(?:=\s*dim3\s*)?(?:\(([^;]*)\)|=?\s*\{([^;]*)\})\s*;")
_CAST = re.compile(r"\((?:int|unsigned|long|long long|size_t|int64_t|float)\)|static_cast<[^<>]*>")
_SIZEOF = re.compile(r"\bsizeof\s*\(([^()]*)\)")
_BYTES = {
    "double": 8, "long long": 8, "int64_t": 8, "size_t": 8, "float": 4, "int": 4, "half": 2,
    "__half": 2, "__nv_bfloat16": 2, "char": 1, "float4": 16, "float2": 8,
}  # fmt: skip
_POINTER = re.compile(r"(\w+)\s*\.\s*(?:data_ptr|data)\s*(?:<[^<>]*>)?\s*\(\s*\)")


@dataclass(frozen=True, slots=True)
class Inline:
    """A kernel of a Python file, and how its host function launches it."""

    source: Source
    launch: Launch


def read(text: str, file: str, spec: Module) -> Inline:
    """Return the kernel of a Python file, whose tensors are the inputs of a specification.

    They are taken in the order of the host function's parameters.  DidymaError ``bad-option`` where
    there is not one launch, or one that cannot be read.
    """
    start, cuda = _cuda(text, file)
    launches = _LAUNCH.findall(cuda)
    host = next((h for h in _HOST.finditer(cuda) if "<<<" in _body(cuda, h.end())), None)
    if len(launches) != 1 or host is None:
        raise _unreadable(file, f"{len(launches)} launches in a host function", "one launch")
    ((name, instance, sizes, args),) = launches
    tensors = dict(zip(_TENSOR.findall(host[2]), (p.name for p in spec.entry.params), strict=False))
    known = _known(_body(cuda, host.end()), tensors)
    parts = [_expression(p, known) for p in split(sizes)]
    if len(parts) < 2:
        raise _unreadable(file, f"<<<{sizes}>>>", "blocks and threads")
    items = tuple(_argument(a, tensors, known, spec) for a in split(args))
    shared = parts[2] if len(parts) > 2 else "0"
    # Lines count from the start of the Python file; what follows the kernels is of the host.
    device = "\n" * start + _device(cuda)
    return Inline(
        Source(device, file.rpartition("/")[2]),
        Launch(f"{name}{instance}", parts[0], parts[1], shared, items),
    )


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
    known |= {f"new {n}": "zero" if how == "zeros" else "" for n, how in _NEW.findall(body)}
    numbers = [
        (m.start(), m[1], m[2])
        for m in _NUMBER.finditer(body)
        if "torch::" not in m[2] and "data_ptr" not in m[2]
    ]
    extents = [(m.start(), m[1], m[2] or m[3]) for m in _EXTENTS.finditer(body)]
    for _, name, value in sorted([*numbers, *extents]):
        parts = [_expression(p, known) for p in split(value)]
        known[name] = ", ".join(parts)
    return known


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
        text = re.sub(rf"\b{name}\.numel\(\s*\)", f"numel({real})", text)
    for name, value in known.items():
        if " " not in name:
            plain = value if "," in value or re.fullmatch(r"[\w.]+", value) else f"({value})"
            text = re.sub(rf"\b{name}\b(?!\s*\()", plain.replace("\\", r"\\"), text)
    return " ".join(text.split())


def _argument(text: str, tensors: dict[str, str], known: dict[str, str], spec: Module) -> str:
    if m := _POINTER.search(text):
        if m[1] in tensors:
            return tensors[m[1]]
        if known.get(f"new {m[1]}") == "zero":
            return "zero"
        return next(iter(spec.entry.results))
    return _expression(text, known)


def _unreadable(file: str, got: str, want: str) -> DidymaError:
    return DidymaError(
        "bad-option", file, got=got, want=want,
        help="give the text of the kernel as a .cu file, with --grid, --block and --arg",
    )  # fmt: skip
