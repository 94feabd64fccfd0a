"""Kernel text compiled to closures over lanes: C's meaning, one NumPy operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pycparser import c_ast as c

from codegen.emit.intrinsics import COMPONENTS, LANES, TABLE, TYPES, VECTORS
from codegen.runtime.simt import intrinsics
from codegen.runtime.simt.memory import Lanes, Memory, Warps

Mask: TypeAlias = NDArray[np.bool_] | None  # None: every lane is active
Value: TypeAlias = Any  # an array of lanes, a NumPy scalar where uniform, a dict for a struct
Eval: TypeAlias = Callable[["Run", Mask], Value]
Exec: TypeAlias = Callable[["Run", Mask], None]

_NUMPY: dict[str, np.dtype[Any]] = {
    name: np.dtype(intrinsics.NUMPY_OF_C[text]) for name, text in TYPES.items()
}


@dataclass(slots=True)
class Run:
    """One launch of some blocks: variables by name, arrays by name, the threads, the reports.

    ``fresh`` marks the lanes in which a variable declared without a value has none yet.
    """

    warps: Warps
    axes: Mapping[tuple[str, str], Value]
    variables: dict[str, Value]
    arrays: dict[str, Memory]
    report: Callable[[str, str, int, int], None]  # kind, detail, lanes, line
    fresh: dict[str, NDArray[np.bool_]] = field(default_factory=dict[str, NDArray[np.bool_]])
    everyone: Lanes = field(init=False)

    def __post_init__(self) -> None:
        self.everyone = np.arange(self.warps.size)

    def who(self, m: Mask) -> Lanes:
        """Positions of the active lanes."""
        return self.everyone if m is None else np.flatnonzero(m)

    def lanes(self, v: Value) -> Lanes:
        """Spread a uniform value over the lanes."""
        return np.broadcast_to(np.asarray(v), (self.warps.size,))


class UnsupportedSyntaxError(Exception):
    """The text leaves the subset of C that kernels are written in."""

    def __init__(self, node: c.Node) -> None:
        super().__init__(f"line {_line(node)}: {type(node).__name__} is not kernel text")


def _line(n: c.Node) -> int:
    return int(getattr(n.coord, "line", 0) or 0)


def _both(m: Mask, cond: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return cond if m is None else m & cond


def _truth(v: Value) -> Value:
    return v if np.asarray(v).dtype == np.bool_ else np.not_equal(v, 0)


def _split(r: Run, m: Mask, cond: Value) -> tuple[Mask, bool, Mask, bool]:
    """Lanes for which a condition holds, whether there are any; and likewise for the others."""
    t = _truth(cond)
    if np.ndim(t) == 0:
        return m, bool(t), m, not t
    yes, no = _both(m, t), _both(m, ~t)
    any_yes, any_no = bool(yes.any()), bool(no.any())
    return (m if not any_no else yes), any_yes, (m if not any_yes else no), any_no


_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
}


def _divide(a: Value, b: Value) -> Value:
    if np.result_type(a, b).kind == "f":
        return np.divide(a, b)
    q = np.floor_divide(a, b)
    return q + ((q < 0) & (q * b != a)).astype(q.dtype)


def _remainder(a: Value, b: Value) -> Value:
    return np.fmod(a, b)


def _literal(n: c.Constant) -> Value:
    text = n.value
    if n.type in ("float", "double"):
        return np.float32(text[:-1]) if text[-1] in "fF" else np.float64(text)
    number = int(text.rstrip("uUlL"), 0)
    suffix = text.lower()[len(text.rstrip("uUlL")) :]
    unsigned, long = "u" in suffix, "l" in suffix
    if unsigned:
        return np.uint64(number) if long or number >= 2**32 else np.uint32(number)
    return np.int64(number) if long or number >= 2**31 else np.int32(number)


class Compiler:
    """Compiles one function; ``types`` learns the dtype of each scalar as it is declared."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self.bare: set[str] = set()  # declared without a value

    # Types

    @staticmethod
    def type_name(t: c.Node) -> str:
        """Name of the typedef that a declaration bottoms out in."""
        while not isinstance(t, c.IdentifierType):
            t = t.type
        return " ".join(t.names)

    # Expressions

    def expr(self, n: c.Node) -> Eval:
        """Compile an expression for its value."""
        match n:
            case c.Constant():
                value = _literal(n)
                return lambda r, m: value
            case c.ID():
                return self.variable(n)
            case c.StructRef():
                return self.member(n)
            case c.ArrayRef():
                return self.load(n)
            case c.BinaryOp():
                return self.binary(n)
            case c.UnaryOp():
                return self.unary(n)
            case c.TernaryOp():
                return self.ternary(n)
            case c.Cast():
                dtype, arg = _NUMPY[self.type_name(n.to_type)], self.expr(n.expr)
                return lambda r, m: np.asarray(arg(r, m)).astype(dtype)[()]
            case c.FuncCall():
                return self.call(n)
            case _:
                raise UnsupportedSyntaxError(n)

    def variable(self, n: c.ID) -> Eval:
        name, line = n.name, _line(n)
        if name not in self.bare:
            return lambda r, m: r.variables[name]

        def read(r: Run, m: Mask) -> Value:
            if name in r.fresh and (lost := int(np.count_nonzero(_both(m, r.fresh[name])))):
                r.report("uninitialised", f"variable {name} is read", lost, line)
            return r.variables[name]

        return read

    def member(self, n: c.StructRef) -> Eval:
        base, part = n.name.name, n.field.name
        if base in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            key = (base, part)
            return lambda r, m: r.axes[key]
        return lambda r, m: r.variables[base][part]

    def binary(self, n: c.BinaryOp) -> Eval:
        left, right = self.expr(n.left), self.expr(n.right)
        if n.op in ("&&", "||"):
            return self.shortcut(n.op == "&&", left, right)
        if n.op in "/%":
            f = _divide if n.op == "/" else _remainder
        else:
            f = _BINARY[n.op]
        return lambda r, m: f(left(r, m), right(r, m))

    @staticmethod
    def shortcut(conjunction: bool, left: Eval, right: Eval) -> Eval:
        def run(r: Run, m: Mask) -> Value:
            a = left(r, m)
            yes, any_yes, no, any_no = _split(r, m, a)
            rest, any_rest = (yes, any_yes) if conjunction else (no, any_no)
            if not any_rest:
                return np.zeros_like(_truth(a)) if conjunction else np.ones_like(_truth(a))
            b = _truth(right(r, rest))
            return _truth(a) & b if conjunction else _truth(a) | b

        return run

    def unary(self, n: c.UnaryOp) -> Eval:
        if n.op in ("++", "p++", "--", "p--"):
            return self.step(n)
        arg = self.expr(n.expr)
        if n.op == "!":
            return lambda r, m: np.logical_not(_truth(arg(r, m)))
        f = {"-": np.negative, "~": np.invert}[n.op]
        if n.op == "~":
            # C promotes what is narrower than int, a comparison among them.
            return lambda r, m: f(_promote(arg(r, m)))
        return lambda r, m: f(arg(r, m))

    def step(self, n: c.UnaryOp) -> Eval:
        name, by = n.expr.name, 1 if "+" in n.op else -1

        def run(r: Run, m: Mask) -> Value:
            old = r.variables[name]
            new = old + np.asarray(by, np.asarray(old).dtype)
            r.variables[name] = new if m is None else np.where(m, new, old)
            return old

        return run

    def ternary(self, n: c.TernaryOp) -> Eval:
        cond, then, other = self.expr(n.cond), self.expr(n.iftrue), self.expr(n.iffalse)

        def run(r: Run, m: Mask) -> Value:
            t = cond(r, m)
            yes, any_yes, no, any_no = _split(r, m, t)
            if not any_no:
                return then(r, yes)
            if not any_yes:
                return other(r, no)
            return np.where(_truth(t), then(r, yes), other(r, no))

        return run

    # Memory

    def element(self, n: c.ArrayRef) -> tuple[str, Eval]:
        if not isinstance(n.name, c.ID):
            raise UnsupportedSyntaxError(n)
        return n.name.name, self.expr(n.subscript)

    def load(self, n: c.ArrayRef) -> Eval:
        name, index = self.element(n)
        line = _line(n)
        return lambda r, m: _load(r, r.arrays[name], index(r, m), m, line)

    def store(self, target: c.Node, value: Eval) -> Exec:
        """Compile ``target = value``."""
        line = _line(target)
        match target:
            case c.ID():
                name = target.name
                dtype = _NUMPY.get(self.types.get(name, ""))
                return lambda r, m: _assign(r, name, value(r, m), dtype, m)
            case c.ArrayRef():
                array, index = self.element(target)
                return lambda r, m: _store(r, r.arrays[array], index(r, m), value(r, m), m, line)
            case c.StructRef():
                base, part = target.name.name, target.field.name
                lane_type = _NUMPY[VECTORS[self.types[base]]]

                def run(r: Run, m: Mask) -> None:
                    struct = r.variables[base]
                    new = np.asarray(value(r, m)).astype(lane_type)
                    struct[part] = new if m is None else np.where(m, new, struct[part])

                return run
            case _:
                raise UnsupportedSyntaxError(target)

    def call(self, n: c.FuncCall) -> Eval:
        name, line = n.name.name, _line(n)
        args: Sequence[c.Node] = n.args.exprs if n.args else []
        if name == "__syncthreads":
            return lambda r, m: _barrier(r, m, line)
        if name.startswith("atomic_"):
            op = name.split("_")[1]
            array, index = self.element(args[0].expr)
            value = self.expr(args[1])
            return lambda r, m: _atomic(
                r, op, r.arrays[array], index(r, m), value(r, m), m, line
            )
        if name.startswith(f"load{LANES}_"):
            array, index = self.element(args[0].expr)
            return lambda r, m: {
                part: _load(r, r.arrays[array], index(r, m) + i, m, line)
                for i, part in enumerate(COMPONENTS)
            }
        if name.startswith(f"store{LANES}_"):
            array, index = self.element(args[0].expr)
            value = self.expr(args[1])

            def store(r: Run, m: Mask) -> None:
                struct, at = value(r, m), index(r, m)
                for i, part in enumerate(COMPONENTS):
                    _store(r, r.arrays[array], at + i, struct[part], m, line)

            return store
        wanted = [_NUMPY[t] for t in TABLE[name].args]
        compiled = [self.expr(a) for a in args]
        f = intrinsics.function(name)
        return lambda r, m: f(
            *(np.asarray(a(r, m)).astype(t) for a, t in zip(compiled, wanted, strict=True))
        )

    # Statements

    def stmt(self, n: c.Node) -> Exec:
        """Compile a statement for its effect."""
        match n:
            case c.Compound():
                return _sequence([self.stmt(s) for s in n.block_items or []])
            case c.DeclList():
                return _sequence([self.stmt(s) for s in n.decls])
            case c.Decl():
                return self.decl(n)
            case c.Assignment():
                return self.assignment(n)
            case c.If():
                return self.if_(n)
            case c.For():
                return self.for_(n)
            case c.Pragma() | c.EmptyStatement():
                return _sequence([])
            case c.FuncCall() | c.UnaryOp():
                effect = self.expr(n)

                def run(r: Run, m: Mask) -> None:
                    effect(r, m)

                return run
            case _:
                raise UnsupportedSyntaxError(n)

    def decl(self, n: c.Decl) -> Exec:
        name, type_name = n.name, self.type_name(n.type)
        self.types[name] = type_name
        if isinstance(n.type, c.ArrayDecl):
            shared = "static" in n.storage
            count, dtype = int(n.type.dim.value, 0), _NUMPY[type_name]

            def declare(r: Run, m: Mask) -> None:
                del m
                copies = r.warps.blocks if shared else r.warps.size
                size = copies * count
                kind = "shared" if shared else "local"
                fresh = np.zeros(size, np.bool_)
                data = np.zeros(size, dtype)
                r.arrays[name] = Memory(name, kind, data, count, fresh, tracked=shared)

            return declare
        if type_name in VECTORS:
            lane_type = _NUMPY[VECTORS[type_name]]
            init = self.expr(n.init) if n.init is not None else None

            def declare_struct(r: Run, m: Mask) -> None:
                blank = {p: np.zeros(r.warps.size, lane_type) for p in COMPONENTS}
                r.variables[name] = dict(init(r, m)) if init else blank

            return declare_struct
        if n.init is None:
            self.bare.add(name)
            return self.uninitialised(name, _NUMPY[type_name])
        value, dtype = self.expr(n.init), _NUMPY[type_name]

        def bind(r: Run, m: Mask) -> None:
            # A declaration is a new variable: inactive lanes have no old value to keep.
            r.variables[name] = np.asarray(value(r, m)).astype(dtype)[()]

        return bind

    @staticmethod
    def uninitialised(name: str, dtype: np.dtype[Any]) -> Exec:
        def declare(r: Run, m: Mask) -> None:
            del m
            r.variables[name] = np.zeros(r.warps.size, dtype)
            r.fresh[name] = np.ones(r.warps.size, np.bool_)

        return declare

    def assignment(self, n: c.Assignment) -> Exec:
        value = self.expr(n.rvalue)
        if n.op != "=":
            op, old, given = n.op[:-1], self.expr(n.lvalue), value
            f = {"/": _divide, "%": _remainder}.get(op) or _BINARY[op]
            return self.store(n.lvalue, lambda r, m: f(old(r, m), given(r, m)))
        return self.store(n.lvalue, value)

    def if_(self, n: c.If) -> Exec:
        cond, then = self.expr(n.cond), self.stmt(n.iftrue)
        other = self.stmt(n.iffalse) if n.iffalse is not None else None

        def run(r: Run, m: Mask) -> None:
            yes, any_yes, no, any_no = _split(r, m, cond(r, m))
            if any_yes:
                then(r, yes)
            if any_no and other is not None:
                other(r, no)

        return run

    def for_(self, n: c.For) -> Exec:
        init, cond = self.stmt(n.init), self.expr(n.cond)
        body, step = self.stmt(n.stmt), self.expr(n.next)

        def run(r: Run, m: Mask) -> None:
            init(r, m)
            while True:
                m, going, _, _ = _split(r, m, cond(r, m))
                if not going:
                    return
                body(r, m)
                step(r, m)

        return run


