"""``einsum``: products of operands, summed over the labels that the result lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from didyma.composites.composite import Emit, like
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType, Shape
from didyma.refimpl.ops.rules import shape_error

V = TypeVar("V")


def einsum(
    b: Emit[V],
    equation: str,
    values: Sequence[V],
    fit: Callable[[V, int, Dim], object] | None = None,
) -> V:
    """Contract the operands from left to right, two at a time, each pair by one matmul.

    Labels are letters; a repeated one within an operand takes the diagonal, an ellipsis stands for
    the axes left over.  Without ``->`` the result has the labels that occur once, sorted.  An axis
    of size 1 is broadcast.  ``fit(operand, axis, size)`` is called for an axis of another size than
    its label's.  Errors: ``bad-attr`` for an equation that does not fit; ``shape-mismatch`` for
    sizes that differ, unless ``fit`` allows them.
    """
    terms, result = _labels(equation, [b.type_of(v).shape for v in values])
    sizes: dict[str, Dim] = {}
    parts: list[tuple[str, V]] = []
    for term, operand in zip(terms, values, strict=True):
        labels, v = _diagonals(b, term, operand)
        for axis, (label, n) in enumerate(zip(labels, b.type_of(v).shape, strict=True)):
            if label not in sizes or sizes[label] == 1:
                sizes[label] = n
            elif n != 1 and not dims.equal(n, sizes[label]):
                if fit is None:
                    got = f"sizes {dims.text(sizes[label])} and {dims.text(n)} of {label!r}"
                    types = [b.type_of(v) for v in values]
                    raise shape_error("einsum", types, got, "one size a label")
                fit(v, axis, sizes[label])
        parts.append((labels, v))
    total = parts[0]
    for i, part in enumerate(parts[1:], 2):
        later = {label for labels, _ in parts[i:] for label in labels}
        total = _contract(b, total, part, later | set(result), sizes)
    labels, v = total
    gone = tuple(i for i, label in enumerate(labels) if label not in result)
    if gone:
        v = b("sum", (v,), axes=gone, keepdims=False)
        labels = "".join(label for label in labels if label in result)
    order = tuple(labels.index(label) for label in result)
    return v if order == tuple(range(len(order))) else b("permute_dims", (v,), axes=order)


def _wrong(got: str, want: str) -> DidymaError:
    return DidymaError("bad-attr", "einsum, equation=", got=got, want=want)


def _labels(equation: str, shapes: Sequence[Shape]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the result; an ellipsis becomes Greek capitals.

    DidymaError ``bad-attr`` for an equation that does not fit.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise _wrong(f"{len(terms)} terms in {equation!r}", f"{len(shapes)}")
    letters = [t.replace("...", "", 1) for t in (*terms, right)]
    if not all(c.isascii() and c.isalpha() for t in letters for c in t):
        raise _wrong(repr(equation), "letters and ellipses")
    owns = [len(s) - len(t) for s, t in zip(shapes, letters, strict=False)]
    wide = max((own for own, t in zip(owns, terms, strict=True) if "..." in t), default=0)
    dots = "".join(chr(0x391 + i) for i in range(wide))
    spelled: list[str] = []
    for t, own, shape in zip(terms, owns, shapes, strict=True):
        if own < 0 or (own and "..." not in t):
            raise _wrong(f"the term {t!r} for rank {len(shape)}", "a label for each axis")
        spelled.append(t.replace("...", dots[wide - own :]))
    if arrow:
        result = right.replace("...", dots)
    else:
        every = "".join(spelled)
        single = sorted({label for label in every if every.count(label) == 1 and label not in dots})
        result = dots + "".join(single)
    if not set(result) <= set("".join(spelled)) or len(set(result)) != len(result):
        raise _wrong(f"the result {right!r} of {equation!r}", "labels of the operands, once each")
    return spelled, result


def _diagonals(b: Emit[V], labels: str, v: V) -> tuple[str, V]:
    """Replace axes that share a label by their diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, last = labels.index(label), labels.rindex(label)
            t = b.type_of(v)
            if not dims.equal(t.shape[first], t.shape[last]):
                got = f"axes {first} and {last} of one label"
                raise shape_error("einsum", [t], got, "axes of one size")
            v = diagonal(b, v, first, last)
            labels = labels[:last] + labels[last + 1 :]
    return labels, v


def diagonal(b: Emit[V], v: V, first: int, last: int, offset: int = 0) -> V:
    """Sum of each line along axis ``last`` with all but the diagonal 0; keeps axis ``first``.

    Place *i* of axis ``first`` gets the element at *i* + ``offset`` of axis ``last``, or 0.
    """
    shape = b.type_of(v).shape

    def places(axis: int) -> V:
        line = tuple(n if a == axis else 1 for a, n in enumerate(shape))
        return b("iota", (), dtype=DType.I64, shape=line, axis=axis)

    row, column = places(first), places(last)
    if offset:
        row = b("add", (row, like(b, offset, row)))
    kept = b("where", (b("equal", (row, column)), v, like(b, 0, v)))
    return b("sum", (kept,), axes=(last,), keepdims=False)


def _contract(
    b: Emit[V],
    left: tuple[str, V],
    right: tuple[str, V],
    kept: set[str],
    sizes: Mapping[str, Dim],
) -> tuple[str, V]:
    """Product of two operands, summed over labels that nothing needs any more."""
    x, y = left[0], right[0]
    both = [c for c in x if c in y]
    batch = "".join(c for c in both if c in kept)
    inner = "".join(c for c in both if c not in kept)
    rows = "".join(c for c in x if c not in y)
    columns = "".join(c for c in y if c not in x)

    def arranged(part: tuple[str, V], *groups: str) -> V:
        labels, v = part
        wanted = "".join(groups)
        v = b("permute_dims", (v,), axes=tuple(labels.index(c) for c in wanted))
        own = b.type_of(v).shape
        spread = tuple(sizes[c] if c in both else d for c, d in zip(wanted, own, strict=True))
        if spread != own:
            v = b("broadcast_to", (v,), shape=spread)
        lead = (sizes[c] for c in groups[0])
        ends = (dims.mul(*(sizes[c] for c in group)) for group in groups[1:])
        return b("reshape", (v,), shape=(*lead, *ends))

    z = b("matmul", (arranged(left, batch, rows, inner), arranged(right, batch, inner, columns)))
    labels = batch + rows + columns
    return labels, b("reshape", (z,), shape=tuple(sizes[c] for c in labels))
