"""Loop rules run element by element, in plain Python over NumPy scalars."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from didyma.refimpl.ir.loop import INDEX, Binary, Cast, Compare, Const, Expr, Load, Select, Var
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.spec import Fold, Index, Op, Read, Scatter

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "lt": lambda a, b: bool(a < b),
    "le": lambda a, b: bool(a <= b),
    "gt": lambda a, b: bool(a > b),
    "ge": lambda a, b: bool(a >= b),
    "eq": lambda a, b: bool(a == b),
    "ne": lambda a, b: bool(a != b),
}


def better(a: Any, b: Any, largest: bool) -> Any:
    if a != a or b != b:
        return a if a != a else b
    if a == b == 0 and a.dtype.kind == "f":
        return a if bool(np.signbit(float(a))) != largest else b
    return max(a, b) if largest else min(a, b)


def combine(op: str, a: Any, b: Any) -> Any:
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div":
            return a / b
        case "floordiv":
            return a // b if b else a * 0
        case "floormod":
            return a % b if b else a * 0
        case "min" | "max":
            return better(a, b, op == "max")
        case "and":
            return a & b
        case "or":
            return a | b
        case _:
            raise AssertionError(op)


class Machine:
    """Evaluates expressions over given operands; a read outside an operand is an IndexError."""

    def __init__(self, args: Sequence[Array], env: Mapping[str, int]) -> None:
        self.args = args
        self.env = env

    def read(self, k: int) -> Read:
        def load(at: Index) -> Expr:
            return Load(str(k), at, DType.of(self.args[k]).compute)

        return load

    def run(self, e: Expr) -> Any:
        match e:
            case Const(value, dtype):
                return dtype.numpy.type(value)
            case Var(name):
                return np.int64(self.env[name])
            case Cast(arg, dtype):
                return self.run(arg).astype(dtype.numpy)
            case Binary(op, a, b):
                return combine(op, self.run(a), self.run(b))
            case Compare(op, a, b):
                return np.bool_(_COMPARE[op](self.run(a), self.run(b)))
            case Select(cond, a, b):
                return self.run(a) if self.run(cond) else self.run(b)
            case Load(name, index, dtype):
                x = self.args[int(name)]
                at = tuple(int(self.run(i)) for i in index)
                if len(at) != x.ndim or not all(
                    0 <= i < n for i, n in zip(at, x.shape, strict=True)
                ):
                    raise IndexError(f"operand {name} of shape {x.shape} at {at}")
                return x[at].astype(dtype.numpy)
            case _:
                raise AssertionError(e)

    def fold(self, f: Fold) -> Any:
        extents = [int(self.run(n)) for n in f.extents]
        terms = [self.run(f.body(ints(k))) for k in itertools.product(*map(range, extents))]
        if f.op in ("argmin", "argmax"):
            best = 0
            for i, x in enumerate(terms):
                wins = x < terms[best] if f.op == "argmin" else x > terms[best]
                if wins or (x != x and terms[best] == terms[best]):
                    best = i
            return np.int64(best)
        dtype = f.body(tuple(Var("k", INDEX) for _ in extents)).dtype
        total = identity(f.op, dtype)
        for x in terms:
            total = combine(f.op, total, x)
        literal = Const(total.item(), dtype)
        return self.run(f.finish(literal))


def identity(op: str, dtype: DType) -> Any:
    t = dtype.numpy.type
    if op in ("add", "or"):
        return t(0)
    if op in ("mul", "and"):
        return t(1)
    if dtype.is_float:
        return t(-np.inf if op == "max" else np.inf)
    return t(np.iinfo(t).min if op == "max" else np.iinfo(t).max)


def ints(at: Sequence[int]) -> Index:
    return tuple(Const(i, INDEX) for i in at)


def run(
    op: Op,
    args: Sequence[Array],
    types: Sequence[TensorType],
    attrs: Mapping[str, Any],
    result: TensorType,
    env: Mapping[str, int],
    shape: tuple[int, ...],
) -> Array:
    """Result of the loop rule, every element by itself, rounded once to the result's dtype."""
    m = Machine(args, env)
    reads = [m.read(k) for k in range(len(args))]
    out = np.zeros(shape, result.dtype.compute.numpy)
    with np.errstate(all="ignore"):
        for at in np.ndindex(shape):
            rule = op.apply(attrs).element(ints(at), reads, types, result)
            if isinstance(rule, Scatter):
                return _scatter(m, rule, out).astype(result.dtype.numpy)
            out[at] = m.fold(rule) if isinstance(rule, Fold) else m.run(rule)
        return out.astype(result.dtype.numpy)


def _scatter(m: Machine, rule: Scatter, out: Array) -> Array:
    for at in np.ndindex(out.shape):
        out[at] = m.run(rule.base(ints(at)))
    for u in np.ndindex(*(int(m.run(n)) for n in rule.extents)):
        target, counts = rule.target(ints(u))
        if m.run(counts):
            at = tuple(int(m.run(i)) for i in target)
            new = m.run(rule.update(ints(u)))
            out[at] = new if rule.op == "set" else combine(rule.op, out[at], new)
    return out
