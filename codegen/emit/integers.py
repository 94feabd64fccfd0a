"""Write integers known before launch as Python: sizes, and constructors of loop expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.loop import Binary, BinaryOp, Const, Expr, Var

_OPERATORS: dict[BinaryOp, tuple[str, int]] = {
    "add": ("+", 1),
    "sub": ("-", 1),
    "mul": ("*", 2),
    "floordiv": ("//", 2),
    "floormod": ("%", 2),
}


def quoted(name: str) -> str:
    """Return a string literal, in double quotes where possible."""
    single = repr(name)
    return single if '"' in name or "\\" in single else f'"{name}"'


def tuple_of(items: Iterable[str]) -> str:
    """Return the tuple of some pieces of code.

    >>> tuple_of(["n"]), tuple_of(["n", "3"]), tuple_of([])
    ('(n,)', '(n, 3)', '()')
    """
    parts = list(items)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def code(d: Dim, names: Mapping[str, str]) -> str:
    """Return a size as Python; ``names`` are those of its symbols in the code.

    >>> from didyma.refimpl.ir.dims import floordiv, symbol
    >>> code(2 * symbol("n") + 1, {"n": "n"}), code(floordiv(symbol("n") + 1, 2), {"n": "n_1"})
    ('1 + 2 * n', '(1 + n_1) // 2')
    """
    return str(d) if isinstance(d, int) else _code(of_dim(d), names)[0]


def _code(e: Expr, names: Mapping[str, str]) -> tuple[str, int]:
    match e:
        case Const(value):
            return str(value), 3 if value >= 0 else 0
        case Var(name):
            return names[name], 3
        case Binary(op, lhs, rhs):
            a, b = _code(lhs, names), _code(rhs, names)
            if op not in _OPERATORS:
                return f"{op}({a[0]}, {b[0]})", 3
            sign, level = _OPERATORS[op]
            left = a[0] if a[1] >= level else f"({a[0]})"
            right = b[0] if b[1] > level else f"({b[0]})"
            return f"{left} {sign} {right}", level
        case _:
            raise TypeError(f"no size: {e}")


def of_sizes(e: Expr) -> str:
    """Return an expression of sizes as Python that reads them from the mapping ``s``.

    >>> of_sizes(of_dim(7))
    '7'
    """
    return _code(e, _Read())[0]


class _Read(dict[str, str]):
    """Names each size as what reads it."""

    def __missing__(self, name: str) -> str:
        return f"s[{quoted(name)}]"
