"""The table of operators and the rules that import them; shape arithmetic is folded at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs, NotConstant
from didyma.onnx.opset_upgrades import upgrade
from didyma.onnx.rules import (
    arithmetic,
    casts,
    convolution,
    deformable,
    indexing,
    interpolation,
    neural,
    ngrams,
    pooling,
    products,
    quantisation,
    random,
    recurrent,
    resize,
    shaping,
    signal,
    slicing,
    suppression,
)
from didyma.onnx.sizes import MOST_FOLDED, folded
from didyma.onnx.values import Constant, Operand, settle

HANDLERS: dict[str, Handler] = {
    **arithmetic.HANDLERS,
    **casts.HANDLERS,
    **convolution.HANDLERS,
    **deformable.HANDLERS,
    **indexing.HANDLERS,
    **interpolation.HANDLERS,
    **neural.HANDLERS,
    **ngrams.HANDLERS,
    **pooling.HANDLERS,
    **products.HANDLERS,
    **quantisation.HANDLERS,
    **random.HANDLERS,
    **recurrent.HANDLERS,
    **resize.HANDLERS,
    **shaping.HANDLERS,
    **signal.HANDLERS,
    **slicing.HANDLERS,
    **suppression.HANDLERS,
}
# Operators that shapes are computed with: on constants, they are evaluated and leave no nodes.
FOLDED = frozenset({
    "Add", "And", "Cast", "Concat", "Div", "Equal", "Gather", "Greater", "GreaterOrEqual", "Less",
    "LessOrEqual", "Max", "Min", "Mod", "Mul", "Not", "Or", "ReduceProd", "Reshape", "Slice",
    "Squeeze", "Sub", "Unsqueeze", "Where",
})  # fmt: skip


CASTS = frozenset({"Cast", "CastLike"})  # small constants are cast at once


def import_node(c: Context, op: str, inputs: Inputs) -> Sequence[Operand] | None:
    """Import one node; None if no rule imports the operator, or this use of it."""
    c, inputs = upgrade(c, op, inputs)
    if op in FOLDED and (constants := _small_integers(inputs)) is not None:
        constant = _folded(c, op, inputs, constants)
        if constant is not None:
            return [constant]
    made = HANDLERS[op](c, inputs) if op in HANDLERS else None
    if op in CASTS and made is not None and isinstance(c.input(inputs, 0), Constant):
        return [c.try_fold(x) for x in made]
    return made


def _small_integers(inputs: Inputs) -> list[Constant] | None:
    """Return the operands if all are small constants of integers or bools, or else None."""
    constants = [i for i in inputs if isinstance(i, Constant)]
    small = len(constants) == len([i for i in inputs if i is not None]) and not any(
        i.dtype.is_float or i.dtype.is_packed or i.array.size > MOST_FOLDED for i in constants
    )
    return constants if small else None


def _folded(c: Context, op: str, x: Inputs, constants: Sequence[Constant]) -> Constant | None:
    """Return the result of an operator on constants, or None if it is not known at import.

    The operator is imported into a function that is thrown away, with the constants as its
    parameters, and the nodes there are evaluated.
    """
    b = c.builder.inner()
    params = {k: b.param(f"x{i}", k.type) for i, k in enumerate(dict.fromkeys(constants))}
    try:
        results = HANDLERS[op](replace(c, builder=b, emitted=params), x)
    except NotConstant:
        return None
    assert results is not None, op
    (v,) = results
    assert isinstance(v, Value)
    arrays = {p.name: k.array.astype(object) for k, p in params.items()}
    array = folded(b, v, arrays)
    return None if array is None else settle(array, v.type.dtype)
