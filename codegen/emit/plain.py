"""Plain CUDA C as kernel text, so that engines of kernel text run kernels that others wrote.

What is read: one kernel of C as it was before C++, with CUDA's words: pointers to numbers and
numbers as parameters, ``#define`` of numbers, arrays in shared and local memory, pointers into
parameters, loops, conditions, early returns where neither a barrier follows nor what stands after
the block of the return, the functions of ``math.h``, atomic additions, and helper functions of one
expression.  Everything else is ``Outside``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pycparser import c_ast as c
from pycparser.c_parser import CParser, ParseError

from didyma.codegen.emit.plain_expressions import (
    C_TYPES,
    Expressions,
    Outside,
    Place,
    Typed,
    converted,
    line_of,
    type_name,
)
from didyma.codegen.emit.subset import uncommented
from didyma.refimpl.ir.types import DType

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+?)[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"\b[A-Za-z_]\w*")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|pragma)[^\n]*$", re.MULTILINE)
_WORDS = re.compile(
    r'extern\s*"C"|\b(?:__global__|__restrict__|__restrict|__forceinline__|__noinline__|inline|static'
    r"|constexpr)\b|\b__launch_bounds__\s*\([^()]*\)"
)
_MOST = 64  # elements of an array that is set when it is declared


@dataclass(frozen=True, slots=True)
class Plain:
    """A kernel as kernel text: the text, and its parameters in the order of their use.

    ``pointers`` and ``scalars`` have the names and dtypes of the parameters, which the text takes
    in this order: all pointers, then all scalars.
    """

    source: str
    name: str
    pointers: tuple[tuple[str, DType], ...]
    scalars: tuple[tuple[str, DType], ...]
    constants: frozenset[str] = frozenset()  # the pointers to what may not be written

    def constant(self, name: str) -> bool:
        """Return whether a pointer is one to what may not be written."""
        return name in self.constants


def plain(text: str, name: str = "", shared: int = 0, *, ring: bool = False) -> Plain:
    """Return a kernel of plain CUDA C as kernel text; ``name`` may be empty for the only kernel.

    ``shared`` are the bytes of ``extern __shared__`` arrays.  In the ``ring``, ``fmaxf`` is the
    maximum that programs have, whose NaN differ.  Raise ``Outside`` with the line for anything
    else.
    """
    unit = _parsed(text)
    functions = {f.decl.name: f for f in unit.ext if isinstance(f, c.FuncDef)}
    kernels = [n for n, f in functions.items() if _is_kernel(f)]
    if name:
        kernels = [n for n in kernels if n == name]
    if len(kernels) != 1:
        raise Outside(0, f"{len(kernels)} kernels")
    helpers = {n: f for n, f in functions.items() if n not in kernels}
    of = Expressions(helpers, ring=ring)
    for d in unit.ext:
        if isinstance(d, c.Decl) and "const" in d.quals and d.init is not None:
            with suppress(Outside):
                kind = type_name(d.type)
                of.aliases[d.name] = Typed(f"({converted(of.value(d.init), kind)})", kind)
                of.hold(d, kind)
    return _Kernel(of, shared).translated(functions[kernels[0]])


def _expanded(text: str, macros: Mapping[str, str], inside: frozenset[str] = frozenset()) -> str:
    """Return a text with the values of macros, each but inside of its own value, as in C.

    >>> _expanded("x[A + N]", {"N": "2 * A", "A": "N + 1"})
    'x[((2 * A) + 1) + (2 * (N + 1))]'
    """

    def value(m: re.Match[str]) -> str:
        name = m[0]
        if name not in macros or name in inside:
            return name
        return f"({_expanded(macros[name], macros, inside | {name})})"

    return _NAME.sub(value, text)


def _parsed(text: str) -> c.FileAST:
    """Return the syntax tree of a text; lines stay."""
    bare = uncommented(text)
    macros = dict(_DEFINE.findall(bare))
    bare = _INCLUDE.sub("", _DEFINE.sub("", bare))
    if m := re.search(r"^[ \t]*#", bare, re.MULTILINE):
        raise Outside(bare.count("\n", 0, m.start()) + 1, "a directive of the preprocessor")
    bare = _expanded(bare, macros)
    bare = re.sub(r"\b__global__\s+void", "kernel_ void", bare)
    bare = _WORDS.sub(" ", re.sub(r"\bconstexpr\b", "const", bare))
    bare = re.sub(r"\b(?:extern\s+)?__shared__\b", "static", bare)
    bare = re.sub(r"\b__device__\b", " ", bare)
    bare = re.sub(r"\bkernel_ void\b", "_Noreturn void", bare)
    bare = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", bare))
    heads = "".join(f"typedef int {t}; " for t in C_TYPES if " " not in t and t not in _BUILT_IN)
    try:
        return CParser().parse(heads + bare)
    except ParseError as e:
        where = re.search(r":(\d+):", str(e))
        raise Outside(int(where[1]) if where else 0, "what is no plain C") from None


_BUILT_IN = frozenset(("char", "short", "int", "long", "float", "double", "unsigned", "signed"))


def _is_kernel(f: c.FuncDef) -> bool:
    return "_Noreturn" in (f.decl.funcspec or [])


@dataclass(slots=True)
class _Kernel:
    """Writes the statements of one kernel, each on the line of its source."""

    of: Expressions
    shared: int
    rows: list[str] = field(default_factory=lambda: [""])
    is_last: bool = True  # whether the kernel ends where the block that is written ends

    def translated(self, f: c.FuncDef) -> Plain:
        pointers: list[tuple[str, DType]] = []
        scalars: list[tuple[str, DType]] = []
        heads: list[str] = []
        constant = set[str]()
        args = f.decl.type.args
        for p in args.params if args is not None and not _is_void(args) else ():
            if not isinstance(p, c.Decl):
                raise Outside(line_of(p), "a parameter without a type or a name")
            self.of.hide(p.name)
            if isinstance(p.type, c.PtrDecl):
                kind = type_name(p.type.type)
                pointers.append((p.name, _dtype(kind)))
                self.of.places[p.name] = Place(p.name, kind)
                const = "const " if "const" in p.type.type.quals else ""
                constant |= {p.name} if const else set()
                heads.append(f"{const}{kind} *{p.name}")
            else:
                kind = type_name(p.type)
                scalars.append((p.name, _dtype(kind)))
                self.of.types[p.name] = kind
        heads += [f"{self.of.types[n]} {n}" for n, _ in scalars]
        name = f.decl.name
        self._at(line_of(f.decl), f'extern "C" __global__ void {name}({", ".join(heads)}) {{')
        self._block(f.body.block_items or [])
        self._put("}")
        return Plain(
            "\n".join(self.rows), name, tuple(pointers), tuple(scalars), frozenset(constant)
        )

    def _at(self, line: int, text: str) -> None:
        self.rows += [""] * (line - len(self.rows))
        self._put(text)

    def _put(self, text: str) -> None:
        self.rows[-1] += f" {text}"

    def _block(self, items: list[c.Node], *, is_last: bool = True) -> None:
        """Write the statements of a block; what it declares ends with it.

        It is not last if something runs after it, such as the next round of a loop.
        """
        known = dict(self.of.aliases), dict(self.of.places), dict(self.of.constants)
        around = self.is_last
        self.is_last = around and is_last
        self._sequence(items)
        self.is_last = around
        self.of.aliases, self.of.places, self.of.constants = known

    def _sequence(self, items: list[c.Node]) -> None:
        around = self.is_last
        for k, n in enumerate(items):
            rest = items[k + 1 :]
            self.is_last = around and not rest
            if isinstance(n, c.If) and n.iffalse is None and _returns(n.iftrue):
                if not around:
                    raise Outside(line_of(n), "a return from a block that something follows")
                if _has_barrier(rest):
                    raise Outside(line_of(n), "a return before a barrier")
                self._at(line_of(n), f"if (!({self.of.condition(n.cond)})) {{")
                self.is_last = around
                self._sequence(rest)
                self._put("}")
                return
            self._statement(n)
        self.is_last = around

    def _statement(self, n: c.Node) -> None:
        match n:
            case c.Compound():
                self._put("{")
                self._block(n.block_items or [])
                self._put("}")
            case c.Decl():
                self._declare(n)
            case c.DeclList():
                for d in n.decls:
                    self._declare(d)
            case c.If():
                self._at(line_of(n), f"if ({self.of.condition(n.cond)}) {{")
                self._block([n.iftrue])
                self._put("}")
                if n.iffalse is not None:
                    self._put("else {")
                    self._block([n.iffalse])
                    self._put("}")
            case c.For():
                self._loop(n)
            case c.While():
                self._at(line_of(n), f"while ({self.of.condition(n.cond)}) {{")
                self._block([n.stmt], is_last=False)
                self._put("}")
            case c.EmptyStatement() | c.Pragma():
                pass
            case _:
                self._at(line_of(n), self._effect(n) + ";")

    def _loop(self, n: c.For) -> None:
        """Write a loop; what its head declares is a variable of a block around it."""
        self._put("{")
        known = dict(self.of.aliases)
        if n.init is not None:
            self._statement(n.init)
        condition = self.of.condition(n.cond) if n.cond is not None else "1"
        self._at(line_of(n), f"while ({condition}) {{")
        self._block([n.stmt], is_last=False)
        steps = n.next.exprs if isinstance(n.next, c.ExprList) else [n.next]
        for s in steps:
            if s is not None:
                self._put(self._effect(s) + ";")
        self._put("} }")
        self.of.aliases = known

    def _effect(self, n: c.Node) -> str:
        """Return a statement of one effect: an assignment, a step, a barrier, an atomic."""
        match n:
            case c.Assignment():
                return self._assign(n.lvalue, n.op, self.of.value(n.rvalue), line_of(n))
            case c.UnaryOp(op="++" | "p++" | "--" | "p--" as op, expr=to):
                return self._assign(to, f"{op[-1]}=", Typed("1", "i32"), line_of(n))
            case c.FuncCall(name=c.ID(name="__syncthreads")):
                return "__syncthreads()"
            case c.FuncCall():
                return self.of.atomic(n)
            case _:
                raise Outside(line_of(n), type(n).__name__)

    def _assign(self, to: c.Node, op: str, value: Typed, line: int) -> str:
        target = self.of.value(to)
        if op != "=":
            value = self.of.binary(op[:-1], target, value, line)
        return f"{target.text} = {converted(value, target.kind)}"

    def _declare(self, d: c.Decl) -> None:
        line, name = line_of(d), d.name
        match d.type:
            case c.ArrayDecl():
                self._array(d)
            case c.PtrDecl():
                place = self.of.place(d.init, line) if d.init is not None else None
                if place is None:
                    raise Outside(line, f"the pointer {name}")
                at = self.of.fresh(f"{name}_at")
                self._at(line, f"i64 {at} = {place.at or '0'};")
                self.of.places[name] = Place(place.array, place.kind, at)
            case c.TypeDecl():
                kind = type_name(d.type)
                own = self.of.fresh(name)
                if "static" in d.storage:
                    self._at(line, f"__shared__ {kind} {own}[1];")
                    self.of.aliases[name] = Typed(f"{own}[0]", kind)
                    return
                given = self.of.value(d.init) if d.init is not None else None
                self.of.hide(name)
                if "const" in d.quals and d.init is not None:
                    with suppress(Outside):
                        self.of.hold(d, kind)
                self.of.aliases[name] = Typed(own, kind)
                value = f" = {converted(given, kind)}" if given else ""
                self._at(line, f"{kind} {own}{value};")
            case _:
                raise Outside(line, f"the declaration of {name}")

    def _array(self, d: c.Decl) -> None:
        line, sizes, t = line_of(d), list[int](), d.type
        while isinstance(t, c.ArrayDecl):
            sizes.append(self.of.constant(t.dim, line) if t.dim is not None else 0)
            t = t.type
        kind = type_name(t)
        if not sizes[0]:
            if not self.shared:
                raise Outside(line, f"the size of {d.name}")
            sizes[0] = max(1, self.shared // _dtype(kind).nbytes)
        count = 1
        for s in sizes:
            count *= s
        storage = "__shared__ " if "static" in d.storage else ""
        name = self.of.fresh(d.name)
        self._at(line, f"{storage}{kind} {name}[{count}];")
        self.of.places[d.name] = Place(name, kind, "", tuple(sizes))
        if d.init is not None:
            if not isinstance(d.init, c.InitList) or count > _MOST:
                raise Outside(line, f"the values of {d.name}")
            given = [converted(self.of.value(x), kind) for x in d.init.exprs]
            zero = converted(Typed("0", "i32"), kind)
            for k in range(count):
                self._put(f"{name}[{k}] = {given[k] if k < len(given) else zero};")


def _is_void(args: c.ParamList) -> bool:
    """Return whether a list of parameters says that there are none."""
    match args.params:
        case [c.Typename(type=c.TypeDecl(type=c.IdentifierType(names=["void"])))]:
            return True
        case _:
            return False


def _dtype(kind: str) -> DType:
    return DType.BOOL if kind == "b8" else DType(kind)


def _returns(n: c.Node) -> bool:
    if isinstance(n, c.Compound):
        return len(n.block_items or []) == 1 and _returns(n.block_items[0])
    return isinstance(n, c.Return) and n.expr is None


def _has_barrier(items: list[c.Node]) -> bool:
    def found(n: c.Node) -> bool:
        here = isinstance(n, c.ID) and n.name.startswith(("__sync", "__shfl"))
        return here or any(found(below) for _, below in n.children())

    return any(map(found, items))
