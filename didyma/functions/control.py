"""Branches, loops and scans under tracing, and results as large as the data says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar, cast, overload

import sympy

from didyma.composites import selection
from didyma.composites.builder import Builder, Value
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import NO_INLINE
from didyma.refimpl.ir.types import DType, TensorType
from didyma.tracer.calling import arguments, checked
from didyma.tracer.signatures import name_of, results_of
from didyma.tracer.tensor import Operand, Tensor, common, constant, is_scalar, number, within
from didyma.tracer.types import AnySize, size

Results: TypeAlias = Tensor | Sequence[Tensor]
Traced: TypeAlias = Callable[..., Results]
F = TypeVar("F", bound=Traced)
MOST_TRACES = 8  # of a body until the types of what it carries hold


def _many(x: Operand | Sequence[Operand]) -> list[Operand]:
    if isinstance(x, (tuple, list)):
        many: Sequence[Operand] = x
        return list(many)
    return [cast("Operand", x)]


def _home(*operands: Operand) -> Builder:
    """Builder of the function being traced; DidymaError ``bad-operand`` without a tensor."""
    return common(*(x for x in operands if isinstance(x, Tensor)))


def _value(b: Builder, x: Operand) -> Value:
    """Value of an operand; a number becomes an i64, f32 or bool scalar."""
    if is_scalar(x):
        kinds = {bool: DType.BOOL, float: DType.F32}
        return number(
            b, x, next((d for t, d in kinds.items() if isinstance(x, t)), DType.I64)
        ).value
    return within(b, constant(b, x))


def _tensors(b: Builder, values: Sequence[Value]) -> tuple[Tensor, ...]:
    return tuple(Tensor(b, v) for v in values)


def traced_body(
    b: Builder, f: Traced, types: Sequence[TensorType], passed: str = ""
) -> tuple[Builder, list[Value], bool]:
    """Trace a branch or body; also return whether it returns a tensor rather than a sequence.

    ``passed`` tells the user of a function that takes other arguments what it is called with.
    """
    if not callable(f) or isinstance(f, Tensor):  # pyright: ignore[reportUnnecessaryComparison]  # a user's
        raise DidymaError(
            "bad-call", "a branch or body", got=f"{f!r:.60}", want="a function of tensors",
            help="lambda: x",
        )  # fmt: skip
    inner = b.inner()
    params = [Tensor(inner, inner.param(f"x{i}", t)) for i, t in enumerate(types)]
    with inner.filling():
        result = checked(f, passed)(*params)
        results = [within(inner, r) for r in results_of(name_of(f), result)]
    return inner, results, isinstance(result, Tensor)


def _captures(*inner: Builder) -> list[Value]:
    return list({name: v for i in inner for name, (v, _) in i.captures.items()}.values())


@overload
def cond(
    pred: Operand,
    then: Callable[..., Tensor],
    otherwise: Callable[..., Tensor],
    /,
    *args: Operand,
) -> Tensor: ...


@overload
def cond(
    pred: Operand,
    then: Callable[..., Sequence[Tensor]],
    otherwise: Callable[..., Sequence[Tensor]],
    /,
    *args: Operand,
) -> tuple[Tensor, ...]: ...


def cond(
    pred: Operand, then: Traced, otherwise: Traced, /, *args: Operand
) -> Tensor | tuple[Tensor, ...]:
    """Return ``then(*args)`` if the bool scalar is true, else ``otherwise(*args)``; only one runs.

    Both functions may use tensors from the code around them.  They must return equally many
    results, of the same dtypes and ranks.  A size in which they differ is data-dependent.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[4])
    ... def f(x: dd.Tensor) -> dd.Tensor:
    ...     return dd.cond(dd.sum(x) > 0, lambda: x * 2, lambda: -x)
    >>> dd.compile(f)(np.float32([1, 2, 3, -5]))
    array([  2.,   4.,   6., -10.], dtype=float32)
    """
    b = _home(pred, *args)
    operands = [_value(b, a) for a in args]
    types = [v.type for v in operands]
    first, yes, single = traced_body(b, then, types)
    second, no, _ = traced_body(b, otherwise, types)
    captures = _captures(first, second)
    branches = [
        b.add(inner.function(name, values, captures))
        for inner, name, values in ((first, "then", yes), (second, "otherwise", no))
    ]
    operands_and_captures = [*operands, *captures]
    tensors = _tensors(
        b, b.branch(_value(b, pred), branches[0], branches[1], operands_and_captures)
    )
    return tensors[0] if single else tensors


def while_loop(
    test: Callable[..., Tensor], body: Traced, /, *carried: Operand, most: int | None = None
) -> tuple[Tensor, ...]:
    """Replace the carried values by the results of ``body`` as long as ``test`` of them is true.

    Both functions may use tensors from the code around them.  Carried values keep their dtypes and
    ranks.  If a size changes, ``most`` is the largest that it may become (``dim-out-of-range``
    beyond that).  Python's numbers become i64, f32 or bool scalars.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[2], dd.i64[()])
    ... def power(x: dd.Tensor, n: dd.Tensor) -> dd.Tensor:
    ...     _, y = dd.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), 0, x)
    ...     return y
    >>> dd.compile(power)(np.float32([2, 3]), np.int64(3))
    array([16., 81.], dtype=float32)
    """
    b = _home(*carried)
    start = [_value(b, c) for c in carried]
    types = [v.type for v in start]
    new: dict[tuple[Dim, Dim], sympy.Symbol] = {}
    inner, results, _ = traced_body(b, body, types)
    for _ in range(MOST_TRACES):
        returned = [r.type for r in results]
        wider = _wider(b, types, returned, new, most)
        if wider == types:
            break
        types = wider
        inner, results, _ = traced_body(b, body, types)
    else:
        want = f"sizes that settle within {MOST_TRACES} traces"
        raise _changes(types, [r.type for r in results], want)
    asked, answer, _ = traced_body(b, test, types)
    answer = [asked.move(v, "") for v in answer]
    captures = _captures(asked, inner)
    functions = (
        b.add(asked.function("test", answer, captures)),
        b.add(inner.function("body", results, captures)),
    )
    binds = [s.name for s in new.values() if any(s in t.shape for t in types)]
    return _tensors(b, b.loop(*functions, start, captures, binds))


def _changes(types: Sequence[TensorType], returned: Sequence[TensorType], want: str) -> DidymaError:
    return DidymaError(
        "carried-mismatch",
        "while_loop",
        got=f"({', '.join(map(str, returned))}) of ({', '.join(map(str, types))})",
        want=want,
        help="cast what the body gives; for sizes that change pass most=, the largest",
    )


def _wider(
    b: Builder,
    types: Sequence[TensorType],
    returned: Sequence[TensorType],
    new: dict[tuple[Dim, Dim], sympy.Symbol],
    most: int | None,
) -> list[TensorType]:
    """Return types of carried values that fit the body's results: changing sizes are symbols."""
    same = [(t.dtype, t.rank) for t in types] == [(t.dtype, t.rank) for t in returned]
    if not same:
        raise _changes(types, returned, "as many values, each of its dtype and rank")
    symbols = set(new.values())
    wider: list[TensorType] = []
    for t, u in zip(types, returned, strict=True):
        shape: list[Dim] = []
        for m, n in zip(t.shape, u.shape, strict=True):
            if m == n or m in symbols:
                shape.append(m)
                continue
            if most is None:
                raise _changes(types, returned, "sizes that stay")
            if (m, n) not in new:
                new[m, n] = b.declare("u", 0, most)
            shape.append(new[m, n])
        wider.append(t.with_shape(*shape))
    return wider