def _promote(v: Value) -> Value:
    a = np.asarray(v)
    return a.astype(np.int32) if a.dtype == np.bool_ or a.dtype.itemsize < 4 else a


def _sequence(body: Sequence[Exec]) -> Exec:
    if len(body) == 1:
        return body[0]

    def run(r: Run, m: Mask) -> None:
        for s in body:
            s(r, m)

    return run


def _assign(r: Run, name: str, v: Value, dtype: np.dtype[Any] | None, m: Mask) -> None:
    new = np.asarray(v).astype(dtype)[()] if dtype is not None else v
    r.variables[name] = new if m is None else np.where(m, new, r.variables[name])
    if name in r.fresh:
        if m is None:
            del r.fresh[name]
        else:
            r.fresh[name] &= ~m


def _reach(
    r: Run, a: Memory, index: Value, m: Mask, line: int
) -> tuple[Lanes, Lanes, Callable[[str, str, int], None]]:
    who = r.who(m)

    def report(kind: str, detail: str, lanes: int) -> None:
        r.report(kind, detail, lanes, line)

    at, who = a.locate(r.lanes(index)[who].astype(np.int64), r.warps, who, report)
    return at, who, report


def _load(r: Run, a: Memory, index: Value, m: Mask, line: int) -> Value:
    at, who, report = _reach(r, a, index, m, line)
    a.check_read(at, r.warps, who, report)
    if who.size == r.warps.size:
        return a.data[at]
    out = np.zeros(r.warps.size, a.data.dtype)
    out[who] = a.data[at]
    return out


