"""Kernel text as loops over the threads of a block, which a C compiler turns into vectors.

A kernel is cut where its threads must meet: at barriers and at loops that all threads run alike.
What lies between two cuts becomes a loop over the block's threads, its *lanes*, and a variable that
is needed beyond a cut becomes an array with a place for each lane.  So a loop over terms of a sum
has the loop over lanes inside it, whose neighbours read neighbours in memory.  This is what is
known as loop fission at barriers (Stratton, Stone, Hwu: MCUDA, LCPC 2008) with the uniformity
analysis of SPMD compilers (Karrenberg, Hack: Whole-Function Vectorization, CGO 2011).

Without barriers the lanes are a run of neighbours on axis x, which ends where a quotient of their
index would change: within a run, a row of an image say, the quotient is shared and the remainder
counts up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pycparser import c_ast as c

from didyma.codegen.emit.intrinsics import family
from didyma.codegen.runtime.fast.lane_digits import find
from didyma.codegen.runtime.fast.lane_items import (
    Again,
    Branch,
    Crossing,
    Digit,
    Group,
    Items,
    Loop,
    Most,
    Quotient,
    Scalar,
    Shared,
    UnsuitedError,
    groups,
)
from didyma.codegen.runtime.fast.lane_kinds import (
    AGAIN,
    INTEGERS,
    VARYING,
    Kind,
    Kinds,
    assigned,
    literal,
    names,
    nodes,
    step,
    type_name,
    unique,
)

SHORT: Final = 12  # a divisor below it makes runs of lanes that are not worth it
STRIDED: Final = 16  # lanes that read memory far apart, so that it stays in the nearest cache
SHUFFLED: Final = "shuffled__"
_CROSSINGS: Final = {"<": 0, ">=": 0, "<=": 1, ">": 1}
_MIRROR: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Cut:
    """A kernel cut into items; ``stored`` are the variables with a place for each lane."""

    function: c.FuncDef
    items: Items
    kinds: Kinds
    barriers: bool
    atomics: bool
    stored: dict[str, c.Decl] = field(default_factory=dict[str, c.Decl])


def cut(function: c.FuncDef, block: tuple[int, int, int]) -> Cut:
    """Cut a kernel into items; UnsuitedError where it cannot be."""
    unique(function)
    called = {x.name.name for x in nodes(function) if isinstance(x, c.FuncCall)}
    if any(isinstance(x, (c.Return, c.Goto, c.Label, c.Switch)) for x in nodes(function)):
        raise UnsuitedError("it leaves its body early")
    if any(name.startswith("assert_") for name in called):
        raise UnsuitedError("it has assertions")
    if any(map(family, called)):
        raise UnsuitedError("its copies are those of threads")
    if any(name.startswith("cluster_") for name in called):
        raise UnsuitedError("it shares memory with other blocks")
    if any(name.startswith("chain_") for name in called):
        raise UnsuitedError("its blocks wait for others")
    barriers = _meets(function)
    params = function.decl.type.args.params
    pointers = {p.name for p in params if isinstance(p.type, c.PtrDecl)}
    constant = {p.name for p in params if p.name in pointers and {"const", "restrict"} <= quals(p)}
    kinds = Kinds(barriers and block[1] * block[2] > 1, constant, assigned(function.body))
    if not barriers:
        kinds.digits = find(function, pointers, kinds.written)
    for p in params:
        if p.name not in pointers:
            kinds.of[p.name] = 0
            if type_name(p.type) in INTEGERS:
                kinds.integers.add(p.name)
    atomics = any(name.startswith("atomic_") for name in called)
    cutter = _Cutter(kinds, barriers, pointers)
    items = cutter.block(function.body.block_items or [], uniform=True)
    done = Cut(function, items, kinds, barriers, atomics)
    _store(done, cutter.decls, cutter.forced)
    return done


def quals(p: c.Decl) -> set[str]:
    """Return the qualifiers of a parameter, of the pointer and of what it points to."""
    return {*p.quals, *p.type.quals, *getattr(p.type.type, "quals", ())}


def _meets(n: c.Node) -> bool:
    """Return whether threads of a block meet in a statement: at a barrier or a shuffle."""
    return any(
        isinstance(x, c.FuncCall)
        and (x.name.name == "__syncthreads" or x.name.name.startswith("shuffle_"))
        for x in nodes(n)
    )


class _Cutter:
    def __init__(self, kinds: Kinds, barriers: bool, arrays: Iterable[str]) -> None:
        self.kinds = kinds
        self.barriers = barriers
        self.arrays = set(arrays)  # in global memory
        self.decls: dict[str, c.Decl] = {}
        self.forced: set[str] = set()
        self.pristine = not barriers  # the run of lanes can still be made shorter
        self.items: Items = []

    def block(self, statements: Sequence[c.Node], uniform: bool) -> Items:
        """Cut a sequence of statements that all lanes run."""
        before, self.items = self.items, []
        unrolled = False
        for s in statements:
            if isinstance(s, c.Pragma):
                unrolled = "unroll" in s.string
                continue
            self._statement(s, unrolled)
            unrolled = False
        made, self.items = self.items, before
        return made

    def _statement(self, s: c.Node, unrolled: bool) -> None:
        match s:
            case c.Decl():
                self._decl(s)
            case c.Compound(block_items=some):
                self.items += self.block(some or [], uniform=True)
            case c.For() if self._is_cut(s):
                self._loop(s, unrolled)
            case c.If() if self._is_branch(s):
                self._branch(s)
            case c.FuncCall(name=c.ID(name="__syncthreads")):
                self.items.append(Group([]))
            case c.EmptyStatement():
                pass
            case _:
                self._lane(s)

    # Declarations

    def _decl(self, d: c.Decl) -> None:
        name = d.name
        if "static" in d.storage:
            if not self.barriers:
                raise UnsuitedError("shared memory without a barrier")
            self.items.append(Shared(d))
            return
        if isinstance(d.type, c.ArrayDecl):
            self.decls[name] = d
            self._lane(d)
            return
        if d.init is None or name in self.kinds.written:
            self.decls[name] = d
            self._lane(d)
            return
        whole = type_name(d.type) == "i64"
        if whole and self._is_digit(d):
            return
        kind = self._kind(d.init, whole)
        if isinstance(kind, int) and kind != 0 and not whole:
            kind = VARYING
        if kind == AGAIN and not whole:
            kind = VARYING
        if whole:
            self.kinds.integers.add(name)
        self.kinds.of[name] = kind
        if isinstance(kind, int):
            self.items.append(Scalar(d, kind))
        elif kind == AGAIN:
            self.items.append(Again(d))
        else:
            self.decls[name] = d
            self._lane(d)

    def _names_digit(self, name: str) -> bool:
        digits = self.kinds.digits
        return digits is not None and name in digits.low.keys() | digits.high

    def _is_digit(self, d: c.Decl) -> bool:
        """Handle the declaration of a digit of the index, if it is one."""
        digits = self.kinds.digits
        if digits is None or not self._names_digit(d.name):
            return False
        if not self.pristine or self.kinds.of.get(digits.base) != 1:
            self.kinds.digits = None
            return False
        self.kinds.integers.add(d.name)
        size = c.Constant("int", str(digits.size))
        self.items.append(Quotient(c.ID(digits.base), size))
        self.kinds.of[d.name] = 0 if d.name in digits.high else VARYING
        self.items.append(Scalar(d, 0) if d.name in digits.high else Digit(d))
        return True

    def _kind(self, init: c.Node, whole: bool) -> Kind:
        """Return the kind of a value; a run of lanes is made shorter for a quotient's sake."""
        if not whole:
            return self.kinds.kind(init)
        match init:
            case c.StructRef(name=c.ID(name="threadIdx"), field=c.ID(name="x")):
                return 1
            case _:
                if self.pristine and self.kinds.integer(init):
                    for part in list(nodes(init))[::-1]:
                        if isinstance(part, c.BinaryOp) and part.op in ("/", "%"):
                            self._quotient(part)
                    return self._shortened(init)
                return self.kinds.kind(init)

    def _quotient(self, n: c.BinaryOp) -> None:
        kinds = self.kinds
        if self._shortened(n.left) != 1 or kinds.kind(n.right) != 0:
            return
        by = literal(n.right)
        if by is None or by >= SHORT:
            self.items.append(Quotient(n.left, n.right))

    def _shortened(self, n: c.Node) -> Kind:
        """Return the kind of an integer where runs end at the quotients that it has."""
        kinds = self.kinds
        match n:
            case c.BinaryOp(op=("/" | "%") as op, left=left, right=right):
                kind, by = self._shortened(left), literal(right)
                if kind == 1 and kinds.kind(right) == 0 and (by is None or by >= SHORT):
                    return 0 if op == "/" else 1
                if kind == 0 and kinds.kind(right) == 0:
                    return 0
                return VARYING if isinstance(kind, int) else kind
            case c.BinaryOp(op=("+" | "-" | "*") as op, left=left, right=right):
                a, b = self._shortened(left), self._shortened(right)
                if not isinstance(a, int) or not isinstance(b, int):
                    return VARYING if VARYING in (a, b) else AGAIN
                if op != "*":
                    return a + b if op == "+" else a - b
                if a == 0 and b == 0:
                    return 0
                by_left, by_right = literal(left), literal(right)
                if by_right is not None:
                    return a * by_right
                return AGAIN if by_left is None else b * by_left
            case _:
                return kinds.kind(n)

    # Control

    def _is_cut(self, s: c.For) -> bool:
        """Return whether a loop is run by all lanes together."""
        must = _meets(s)
        if not self._is_simple(s):
            if must:
                raise UnsuitedError("a barrier in a loop that threads run differently")
            return False
        return must or not self._is_row(s)

    def _is_simple(self, s: c.For) -> bool:
        if not isinstance(s.init, c.DeclList) or len(s.init.decls) != 1:
            return False
        d = s.init.decls[0]
        own = {d.name}
        if any(isinstance(x, (c.Break, c.Continue)) for x in nodes(s.stmt)):
            return False
        if type_name(d.type) != "i64" or d.name in assigned(s.stmt):
            return False
        bounds = names(s.cond) | names(s.next)
        if (bounds - own) & assigned(s.stmt):
            return False
        kinds = self.kinds
        before = kinds.of.get(d.name)
        if kinds.kind(d.init) != 0:
            return False
        kinds.of[d.name] = 0
        alike = kinds.kind(s.cond) == 0 and all(kinds.of.get(x) == 0 for x in names(s.next))
        if before is None:
            del kinds.of[d.name]
        return alike

    def _is_row(self, s: c.For) -> bool:
        """Return whether a loop walks along memory where lanes would lie far apart."""
        if self.barriers or assigned(s.stmt) & self.decls.keys():
            return False
        return any(far and along for far, along in self._accesses(s))

    def _accesses(self, s: c.For) -> Iterator[tuple[bool, bool]]:
        """Yield, of each access to memory, whether lanes are far apart and terms side by side."""
        kinds = self.kinds
        lane: dict[str, int | None] = {
            n: k if isinstance(k, int) else None for n, k in kinds.of.items()
        }
        term: dict[str, int | None] = {}
        for x in nodes(s):
            if isinstance(x, c.For) and isinstance(x.init, c.DeclList):
                term[x.init.decls[0].name] = 1
            elif isinstance(x, c.Decl) and x.init is not None and x.name not in term:
                lane[x.name] = step(x.init, lane)
                term[x.name] = step(x.init, term)
            elif (
                isinstance(x, c.ArrayRef)
                and isinstance(x.name, c.ID)
                and x.name.name in self.arrays
            ):
                by_lane = step(x.subscript, lane)
                by_lane = kinds.grows(x.subscript) if by_lane is None else by_lane
                yield by_lane not in (0, 1), step(x.subscript, term) == 1

    def _loop(self, s: c.For, unrolled: bool) -> None:
        d = s.init.decls[0]
        if self.pristine and any(far for far, _ in self._accesses(s)):
            self.items.append(Most(STRIDED))
        self.pristine = False  # what is inside runs more than once
        self.kinds.of[d.name] = 0
        self.kinds.integers.add(d.name)
        body = s.stmt.block_items if isinstance(s.stmt, c.Compound) else [s.stmt]
        self.items.append(Loop(s, self.block(body or [], uniform=True), unrolled))

    def _is_branch(self, s: c.If) -> bool:
        alike = self.kinds.kind(s.cond) == 0 or (self.pristine and self._crossings(s.cond))
        if not alike and _meets(s):
            raise UnsuitedError("a barrier where not all threads come")
        return bool(alike)

    def _crossings(self, cond: c.Node) -> list[Crossing]:
        """Return where a condition changes along the lanes; none if that is not known."""
        match cond:
            case c.BinaryOp(op=("&&" | "||"), left=left, right=right):
                a, b = self._crossings(left), self._crossings(right)
                alike = (self.kinds.kind(left) == 0, self.kinds.kind(right) == 0)
                return [*a, *b] if (a or alike[0]) and (b or alike[1]) else []
            case c.BinaryOp(op=op, left=left, right=right) if op in _CROSSINGS:
                if not (self.kinds.integer(left) and self.kinds.integer(right)):
                    return []
                kinds = self.kinds.kind(left), self.kinds.kind(right)
                if kinds == (1, 0):
                    return [Crossing(left, right, _CROSSINGS[op])]
                if kinds == (0, 1):
                    return [Crossing(right, left, _CROSSINGS[_MIRROR[op]])]
                return []
            case _:
                return []

    def _branch(self, s: c.If) -> None:
        if self.kinds.kind(s.cond) != 0:
            self.items += self._crossings(s.cond)
        sides: list[Items] = []
        # A side makes the run shorter for itself alone, so that nothing may have run before it.
        was = self.pristine
        for side in (s.iftrue, s.iffalse):
            some = side.block_items if isinstance(side, c.Compound) else [side] if side else []
            self.pristine = was and s.iffalse is None
            sides.append(self.block(some or [], uniform=True))
        self.pristine = False
        self.items.append(Branch(s.cond, sides[0], sides[1]))

    # What each lane runs by itself

    def _lane(self, s: c.Node) -> None:
        while (call := _shuffle(s)) is not None:
            value, mask = call.args.exprs
            if literal(mask) is None:
                raise UnsuitedError("a shuffle by a variable")
            dtype = call.name.name.removeprefix("shuffle_xor_")
            given = f"given__{len(self.forced)}"
            self.forced.add(given)
            t = c.TypeDecl(given, [], None, c.IdentifierType([dtype]))
            self.decls[given] = c.Decl(given, [], [], [], [], t, None, None)
            self._lane(c.Assignment("=", c.ID(given), value))
            self.items.append(Group([]))
            call.name = c.ID(SHUFFLED)
            call.args = c.ExprList([c.ID(given), mask])
        if _meets(s):
            raise UnsuitedError("a barrier where not all threads come")
        for x in nodes(s):
            if isinstance(x, c.Decl):
                self.decls[x.name] = x
                if self._names_digit(x.name):
                    self.kinds.digits = None  # each lane divides by itself
                if type_name(x.type) == "i64" and not isinstance(x.type, c.ArrayDecl):
                    self.kinds.integers.add(x.name)
        if self.items and isinstance(self.items[-1], Group) and self.items[-1].statements:
            self.items[-1].statements.append(s)
        else:
            self.items.append(Group([s]))
        self.pristine = self.pristine and not self._writes(s)

    def _writes(self, s: c.Node) -> bool:
        """Return whether a statement writes memory, so that no lane may run it twice."""
        calls = (x.name.name for x in nodes(s) if isinstance(x, c.FuncCall))
        return not assigned(s) <= self.decls.keys() or any(
            name.startswith(("store", "atomic_")) for name in calls
        )


def _shuffle(s: c.Node) -> c.FuncCall | None:
    """Return the innermost shuffle of a statement, where each lane runs it once."""
    if isinstance(s, (c.If, c.For, c.While, c.Compound)):
        return None
    found = [
        x for x in nodes(s) if isinstance(x, c.FuncCall) and x.name.name.startswith("shuffle_xor_")
    ]
    return found[-1] if found else None


def _store(done: Cut, decls: dict[str, c.Decl], forced: set[str]) -> None:
    """Find the variables that more than one group needs."""
    seen: dict[str, set[int]] = {}
    declared: dict[str, int] = {}
    for number, g in enumerate(groups(done.items)):
        for s in g.statements:
            for x in nodes(s):
                if isinstance(x, c.Decl):
                    declared[x.name] = number
                    seen.setdefault(x.name, set()).add(number)
                elif isinstance(x, c.ID) and x.name in decls:
                    seen.setdefault(x.name, set()).add(number)
    for name, d in decls.items():
        if name in forced or len(seen.get(name, ())) > 1:
            done.stored[name] = d
