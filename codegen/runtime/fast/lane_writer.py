"""Expressions and statements of kernels cut into loops over lanes, as C."""

from __future__ import annotations

from typing import Final

from pycparser import c_ast as c
from pycparser.c_generator import CGenerator

from didyma.codegen.runtime.fast.lane_digits import Digits
from didyma.codegen.runtime.fast.lane_items import UnsuitedError
from didyma.codegen.runtime.fast.lane_kinds import VARYING, names, nodes, step
from didyma.codegen.runtime.fast.lanes import SHUFFLED, Cut

ONCE: Final = "once__"  # before the number of a choice, as a copy of a loop's body knows it
_COMPARE: Final = ("<", "<=", ">", ">=", "==", "!=")


class Writer(CGenerator):
    """Writes expressions and statements: of one lane, or of what lanes share."""

    def __init__(self, cut: Cut) -> None:
        super().__init__()
        self.cut = cut
        self.in_lane = False
        self.digits: set[str] = set()  # that lanes look at
        self.once: list[str] = []  # choices that lanes share, of the statement that is written
        self.guarded = True  # whether some lane may leave out what is written

    def _is_digit(self, name: str) -> bool:
        digits = self.cut.kinds.digits
        return digits is not None and name in digits.low

    def visit(self, node: c.Node) -> str:
        """Return a node as C."""
        match node:
            case c.ID():
                return self._name(node)
            case c.ArrayRef():
                return self._element(node)
            case c.UnaryOp():
                return self._unary(node)
            case c.StructRef():
                return self._member(node)
            case c.FuncCall():
                return self._call(node)
            case c.BinaryOp():
                return self._binary(node)
            case c.TernaryOp():
                return self._choice(node)
            case c.Decl() if node.name in self.cut.stored:
                return f"{node.name}[l__] = {self.visit(node.init)}" if node.init else ""
            case _:
                return super().visit(node)

    def _name(self, n: c.ID) -> str:
        name: str = n.name
        if name in self.cut.stored:
            if isinstance(self.cut.stored[name].type, c.ArrayDecl):
                raise UnsuitedError("the address of a thread's own array")
            return f"{name}[l__]"
        kind = self.cut.kinds.of.get(name, 0)
        if self.in_lane and self._is_digit(name):
            self.digits.add(name)
            return f"{name}__each[l__]"
        if self.in_lane and isinstance(kind, int) and kind != 0:
            return f"({name} + {_times(kind)})"
        return name

    def _element(self, n: c.ArrayRef) -> str:
        if self.in_lane and any(map(self._is_digit, names(n.subscript))):
            by = self.cut.kinds.grows(n.subscript)
            if by is not None:
                return f"{self.visit(n.name)}[({self.shared(n.subscript)}) + {_times(by)}]"
        at = self.visit(n.subscript)
        if isinstance(n.name, c.ID):
            name = n.name.name
            if name in self.cut.stored:
                return f"{name}[{at}][l__]"
            return f"{name}[{at}]"
        return f"{self.visit(n.name)}[{at}]"

    def _unary(self, n: c.UnaryOp) -> str:
        if n.op == "&" and names(n.expr) & self.cut.stored.keys():
            inner = n.expr
            if isinstance(inner, c.ArrayRef) and inner.name.name in self.cut.stored:
                raise UnsuitedError("the address of a thread's own array")
        return super().visit(n)

    def _member(self, n: c.StructRef) -> str:
        base, part = n.name, n.field.name
        if isinstance(base, c.ID) and base.name == "threadIdx":
            if part == "x":
                return "(u32)(first__ + x__)" if self.in_lane else "first__"
            return f"(u32){part}__"
        return f"{self.visit(base)}.{part}"

    def _call(self, n: c.FuncCall) -> str:
        if n.name.name == SHUFFLED:
            value, mask = n.args.exprs
            return f"{value.name}[l__ ^ {self.visit(mask)}]"
        args = ", ".join(self.visit(a) for a in n.args.exprs) if n.args else ""
        return f"{n.name.name}({args})"

    def _binary(self, n: c.BinaryOp) -> str:
        if self.in_lane and n.op in _COMPARE and (said := self._compared(n)):
            return said
        op = n.op
        if op in ("&&", "||") and self.in_lane and _is_plain(n):
            return f"(({self.visit(n.left)}) {op[0]} ({self.visit(n.right)}))"
        right = self._guarded(n.right) if op in ("&&", "||") else self.visit(n.right)
        return f"({self.visit(n.left)}) {op} ({right})"

    def _choice(self, n: c.TernaryOp) -> str:
        if self.in_lane and not self.guarded and self.cut.kinds.kind(n) == 0:
            self.once.append(self.shared(n))
            return f"{ONCE}{len(self.once) - 1}"
        then, other = self._guarded(n.iftrue), self._guarded(n.iffalse)
        return f"(({self.visit(n.cond)}) ? ({then}) : ({other}))"

    def _guarded(self, n: c.Node) -> str:
        """Return an expression that is not evaluated in every case."""
        was, self.guarded = self.guarded, True
        text = self.visit(n)
        self.guarded = was
        return text

    def _compared(self, n: c.BinaryOp) -> str:
        """Return a comparison of lane numbers, which are narrow, in place of wide indices."""
        kinds = self.cut.kinds
        if not (kinds.integer(n.left) and kinds.integer(n.right)):
            return ""
        a, b = kinds.kind(n.left), kinds.kind(n.right)
        if kinds.digits is not None and a == VARYING and b == 0:
            return self._digit(n, kinds.digits)
        if (a, b) not in ((1, 0), (0, 1)):
            return ""
        left, right = self.shared(n.left), self.shared(n.right)
        if a == 1:
            return f"(lane__[x__] {n.op} near__(({right}) - ({left})))"
        return f"(near__(({left}) - ({right})) {n.op} lane__[x__])"

    def _digit(self, n: c.BinaryOp, digits: Digits) -> str:
        """Return a comparison of a digit, plus what lanes share, with what they share."""
        low = names(n.left) & digits.low.keys()
        others = names(n.left) - low
        if len(low) != 1 or any(self.cut.kinds.of.get(x) != 0 for x in others):
            return ""
        (name,) = low
        if step(n.left, {name: 1}) != 1:
            return ""
        self.digits.add(name)
        rest = f"({self.shared(n.right)}) - (({self.shared(n.left)}) - {name})"
        return f"({name}__each[l__] {n.op} near__({rest}))"

    def shared(self, n: c.Node) -> str:
        """Return an expression as the first lane of a run sees it."""
        was, self.in_lane = self.in_lane, False
        text = self.visit(n)
        self.in_lane = was
        return text

    def each(self, n: c.Node) -> str:
        """Return a digit as one lane computes it."""
        self.in_lane = True
        text = self.visit(n)
        self.in_lane = False
        return text

    def lane(self, n: c.Node) -> str:
        """Return a statement as one lane runs it."""
        self.in_lane, self.guarded = True, isinstance(n, (c.If, c.For, c.While, c.Compound))
        text = self._generate_stmt(n, add_indent=True)
        self.in_lane, self.guarded = False, True
        return text


def _times(step: int) -> str:
    return "x__" if step == 1 else f"{step} * x__"


def _is_plain(n: c.Node) -> bool:
    """Return whether an expression reads no memory and calls nothing: it may run in any case."""
    return not any(
        isinstance(x, (c.ArrayRef, c.FuncCall, c.Assignment))
        or (isinstance(x, c.BinaryOp) and x.op in "/%")
        for x in nodes(n)
    )
