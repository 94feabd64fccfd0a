"""Reads scalar expressions; ``show_loop`` describes the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.text.literals import DTYPES
from didyma.refimpl.ir.text.reader import Files, Reader
from didyma.refimpl.ir.text.show_loop import COMPARISON, INFIX, NEGATION, RESERVED, dtype_of
from didyma.refimpl.ir.types import DType

MAX_HEIGHT = 256  # of an expression's tree

Find: TypeAlias = Callable[[str], Intrinsic | None]
K = TypeVar("K", ir.BinaryOp, ir.CompareOp, ir.UnaryOp)


def nothing(name: str) -> Intrinsic | None:
    """Return None, for any name."""
    del name
    return None


def _by_name(ops: tuple[K, ...]) -> dict[str, K]:
    return {str(op): op for op in ops}


_BINARY: dict[str, ir.BinaryOp] = _by_name(ir.BINARY_OPS)
_COMPARE: dict[str, ir.CompareOp] = _by_name(ir.COMPARE_OPS)
_UNARY: dict[str, ir.UnaryOp] = _by_name(ir.UNARY_OPS)
_MARKS = {mark: (name, rank) for name, (mark, rank) in INFIX.items()}


class ExprReader(Reader):
    """Reads expressions.  ``height`` is that of the tree of the expression just read.

    ``find`` returns the intrinsic that a name stands for which is not Didyma's own, or None.
    """

    def __init__(
        self, text: str, source: str, files: Files | None = None, find: Find = nothing
    ) -> None:
        self.find = find
        self.height = 0
        self.buffers: dict[str, DType] = {}
        self.vars: dict[str, DType] = {}
        super().__init__(text, source, files)

    # ---- names

    def _buffer_name(self) -> str:
        return self._local("the name of a buffer")

    def _local(self, what: str) -> str:
        if self.word in RESERVED or self.word in DTYPES:
            raise self.error(
                f"{what}; a word of the language is quoted: %{self.word!r}".replace("'", '"')
            )
        return self.name(what)

    def _element(self) -> tuple[str, tuple[ir.Expr, ...]]:
        buffer = self._buffer_name()
        self.expect("[")
        return buffer, self._exprs("]")

    def _binding(self) -> tuple[ir.Var, ir.Expr]:
        name = self._local("the name of a variable")
        dtype = self.dtype() if self.accept(":") else None
        self.expect("=")
        at = self.i
        value = self.expr()
        dtype = dtype or dtype_of(value)
        if dtype is None:
            raise self.error("an operand", got="an intrinsic without one", at=at)
        self.vars[name] = dtype
        return ir.Var(name, dtype), value

    # ---- expressions

    def expr(self, level: int = 0) -> ir.Expr:
        """Take an expression whose operators bind tighter than ``level``."""
        self.enter()
        left = self._primary()
        height = self.height
        while True:
            found = _MARKS.get(self.word)
            if found is None or found[1] <= level:
                break
            name, rank = found
            at = self.i
            self.next()
            right = self.expr(rank)
            height = self._grow(max(height, self.height), at)
            if name in _COMPARE:
                left = ir.Compare(_COMPARE[name], left, right)
                if _MARKS.get(self.word, ("", 0))[1] == COMPARISON:
                    raise self.error("parentheses: comparisons do not chain")
            else:
                left = ir.Binary(_BINARY[name], left, right)
        self.height = height
        self.depth -= 1
        return left

    def _grow(self, height: int, at: int) -> int:
        if height >= MAX_HEIGHT:
            raise self.error(f"a tree of at most {MAX_HEIGHT} levels", got="a higher one", at=at)
        return height + 1

    def _exprs(self, close: str) -> tuple[ir.Expr, ...]:
        found: list[ir.Expr] = []
        height = 0
        while self.word != close:
            found.append(self.expr())
            height = max(height, self.height)
            if not self.accept(","):
                break
        self.expect(close)
        self.height = self._grow(height, self.i - 1)
        return tuple(found)

    def _primary(self) -> ir.Expr:
        kind, word = self.kind, self.word
        if kind == "value" or (kind == "name" and word not in ("true", "false", "nan", "inf")):
            after = self.words[self.i + 1]
            if after == "(" and kind == "name":
                return self._call()
            if after == "(":
                name = self.name("a name")
                self.next()
                return ir.Intrinsic(name, self._exprs(")"))
            if after == "[":
                buffer, index = self._element()
                return ir.Load(buffer, index, self._load_dtype(buffer))
            return self._var()
        if word == "-" and not self._is_number(self.i + 1):
            at = self.i
            self.next()
            arg = self.expr(NEGATION)
            self.height = self._grow(self.height, at)
            return ir.Unary("neg", arg)
        if word == "(":
            return self._parenthesis()
        if self._is_number(self.i) or word == "-":
            return self._const()
        raise self.error("an expression")

    def _parenthesis(self) -> ir.Expr:
        self.next()
        if not self.accept("let"):
            e = self.expr()
            self.expect(")")
            return e
        at = self.i - 1
        var, value = self._binding()
        height = self.height
        self.expect("in")
        body = self.expr()
        self.expect(")")
        self.height = self._grow(max(height, self.height), at)
        return ir.LetExpr(var, value, body)

    def _is_number(self, at: int) -> bool:
        number = self.kinds[at] in ("int", "float", "hex")
        return number or self.words[at] in ("true", "false", "nan", "inf")

    def _const(self) -> ir.Const:
        at = self.i
        dtype = self._suffix(at + 1 + (self.word == "-"))
        value = self.number(dtype or DType.F64)
        if dtype is not None:
            self.next()
            self.next()
        elif isinstance(value, float):
            raise self.error("`:` and the dtype of this literal, such as 1.0:f32", at=at)
        else:
            dtype = DType.BOOL if isinstance(value, bool) else ir.INDEX
        self.height = 1
        return ir.Const(value, dtype)

    def _suffix(self, at: int) -> DType | None:
        """Return the dtype after a ``:`` at word ``at``."""
        if at + 1 >= len(self.words) or self.words[at] != ":":
            return None
        dtype = DTYPES.get(self.words[at + 1])
        if dtype is None:
            raise self.error(f"a dtype: {', '.join(DTYPES)}", at=at + 1)
        return dtype

    def _written_dtype(self) -> DType | None:
        dtype = self._suffix(self.i)
        if dtype is not None:
            self.i += 2
        return dtype

    def _load_dtype(self, buffer: str) -> DType:
        dtype = self._written_dtype() or self.buffers.get(buffer)
        if dtype is None:
            raise self.error(f"`:` and a dtype, since no buffer {buffer} is declared")
        return dtype

    def _var(self) -> ir.Expr:
        name = self._local("an expression")
        self.height = 1
        return ir.Var(name, self._written_dtype() or self.vars.get(name, ir.INDEX))

    def _call(self) -> ir.Expr:
        at = self.i
        name = self.next()
        self.next()
        if name in ("ramp", "broadcast"):
            return self._vector(name)
        args = self._exprs(")")
        if name in ir.INTRINSICS or name in ir.BITCASTS:
            return ir.Intrinsic(name, args)
        if name in _BINARY and len(args) == 2:
            return ir.Binary(_BINARY[name], *args)
        if name in _COMPARE and len(args) == 2:
            return ir.Compare(_COMPARE[name], *args)
        if name in _UNARY and len(args) == 1:
            return ir.Unary(_UNARY[name], args[0])
        if name in DTYPES and len(args) == 1:
            return ir.Cast(args[0], DTYPES[name])
        if name == "select" and len(args) == 3:
            return ir.Select(*args)
        known = (*_BINARY, *_COMPARE, *_UNARY, *DTYPES, "select", "ramp", "broadcast")
        if name in known:
            wanted = 3 if name == "select" else 2 if name in (*_BINARY, *_COMPARE) else 1
            raise self.error(f"{wanted} operands of {name}", got=str(len(args)), at=at)
        if own := self.find(name):
            return ir.Intrinsic(name, args, own)
        raise self.error(f"a function: {', '.join((*known, *ir.INTRINSICS, *ir.BITCASTS))}", at=at)

    def _vector(self, name: str) -> ir.Expr:
        """Take what follows the opening parenthesis of a ``ramp`` or ``broadcast``."""
        value = self.expr()
        self.height = self._grow(self.height, self.i - 1)
        counts = [self._count() for _ in range(2 if name == "ramp" else 1)]
        self.expect(")")
        return ir.Ramp(value, *counts) if name == "ramp" else ir.Broadcast(value, *counts)

    def _count(self) -> int:
        self.expect(",")
        at = self.i
        count = self.number(ir.INDEX)
        if type(count) is not int:
            raise self.error("a whole number", at=at)
        return count
