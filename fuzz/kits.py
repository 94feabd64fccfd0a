"""Values for the operation that reads them: where a conversion or an operator changes course.

An operation is named as in loop programs, such as ``shl``; ``of_node`` reads nodes of graphs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from didyma.fuzz.floats import limits_of
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import OPS

Kit: TypeAlias = tuple[float, ...]  # integers stand in it exactly

_SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0)


@lru_cache(maxsize=1024)
def converted(source: DType, target: DType) -> Kit:
    """Return values of a dtype at which their conversion to another changes course.

    >>> converted(DType.F32, DType.U8)[:4], 2**24 + 1 in converted(DType.I32, DType.F32)
    ((255.0, 256.0, 255.5, 254.5), True)
    """
    if source is DType.BOOL or source is target:
        return ()
    if target is DType.BOOL:
        return (*_SPECIAL, 0.5, 1e-30, 2.0) if source.is_float else (0, 1, *source.limits)
    if not source.is_float:
        return _from_int(source, target)
    if target.is_float:
        return _to_float(target)
    least, most = (float(k) for k in target.limits)
    step = limits_of(source).eps
    near = [most, most + 1, most + 0.5, most - 0.5, least, least - 1, least - 0.5, 2 * most + 3]
    ends = [x * k for x in (most + 1, least) for k in (1 - step / 2, 1 + step)]
    return (*near, *ends, *_SPECIAL, 0.5, -0.5, 0.99, -0.99, 1e30)


def _from_int(source: DType, target: DType) -> Kit:
    least, most = source.limits
    if not target.is_float:
        low, high = target.limits
        found = [high, high + 1, low, low - 1, 2 * high + 1, 2 * high + 2, -1]
    else:
        digits = round(-math.log2(limits_of(target).eps)) + 1
        tops = {digits, source.bits - 1, source.bits - 2}
        units = [(2**top, 2 ** (top - digits)) for top in tops if top >= digits]
        found = [p + d for p, u in units for d in (0, u, 3 * u, u + 1, u - 1)]
        found += [most, most - 1, least, least + 1, 65519, 65520]
        found += [-v for v in found]
    return tuple(dict.fromkeys(v for v in found if least <= v <= most))


def _to_float(target: DType) -> Kit:
    """Return ties, and where a conversion to a narrower float overflows or underflows."""
    tiny, normal, largest, eps = limits_of(target)
    tie = largest * (1 + eps / (4 - 2 * eps))  # half a unit above the largest
    some = [tie, math.nextafter(tie, 0), math.nextafter(tie, math.inf), largest, 2 * largest]
    some += [tiny, tiny / 2, tiny / 2 * (1 + 2**-20), tiny * 1.5, tiny * 0.75, normal - tiny / 2]
    some += [1 + eps / 2, 1 + 1.5 * eps, 1 + eps / 2 + 2**-23]
    return (*some, *(-v for v in some), *_SPECIAL)


_WHOLE: Mapping[str, tuple[Kit, Kit]] = MappingProxyType(
    {
        "floordiv": ((7, -7, 6, -6, 1, 0, -1), (0, 1, -1, 2, -2, 3, -3)),
        "truncdiv": ((7, -7, 6, -6, 1, 0, -1), (0, 1, -1, 2, -2, 3, -3)),
        "floormod": ((7, -7, 6, -6, 1, 0, -1), (0, 1, -1, 2, -2, 3, -3)),
        "truncmod": ((7, -7, 6, -6, 1, 0, -1), (0, 1, -1, 2, -2, 3, -3)),
        "pow": ((0, 1, -1, 2, -2, 3), (0, 1, 2, 3, -1, -2, -3, 7, 8)),
        "shl": ((1, -1, 3, -2, 0), (0, 1, -1)),
        "shr": ((1, -1, 3, -2, 0), (0, 1, -1)),
    }
)
_ENDS = frozenset(("floordiv", "truncdiv", "floormod", "truncmod", "pow", "shl", "shr"))
_DIVIDED = ((7.5, -7.5, 6.0, -6.0, 0.3, 1.0, *_SPECIAL), (2.5, -2.5, 3.0, -3.0, 0.1, *_SPECIAL))
_ORDERED = (*_SPECIAL, 1.0, -1.0)
_REAL: Mapping[str, tuple[Kit, Kit]] = MappingProxyType(
    {
        "div": _DIVIDED, "floordiv": _DIVIDED, "floormod": _DIVIDED, "truncmod": _DIVIDED,
        "pow": (
            (1.0, -1.0, 2.0, -2.0, 0.5, -0.5, *_SPECIAL),
            (1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, *_SPECIAL),
        ),
        "min": (_ORDERED, _ORDERED), "max": (_ORDERED, _ORDERED),
        "copysign": (_ORDERED, _ORDERED), "atan2": (_ORDERED, _ORDERED),
    }
)  # fmt: skip


@lru_cache(maxsize=1024)
def combined(op: str, place: int, dtype: DType) -> Kit:
    """Return values at which an operator on two values of a dtype changes course.

    >>> combined("shl", 1, DType.I8)
    (7, 8, 9, 16, -8, 0, 1, -1)
    """
    if dtype is DType.BOOL or place > 1:
        return ()
    if dtype.is_float:
        return _REAL[op][place] if op in _REAL else ()
    if op not in _WHOLE:
        return ()
    least, most = dtype.limits
    width = dtype.bits
    if op in ("shl", "shr") and place:
        found: Sequence[float] = (width - 1, width, width + 1, 2 * width, -width)
    else:
        found = (least, most, least + 1)
    return tuple(v for v in (*found, *_WHOLE[op][place]) if least <= v <= most)


_SAME: Mapping[str, str] = MappingProxyType(
    {
        "bitwise_left_shift": "shl", "bitwise_right_shift": "shr", "floor_divide": "floordiv",
        "trunc_divide": "truncdiv", "remainder": "floormod", "fmod": "truncmod", "divide": "div",
        "pow": "pow", "maximum": "max", "minimum": "min", "clip": "max", "copysign": "copysign",
        "atan2": "atan2", "less": "max", "less_equal": "max", "greater": "max",
        "greater_equal": "max", "equal": "max", "not_equal": "max",
    }
)  # fmt: skip


def of_node(n: Node, place: int, dtype: DType) -> Kit:
    """Return values for an operand of a node of an op: those of the op, and those of its dtypes."""
    own = OPS[n.op].corners
    if n.op in ("cast", "saturating_cast"):
        return (*own, *converted(dtype, n.types[0].dtype))
    known = _SAME.get(n.op)
    return own if known is None else (*own, *combined(known, place, dtype))
