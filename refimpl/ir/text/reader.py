"""Reads what every level shares: sizes, types, attributes, constants, ranges."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import sympy

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.graph import Attr, Attrs
from didyma.refimpl.ir.text.lex import MAX_DIGITS, Lexer
from didyma.refimpl.ir.text.literals import (
    DTYPES,
    MOST_FILLED,
    filled,
    rounded,
    shape_text,
    tensor_array,
)
from didyma.refimpl.ir.types import DType, Shape, Tensor, TensorType

T = TypeVar("T")
Number: TypeAlias = int | float | bool
Files: TypeAlias = Callable[[str], bytes | None]
MAX_TERMS = 64  # of a size
MAX_POWER = 16
_LIMIT = 10**MAX_DIGITS


def _remainder(a: Dim, b: Dim) -> Dim:
    return dims.canonical(sympy.Mod(sympy.sympify(a), b))


def _power(a: Dim, b: Dim) -> Dim:
    return dims.canonical(sympy.sympify(a) ** b)


def _quotient(a: Dim, b: Dim) -> Dim:
    return dims.canonical(sympy.sympify(a) / b)


def _floor(d: Dim) -> Dim:
    return dims.floordiv(d, 1)


def _ceiling(d: Dim) -> Dim:
    return dims.canonical(sympy.ceiling(d))


_SizeFunction: TypeAlias = Callable[..., Dim]
_NEGATION = 3
_MARKS: Mapping[str, tuple[_SizeFunction, int]] = {  # and how tightly they bind
    "+": (dims.add, 1), "-": (dims.sub, 1), "*": (dims.mul, 2), "/": (_quotient, 2),
    "//": (dims.floordiv, 2), "%": (_remainder, 2), "**": (_power, 4),
}  # fmt: skip
_CALLS: Mapping[str, tuple[_SizeFunction, int, int]] = {  # and how few and many operands they take
    "floor": (_floor, 1, 1), "ceiling": (_ceiling, 1, 1),
    "Mod": (_remainder, 2, 2), "mod": (_remainder, 2, 2),
    "Max": (dims.maximum, 1, MAX_POWER), "max": (dims.maximum, 1, MAX_POWER),
    "Min": (dims.minimum, 1, MAX_POWER), "min": (dims.minimum, 1, MAX_POWER),
}  # fmt: skip


class Reader(Lexer):
    """A recursive descent over the words of a text; each method takes what it is named for.

    ``files`` returns the bytes of a constant that the text has in a file of that name, or None.
    """

    def __init__(self, text: str, source: str, files: Files | None = None) -> None:
        self._folded: dict[tuple[object, ...], Dim] = {}
        self.files = files
        super().__init__(text, source)

    def items(self, read: Callable[[], T], close: str) -> tuple[T, ...]:
        """Parse items between commas, up to and with ``close``."""
        out: list[T] = []
        while not self.at(close):
            out.append(read())
            if not self.accept(","):
                break
        if not self.at(close):
            raise self.error(f"`,` or `{close}`" if out else f"`{close}`")
        self.next()
        return tuple(out)

    # ---- sizes

    def dim(self) -> Dim:
        """Parse a size: an integer or an expression over dims.  ``//`` and ``floor`` round down."""
        at = self.i
        d = self._dim(0)
        if not isinstance(d, int) and d.is_Rational:
            raise self.error("a whole number", got=str(d), at=at)
        return d

    def _dim(self, level: int) -> Dim:
        self.enter()
        d = self._dim_tail(self._dim_head(), level)
        self.depth -= 1
        return d

    def _dim_tail(self, left: Dim, level: int) -> Dim:
        while True:
            op = self.word
            rank = _MARKS[op][1] if op in _MARKS else 0
            if rank <= level or self.kind != "mark":
                return left
            at = self.i
            self.next()
            right = self._dim(rank - 1 if op == "**" else rank)
            left = self._fold((op, left, right), at)

    def _dim_head(self) -> Dim:
        kind = self.kind
        if kind == "int":
            return self.integer()
        if kind == "name" and self.words[self.i + 1] == "(":
            at = self.i
            name = self.next()
            if name not in _CALLS:
                raise self.error(f"one of {', '.join(_CALLS)}", at=at)
            self.next()
            args = self.items(lambda: self._dim(0), ")")
            _, low, high = _CALLS[name]
            if not low <= len(args) <= high:
                raise self.error(f"{low} to {high} operands of {name}", got=str(len(args)), at=at)
            return self._fold((name, *args), at)
        if kind in ("name", "value"):
            return dims.symbol(self.name("a size"))
        if self.accept("-"):
            at = self.i - 1
            return self._fold(("-", 0, self._dim(_NEGATION)), at)
        if self.accept("("):
            d = self._dim(0)
            self.expect(")")
            return d
        raise self.error("a size: an integer, a dim, or an expression over them")

    def _fold(self, key: tuple[str, *tuple[Dim, ...]], at: int) -> Dim:
        if key in self._folded:
            return self._folded[key]
        op, *args = key
        last = args[-1]
        if op in ("/", "//", "%", "Mod", "mod") and last == 0:
            raise self.error("a divisor other than 0", got="division by 0", at=at)
        size = dims.terms(args[0]) * dims.terms(last) if op == "*" else sum(map(dims.terms, args))
        if op == "**":
            if not isinstance(last, int) or abs(last) > MAX_POWER or (last < 0 and args[0] == 0):
                raise self.error(f"a power of at most {MAX_POWER}", at=at)
            size = dims.terms(args[0]) ** abs(last)
        if size > MAX_TERMS:
            raise self.error(f"at most {MAX_TERMS} terms", got="a longer size", at=at)
        try:
            d = (_CALLS if op in _CALLS else _MARKS)[op][0](*args)
        except (ArithmeticError, AttributeError, TypeError, ValueError) as e:
            # such as Mod of infinities
            raise self.error("a size that sympy can fold", got=str(e), at=at) from e
        if isinstance(d, int) and abs(d) >= _LIMIT:
            raise self.error(f"at most {MAX_DIGITS} digits", got="a larger number", at=at)
        self._folded[key] = d
        return d

    def shape(self) -> Shape:
        """Parse a shape: ``[n, 4]``."""
        self.expect("[")
        return self.items(self.dim, "]")

    # ---- types

    def dtype(self) -> DType:
        """Parse an element type."""
        found = DTYPES.get(self.word)
        if found is None:
            raise self.error(f"a dtype: {', '.join(DTYPES)}")
        self.next()
        return found

    def type(self) -> TensorType:
        """Parse a tensor type: ``f32[n, 4]``, or ``f32[n, 4]@cuda:1`` for another device.

        Strides may follow, and then an offset: ``f32[n, 4] strides (s, 1) offset 8``.
        """
        dtype, shape = self.dtype(), self.shape()
        device = self.device() if self.kind == "global" else ""
        if not self.accept("strides"):
            return TensorType(dtype, shape, device)
        self.expect("(")
        strides = self.items(self.dim, ")")
        offset = self.dim() if self.accept("offset") else 0
        return TensorType(dtype, shape, device, strides, offset)

    def typed_value(self) -> tuple[str, TensorType]:
        """Parse a value with its type: ``%x: f32[n]``."""
        name = self.value()
        self.expect(":")
        return name, self.type()

    def dimvars(self) -> tuple[DimVar, ...]:
        """Parse declarations of dims, if there are any: ``dims n in [1, 8], m in [0, 4]``."""
        found: list[DimVar] = []
        if self.accept("dims"):
            while True:
                name = self.name("the name of a dim")
                self.expect("in")
                self.expect("[")
                lo = self.integer()
                self.expect(",")
                found.append(DimVar(name, lo, self.integer()))
                self.expect("]")
                if not self.accept(","):
                    break
        return tuple(found)

    # ---- constants

    def number(self, dtype: DType = DType.F64) -> Number:
        """Parse a number or truth value; a decimal is rounded to the dtype."""
        minus = self.accept("-")
        kind, word = self.kind, self.word
        if kind == "int":
            value = self.integer()
            return -value if minus else value
        if word in ("true", "false") and not minus:
            self.next()
            return word == "true"
        if kind not in ("float", "hex") and word not in ("nan", "inf"):
            raise self.error("a number")
        self.next()
        if word == "nan":
            return -math.nan if minus else math.nan
        try:
            exact = float.fromhex(word) if kind == "hex" else float(word)
            if kind == "float":
                exact = rounded(exact, dtype)
        except OverflowError:
            exact = math.inf
        if kind != "name" and math.isinf(exact):
            raise self.error(f"a number that fits {dtype}, or inf", at=self.i - 1)
        return -exact if minus else exact

    def tensor(self) -> Tensor:
        """Parse a constant, such as ``f32[2] [1.0, 2.0]``.

        In place of the elements may stand ``filled 0.0``, ``base64 "..."`` or ``file "..."``.
        """
        at = self.i
        dtype, sizes = self.dtype(), self.shape()
        shape = tuple(d for d in sizes if isinstance(d, int) and d >= 0)
        if len(shape) != len(sizes):
            raise self.error("a shape of nonnegative integers", got=shape_text(sizes), at=at)
        nbytes = -(-math.prod(shape) * dtype.bits // 8)
        if self.accept("file"):
            return Tensor(dtype, shape, self._file(nbytes))
        if self.accept("base64"):
            if self.kind != "string":
                raise self.error("bytes in base64")
            try:
                data = base64.b64decode(self.next()[1:-1], validate=True)
            except (binascii.Error, ValueError) as e:
                raise self.error("bytes in base64", got=str(e), at=self.i - 1) from e
            if len(data) != nbytes:
                raise self.error(f"{nbytes} bytes", got=f"{len(data)} bytes", at=self.i - 1)
            return Tensor(dtype, shape, data)
        is_filled = self.accept("filled")
        if is_filled and nbytes > MOST_FILLED:
            raise self.error(f"at most {MOST_FILLED} bytes", got=f"{nbytes} bytes", at=at)
        values: list[Number] = []
        self._elements(values, dtype, () if is_filled else shape)
        try:
            if is_filled:
                return filled(tensor_array(values, dtype, ()), shape)
            return tensor_array(values, dtype, shape)
        except (OverflowError, ValueError):
            raise self.error(f"integers of {dtype}", got="a larger one", at=at) from None

    def _file(self, nbytes: int) -> bytes:
        at, name = self.i, self.string()
        data = self.files(name) if self.files else None
        if data is None:
            raise self.error("the name of a file of bytes beside this text", at=at)
        if len(data) != nbytes:
            raise self.error(f"{nbytes} bytes", got=f"{len(data)} bytes", at=at)
        return data

    def _elements(self, out: list[Number], dtype: DType, shape: tuple[int, ...]) -> None:
        if not shape:
            at = self.i
            value = self.number(dtype)
            real = isinstance(value, float) and not dtype.is_float
            if real or isinstance(value, bool) is not (dtype is DType.BOOL):
                raise self.error(f"a value of {dtype}", at=at)
            out.append(value)
            return
        self.enter()
        self.expect("[")
        at = self.i
        count = len(self.items(lambda: self._elements(out, dtype, shape[1:]), "]"))
        if count != shape[0]:
            raise self.error(f"{shape[0]} items", got=f"{count} items", at=at)
        self.depth -= 1

    # ---- attributes

    def attr(self) -> Attr:
        """Parse an attribute's value: a number, string, dtype, constant, size, or tuple of such."""
        kind, word = self.kind, self.word
        if kind == "string":
            return self.string()
        if word == "(":
            return self._tuple()
        if word in DTYPES:
            return self.tensor() if self.words[self.i + 1] == "[" else self.dtype()
        if kind in ("float", "hex") or word in ("true", "false", "nan", "inf"):
            return self.number()
        if word == "-":
            after = self.i + 1
            if self.kinds[after] in ("float", "hex") or self.words[after] in ("nan", "inf"):
                return self.number()
        if kind in ("int", "name", "value") or word == "-":
            return self.dim()
        raise self.error("an attribute's value")

    def _tuple(self) -> Attr:
        at = self.i
        self.enter()
        self.next()
        found = self.items(self.attr, ")")
        self.depth -= 1
        if len(found) == 1 and self.words[self.i - 2] != ",":
            one = found[0]
            if isinstance(one, (int, sympy.Expr)) and not isinstance(one, bool):
                return self._dim_tail(one, 0)
            raise self.error("`,` after the only item of a tuple", at=at)
        return found

    def named_attr(self) -> tuple[str, Attr]:
        """Parse an attribute: ``axis=1``."""
        name = self.label("the name of an attribute")
        self.expect("=")
        return name, self.attr()

    def attrs(self) -> Attrs:
        """Parse attributes, if there are any: ``attrs(a=1, b="x")``."""
        if not self.accept("attrs"):
            return ()
        self.expect("(")
        return self.items(self.named_attr, ")")