def scan(
    f: Traced,
    states: Operand | Sequence[Operand],
    xs: Operand | Sequence[Operand],
    /,
    *,
    length: AnySize | None = None,
) -> tuple[Tensor, ...]:
    """Run ``f(*states, *slices)`` for each slice of ``xs`` along the first axis.

    ``f`` returns the new states, then one slice of each further result.  The results of ``scan``
    are the last states, then those slices stacked.  ``f`` may use tensors from the code around it.
    If there are no ``xs``, ``length`` is the number of rounds.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[3])
    ... def running(x: dd.Tensor) -> dd.Tensor:
    ...     zero = dd.sum(x) * 0
    ...     return dd.scan(lambda s, v: (s + v, s + v), zero, x)[1]
    >>> dd.compile(running)(np.float32([1, 2, 3]))
    array([1., 3., 6.], dtype=float32)
    """
    b = _home(*_many(states), *_many(xs))
    carried, scanned = ([_value(b, x) for x in _many(operands)] for operands in (states, xs))
    if any(not v.type.rank for v in scanned) or (length is None and not scanned):
        raise DidymaError(
            "scan-length", "scan", got="nothing to scan", want="xs of rank 1 or more, or length"
        )
    count = scanned[0].type.shape[0] if length is None else size(length).value
    rows = [v.type.with_shape(*v.type.shape[1:]) for v in scanned]
    passed = (
        "scan gives it each state, then a slice of each of xs, as arguments of their own: "
        f"{len(carried)} and {len(rows)} here"
    )
    inner, results, _ = traced_body(b, f, [*(v.type for v in carried), *rows], passed)
    captures = _captures(inner)
    body = b.add(inner.function("step", results, captures))
    values = b.scan(body, carried, scanned, captures, count)
    return _tensors(b, values)


