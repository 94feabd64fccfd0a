"""Random uses of ops: types, attributes, operand values, bindings of symbolic sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import ALL, Array, DType, TensorType
from didyma.refimpl.ops.spec import Op, Sample


class Dice:
    """A chooser that throws dice."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))


@dataclass(frozen=True)
class Use:
    """An op applied to concrete operands."""

    op: Op
    args: tuple[Array, ...]
    types: tuple[TensorType, ...]
    attrs: dict[str, Attr]
    result: TensorType

    def eval(self) -> Array:
        return self.op.apply(self.attrs).eval(self.args, self.result)


def bind(a: Attr, env: Mapping[str, int]) -> Attr:
    """Replace symbols in an attribute."""
    if isinstance(a, tuple):
        return tuple(bind(x, env) for x in a)
    return dims.evaluate(a, env) if isinstance(a, sympy.Expr) else a


def bind_type(t: TensorType, env: Mapping[str, int]) -> TensorType:
    return t.with_shape(*(dims.evaluate(d, env) for d in t.shape))


def sample(op: Op, dice: Dice, dtypes: Sequence[DType] = ALL, symbols: bool = False) -> Sample:
    """Draw a use of the op; every op takes some type."""
    sizes: list[Dim] = [2, 3, 1, 4, 5, 0, 6]
    if symbols:
        n, m = dims.symbol("n"), dims.symbol("m")
        sizes += [n, m, n + 1, 2 * n]
    for _ in range(1000):
        rank = dice.below(6)
        t = TensorType(
            dtypes[dice.below(len(dtypes))],
            tuple(sizes[dice.below(len(sizes))] for _ in range(rank)),
        )
        found = op.sample(dice, t)
        if found is not None:
            return found
    raise AssertionError(f"{op.name} has no use")


def use(op: Op, found: Sample, dice: Dice, wild: bool) -> Use:
    """Draw values for a concrete sample: small whole numbers, or wild ones."""
    attrs = dict(found.attrs)
    domains = op.apply(attrs).domains(found.operands)
    args = tuple(
        values(t, dice, wild)
        if domain is None
        else dice.rng.integers(int(domain.lo), int(domain.hi) + 1, shape(t)).astype(t.dtype.numpy)
        for t, domain in zip(found.operands, domains, strict=True)
    )
    return Use(op, args, found.operands, attrs, op.infer(found.operands, attrs))


def shape(t: TensorType) -> tuple[int, ...]:
    return tuple(int(d) for d in t.shape)


def values(t: TensorType, dice: Dice, wild: bool) -> Array:
    at = shape(t)
    if t.dtype is DType.BOOL:
        return dice.rng.integers(0, 2, at).astype(np.bool_)
    if t.dtype.is_int and wild:
        least, most = t.dtype.limits
        wide = t.dtype.compute.numpy
        return dice.rng.integers(least, most, at, wide, endpoint=True).astype(t.dtype.numpy)
    small = dice.rng.integers(-3 if t.dtype.is_signed else 0, 4, at)
    if t.dtype is DType.F8E8M0:  # powers of two alone
        return np.asarray(2.0**small).astype(t.dtype.numpy)
    if not wild:
        return small.astype(t.dtype.numpy)
    x = dice.rng.standard_normal(at) * 10.0 ** dice.rng.integers(-2, 3)
    odd = dice.below(4)
    if odd == 1:  # zeros of both signs
        x = np.where(dice.rng.integers(0, 3, at) == 0, np.copysign(0.0, x), x)
    elif odd == 2:  # specials
        x = np.where(dice.rng.integers(0, 12, at) == 0, np.inf * np.sign(x), x)
        x = np.where(dice.rng.integers(0, 12, at) == 0, np.nan, x)
    elif odd == 3:  # near the ends of the range
        x = np.where(dice.rng.integers(0, 5, at) == 0, x * 1e30, x)
        x = np.where(dice.rng.integers(0, 5, at) == 0, x * 1e-42, x)
    with np.errstate(all="ignore"):
        return x.astype(np.float32 if t.dtype is not DType.F64 else np.float64).astype(
            t.dtype.numpy
        )
