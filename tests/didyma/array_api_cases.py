"""One call or more for every name of the Array API standard, for ``dd`` and NumPy alike."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from didyma.refimpl.ir.types import Array


@dataclass(frozen=True)
class Case:
    """An expression of a namespace ``xp`` and ``arrays``, and the kinds of numbers it is tried on.

    ``theirs`` is NumPy's where it is spelled differently.
    """

    code: str
    kinds: str = "fd"  # f32, f64, i8, u16, i64, bool: f d b H q ?
    theirs: str = ""

    @property
    def operands(self) -> tuple[str, ...]:
        """The arrays that the expression names."""
        names = (n.id for n in ast.walk(ast.parse(self.code)) if isinstance(n, ast.Name))
        return tuple(dict.fromkeys(n for n in names if len(n) == 1))

    def run(self, xp: Any, given: Sequence[Any], code: str = "") -> Any:
        """Evaluate the expression."""
        space = dict(zip(self.operands, given, strict=True))
        return eval(code or self.code, {**globals(), "xp": xp, "inf": np.inf}, space)


KINDS: Mapping[str, Any] = {
    "f": np.float32, "d": np.float64, "b": np.int8, "H": np.uint16, "q": np.int64, "?": np.bool_,
}  # fmt: skip
NUMBERS, INTS, ALL = "fdbHq", "bHq", "fdbHq?"


def arrays(kind: str) -> dict[str, Array]:
    """Operands by letter: tensors, matrices, vectors, some of small numbers with repetitions."""
    r = np.random.default_rng(ord(kind))

    def some(*shape: int) -> Array:
        if kind in "fd":
            return np.asarray(r.standard_normal(shape) * 2, KINDS[kind])
        low = 0 if kind in "H?" else -4
        return np.asarray(r.integers(low, 2 if kind == "?" else 5, shape), KINDS[kind])

    return {
        "x": some(2, 3, 4), "y": some(3, 1), "s": some(), "v": some(5), "w": some(5),
        "m": some(3, 4), "n": some(4, 2), "q": some(3, 3), "p": np.abs(some(2, 3)) + KINDS[kind](1),
        "u": (some(2, 3) / 8).astype(KINDS[kind]), "o": np.sort(some(6)), "c": some(4, 3),
        "k": np.arange(6).reshape(2, 3).astype(KINDS[kind]) % KINDS[kind](5),
        "z": some(3, 4, 2), "e": some(0, 3),
    }  # fmt: skip


def _same(name: str, kinds: str = "fd", operands: str = "x") -> dict[str, list[Case]]:
    """A function called on the operands, and on those of other shapes."""
    others = {"x": ["s", "v"], "xy": ["sx", "yy"]}.get(operands, [])
    return {name: [Case(f"xp.{name}({', '.join(o)})", kinds) for o in (operands, *others)]}


def _elementwise() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for name in ["ceil", "floor", "round", "trunc", "isfinite", "isinf", "isnan"]:
        found |= _same(name, NUMBERS)
    for name in ["abs", "negative", "positive", "sign", "square"]:
        found |= _same(name, NUMBERS)
    for name in [
        "cos",
        "cosh",
        "exp",
        "expm1",
        "sin",
        "sinh",
        "tan",
        "tanh",
        "asinh",
        "atan",
        "signbit",
    ]:
        found |= _same(name)
    for name in ["sqrt", "log", "log1p", "log2", "log10", "reciprocal", "acosh"]:
        found |= _same(name, operands="p")
    for name in ["acos", "asin", "atanh"]:
        found |= _same(name, operands="u")
    found |= _same("signbit") | _same("bitwise_invert", "bHq?") | _same("logical_not", "?")
    for name in ["add", "subtract", "multiply", "maximum", "minimum"]:
        found |= _same(name, NUMBERS, "xy")
    for name in ["less", "less_equal", "greater", "greater_equal"]:
        found |= _same(name, NUMBERS, "xy")
    for name in ["equal", "not_equal"]:
        found |= _same(name, ALL, "xy")
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        found |= _same(name, "bHq?", "xy")
    for name in ["logical_and", "logical_or", "logical_xor"]:
        found |= _same(name, "?", "xy")
    for name in ["divide", "atan2", "copysign", "hypot", "logaddexp", "nextafter"]:
        found |= _same(name, "fd", "xy")
    for name in ["bitwise_left_shift", "bitwise_right_shift"]:
        found |= _same(name, INTS, "pk")
    for name in ["floor_divide", "remainder"]:
        found |= _same(name, NUMBERS, "kp")
    found["pow"] = [Case("xp.pow(p, k)", NUMBERS), Case("xp.pow(x, 2)", NUMBERS)]
    return found


def dtype(xp: Any, name: str) -> Any:
    """Return a dtype of a namespace by its standard name."""
    return getattr(xp, "bool_" if name == "bool" and xp is np else name)


def places(xp: Any, *numbers: int) -> Any:
    return xp.asarray(np.array(numbers, np.int64))


REDUCED: dict[str, list[Case]] = {
    name: [
        Case(f'xp.{name}(x)', kinds),
        Case(f'xp.{name}(x, axis=1)', kinds),
        Case(f'xp.{name}(x, axis=(0, -1), keepdims=True)', kinds),
    ]
    for name, kinds in {
        "sum": ALL, "prod": NUMBERS, "max": NUMBERS, "min": NUMBERS, "mean": "fd", "var": "fd",
        "std": "fd", "all": ALL, "any": ALL, "count_nonzero": ALL,
    }.items()
}  # fmt: skip
REDUCED["sum"].append(Case("xp.sum(x, axis=0, dtype=dtype(xp, 'float64'))", "fbq"))
REDUCED["sum"].append(Case("xp.sum(x, axis=0)", NUMBERS))
REDUCED["var"].append(Case("xp.var(x, axis=-1, correction=1.5)"))
REDUCED["std"].append(Case("xp.std(x, correction=1)"))

CASES: dict[str, list[Case]] = {
    **_elementwise(),
    **REDUCED,
    "clip": [
        Case('xp.clip(x, 1, 2)', NUMBERS),
        Case('xp.clip(x, None, 2)', NUMBERS),
        Case('xp.clip(x, max=None, min=1)', NUMBERS),
        Case('xp.clip(x)', NUMBERS),
        Case('xp.clip(x, y, y + y * y)', NUMBERS),
    ],
    "where": [
        Case('xp.where(x > y, x, y)', NUMBERS),
        Case('xp.where(x, x, False)', '?'),
    ],
    "argmax": [Case('xp.argmax(x)', NUMBERS),
               Case('xp.argmax(x, axis=-1, keepdims=True)', NUMBERS)],
    "argmin": [Case('xp.argmin(x, keepdims=True)', NUMBERS),
               Case('xp.argmin(x, axis=0)', NUMBERS)],
    "argsort": [Case('xp.argsort(x, axis=1, stable=True)', ALL)],
    "sort": [Case('xp.sort(x, axis=0)', ALL), Case('xp.sort(x)', ALL)],
    "searchsorted": [
        Case("xp.searchsorted(o, x, side='left')", NUMBERS),
        Case("xp.searchsorted(o, x, side='right')", NUMBERS),
    ],
    "isin": [Case('xp.isin(x, v)', NUMBERS),
             Case('xp.isin(x, v, invert=True)', 'bq')],
    "nonzero": [Case('xp.nonzero(x)', ALL)],
    "take": [Case('xp.take(x, places(xp, 1, 0, -1), axis=1)', ALL),
             Case('xp.take(v, places(xp, 1, 3))', ALL)],
    "take_along_axis": [
        Case('xp.take_along_axis(x, xp.argsort(x, axis=1, stable=True), axis=1)', 'fdq'),
        Case('xp.take_along_axis(x, xp.reshape(places(xp, 1, 0), (1, 1, 2)), axis=-1)', 'f'),
    ],
    "unique_all": [Case('tuple(xp.unique_all(x))', NUMBERS)],
    "unique_counts": [Case('tuple(xp.unique_counts(x))', 'fq')],
    "unique_inverse": [Case('tuple(xp.unique_inverse(x))', 'fq')],
    "unique_values": [Case('xp.unique_values(x)', 'fq?', theirs='np.unique(x)')],
    "cumulative_sum": [
        Case('xp.cumulative_sum(v)', NUMBERS),
        Case('xp.cumulative_sum(x, axis=1, include_initial=True)', NUMBERS),
    ],
    "cumulative_prod": [
        Case('xp.cumulative_prod(x, axis=-1)', NUMBERS),
        Case('xp.cumulative_prod(x, axis=0, include_initial=True)', 'fq'),
    ],
    "diff": [
        Case('xp.diff(x)', NUMBERS),
        Case('xp.diff(c, axis=0, n=2)', NUMBERS),
        Case('xp.diff(x, axis=1, prepend=x, append=x)', 'fq'),
    ],
    # Shapes
    "astype": [Case("xp.astype(x, dtype(xp, 'float64'))", ALL),
               Case("xp.astype(x, dtype(xp, 'bool'))", ALL)],
    "broadcast_arrays": [Case('tuple(xp.broadcast_arrays(x, y))', ALL)],
    "broadcast_shapes": [Case('xp.broadcast_to(x, xp.broadcast_shapes(x.shape, (5, 1, 1, 4)))',
                              ALL)],
    "broadcast_to": [Case('xp.broadcast_to(y, (2, 3, 4))', ALL)],
    "concat": [Case('xp.concat([x, x], axis=-1)', ALL),
               Case('xp.concat((x, y), axis=None)', ALL)],
    "stack": [Case('xp.stack([x, x], axis=-2)', ALL)],
    "unstack": [Case('xp.unstack(x, axis=1)', ALL)],
    "expand_dims": [Case(f'xp.expand_dims(x, axis={a!r})', ALL) for a in (0, -1, 2)],
    "squeeze": [Case('xp.squeeze(y, axis=1)', ALL)],
    "flip": [Case('xp.flip(x, axis=(0, -1))', ALL),
             Case('xp.flip(x)', ALL)],
    "moveaxis": [Case('xp.moveaxis(x, (0, 1), (-1, 0))', ALL),
                 Case('xp.moveaxis(x, 0, 1)', ALL)],
    "permute_dims": [Case('xp.permute_dims(x, (2, 0, 1))', ALL)],
    "matrix_transpose": [Case('xp.matrix_transpose(x)', ALL)],
    "reshape": [Case('xp.reshape(x, (-1, 6))', ALL)],
    "repeat": [Case('xp.repeat(x, 2, axis=1)', ALL),
               Case('xp.repeat(x, 3)', ALL),
               Case('xp.repeat(x, places(xp, 2, 0, 1), axis=1)', ALL)],
    "roll": [Case('xp.roll(x, 5)', ALL),
             Case('xp.roll(x, (1, -1), axis=(0, 2))', ALL)],
    "tile": [Case('xp.tile(x, (2, 1))', ALL),
             Case('xp.tile(v, (2, 3))', ALL)],
    "tril": [Case('xp.tril(x, k=-1)', ALL)],
    "triu": [Case('xp.triu(x, k=1)', ALL)],
    "meshgrid": [Case('tuple(xp.meshgrid(v, v, s))', 'fq'),
                 Case("tuple(xp.meshgrid(v, v + v, indexing='ij'))", 'fq')],
    # Creation: beside an operand, which makes them part of a program
    "zeros": [Case("x + xp.zeros((3, 4), dtype=dtype(xp, 'float64'))", 'd')],
    "ones": [Case("x + xp.ones(4, dtype=dtype(xp, 'float32'))", 'f')],
    "full": [Case('x + xp.full((3, 1), 7)', 'q'),
             Case('xp.logical_and(x, xp.full((4,), True))', '?')],
    "empty": [Case("x + 0 * xp.empty(4, dtype=dtype(xp, 'int64'))", 'q', theirs='x')],
    "zeros_like": [Case('xp.zeros_like(x)', ALL)],
    "ones_like": [Case("xp.ones_like(x, dtype=dtype(xp, 'int8'))", ALL)],
    "full_like": [Case('xp.full_like(x, 3)', NUMBERS)],
    "empty_like": [Case('xp.empty_like(x)', ALL, theirs='np.zeros_like(x)')],
    "eye": [Case("q + xp.eye(3, dtype=dtype(xp, 'float64'))", 'd'),
            Case("m + xp.eye(3, 4, k=1, dtype=dtype(xp, 'int64'))", 'q')],
    "arange": [Case('v + xp.arange(5)', 'q'),
               Case('v + xp.arange(11, 1, -2)', 'q'),
               Case("v + xp.arange(0.5, 3, 0.5, dtype=dtype(xp, 'float64'))", 'd')],
    "linspace": [Case("v + xp.linspace(-1, 1, 5, dtype=dtype(xp, 'float64'))", 'd'),
                 Case("v + xp.linspace(0, 1, 5, dtype=dtype(xp, 'float64'), endpoint=False)", 'd')],
    "asarray": [Case('v + xp.asarray([1, 2, 3, 4, 5])', 'q'),
                Case("v * xp.asarray(2.0, dtype=dtype(xp, 'float64'))", 'd')],
    "from_dlpack": [Case('v + xp.from_dlpack(np.arange(5.0))', 'd')],
    # Products
    "matmul": [Case('xp.matmul(m, n)', NUMBERS),
               Case('xp.matmul(x, n)', NUMBERS),
               Case('xp.matmul(v, w)', NUMBERS)],
    "tensordot": [Case('xp.tensordot(m, n, axes=1)', NUMBERS),
                  Case('xp.tensordot(x, x, axes=((0, 2), (0, 2)))', NUMBERS),
                  Case('xp.tensordot(v, w, axes=0)', 'fq')],
    "vecdot": [Case('xp.vecdot(x, m)', NUMBERS),
               Case('xp.vecdot(x, m, axis=-2)', 'fq')],
}  # fmt: skip


LINALG: dict[str, list[Case]] = {
    "matmul": [Case('xp.linalg.matmul(m, n)', NUMBERS)],
    "matrix_transpose": [Case('xp.linalg.matrix_transpose(x)', ALL)],
    "tensordot": [Case('xp.linalg.tensordot(m, n, axes=1)', 'fq')],
    "vecdot": [Case('xp.linalg.vecdot(x, m)', 'fq')],
    "outer": [Case('xp.linalg.outer(v, w)', NUMBERS)],
    "cross": [Case('xp.linalg.cross(q + q, q * q)', NUMBERS),
              Case('xp.linalg.cross(q, q + q * q, axis=0)', 'fq')],
    "diagonal": [Case(f'xp.linalg.diagonal(x, offset={k!r})', ALL) for k in (0, 1, -2, 9)],
    "trace": [Case('xp.linalg.trace(x)', NUMBERS),
              Case('xp.linalg.trace(m, offset=1)', 'fq')],
    "vector_norm": [
        Case(f'xp.linalg.vector_norm(x, axis={a!r}, ord={o!r})')
        for o in (2, 1, 3, 0, np.inf, -np.inf) for a in (None, -1, (0, 2))
    ] + [Case('xp.linalg.vector_norm(x, keepdims=True)')],
    "matrix_norm": [
        Case(f'xp.linalg.matrix_norm(x, ord={o!r}, keepdims={k!r})')
        for o in ("fro", 1, -1, np.inf, -np.inf) for k in (False, True)
    ],
    "matrix_power": [Case(f'xp.linalg.matrix_power(q, {n!r})', 'fdq')
                     for n in (0, 1, 2, 5)],
}  # fmt: skip
