"""Expressions of sizes, as the launch of a kernel needs them: ``(n + 255) // 256``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from didyma.refimpl.errors import DidymaError

Number: TypeAlias = int | float
Functions: TypeAlias = Mapping[str, Callable[..., Number]]


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _ceiling(a: int, b: int) -> int:
    return -(-a // b)


def _least(*row: Number) -> Number:
    return min(row)


def _most(*row: Number) -> Number:
    return max(row)


_Operator: TypeAlias = Callable[[Any, Any], Any]
_BINARY: dict[type[ast.operator], _Operator] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
}
_COMPARE: dict[type[ast.cmpop], _Operator] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}
_MOST_DIGITS = 64  # a shift beyond this is no size
USUAL: Functions = MappingProxyType(
    {"min": _least, "max": _most, "cdiv": _ceiling, "next_pow2": _power_of_two}
)


def evaluate(
    text: str, names: Mapping[str, Number], where: str, functions: Functions = USUAL
) -> Number:
    """Return the value of an expression.

    It may have the operators of Python's integers and comparisons, ``and``, ``or`` and ``not``, and
    the ``functions``.  A quotient of integers by ``/`` is rounded down, as in C.  DidymaError
    ``bad-option`` at ``where``.

    >>> evaluate("cdiv(n, 256) * 2", {"n": 1000}, "--grid")
    8
    >>> evaluate("n % 4 == 0", {"n": 8}, "--where")
    True
    >>> evaluate("min(m, n)", {"n": 8}, "--grid")
    Traceback (most recent call last):
    didyma.refimpl.errors.DidymaError: bad-option at `--grid min(m, n)`
    ...
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
        found: object = _value(tree.body, names, functions)
        if not isinstance(found, int | float):  # such as the lesser of two names
            raise _Strange(str(found))
    except _Strange as e:
        known = ", ".join((*names, *functions))
        of_argument = where.startswith("--arg")
        mend = f"{where}=f32:0.5 gives a number that is none of the sizes" if of_argument else ""
        raise _refused(text, where, str(e), f"an expression of {known}", mend) from None
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError) as e:
        raise _refused(text, where, str(e) or type(e).__name__, "an expression of sizes") from None
    return found


def names(text: str) -> set[str]:
    """Return the names in an expression, but those of functions; none where it cannot be read.

    >>> sorted(names("max(n, 2) % m == 0"))
    ['m', 'n']
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return set()
    called = {c.func for c in ast.walk(tree) if isinstance(c, ast.Call)}
    return {x.id for x in ast.walk(tree) if isinstance(x, ast.Name) and x not in called}


def _refused(text: str, where: str, why: str, want: str, mend: str = "") -> DidymaError:
    return DidymaError("bad-option", f"{where} {text}".strip(), got=why, want=want, help=mend)


class _Strange(Exception):
    """Something that expressions of sizes do not have."""


def _value(e: ast.expr, names: Mapping[str, Number], functions: Functions) -> Any:
    def of(x: ast.expr) -> Any:
        return _value(x, names, functions)

    match e:
        case ast.Constant(value=int() | float() as v):
            return v
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left, ast.Div(), right):
            a, b = of(left), of(right)
            return a // b if isinstance(a, int) and isinstance(b, int) else a / b
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            a, b = of(left), of(right)
            if isinstance(op, ast.LShift) and b > _MOST_DIGITS:
                raise _Strange(f"a shift by {b}")
            return _BINARY[type(op)](a, b)
        case ast.UnaryOp(ast.USub(), x):
            return -of(x)
        case ast.UnaryOp(ast.Not(), x):
            return not of(x)
        case ast.BoolOp(op, parts):
            truths = (bool(of(p)) for p in parts)
            return all(truths) if isinstance(op, ast.And) else any(truths)
        case ast.Compare(left, ops, rest) if all(type(o) in _COMPARE for o in ops):
            row = [of(left), *map(of, rest)]
            pairs = zip(ops, row, row[1:], strict=False)
            return all(_COMPARE[type(o)](a, b) for o, a, b in pairs)
        case ast.IfExp(test, yes, no):
            return of(yes) if of(test) else of(no)
        case ast.Call(ast.Name(id=name), args, []) if name in functions:
            # An array is an argument by its name.
            arrays = functions.keys() - USUAL.keys()
            of_array = [name in arrays and k == 0 for k in range(len(args))]
            given = [a.id if first and isinstance(a, ast.Name) else of(a)
                     for a, first in zip(args, of_array, strict=True)]  # fmt: skip
            try:
                return functions[name](*given)
            except LookupError as lost:
                what = f"array {lost.args[0]}" if isinstance(lost, KeyError) else "such axis"
                raise _Strange(f"no {what}, {ast.unparse(e)}") from None
        case _:
            raise _Strange(ast.unparse(e))


def split(text: str) -> list[str]:
    """Return the parts of a list, whose commas stand outside of parentheses.

    >>> split("cdiv(n, 4), m")
    ['cdiv(n, 4)', 'm']
    """
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]
