"""``docs/ops.md``: every op, from its record in the op table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from didyma.refimpl.ir.types import Array, DType, Tensor
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.bars import Contract, exact, store
from didyma.refimpl.ops.spec import Op


def ops_page() -> str:
    """Return ``docs/ops.md``: every op, from its record."""
    lines = [
        "# Ops",
        "",
        "Made from the op table by `nox -s docs`. Every operand has the dtype that the op says;",
        "nothing is promoted. f16 and bf16 are computed in f32 and rounded once. A bar says how",
        "far an implementation may be from the exact result: here, under the default contract,",
        "from the example's. What words and tables mean is in [spec.md](spec.md).",
        "",
        ", ".join(f"[{name}](#{name})" for name in sorted(OPS)),
        "",
    ]
    for name in sorted(OPS):
        lines += _op(OPS[name])
    return "\n".join(lines)


def _op(op: Op) -> Iterator[str]:
    yield f"## {op.name}"
    yield ""
    yield op.doc
    yield ""
    low, high = op.arity
    yield f"- signature: `{_signature(op)}`"
    yield f"- kind: {op.kind}; operands: {low if low == high else f'{low} to {high}'}"
    yield f"- dtypes: {' '.join(op.dtypes)}"
    for a in op.attrs:
        choices = f" ({', '.join(a.choices)})" if a.choices else ""
        yield f"- `{a.name}`: {a.kind}{choices}; {a.doc}"
    yield f"- special values: {op.special}"
    yield ""
    yield "```text"
    with np.printoptions(precision=6, threshold=40, linewidth=90):
        for i, x in enumerate(op.example.operands):
            yield _shown(f"operand {i}", np.asarray(x))
        for key, value in op.example.attrs:
            match value:
                case Tensor():
                    yield _shown(key, value.array())
                case DType():
                    yield f"{key} = {value}"
                case _:
                    yield f"{key} = {value!r}"
        yield _shown("result", np.asarray(op.example.result))
        yield f"bar = {_bar(op)}"
    yield "```"
    yield ""


def _shown(name: str, array: Array) -> str:
    """Return an array with its type, in words of this project and not of a NumPy version."""
    head = f"{name}: {Tensor.of(array).type} = "
    plain = array if array.dtype.isbuiltin else array.astype(np.float64)
    return head + np.array2string(plain, separator=", ", prefix=head)


def _signature(op: Op) -> str:
    low, high = op.arity
    operands = [f"%{chr(ord('a') + i)}" for i in range(low)]
    more = ["..."] if high > low else []
    return f"{op.name}({', '.join([*operands, *more, *(f'{a.name}={a.kind}' for a in op.attrs)])})"


def _bar(op: Op) -> str:
    """What the example's bar allows, in units in the last place of the result."""
    types = [Tensor.of(np.asarray(a)).type for a in op.example.operands]
    attrs = dict(op.example.attrs)
    result = op.infer(types, attrs)
    given = [exact(a, t.dtype) for a, t in zip(op.example.operands, types, strict=True)]
    with np.errstate(all="ignore"):
        bar = store(op.apply(attrs).bar(given, types, result, Contract()), result.dtype)
        if not bar.e.any():
            return "exact"
        ulp = np.spacing(np.abs(op.example.result)).astype(np.float64)
        worst = float(np.max(bar.e / ulp, initial=0))
    return f"within {worst:.3g} units in the last place, on exact operands"
