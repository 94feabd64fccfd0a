"""A judged kernel as a solution of KernelBench: ``ModelNew``, which launches it by PyTorch."""

from __future__ import annotations

import ast
import re

from didyma.judging.adapters.torch_text import DTYPES, is_symbol, refusal, shape, word
from didyma.judging.heads import Parameter, parameters
from didyma.judging.task import Kept, Operand, Result, Role, Scalar, Scratch, Step, Task
from didyma.refimpl.ir.types import DType

_C_TYPES = {
    DType.F64: "double", DType.F32: "float", DType.F16: "__half", DType.BF16: "__nv_bfloat16",
    DType.F8E4M3: "__nv_fp8_e4m3", DType.F8E5M2: "__nv_fp8_e5m2", DType.I64: "int64_t",
    DType.I32: "int", DType.I16: "int16_t", DType.I8: "int8_t", DType.U8: "uint8_t",
    DType.BOOL: "bool", DType.U64: "uint64_t", DType.U32: "unsigned", DType.U16: "uint16_t",
}  # fmt: skip
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Div: "/", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=", ast.And: "&&", ast.Or: "||",
}  # fmt: skip


def model_new(task: Task) -> str:
    """Return the text of a Python file whose ``ModelNew`` compiles and launches a task's kernels.

    ``didyma judge`` reads it back.  DidymaError ``bad-spec`` for PTX, tensor maps, and sizes that
    are no extents of inputs.
    """
    source = task.source
    if source.file.endswith(".ptx"):
        raise refusal(source.file, "a kernel in PTX", "a kernel in CUDA C++")
    entry = task.spec.entry
    given = [word(p.name) for p in entry.params]
    head = f"{_returned(task)} run({', '.join(f'torch::Tensor {n}' for n in given)})"
    body = [*_sizes(task), *_tensors(task), *(_launch(task, s) for s in task.steps)]
    results = ", ".join(map(_result, range(len(entry.results))))
    body.append(f"return {results if len(entry.results) == 1 else '{' + results + '}'};")
    names = ", ".join(given)
    return "\n".join((
        "import torch", "import torch.nn as nn",
        "from torch.utils.cpp_extension import load_inline", "",
        'CUDA = r"""', "#include <torch/extension.h>", source.text.strip("\n"), "",
        f"{head} {{", *(f"  {row}" for row in body), "}", '"""', "",
        "module = load_inline(",
        f'    name="{word(task.steps[0].kernel.name)}", cpp_sources="{head};",',
        '    cuda_sources=CUDA, functions=["run"],', ")", "", "",
        "class ModelNew(nn.Module):",
        f"    def forward(self, {names}):",
        f"        return module.run({', '.join(f'{n}.contiguous()' for n in given)})", "",
    ))  # fmt: skip


def _returned(task: Task) -> str:
    one = len(task.spec.entry.results) == 1
    return "torch::Tensor" if one else "std::vector<torch::Tensor>"


def _result(at: int) -> str:
    """Return the name of the tensor of a result, which no kernel should have."""
    return f"result_{at}"


def _sizes(task: Task) -> list[str]:
    """Return the declarations of the symbolic sizes, which are extents of inputs."""
    found: dict[str, str] = {}
    for p in task.spec.entry.params:
        for k, d in enumerate(p.type.shape):
            if is_symbol(d):
                found.setdefault(str(d), f"const int64_t {d} = {word(p.name)}.size({k});")
    lost = [v.name for v in task.spec.dims if v.name not in found]
    if lost:
        raise refusal(f"size {lost[0]}", "a size that is no extent of an input", "an extent of one")
    return [*found.values()]


def _tensors(task: Task) -> list[str]:
    """Return the declarations of the results and of the kernels' own memory."""
    entry = task.spec.entry
    roles = [r for s in task.steps for r in s.roles]
    first = word(entry.params[0].name)
    over = {r.name: r.over for r in roles if isinstance(r, Result) and r.over}
    zeroed = {r.name for r in roles if isinstance(r, Result) and r.zeroed}
    rows: list[str] = []
    for k, (name, t) in enumerate(zip(entry.results, entry.result_types(), strict=True)):
        if name in over:
            rows.append(f"auto {_result(k)} = {word(over[name])}.clone();")
            continue
        made = "zeros" if name in zeroed else "empty"
        sizes = ast.parse(shape(t.shape), mode="eval").body
        assert isinstance(sizes, ast.Tuple)
        extents = ", ".join(_cpp(ast.unparse(e), name) for e in sizes.elts)
        rows.append(_new(_result(k), made, extents, t.dtype, first))
    scratch = {n: r for s in task.steps for n, r in zip(s.names, s.roles, strict=True)
               if isinstance(r, Scratch)}  # fmt: skip
    for name, m in {**task.memory, **scratch}.items():
        extents = ", ".join(_cpp(e, name) for e in m.shape)
        rows.append(_new(word(name), "zeros" if m.zeroed else "empty", extents, m.dtype, first))
    return rows


