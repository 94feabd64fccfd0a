"""Expressions of plain CUDA C, with their types, as kernel text writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pycparser import c_ast as c

# The type of kernel text for each of C.
C_TYPES: Mapping[str, str] = MappingProxyType({
    "float": "f32", "double": "f64", "int": "i32", "signed": "i32", "signed int": "i32",
    "unsigned": "u32", "unsigned int": "u32", "uint": "u32", "long": "i64", "long int": "i64",
    "long long": "i64", "long long int": "i64", "unsigned long": "u64",
    "unsigned long long": "u64", "unsigned long long int": "u64", "size_t": "u64",
    "int8_t": "i8", "char": "i8", "signed char": "i8", "unsigned char": "u8", "uint8_t": "u8",
    "short": "i16", "int16_t": "i16", "unsigned short": "u16", "uint16_t": "u16",
    "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "bool": "b8",
})  # fmt: skip
_RANK = ("i32", "u32", "i64", "u64", "f32", "f64")
# The integers that a literal may be, in the order of C: the largest of each, and its suffix.
_MOST = MappingProxyType({"i32": 2**31 - 1, "u32": 2**32 - 1, "i64": 2**63 - 1, "u64": 2**64 - 1})
_SUFFIX = MappingProxyType({"i32": "", "u32": "u", "i64": "LL", "u64": "uLL"})
_PARTS = ("x", "y", "z")
_AXES = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_FLOATS = ("f32", "f64")
# Functions of floats by the name of their intrinsic; the names of f32 end in f, or begin with __.
_MATH: Mapping[str, str] = MappingProxyType({
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tan": "tan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "erf": "erf", "fabs": "abs", "floor": "floor",
    "ceil": "ceil", "trunc": "trunc", "rint": "round", "pow": "pow", "atan2": "atan2",
    "asin": "asin", "acos": "acos", "atan": "atan", "copysign": "copysign",
})  # fmt: skip
_ATOMICS = {"atomicAdd": "add", "atomicMax": "max", "atomicMin": "min"}


class Outside(Exception):  # it says that a text is outside of what is read
    """A text has something else than plain CUDA C: ``line`` from 1, or 0, and what it is."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}" if line else what)


@dataclass(frozen=True, slots=True)
class Typed:
    """The text of a value, and its type."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Place:
    """An array, or a pointer into one: where it begins, and the extents of an array of arrays."""

    array: str
    kind: str
    at: str = ""
    sizes: tuple[int, ...] = ()


def line_of(n: c.Node) -> int:
    """Return the line of a node, from 1; 0 where none is known."""
    return int(getattr(n.coord, "line", 0) or 0)


def converted(v: Typed, kind: str) -> str:
    """Return the text of a value as another type."""
    if v.kind == kind:
        return v.text
    if kind == "b8":
        return f"(b8)({v.text} != 0)"
    return f"({kind})({v.text})"


def promoted(v: Typed) -> Typed:
    """Return a value as C's arithmetic takes it: at least an int."""
    return v if v.kind in _RANK else Typed(converted(v, "i32"), "i32")


