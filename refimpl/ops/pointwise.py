"""How elementwise ops are put together: one scalar rule becomes all facets of an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from didyma.refimpl.ir.loop import Expr
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops.bars import Bar, Contract
from didyma.refimpl.ops.broadcasting import broadcast, operand_index, partner, quiet
from didyma.refimpl.ops.rules import check, check_same_dtype
from didyma.refimpl.ops.spec import AttrMap, Chooser, Domain, Example, Index, Kind, Op, Read, Sample

Eval: TypeAlias = Callable[..., Array]  # on arrays of the compute dtype
ToBar: TypeAlias = Callable[[Sequence[Bar], DType, Contract], Bar]  # dtype of the operands
ToExpr: TypeAlias = Callable[..., Expr]  # on operand expressions of the compute dtype
Domains: TypeAlias = Callable[[DType], tuple[Domain | None, ...]]
Item: TypeAlias = "float | bool | Sequence[Item]"


def anywhere(dtype: DType) -> tuple[Domain | None, ...]:
    """No operand wants particular values."""
    del dtype
    return (None, None, None)


def within(*ends: tuple[float, float] | None) -> Domains:
    """Operand domains, the same for every dtype."""
    found = tuple(None if e is None else Domain(*e) for e in ends)

    def domains(dtype: DType) -> tuple[Domain | None, ...]:
        del dtype
        return found

    return domains


def array(values: Item, dtype: DType) -> Array:
    """Array of an example's operand or result."""
    return np.asarray(values).astype(dtype.numpy)


def example(
    operands: Sequence[Item],
    result: Item,
    dtype: DType = DType.F32,
    to: DType | None = None,
) -> Example:
    """Worked example; ``to`` is the result's dtype."""
    return Example(tuple(array(o, dtype) for o in operands), array(result, to or dtype))


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
    domains: Domains = anywhere,
    corners: tuple[float, ...] = (),
) -> Op:
    """Op on broadcast operands of one dtype; ``to`` is the result's dtype where it differs."""

    def infer(types: Sequence[TensorType], attrs: AttrMap) -> TensorType:
        del attrs
        check(name, types, arity, dtypes=dtypes)
        check_same_dtype(name, types)
        shape, device = broadcast(name, types)
        return TensorType(to or types[0].dtype, shape, device)

    def run(args: Sequence[Array], attrs: AttrMap, out: TensorType) -> Array:
        del attrs
        wide = DType.of(args[0]).compute.numpy
        result = evaluate(*(np.asarray(a).astype(wide, copy=False) for a in args))
        return np.asarray(result).astype(out.dtype.numpy, copy=False)

    def to_bar(
        bars: Sequence[Bar],
        attrs: AttrMap,
        types: Sequence[TensorType],
        out: TensorType,
        contract: Contract,
    ) -> Bar:
        del attrs, out
        result = bar(bars, types[0].dtype, contract)
        return result if result.e.shape == result.c.shape else _same_shape(result)

    def rule(
        index: Index,
        reads: Sequence[Read],
        types: Sequence[TensorType],
        attrs: AttrMap,
        out: TensorType,
    ) -> Expr:
        del attrs, out
        return element(
            *(read(operand_index(index, t)) for read, t in zip(reads, types, strict=True))
        )

    def sample(chooser: Chooser, t: TensorType) -> Sample | None:
        if t.dtype not in dtypes:
            return None
        others = tuple(partner(chooser, t) for _ in range(arity - 1))
        flip = arity == 2 and chooser.below(2) == 1
        return Sample((*others, t) if flip else (t, *others))

    def domain(types: Sequence[TensorType], attrs: AttrMap) -> tuple[Domain | None, ...]:
        del attrs
        return domains(types[0].dtype)[: len(types)]

    return Op(
        name=name,
        doc=doc,
        special=special,
        kind=Kind.ELEMENTWISE,
        arity=(arity, arity),
        dtypes=dtypes,
        infer=infer,
        eval=quiet(run),
        bar=quiet(to_bar),
        element=rule,
        sample=sample,
        domains=domain,
        corners=corners,
        example=example,
    )


def _same_shape(b: Bar) -> Bar:
    c, e = np.broadcast_arrays(b.c, b.e)
    return Bar(c, e)
