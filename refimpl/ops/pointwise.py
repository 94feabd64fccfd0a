"""Build the record of an elementwise op from its rules for scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.attributes import Nothing
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.broadcasting import broadcast, operand_index, partner, quiet
from didyma.refimpl.ops.rules import check_same_dtype
from didyma.refimpl.ops.spec import (
    Chooser,
    Domain,
    Domains,
    Example,
    Index,
    Kind,
    Laws,
    Op,
    Read,
    RingRule,
    Rules,
    Sample,
    Use,
    Work,
    anywhere,
)

Eval: TypeAlias = Callable[..., Array]  # on arrays of the compute dtype
ToBar: TypeAlias = Callable[[Sequence[Bar], DType, Contract], Bar]  # dtype of the operands
ToExpr: TypeAlias = Callable[..., Expr]  # on operand expressions of the compute dtype
ByDType: TypeAlias = Callable[[DType], Domains]  # of the operands

NO_LAWS = Laws()


def within(*ends: tuple[float, float] | None) -> ByDType:
    """Return operand domains, given by their ends, that are the same for every dtype."""
    found = tuple(None if e is None else Domain(*e) for e in ends)

    def domains(_: DType) -> Domains:
        return found

    return domains


def pointwise(
    name: str,
    doc: str,
    special: str,
    *,
    arity: int,
    dtypes: tuple[DType, ...],
    evaluate: Eval,
    bar: ToBar,
    element: ToExpr,
    example: Example,
    to: DType | None = None,
    domains: ByDType | None = None,
    corners: tuple[float, ...] = (),
    laws: Laws = NO_LAWS,
    work: Work = Work.PLAIN,
    pending: bool = False,
    ring: RingRule[Nothing] | None = None,
) -> Op:
    """Return an op on broadcast operands of one dtype.

    ``evaluate`` takes arrays of the compute dtype and ``element`` expressions of it; ``bar`` takes
    the operands' dtype.  ``to`` is the result's dtype where it differs.  ``ring`` is the rule for
    floats.
    """

    def infer(types: Sequence[TensorType], _: Nothing) -> TensorType:
        check_same_dtype(name, types)
        shape, device = broadcast(name, types)
        return TensorType(to or types[0].dtype, shape, device)

    def run(args: Sequence[Array], _: Nothing, result: TensorType) -> Array:
        wide = DType.of(args[0]).compute.numpy
        out = evaluate(*(np.asarray(a).astype(wide, copy=False) for a in args))
        return np.asarray(out).astype(result.dtype.numpy, copy=False)

    def to_bar(bars: Sequence[Bar], use: Use[Nothing], contract: Contract) -> Bar:
        result = bar(bars, use.types[0].dtype, contract)
        return result if result.e.shape == result.c.shape else _same_shape(result)

    def rule(at: Index, reads: Sequence[Read], use: Use[Nothing]) -> Expr:
        return element(
            *(read(operand_index(at, t)) for read, t in zip(reads, use.types, strict=True))
        )

    def sample(chooser: Chooser, t: TensorType) -> Sample | None:
        if t.dtype not in dtypes:
            return None
        others = tuple(partner(chooser, t) for _ in range(arity - 1))
        flip = arity == 2 and chooser.below(2) == 1
        return Sample((*others, t) if flip else (t, *others))

    def domain(types: Sequence[TensorType], _: Nothing) -> Domains:
        return domains(types[0].dtype)[: len(types)] if domains else anywhere(types, None)

    return Op(
        name=name,
        doc=doc,
        special=special,
        kind=Kind.ELEMENTWISE,
        arity=(arity, arity),
        dtypes=dtypes,
        rules=Rules(Nothing, infer, quiet(run), quiet(to_bar), rule, ring=ring, domains=domain),
        sample=sample,
        laws=laws,
        work=work,
        pending=pending,
        corners=corners,
        example=example,
    )


def _same_shape(b: Bar) -> Bar:
    c, e = np.broadcast_arrays(b.c, b.e)
    return Bar(c, e)