def _store(r: Run, a: Memory, index: Value, v: Value, m: Mask, line: int) -> None:
    at, who, report = _reach(r, a, index, m, line)
    a.check_write(at, r.warps, who, report)
    a.data[at] = r.lanes(v)[who].astype(a.data.dtype)


_ATOMIC: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _atomic(r: Run, op: str, a: Memory, index: Value, v: Value, m: Mask, line: int) -> None:
    at, who, report = _reach(r, a, index, m, line)
    if a.written is not None and not a.written[at].all():
        report("uninitialised", f"{a.kind} {a.name} is updated", int((~a.written[at]).sum()))
    a.check_write(at, r.warps, who, report, atomic=True)
    _ATOMIC[op].at(a.data, at, r.lanes(v)[who].astype(a.data.dtype))


def _barrier(r: Run, m: Mask, line: int) -> None:
    if m is None:
        r.warps.epoch += 1
        return
    arrived = m.reshape(r.warps.blocks, r.warps.threads).sum(1)
    partly = (arrived != 0) & (arrived != r.warps.threads)
    if partly.any():
        n = int(arrived[partly][0])
        detail = f"{n} of {r.warps.threads} threads of a block reach the barrier"
        r.report("barrier-divergence", detail, int(partly.sum()), line)
    r.warps.epoch[arrived > 0] += 1