@dataclass(slots=True)
class Expressions:
    """Translates expressions; knows what variables, arrays and helper functions there are."""

    helpers: Mapping[str, c.FuncDef]
    ring: bool = False
    types: dict[str, str] = field(default_factory=dict[str, str])
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    aliases: dict[str, Typed] = field(default_factory=dict[str, Typed])
    constants: dict[str, int] = field(default_factory=dict[str, int])
    used: set[str] = field(default_factory=set[str])
    depth: int = 0

    def hide(self, name: str) -> None:
        """Forget what a name stands for outside of where it is declared anew."""
        self.aliases.pop(name, None)
        self.constants.pop(name, None)

    def fresh(self, name: str) -> str:
        """Return a name that no other variable has."""
        found, k = name, 2
        while found in self.used or found in self.types:
            found, k = f"{name}_{k}", k + 1
        self.used.add(found)
        return found

    def condition(self, n: c.Node) -> str:
        """Return the text of a condition."""
        return self.value(n).text

    def value(self, n: c.Node) -> Typed:
        """Return the text and the type of an expression; Outside for what is not read."""
        match n:
            case c.Constant():
                return _literal(n)
            case c.ID(name=name):
                return self._variable(name, line_of(n))
            case c.StructRef(name=c.ID(name=base), field=c.ID(name=part)) if (
                base in _AXES and part in _PARTS
            ):
                return Typed(f"{base}.{part}", "u32")
            case c.ArrayRef():
                return self._element(n)
            case c.UnaryOp():
                return self._unary(n)
            case c.BinaryOp():
                left, right = self.value(n.left), self.value(n.right)
                return self.binary(n.op, left, right, line_of(n))
            case c.TernaryOp():
                cond, then, other = (
                    self.condition(n.cond),
                    self.value(n.iftrue),
                    self.value(n.iffalse),
                )
                kind = _common(then, other)
                texts = converted(then, kind), converted(other, kind)
                return Typed(f"({cond} ? {texts[0]} : {texts[1]})", kind)
            case c.Cast():
                kind = type_name(n.to_type)
                return Typed(f"({converted(self.value(n.expr), kind)})", kind)
            case c.FuncCall(name=c.ID(name=name)):
                return self._call(name, list(n.args.exprs) if n.args else [], line_of(n))
            case _:
                raise Outside(line_of(n), type(n).__name__)

    def binary(self, op: str, a: Typed, b: Typed, line: int) -> Typed:
        """Return what one of C's operators makes of two values."""
        if op in ("&&", "||"):
            return Typed(f"({a.text} {op} {b.text})", "b8")
        a, b = promoted(a), promoted(b)
        if op in ("<<", ">>"):
            return Typed(f"({a.text} {op} {converted(b, a.kind)})", a.kind)
        kind = _common(a, b)
        if kind in _FLOATS and op in ("%", "&", "|", "^"):
            raise Outside(line, f"{op} of floats")
        text = f"({converted(a, kind)} {op} {converted(b, kind)})"
        return Typed(text, "b8" if op in ("<", "<=", ">", ">=", "==", "!=") else kind)

    def _variable(self, name: str, line: int) -> Typed:
        if name in self.aliases:
            return self.aliases[name]
        if name in self.types:
            return Typed(name, self.types[name])
        if name == "INFINITY":
            return Typed("inf_f32()", "f32")
        if name == "FLT_MAX":
            return Typed("3.402823466e+38f", "f32")
        raise Outside(line, f"the name {name}")

    def _unary(self, n: c.UnaryOp) -> Typed:
        if n.op == "*":
            return self._at(self.place(n.expr, line_of(n)), line_of(n))
        v = self.value(n.expr)
        if n.op == "!":
            return Typed(f"(!{v.text})", "b8")
        v = promoted(v)
        if n.op == "-":
            return Typed(f"(-{v.text})", v.kind)
        if n.op == "+":
            return v
        if n.op == "~" and v.kind not in _FLOATS:
            return Typed(f"(~{v.text})", v.kind)
        raise Outside(line_of(n), f"the operator {n.op}")

    def _element(self, n: c.ArrayRef) -> Typed:
        place = self.place(n, line_of(n), of_element=True)
        if place.sizes:
            raise Outside(line_of(n), "an array as a number")
        return self._at(place, line_of(n))

    def _at(self, place: Place, line: int) -> Typed:
        """Return the element that lies at a place."""
        if len(place.sizes) > 1:
            raise Outside(line, "an array as a number")
        return Typed(f"{place.array}[{place.at or '0'}]", place.kind)

    def place(self, n: c.Node, line: int, *, of_element: bool = False) -> Place:
        """Return where a pointer points, or where an element lies."""
        match n:
            case c.ID(name=name) if name in self.places:
                return self.places[name]
            case c.UnaryOp(op="&", expr=c.ArrayRef() as inner):
                return self.place(inner, line, of_element=True)
            case c.BinaryOp(op="+" | "-" as op, left=left, right=right) if not of_element:
                base = self.place(left, line)
                if len(base.sizes) > 1:
                    raise Outside(line, "a step from one array to another")
                return self._moved(base, op, self.value(right))
            case c.Cast():
                return self.place(n.expr, line)
            case c.ArrayRef():
                base, index = self.place(n.name, line), self.value(n.subscript)
                found = self._within(base, index) if base.sizes else self._moved(base, "+", index)
                if not (of_element or found.sizes):
                    raise Outside(line, "an element as an address")
                return found
            case _:
                raise Outside(line, "an address")

    def _moved(self, base: Place, op: str, by: Typed) -> Place:
        step = converted(by, "i64")
        if not base.at:
            return replace(base, at=step if op == "+" else f"(-{step})", sizes=())
        return replace(base, at=f"({base.at} {op} {step})", sizes=())

    def _within(self, base: Place, index: Typed) -> Place:
        """Return the part of an array of arrays at an index."""
        count = 1
        for s in base.sizes[1:]:
            count *= s
        step = converted(index, "i64")
        step = step if count == 1 else f"({step} * {count})"
        at = f"({base.at} + {step})" if base.at else step
        return replace(base, at=at, sizes=base.sizes[1:])

    def _call(self, name: str, args: Sequence[c.Node], line: int) -> Typed:
        if name == "__ldg" and len(args) == 1:
            return self._at(self.place(args[0], line), line)
        if name in ("__shfl_xor_sync",):
            return self._exchange(args, line)
        given = [self.value(a) for a in args]
        if name in ("max", "min", "fmaxf", "fminf", "fmax", "fmin") and len(given) == 2:
            return self._extreme(name, given)
        if name in ("fmaf", "fma", "__fmaf_rn") and len(given) == 3:
            kind = _float_of(name, given)
            return Typed(f"fma_{kind}({', '.join(converted(g, kind) for g in given)})", kind)
        if name in ("__fdividef", "__fdiv_rn") and len(given) == 2:
            return self.binary("/", given[0], given[1], line)
        if name in ("isnan", "isinf") and len(given) == 1:
            return Typed(f"{name}_{given[0].kind}({given[0].text})", "b8")
        if name == "abs" and len(given) == 1:
            v = promoted(given[0])
            return Typed(f"abs_{v.kind}({v.text})", v.kind)
        stem = name.removeprefix("__")
        stem = stem[:-1] if stem.endswith("f") and stem[:-1] in _MATH else stem
        if stem in _MATH:
            kind = _float_of(name, given)
            return Typed(
                f"{_MATH[stem]}_{kind}({', '.join(converted(g, kind) for g in given)})", kind
            )
        if name in self.helpers:
            return self._inlined(self.helpers[name], given, line)
        raise Outside(line, f"the function {name}")

    def _extreme(self, name: str, given: Sequence[Typed]) -> Typed:
        """Return the larger or smaller of two; CUDA's of floats is the number beside a NaN."""
        op = "max" if "max" in name else "min"
        a, b = (promoted(g) for g in given)
        kind = _common(a, b)
        x, y = converted(a, kind), converted(b, kind)
        found = f"{op}_{kind}({x}, {y})"
        if kind in _FLOATS and not self.ring:
            found = f"(isnan_{kind}({x}) ? {y} : (isnan_{kind}({y}) ? {x} : {found}))"
        return Typed(found, kind)

    def _exchange(self, args: Sequence[c.Node], line: int) -> Typed:
        if len(args) != 3 or not isinstance(args[2], c.Constant):
            raise Outside(line, "a shuffle by what is no literal")
        v = self.value(args[1])
        return Typed(f"shuffle_xor_{v.kind}({v.text}, {args[2].value})", v.kind)

    def _inlined(self, f: c.FuncDef, given: Sequence[Typed], line: int) -> Typed:
        """Return the one expression that a helper function returns, of these arguments."""
        items: Sequence[Any] = f.body.block_items or []
        params: Sequence[Any] = f.decl.type.args.params if f.decl.type.args is not None else []
        if len(items) != 1 or not isinstance(items[0], c.Return) or self.depth > len(self.helpers):
            raise Outside(line, f"the function {f.decl.name}")
        names = {str(p.name): type_name(p) for p in params if isinstance(p, c.Decl)}
        if len(names) != len(given):
            raise Outside(line, f"the function {f.decl.name} of {len(given)} arguments")
        bound = {
            n: Typed(f"({converted(g, k)})", k)
            for (n, k), g in zip(names.items(), given, strict=True)
        }
        inner = replace(self, aliases=bound, places=dict(self.places), depth=self.depth + 1)
        kind = type_name(f.decl.type.type)
        return Typed(f"({converted(inner.value(items[0].expr), kind)})", kind)

    def atomic(self, n: c.FuncCall) -> str:
        """Return the statement of an atomic whose result is not used."""
        name, line = n.name.name, line_of(n)
        args = list(n.args.exprs) if n.args else []
        if name not in _ATOMICS or len(args) != 2:
            raise Outside(line, f"the function {name}")
        place = self.place(args[0], line)
        value = converted(self.value(args[1]), place.kind)
        return f"atomic_{_ATOMICS[name]}_{place.kind}(&{place.array}[{place.at or '0'}], {value})"

    def hold(self, d: c.Decl, kind: str) -> None:
        """Hold the value of a constant of a type, if it is an int; Outside for an unknown value."""
        if kind in ("i32", "u32"):
            value = self.constant(d.init, line_of(d))
            self.constants[d.name] = value % (1 << 32) if kind == "u32" else value

    def constant(self, n: c.Node, line: int) -> int:
        """Return the value of a constant expression."""
        match n:
            case c.Constant(type=kind, value=text) if "int" in kind:
                return _number(text)
            case c.ID(name=name) if name in self.constants:
                return self.constants[name]
            case c.BinaryOp(op="+" | "-" | "*" | "/" as op):
                a, b = self.constant(n.left, line), self.constant(n.right, line)
                if op == "/":
                    if not b:
                        raise Outside(line, "a division by zero")
                    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                return a + b if op == "+" else a - b if op == "-" else a * b
            case _:
                raise Outside(line, "a size that is no constant")