def noinline(f: F) -> F:
    """Compile a function of tensors once and call it wherever it is used, instead of inlining it.

    It is traced once for each list of operand types, or at each use if it takes tensors from the
    code around it.  One result is returned as it is, and several as a tuple.  Their sizes must be
    known to the caller.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.noinline
    ... def layer(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    ...     return dd.tanh(x @ w)
    >>> @dd.trace(dd.f32[2, 2], dd.f32[2, 2])
    ... def twice(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    ...     return layer(layer(x, w), w)
    >>> [f.name for f in twice.module.functions]
    ['layer', 'twice']
    >>> dd.compile(twice)(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)).round(3)
    array([[0.642, 0.   ],
           [0.   , 0.642]], dtype=float32)
    """

    @functools.wraps(f)
    def call(*given_args: Operand, **named: Operand) -> Results:
        args = arguments(f, given_args, named)
        b = _home(*args)
        values = [_value(b, a) for a in args]
        key = call, tuple(v.type for v in values), b.device
        callee = b.traced.get(key)
        if callee is None:
            inner, results, _ = traced_body(b, f, key[1])
            made = inner.function(getattr(f, "__name__", "function"), results)
            callee = b.add(replace(made, attrs=((NO_INLINE, 1),)))
            values += _captures(inner)
            if not inner.captures:
                b.traced[key] = callee
        tensors = _tensors(b, b.call(callee, values))
        return tensors[0] if len(tensors) == 1 else tensors

    return cast("F", call)


def nonzero(x: Operand, /) -> tuple[Tensor, ...]:
    """Indices of the elements that are not zero, axis by axis.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[5])
    ... def f(x: dd.Tensor) -> dd.Tensor:
    ...     return dd.nonzero(x)[0]
    >>> dd.compile(f)(np.float32([0, 3, 0, 4, 5]))
    array([1, 3, 4])
    """
    b = _home(x)
    return tuple(Tensor(b, v) for v in selection.nonzero(b, _value(b, x)))


def compress(x: Operand, condition: Operand, /, *, axis: int | None = None) -> Tensor:
    """Slices along an axis where a vector is true; of the flattened ``x`` if None.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.f32[4])
    ... def f(x: dd.Tensor) -> dd.Tensor:
    ...     return dd.compress(x, x > 1)
    >>> dd.compile(f)(np.float32([0, 3, 1, 4]))
    array([3., 4.], dtype=float32)
    """
    b = _home(x, condition)
    v, mask = _value(b, x), _value(b, condition)
    rank = v.type.rank
    if axis is not None and not -rank <= axis < rank:
        want = f"{-rank} <= axis < {rank}"
        raise DidymaError("bad-axis", f"compress({v.type})", got=f"axis {axis}", want=want)
    if mask.type.rank != 1:
        raise DidymaError(
            "rank-mismatch", "compress", got=f"a condition {mask.type}", want="rank 1",
            help="x[mask] takes a mask of several axes",
        )  # fmt: skip
    return Tensor(b, selection.compress(b, v, mask, axis))


def unique_all(x: Tensor, /, *, sorted: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Distinct elements, first place of each, place of every one among them, counts.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.i32[5])
    ... def f(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
    ...     return dd.unique_all(x)
    >>> [a.tolist() for a in dd.compile(f)(np.int32([3, 1, 3, 2, 1]))]
    [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1, 0], [2, 1, 2]]
    """
    b = common(x)
    u = selection.unique(b, within(b, x), sorted)
    inverse = b("reshape", (u.inverse,), shape=x.value.type.shape)
    return (Tensor(b, u.values), Tensor(b, u.indices), Tensor(b, inverse), Tensor(b, u.counts))


def unique_values(x: Tensor, /) -> Tensor:
    """Distinct elements, sorted; NaNs are distinct and come last."""
    return unique_all(x)[0]


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    /,
    *,
    most: int,
    overlap: float,
    least: float | None = None,
    centred: bool = False,
) -> Tensor:
    """Rows (batch, class, box) of the boxes that are kept; see ``didyma.composites.selection``."""
    b = common(boxes, scores)
    x, y = within(b, boxes), within(b, scores)
    return Tensor(b, selection.non_max_suppression(b, x, y, most, overlap, least, centred))


__all__ = [
    "compress",
    "cond",
    "noinline",
    "non_max_suppression",
    "nonzero",
    "scan",
    "unique_all",
    "unique_values",
    "while_loop",
]