def _new(name: str, made: str, extents: str, dtype: DType, like: str) -> str:
    if dtype not in DTYPES:
        raise refusal(name, f"the dtype {dtype.value}", f"one of {', '.join(DTYPES.values())}")
    kind = {"bool": "kBool", "uint8": "kByte", "int8": "kChar", "int16": "kShort", "int32": "kInt",
            "int64": "kLong", "float8_e4m3fn": "kFloat8_e4m3fn", "float8_e5m2": "kFloat8_e5m2",
            "float16": "kHalf", "bfloat16": "kBFloat16", "float32": "kFloat",
            "float64": "kDouble"}[DTYPES[dtype]]  # fmt: skip
    return f"auto {name} = torch::{made}({{{extents}}}, {like}.options().dtype(torch::{kind}));"


def _launch(task: Task, step: Step) -> str:
    if step.maps:
        raise refusal(task.label, "a parameter that is a tensor map", "pointers and numbers")
    g = step.geometry
    grid, block = (f"dim3({', '.join(_cpp(e, task.label) for e in row)})"
                   for row in (g.grid, g.block))  # fmt: skip
    heads = parameters(task.source.text, step.kernel, step.name)
    rows = zip(heads, step.names, step.roles, strict=True)
    given = ", ".join(_argument(task, p, name, role) for p, name, role in rows)
    kernel = step.name or step.label
    return f"{kernel}<<<{grid}, {block}, {_cpp(g.shared, task.label)}>>>({given});"


def _argument(task: Task, p: Parameter, name: str, role: Role) -> str:
    match role:
        case Scalar(text, dtype):
            return f"({_C_TYPES[dtype]})({_cpp(text, name)})"
        case Operand(n) if p.pointer is False:
            raise refusal(name, f"the input {n} as a number", "a pointer to it")
        case Result(n):
            tensor = _result(task.spec.entry.results.index(n))
        case Operand(n) | Kept(n):
            tensor = word(n)
        case Scratch():
            tensor = word(name)
    types = {q.name: q.type.dtype for q in task.spec.entry.params}
    entry = task.spec.entry
    types |= {r: t.dtype for r, t in zip(entry.results, entry.result_types(), strict=True)}
    types |= {k: m.dtype for k, m in task.memory.items()}
    own = role.dtype if isinstance(role, Scratch) else types[role.name]
    known = p.dtype is not None or re.fullmatch(r"\w+\d", p.of)
    of = p.of if known else _C_TYPES[own]
    return f"reinterpret_cast<{'const ' if p.const else ''}{of}*>({tensor}.data_ptr())"


def _cpp(text: str, where: str) -> str:
    """Return an expression of sizes in C++; DidymaError ``bad-spec`` for a function without one.

    >>> _cpp("cdiv(n, 256) * size(x, 0)", "grid")
    '(((n + 256 - 1) / 256) * x.size(0))'
    """

    def of(e: ast.expr) -> str:
        match e:
            case ast.Constant(value=v):
                return repr(v)
            case ast.Name(id=name):
                return word(name)
            case ast.BinOp(left, op, right):
                return f"({of(left)} {_OPERATORS[type(op)]} {of(right)})"
            case ast.BoolOp(op, parts):
                return "(" + f" {_OPERATORS[type(op)]} ".join(map(of, parts)) + ")"
            case ast.Compare(left, [op], [right]):
                return f"({of(left)} {_OPERATORS[type(op)]} {of(right)})"
            case ast.UnaryOp(ast.USub(), x):
                return f"(-{of(x)})"
            case ast.Call(ast.Name(id="cdiv"), [a, b]):
                return f"(({of(a)} + {of(b)} - 1) / {of(b)})"
            case ast.Call(ast.Name(id=("min" | "max") as f), [a, b]):
                return f"std::{f}<int64_t>({of(a)}, {of(b)})"
            case ast.Call(ast.Name(id=("size" | "stride") as f), [x, axis]):
                return f"{of(x)}.{f}({of(axis)})"
            case ast.Call(ast.Name(id="numel"), [x]):
                return f"{of(x)}.numel()"
            case _:
                raise refusal(where, ast.unparse(e), "sums, products, quotients, cdiv, min, max")

    return of(ast.parse(text.strip(), mode="eval").body)