def _common(a: Typed, b: Typed) -> str:
    x, y = promoted(a).kind, promoted(b).kind
    return max(x, y, key=_RANK.index) if a.kind != b.kind else a.kind


def _float_of(name: str, given: Sequence[Typed]) -> str:
    """Return the type that a function of floats computes in: by its name, or as C++ chooses."""
    single = name.startswith("__") or (name.endswith("f") and name not in _MATH)
    return "f32" if single or all(g.kind == "f32" for g in given) else "f64"


def type_name(t: c.Node) -> str:
    """Return the type of kernel text for a type that is a number; Outside for others."""
    while not isinstance(t, c.IdentifierType):
        if not isinstance(t, c.Typename | c.TypeDecl | c.Decl):
            raise Outside(line_of(t), "a type that is no number")
        t = t.type
    words = " ".join(w for w in t.names if w not in ("const", "volatile"))
    if words not in C_TYPES:
        raise Outside(line_of(t), f"the type {words}")
    return C_TYPES[words]


def _literal(n: c.Constant) -> Typed:
    text = n.value
    if n.type in ("float", "double"):
        return Typed(text, "f32" if text[-1] in "fF" else "f64")
    if "int" not in n.type:
        raise Outside(line_of(n), f"the literal {text}")
    digits = text.rstrip("uUlL")
    suffix, number = text.lower()[len(digits) :], _number(text)
    is_decimal = not digits.startswith("0")
    kinds = [k for k in _MOST if "l" not in suffix or k.endswith("64")]
    if "u" in suffix:
        kinds = [k for k in kinds if k.startswith("u")]
    elif is_decimal:
        kinds = [k for k in kinds if k.startswith("i")]
    held = [k for k in kinds if number <= _MOST[k]]
    if not held:
        raise Outside(line_of(n), f"the literal {text}")
    return Typed(_written(number, held[0]), held[0])


def _number(text: str) -> int:
    """Return the value of an integer literal of C.

    >>> _number("017u"), _number("0x1fL"), _number("10")
    (15, 31, 10)
    """
    digits = text.rstrip("uUlL")
    return int(digits, 8 if digits.isdecimal() and digits.startswith("0") else 0)


def _written(number: int, kind: str) -> str:
    """Return a number as kernel text writes one of a type."""
    return f"{number}{_SUFFIX[kind]}"
