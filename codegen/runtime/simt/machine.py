"""Kernel text compiled to closures over lanes: C's meaning, one NumPy operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pycparser import c_ast as c

from didyma.codegen.emit.intrinsics import NBYTES, TABLE, VECTORS, CFunction, components
from didyma.codegen.emit.subset import place
from didyma.codegen.runtime.simt import access, calls, groups, leaps, meets
from didyma.codegen.runtime.simt.access import Mask, Run, Value
from didyma.codegen.runtime.simt.calls import Eval
from didyma.codegen.runtime.simt.clocks import ClockArray
from didyma.codegen.runtime.simt.control import Exec, StoppedError, repeat, split
from didyma.codegen.runtime.simt.memory import LaneArray
from didyma.codegen.runtime.simt.values import Arithmetic, is_int, overflown, promote, truth

_MEETINGS = ("mbarrier_wait", "named_barrier")


class UnsupportedSyntaxError(Exception):
    """The text leaves the subset of C that kernels are written in."""

    def __init__(self, node: c.Node, line: int) -> None:
        super().__init__(f"line {line}: {type(node).__name__} is not kernel text")


class Translator:
    """Compiles one function; ``types`` learns the type of each variable as it is declared.

    ``table`` and ``functions`` are those of intrinsics beside Didyma's own.  ``counting`` says that
    the statements which threads execute are counted, ``exact`` that signed integers must not
    overflow, ``ends`` that only the first and last rounds of loops run.
    So many lines of the text are ``above`` the first that the tree of the function counts.
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        table: Mapping[str, CFunction] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        counting: bool = False,
        exact: bool = False,
        ends: bool = False,
        above: int = 0,
    ) -> None:
        self.arithmetic = arithmetic
        self.counting = counting
        self.exact = exact
        self.ends = ends
        self.above = above
        self.table = table or {}
        self.functions = functions or {}
        self.types: dict[str, str] = {}
        self.bare: set[str] = set()  # declared without a value
        self.fenced = False  # whether what threads write has to be fenced for products
        self.in_turn = False  # whether groups of threads wait for each other

    def function(self, f: c.FuncDef) -> tuple[Exec, tuple[str, ...]]:
        """Compile the body of a kernel; return it with the names of the parameters."""
        params = f.decl.type.args.params
        self.fenced = groups.calls(f, ("wgmma_m", "tma_store"))
        self.in_turn = groups.calls(f, ("mbarrier_", "named_barrier", "tma_", "tensor_map"))
        self.types.update((p.name, self._type_name(p.type)) for p in params)
        body, names = self.stmt(f.body), tuple(p.name for p in params)
        if self.in_turn:
            return lambda r, m: meets.in_turn(r, body), names
        return body, names

    def _line(self, n: c.Node) -> int:
        """Line of the text, from 1, of a part of the function; 0 if unknown."""
        line = int(getattr(n.coord, "line", 0) or 0)
        return line and self.above + line

    # Types

    @staticmethod
    def _type_name(t: c.Node) -> str:
        """Name of the typedef that a declaration bottoms out in."""
        while not isinstance(t, c.IdentifierType):
            t = t.type
        return " ".join(t.names)

    # Expressions

    def expr(self, n: c.Node) -> Eval:
        """Compile an expression for its value."""
        match n:
            case c.Constant():
                value = self.arithmetic.literal(n)
                return lambda r, m: value
            case c.ID():
                return self._variable(n)
            case c.StructRef():
                return self._member(n)
            case c.ArrayRef():
                return self._load(n)
            case c.BinaryOp():
                return self._binary(n)
            case c.UnaryOp():
                return self._unary(n)
            case c.TernaryOp():
                return self._ternary(n)
            case c.Cast():
                arg = self.expr(n.expr)
                convert = self.arithmetic.converter(self._type_name(n.to_type))
                return lambda r, m: convert(arg(r, m))
            case c.FuncCall():
                return self._call(n)
            case _:
                raise UnsupportedSyntaxError(n, self._line(n))

    def _variable(self, n: c.ID) -> Eval:
        name, line = n.name, self._line(n)
        if name not in self.bare:
            return lambda r, m: r.variables[name]

        def read(r: Run, m: Mask) -> Value:
            if name in r.fresh and (lost := int(np.count_nonzero(access.both(m, r.fresh[name])))):
                r.report("uninitialised", f"variable {name} is read", lost, line)
            return r.variables[name]

        return read

    def _member(self, n: c.StructRef) -> Eval:
        base, part = n.name.name, n.field.name
        if base in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            key = (base, part)
            return lambda r, m: r.axes[key]
        return lambda r, m: r.variables[base][part]

    def _binary(self, n: c.BinaryOp) -> Eval:
        left, right = self.expr(n.left), self.expr(n.right)
        if n.op in ("&&", "||"):
            return self._shortcut(n.op == "&&", left, right)
        f = self.arithmetic.binary(n.op)
        if self.exact:
            return _checked(n.op, f, left, right, self._line(n))
        return lambda r, m: f(left(r, m), right(r, m))

    @staticmethod
    def _shortcut(conjunction: bool, left: Eval, right: Eval) -> Eval:
        def run(r: Run, m: Mask) -> Value:
            a = left(r, m)
            yes, any_yes, no, any_no = split(r, m, a)
            rest, any_rest = (yes, any_yes) if conjunction else (no, any_no)
            if not any_rest:
                return np.zeros_like(truth(a)) if conjunction else np.ones_like(truth(a))
            b = truth(right(r, rest))
            return truth(a) & b if conjunction else truth(a) | b

        return run

    def _unary(self, n: c.UnaryOp) -> Eval:
        if n.op in ("++", "p++", "--", "p--"):
            return self._step(n)
        arg = self.expr(n.expr)
        if n.op == "!":
            return lambda r, m: np.logical_not(truth(arg(r, m)))
        if n.op == "~":
            # C promotes what is narrower than int, a comparison among them.
            return lambda r, m: np.invert(promote(arg(r, m)))
        negative = {"-": self.arithmetic.negative}[n.op]
        return lambda r, m: negative(arg(r, m))

    def _step(self, n: c.UnaryOp) -> Eval:
        name, by = n.expr.name, 1 if "+" in n.op else -1

        def run(r: Run, m: Mask) -> Value:
            old = r.variables[name]
            new = old + np.asarray(by, np.asarray(old).dtype)
            r.variables[name] = new if m is None else np.where(m, new, old)
            return old

        return run

    def _ternary(self, n: c.TernaryOp) -> Eval:
        then, other = self._side(n.iftrue, n.iffalse), self._side(n.iffalse, n.iftrue)
        cond = self.expr(n.cond)
        choose = self.arithmetic.choose

        def run(r: Run, m: Mask) -> Value:
            t = cond(r, m)
            yes, any_yes, no, any_no = split(r, m, t)
            if not any_no:
                return then(r, yes)
            if not any_yes:
                return other(r, no)
            return choose(truth(t), then(r, yes), other(r, no))

        return run

    def _side(self, n: c.Node, beside: c.Node) -> Eval:
        """Compile one side of a choice; an int literal beside what may be wider is 64 bits wide."""
        value = self.expr(n)
        if not is_int(n) or is_int(beside):
            return value
        return lambda r, m: np.asarray(value(r, m)).astype(np.int64)[()]

    # Memory

    def _element(self, n: c.ArrayRef) -> tuple[str, Eval]:
        if not isinstance(n.name, c.ID):
            raise UnsupportedSyntaxError(n, self._line(n))
        return n.name.name, self.expr(n.subscript)

    def _load(self, n: c.ArrayRef) -> Eval:
        name, index = self._element(n)
        line = self._line(n)
        return lambda r, m: access.load(r, r.arrays[name], index(r, m), m, line)

    def _store(self, target: c.Node, value: Eval) -> Exec:
        """Compile ``target = value``."""
        line = self._line(target)
        match target:
            case c.ID():
                name = target.name
                convert = self._converter(self.types[name])
                if self.types[name] in VECTORS:
                    return lambda r, m: access.assign_lanes(r, name, convert(value(r, m)), m)
                return lambda r, m: access.assign(r, name, convert(value(r, m)), m)
            case c.ArrayRef():
                array, index = self._element(target)
                return lambda r, m: access.store(
                    r, r.arrays[array], index(r, m), value(r, m), m, line
                )
            case c.StructRef():
                base, part = target.name.name, target.field.name
                to_lane = self.arithmetic.converter(VECTORS[self.types[base]][0])

                def run(r: Run, m: Mask) -> None:
                    struct = r.variables[base]
                    new = to_lane(value(r, m))
                    struct[part] = new if m is None else np.where(m, new, struct[part])

                return run
            case _:
                raise UnsupportedSyntaxError(target, line)

    def _call(self, n: c.FuncCall) -> Eval:
        name, line = n.name.name, self._line(n)
        args: Sequence[c.Node] = n.args.exprs if n.args else []
        if (found := calls.of_memory(self, name, args, line)) is not None:
            return found
        if name == "assert_b8":
            return self._assert(args[0], line)
        if name in self.table:
            wanted = [self._converter(t) for t in self.table[name].args]
            f = self.functions[name]
        else:
            wanted = [self.arithmetic.converter(t) for t in TABLE[name].args]
            f = self.arithmetic.function(name)
        compiled = list(zip(map(self.expr, args), wanted, strict=True))
        return lambda r, m: f(*(convert(a(r, m)) for a, convert in compiled))

    def address(self, n: c.Node) -> tuple[str, Eval]:
        """Compile an address to the name of an array and an index."""
        found = place(n)
        if found is None:
            raise UnsupportedSyntaxError(n, self._line(n))
        array, index = found
        return array, self.expr(index) if index is not None else lambda r, m: np.int64(0)

    def _assert(self, n: c.Node, line: int) -> Eval:
        holds = self.expr(n)

        def run(r: Run, m: Mask) -> None:
            _, _, who, fails = split(r, m, holds(r, m))
            if fails:
                raise StoppedError("assert", "it does not hold", len(r.who(who)), line)

        return run

    def _converter(self, t: str) -> Callable[[Any], Any]:
        """Return the conversion to a type, of vectors in each lane."""
        if t not in VECTORS:
            return self.arithmetic.converter(t)
        scalar, n = VECTORS[t]
        lane, parts = self.arithmetic.converter(scalar), components(n)
        return lambda struct: {p: lane(struct[p]) for p in parts}

    # Statements

    def stmt(self, n: c.Node) -> Exec:
        """Compile a statement for its effect."""
        made = self._stmt(n)
        groups = isinstance(n, (c.Compound, c.DeclList, c.Pragma, c.EmptyStatement))
        return _counted(made) if self.counting and not groups else made

    def _stmt(self, n: c.Node) -> Exec:
        match n:
            case c.Compound():
                return _sequence([self.stmt(s) for s in n.block_items or []])
            case c.DeclList():
                return _sequence([self.stmt(s) for s in n.decls])
            case c.Decl():
                return self._decl(n)
            case c.Assignment():
                return self._assignment(n)
            case c.If():
                return self._if_(n)
            case c.For():
                return self._for_(n)
            case c.While():
                return self._while_(n)
            case c.Pragma() | c.EmptyStatement():
                return _sequence([])
            case c.FuncCall() | c.UnaryOp():
                effect = self.expr(n)

                def run(r: Run, m: Mask) -> None:
                    effect(r, m)

                return run
            case c.Cast() if self._type_name(n.to_type) == "void":
                return self._dropped(n)
            case _:
                raise UnsupportedSyntaxError(n, self._line(n))

    def _dropped(self, n: c.Cast) -> Exec:
        value = self.expr(n.expr)

        def run(r: Run, m: Mask) -> None:
            value(r, m)

        return run

    def _decl(self, n: c.Decl) -> Exec:
        name, type_name = n.name, self._type_name(n.type)
        self.types[name] = type_name
        if isinstance(n.type, c.ArrayDecl):
            shared = "static" in n.storage
            count, memory = int(n.type.dim.value, 0), self.arithmetic.memory
            alignment = int(n.align[0].alignment.value, 0) if n.align else NBYTES[type_name]

            def declare(r: Run, m: Mask) -> None:
                del m
                copies = r.warps.blocks if shared else r.warps.size
                size = copies * count
                kind = "shared" if shared else "local"
                fresh = np.zeros(size, np.bool_)
                data, payloads = memory(type_name, size)
                loose = np.zeros(size, np.bool_) if self.fenced else None
                about = (name, kind, data, count, fresh, shared, payloads, alignment)
                if shared and r.meets is not None:
                    r.arrays[name] = r.meets.shared(
                        name, lambda clocks: ClockArray(*about, loose=loose, clocks=clocks)
                    )
                else:
                    r.arrays[name] = LaneArray(*about, loose=loose)

            return declare
        if type_name in VECTORS:
            (lane_type, n_lanes), zeros = VECTORS[type_name], self.arithmetic.zeros
            parts = components(n_lanes)
            init = self.expr(n.init) if n.init is not None else None

            def declare_struct(r: Run, m: Mask) -> None:
                blank = {p: zeros(lane_type, r.warps.size) for p in parts}
                r.variables[name] = dict(init(r, m)) if init else blank

            return declare_struct
        if n.init is None:
            self.bare.add(name)
            return self._uninitialised(name, type_name)
        value, convert = self.expr(n.init), self.arithmetic.converter(type_name)

        def bind(r: Run, m: Mask) -> None:
            # A declaration is a new variable: inactive lanes have no old value to keep.
            r.variables[name] = convert(value(r, m))

        return bind

    def _uninitialised(self, name: str, type_name: str) -> Exec:
        zeros = self.arithmetic.zeros

        def declare(r: Run, m: Mask) -> None:
            del m
            r.variables[name] = zeros(type_name, r.warps.size)
            r.fresh[name] = np.ones(r.warps.size, np.bool_)

        return declare

    def _assignment(self, n: c.Assignment) -> Exec:
        value = self.expr(n.rvalue)
        if n.op != "=":
            op, old, given = n.op[:-1], self.expr(n.lvalue), value
            f = self.arithmetic.binary(op)
            return self._store(n.lvalue, lambda r, m: f(old(r, m), given(r, m)))
        return self._store(n.lvalue, value)

    def _if_(self, n: c.If) -> Exec:
        cond, then = self.expr(n.cond), self.stmt(n.iftrue)
        other = self.stmt(n.iffalse) if n.iffalse is not None else None
        waits = (  # where no groups wait for each other, the branches need not be searched
            self.in_turn
            and n.iffalse is not None
            and all(groups.calls(x, _MEETINGS) for x in (n.iftrue, n.iffalse))
        )

        def run(r: Run, m: Mask) -> None:
            yes, any_yes, no, any_no = split(r, m, cond(r, m))
            if waits and other is not None and any_yes and any_no:
                meets.apart(r, (then, yes), (other, no))
                return
            if any_yes:
                then(r, yes)
            if any_no and other is not None:
                other(r, no)

        return run

    def _for_(self, n: c.For) -> Exec:
        init, cond = self.stmt(n.init), self.expr(n.cond)
        body, step, line = self.stmt(n.stmt), self.stmt(n.next), self._line(n)
        counted = leaps.counter(n) if self.ends else None
        if counted is not None:
            over = leaps.leap(counted, self.expr(counted.bound), self.expr(counted.step))
            init, step = _sequence([init, over]), _sequence([step, over])

        def run(r: Run, m: Mask) -> None:
            init(r, m)
            repeat(r, m, cond, (body, step), line)

        return run

    def _while_(self, n: c.While) -> Exec:
        cond, body, line = self.expr(n.cond), self.stmt(n.stmt), self._line(n)
        return lambda r, m: repeat(r, m, cond, (body,), line)


def _checked(
    op: str, f: Callable[[Value, Value], Value], left: Eval, right: Eval, line: int
) -> Eval:
    """Compile an operation, of which a result that its type cannot hold is reported."""

    def run(r: Run, m: Mask) -> Value:
        a, b = left(r, m), right(r, m)
        result = f(a, b)
        lost = overflown(op, a, b, result)
        if lost is not None and (count := int(np.count_nonzero(access.both(m, lost)))):
            r.report(
                "overflow", f"the result of {op} does not fit into its signed type", count, line
            )
        return result

    return run


def _counted(body: Exec) -> Exec:
    def run(r: Run, m: Mask) -> None:
        r.steps[... if m is None else m] += 1
        body(r, m)

    return run


def _sequence(body: Sequence[Exec]) -> Exec:
    if len(body) == 1:
        return body[0]

    def run(r: Run, m: Mask) -> None:
        for s in body:
            s(r, m)

    return run
