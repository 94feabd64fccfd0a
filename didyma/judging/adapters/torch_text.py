"""A specification as the text of a function of PyTorch, for the tasks of other judges."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

import sympy

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Module, Node
from didyma.refimpl.ir.types import Array, DType, Tensor, TensorType

DTYPES: Mapping[DType, str] = MappingProxyType({
    DType.F64: "float64", DType.F32: "float32", DType.F16: "float16", DType.BF16: "bfloat16",
    DType.F8E4M3: "float8_e4m3fn", DType.F8E5M2: "float8_e5m2", DType.I64: "int64",
    DType.I32: "int32", DType.I16: "int16", DType.I8: "int8", DType.U8: "uint8",
    DType.BOOL: "bool",
})  # fmt: skip
_MOST = 4096  # elements of a constant
_OTHER_NAMES = {
    "negative": "neg", "bitwise_invert": "bitwise_not", "equal": "eq", "not_equal": "ne",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "clip": "clamp",
    "max": "amax", "min": "amin", "permute_dims": "permute", "cumulative_sum": "cumsum",
    "cumulative_prod": "cumprod",
}  # fmt: skip
_SAME_NAMES = frozenset((
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "copysign",
    "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "floor_divide", "fmod", "isfinite",
    "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "matmul", "maximum", "minimum", "multiply", "pow", "reciprocal", "remainder",
    "round", "rsqrt", "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh",
    "trunc", "where", "negative", "bitwise_invert", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal", "clip",
))  # fmt: skip
Writer = Callable[[Node, Sequence[str]], str]


def source(m: Module, name: str) -> str:
    """Return the text of a function of PyTorch that computes a specification.

    Its parameters are the inputs by their names, and it returns a tensor, or a tuple of several.
    DidymaError ``bad-spec`` for an operation or a dtype that is not written so.

    >>> from didyma.tracer.tracing import trace
    >>> from didyma.tracer import types
    >>> print(source(trace(types.f32[4])(lambda x: -x).module, "run"))
    def run(x):
        negative = torch.neg(x)
        return negative
    """
    f = m.entry
    for p in f.params:
        torch_dtype(p.type.dtype, p.name)
    kinds = {p.name: p.type for p in f.params}
    lines = list[str]()
    for n in f.nodes:
        lines.append(f"    {', '.join(map(word, n.results))} = {_written(n, kinds)}")
        kinds |= dict(zip(n.results, n.types, strict=True))
    lines.append(f"    return {', '.join(map(word, f.results))}")
    head = f"def {name}({', '.join(word(p.name) for p in f.params)}):"
    return "\n".join((head, *_sizes(m, "\n".join(lines), {*map(word, kinds)}), *lines))


def word(name: str) -> str:
    """Return a name as one of Python's.

    >>> word("x"), word("in"), word("a.1")
    ('x', 'in_', 'a_1')
    """
    plain = "".join(c if c.isidentifier() or c.isdecimal() else "_" for c in name)
    reserved = keyword.iskeyword(plain) or plain in ("torch", "max", "min")
    return f"_{plain}" if plain[:1].isdecimal() else plain + "_" * reserved


def torch_dtype(d: DType, where: str) -> str:
    """Return the name that PyTorch has for a dtype; DidymaError ``bad-spec``."""
    if d not in DTYPES:
        raise refusal(where, f"the dtype {d.value}", f"one of {', '.join(k.value for k in DTYPES)}")
    return DTYPES[d]


def refusal(where: str, got: str, want: str) -> DidymaError:
    """Return the error for a specification that a format cannot express."""
    return DidymaError("bad-spec", where, got=got, want=want)


def _sizes(m: Module, body: str, tensors: Collection[str]) -> Iterator[str]:
    """Yield the lines that read symbolic sizes off the inputs, as far as a body needs them."""
    places: dict[str, str] = {}
    for p in m.entry.params:
        for axis, d in enumerate(p.type.shape):
            if is_symbol(d):
                places.setdefault(str(d), f"{word(p.name)}.shape[{axis}]")
    for v in m.dims:
        name = word(v.name)
        if name in tensors:
            raise refusal(name, "a size and a tensor of one name", "different names")
        if re.search(rf"\b{name}\b", body):
            if v.name not in places:
                raise refusal(name, "a size that no input has as an axis", "an axis of it")
            yield f"    {name} = {places[v.name]}"


def size(d: Dim) -> str:
    """Return a size as an expression of Python."""
    if isinstance(d, int):
        return str(d)
    plain = d.xreplace({s: sympy.Symbol(word(s.name)) for s in d.free_symbols})
    return dims.text(plain).replace("Max(", "max(").replace("Min(", "min(")


def is_symbol(d: Dim) -> bool:
    """Return whether a size is one symbol."""
    return isinstance(d, sympy.Symbol)


def _row(n: Node, name: str) -> tuple[Dim, ...]:
    """Return an attribute that is a tuple of sizes."""
    row = n.attr[name]
    assert isinstance(row, tuple)
    return tuple(d for d in row if isinstance(d, int | sympy.Expr))


def shape(row: Sequence[Dim]) -> str:
    """Return sizes as a tuple of Python."""
    text = ", ".join(map(size, row))
    return f"({text},)" if len(row) == 1 else f"({text})"


def _written(n: Node, kinds: Mapping[str, TensorType]) -> str:
    args = [word(a) for a in n.args]
    writer = _WRITERS.get(n.op)
    if writer is None:
        known = ", ".join(sorted(_WRITERS))
        raise refusal(", ".join(n.results), f"the operation {n.op}", f"one of {known}")
    text = writer(n, args)
    want = torch_dtype(n.types[0].dtype, n.results[0])
    # PyTorch widens sums of small integers, and counts in i64.
    return f"{text}.to(torch.{want})" if n.op in _WIDENED and _is_whole(n, kinds) else text


def _is_whole(n: Node, kinds: Mapping[str, TensorType]) -> bool:
    return not kinds[n.args[0]].dtype.is_float


def _plain(n: Node, args: Sequence[str]) -> str:
    return f"torch.{_OTHER_NAMES.get(n.op, n.op)}({', '.join(args)})"


def _divide(n: Node, args: Sequence[str]) -> str:
    mode = ', rounding_mode="trunc"' if n.op == "trunc_divide" else ""
    return f"torch.div({', '.join(args)}{mode})"


def _reduction(n: Node, args: Sequence[str]) -> str:
    axes, kept = [int(a) for a in _row(n, "axes")], bool(n.attr["keepdims"])
    if not axes:
        return f"{args[0]}.clone()"
    if n.op != "prod":
        return f"torch.{_OTHER_NAMES.get(n.op, n.op)}({args[0]}, dim={tuple(axes)}, keepdim={kept})"
    text = args[0]
    for axis in sorted(axes, reverse=True):  # PyTorch multiplies along one axis at a time
        text = f"torch.prod({text}, dim={axis}, keepdim={kept})"
    return text


def _position(n: Node, args: Sequence[str]) -> str:
    return f"torch.{n.op}({args[0]}, dim={n.attr['axis']}, keepdim={bool(n.attr['keepdims'])})"


def _running(n: Node, args: Sequence[str]) -> str:
    if n.attr["exclusive"] or n.attr["reverse"]:
        raise refusal(n.results[0], f"an exclusive or reverse {n.op}", "one from the first on")
    return f"torch.{_OTHER_NAMES[n.op]}({args[0]}, dim={n.attr['axis']})"


def _cast(n: Node, args: Sequence[str]) -> str:
    return f"{args[0]}.to(torch.{torch_dtype(n.types[0].dtype, n.results[0])})"


def _constant(n: Node, args: Sequence[str]) -> str:
    del args
    value = n.attr["value"]
    assert isinstance(value, Tensor)
    array: Array = value.array()
    if array.size > _MOST:
        raise refusal(n.results[0], f"{array.size} numbers", f"a constant of at most {_MOST}")
    text = repr(array.tolist()).replace("nan", 'float("nan")').replace("inf", 'float("inf")')
    return f"torch.tensor({text}, dtype=torch.{torch_dtype(value.dtype, n.results[0])})"


def _iota(n: Node, args: Sequence[str]) -> str:
    del args
    extents, axis = n.types[0].shape, int(str(n.attr["axis"]))
    kind = torch_dtype(n.types[0].dtype, n.results[0])
    ones = shape([d if k == axis else 1 for k, d in enumerate(extents)])
    return (
        f"torch.arange({size(extents[axis])}, dtype=torch.{kind}).reshape({ones})"
        f".broadcast_to({shape(extents)})"
    )


def _slice(n: Node, args: Sequence[str]) -> str:
    starts, stops, steps = (_row(n, k) for k in ("starts", "stops", "steps"))
    if any(int(s) < 1 for s in steps):
        raise refusal(n.results[0], "a slice backwards", "steps from 1 on")
    rows = zip(starts, stops, steps, strict=True)
    places = ", ".join(f"{size(a)}:{size(b)}:{c}" for a, b, c in rows)
    return f"{args[0]}[{places}]" if places else args[0]


def _pad(n: Node, args: Sequence[str]) -> str:
    low, high = _row(n, "low"), _row(n, "high")
    if n.attr["mode"] != "constant":
        raise refusal(n.results[0], f"padding in mode {n.attr['mode']}", "a constant")
    pairs = [size(d) for both in zip(low[::-1], high[::-1], strict=True) for d in both]
    width = f"({', '.join(pairs)})"
    return f"torch.nn.functional.pad({args[0]}, {width}, value={args[1]}.item())"


def _gather(n: Node, args: Sequence[str]) -> str:
    if len(n.types[0].shape) == 0:
        raise refusal(n.results[0], "one element that is gathered", "at least one axis")
    axis = int(str(n.attr["axis"]))
    return f"{args[0]}[{':, ' * axis}{args[1]}.long()]"


_WIDENED = frozenset((
    "sum", "prod", "cumulative_sum", "cumulative_prod", "bitwise_left_shift", "argmax", "argmin",
))  # fmt: skip
_WRITERS: Mapping[str, Writer] = MappingProxyType({
    **dict.fromkeys(_SAME_NAMES, _plain),
    **dict.fromkeys(("divide", "trunc_divide"), _divide),
    **dict.fromkeys(("sum", "prod", "mean", "max", "min", "any", "all"), _reduction),
    **dict.fromkeys(("argmax", "argmin"), _position),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), _running),
    "cast": _cast, "constant": _constant, "iota": _iota, "slice": _slice, "pad": _pad,
    "gather": _gather,
    "gather_elements": lambda n, a: f"torch.gather({a[0]}, {n.attr['axis']}, {a[1]}.long())",
    "reshape": lambda n, a: f"{a[0]}.reshape({shape(n.types[0].shape)})",
    "broadcast_to": lambda n, a: f"{a[0]}.broadcast_to({shape(n.types[0].shape)})",
    "permute_dims": lambda n, a: f"{a[0]}.permute({n.attr['axes']})",
    "flip": lambda n, a: f"torch.flip({a[0]}, {n.attr['axes']})",
    "concat": lambda n, a: f"torch.cat([{', '.join(a)}], dim={n.attr['axis']})",
})  # fmt: skip
