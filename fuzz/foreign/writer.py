"""Write statements and expressions of plain C that have a meaning: no overflow, and in bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

LARGEST = 1 << 30  # of integers
SMALL = 40  # of numbers that indices and inputs are
KINDS = ("int", "unsigned", "float", "double", "long long", "signed char", "unsigned short",
         "unsigned char", "short")  # fmt: skip
INTEGERS = {"int": 31, "unsigned": 32, "long long": 62, "signed char": 7, "unsigned short": 16,
            "unsigned char": 8, "short": 15}  # fmt: skip
SPELLED: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "int": ("signed", "signed int", "int32_t"),
    "unsigned": ("unsigned int", "uint", "uint32_t"),
    "long long": ("long", "long int", "long long int", "int64_t"),
    "signed char": ("char", "int8_t"), "unsigned char": ("uint8_t",),
    "short": ("int16_t",), "unsigned short": ("uint16_t",),
})  # fmt: skip
FORMS = ("{0}[{1}]", "{0}[{1}]", "{0}[{1}]", "*({0} + {1})", "__ldg(&{0}[{1}])", "__ldg({0} + {1})",
         "*(&{0}[{1}])", "({0} + {1})[0]", "(&{0}[{1}])[0]", "*({0} + {1} + 2 - 2)")  # fmt: skip
EXACT = ("sqrtf", "fabsf", "floorf", "ceilf", "truncf", "rintf")


@dataclass(frozen=True, slots=True)
class Number:
    """An expression in C: its text, its type, and for integers the bounds of what it may be."""

    text: str
    kind: str
    low: int = 0
    high: int = 0

    @property
    def is_int(self) -> bool:
        """Whether it is an integer."""
        return self.kind in INTEGERS


@dataclass(slots=True)
class Writer:
    """Writes statements; ``numbers`` are variables that expressions may read."""

    r: Random
    names: int = 0
    rows: list[str] = field(default_factory=list[str])
    numbers: list[Number] = field(default_factory=list[Number])
    arrays: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    writable: list[Number] = field(default_factory=list[Number])
    helpers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def fresh(self, stem: str = "v") -> str:
        """Return a new name."""
        self.names += 1
        return f"{stem}{self.names}"

    def spelled(self, kind: str) -> str:
        """Return a name of a type, mostly the usual one."""
        return self.r.choice(SPELLED.get(kind, (kind,))) if self.r.random() < 0.15 else kind

    # ---- integers

    def integer(self, depth: int = 2) -> Number:
        """Return an integer expression that does not overflow."""
        r = self.r
        known = [x for x in self.numbers if x.is_int]
        if depth == 0 or r.random() < 0.2:
            if known and r.random() < 0.7:
                return r.choice(known)
            return r.choice((self._literal(), self._element("int")))
        choice = r.randrange(9)
        if choice < 3:
            return self._arithmetic(depth)
        if choice == 3:
            a, by = self.integer(depth - 1), r.randint(1, 9)
            op = r.choice("/%")
            a = a if a.low >= 0 or a.kind in ("int", "long long") else self._as("int", a)
            most = max(abs(a.low), abs(a.high))
            high = most // by if op == "/" else min(most, by - 1)
            return Number(f"({a.text} {op} {by})", _wide(a.kind), -high if a.low < 0 else 0, high)
        if choice == 4:
            a = self.bits(depth - 1)
            b, op = r.randrange(1, 256), r.choice("&|^")
            return Number(f"({a.text} {op} {b})", a.kind, 0, max(a.high, 255) * 2)
        if choice == 5:
            a, by = self.bits(depth - 1), r.randrange(5)
            if a.high << by < LARGEST and r.random() < 0.5:
                return Number(f"({a.text} << {by})", a.kind, 0, a.high << by)
            return Number(f"({a.text} >> {by})", a.kind, 0, a.high)
        if choice == 6:
            return self._chosen(depth)
        if choice == 7:
            if r.random() < 0.5:
                return Number(self.condition(depth - 1, is_number=True), "int", 0, 1)
            v = self.real(depth - 1)
            return Number(f"(int)fminf(fmaxf({v.text}, -9.0f), {SMALL}.0f)", "int", -9, SMALL)
        a = self.integer(depth - 1)
        if a.low < -LARGEST or a.kind in ("unsigned", "long long"):
            return self._as(r.choice(("int", "long long")), a)
        form = r.choice(("(-{})", "abs({})", "(~{})", "(+{})"))
        most = max(abs(a.low), abs(a.high)) + 1
        return Number(form.format(f"({a.text})"), "int", -most, most)

    def _arithmetic(self, depth: int) -> Number:
        r = self.r
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        kind = _common(a.kind, b.kind)
        if kind == "unsigned":  # a negative number becomes a large one
            a, b = (x if x.low >= 0 else self._as("unsigned", x) for x in (a, b))
        op = r.choice(("+", "-", "*"))
        ends = [_apply(op, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        if kind == "unsigned":
            return Number(f"({a.text} {op} {b.text})", kind, 0, 2**32 - 1)
        if max(map(abs, ends)) >= LARGEST:
            return r.choice((a, b))
        return Number(f"({a.text} {op} {b.text})", kind, min(ends), max(ends))

    def _chosen(self, depth: int) -> Number:
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        if a.kind != b.kind:
            a, b = self._as("int", a), self._as("int", b)
        low, high = min(a.low, b.low), max(a.high, b.high)
        if self.r.random() < 0.5 and _wide(a.kind) == a.kind:
            return Number(f"{self.r.choice(('max', 'min'))}({a.text}, {b.text})", a.kind, low, high)
        text = f"({self.condition(depth - 1)} ? {a.text} : {b.text})"
        return Number(text, _wide(a.kind), low, high)

    def bits(self, depth: int) -> Number:
        """Return an integer that is not negative."""
        a = self.integer(depth)
        return a if a.low >= 0 else self._as("unsigned", a)

    def _as(self, kind: str, a: Number) -> Number:
        """Return a number as another type that holds it, or as much of it as that holds."""
        if kind == "unsigned" and a.low < 0:
            return Number(f"((unsigned)({a.text}))", kind, 0, 2**32 - 1)
        if a.high >= LARGEST or a.low <= -LARGEST:
            low, most = (0 if a.low >= 0 else -999), 999
            return Number(f"(({self.spelled(kind)})({a.text} % 1000))", kind, low, most)
        return Number(f"(({self.spelled(kind)})({a.text}))", kind, a.low, a.high)

    def _literal(self) -> Number:
        n = self.r.randint(0, SMALL)
        if self.r.random() < 0.1:
            return Number(f"{n}u", "unsigned", n, n)
        if self.r.random() < 0.1:
            return Number(f"{n}LL", "long long", n, n)
        if self.r.random() < 0.05:  # too large for an int, so a long where nothing says unsigned
            n += 1 << 31
            return self.r.choice(
                (
                    Number(f"{n}", "long long", n, n), Number(f"{n}u", "unsigned", n, n),
                    Number(hex(n), "unsigned", n, n), Number(f"{n}U", "unsigned", n, n),
                    Number(f"{n << 2}", "long long", n << 2, n << 2),
                )
            )  # fmt: skip
        return Number(self.r.choice((str(n), str(n), hex(n), f"0{n:o}")), "int", n, n)

    def index(self, size: int) -> str:
        """Return an index of an array of so many elements."""
        a = self.bits(0)
        return f"({a.text}) % {size}" if a.high >= size else a.text

    def _element(self, kind: str) -> Number:
        is_int = kind in INTEGERS
        some = [x for x in self.arrays if (x[1] in INTEGERS) == is_int]
        if not some:
            return self._literal() if is_int else Number("0.5f", "float")
        name, kind, size = self.r.choice(some)
        low = 0 if kind.startswith("unsigned") else -SMALL
        at = self.index(size)
        form = self.r.choice(FORMS)
        if "[" in name:
            form = "{0}[{1}]"
        return Number(form.format(name, at), kind, low, SMALL)

    # ---- floats

    def real(self, depth: int = 2) -> Number:
        """Return an expression of floats, which may be anything; most are of single precision."""
        r = self.r
        known = [x for x in self.numbers if not x.is_int]
        if depth == 0 or r.random() < 0.2:
            if known and r.random() < 0.6:
                return r.choice(known)
            if r.random() < 0.5:
                return self._element("float")
            text = r.choice(("1.5f", "0.1f", "-3.0f", "2e3f", ".25f", "INFINITY", "FLT_MAX"))
            return Number(text, "float") if r.random() < 0.9 else Number("0.1", "double")
        choice = r.randrange(8)
        a = self.real(depth - 1)
        if choice < 3:
            b = self.real(depth - 1) if r.random() < 0.8 else self.integer(depth - 1)
            kind = "double" if "double" in (a.kind, b.kind) else "float"
            pair = (a, b) if r.random() < 0.7 else (b, a)
            return Number(f"({pair[0].text} {r.choice('+-*/')} {pair[1].text})", kind)
        if choice == 3:
            kind = r.choice(("float", "float", "double"))
            b = self.integer(depth - 1) if r.random() < 0.5 else a
            return Number(f"(({kind}){b.text})", kind)
        single = a.text if a.kind == "float" else f"(float)({a.text})"
        if choice == 4:
            return Number(f"{r.choice(EXACT)}({single})", "float")
        b = self.real(depth - 1)
        if choice == 5:
            other = b.text if b.kind == "float" else f"(float)({b.text})"
            if r.random() < 0.4:
                name = r.choice(("copysignf", "copysignf", "__fdividef"))
                return Number(f"{name}({single}, {other})", "float")
            return Number(f"{r.choice(('fmaxf', 'fminf'))}({single}, {other})", "float")
        if choice == 6:
            kind = "double" if "double" in (a.kind, b.kind) else "float"
            return Number(f"({self.condition(depth - 1)} ? {a.text} : {b.text})", kind)
        if self.helpers and r.random() < 0.7:
            name, kind = r.choice(self.helpers)
            return Number(f"{name}({a.text}, {self.integer(depth - 1).text})", kind)
        return Number(f"(- {a.text})", a.kind)

    def condition(self, depth: int, *, is_number: bool = False) -> str:
        """Return a condition, or with ``is_number`` one that is 0 or 1."""
        r = self.r
        if depth > 0 and r.random() < 0.3:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return r.choice((f"({left} && {right})", f"({left} || {right})", f"(!{left})"))
        op = r.choice(("<", "<=", ">", ">=", "==", "!="))
        if r.random() < 0.1:
            return f"{r.choice(('isnan', 'isinf'))}({self.real(depth).text})"
        if not is_number and r.random() < 0.1:
            return f"({self.integer(depth).text})"  # a number is a condition as well
        if r.random() < 0.3:
            return f"({self.real(depth).text} {op} {self.real(depth).text})"
        a, b = self.integer(depth), self.integer(depth)
        if "unsigned" in (a.kind, b.kind) and min(a.low, b.low) < 0 and r.random() < 0.5:
            a, b = self._as("int", a), self._as("int", b)
        return f"({a.text} {op} {b.text})"

    # ---- statements

    def statement(self, depth: int) -> None:
        """Write a statement."""
        some: list[Callable[[int], None]] = [self._declaration, self._declaration, self._assignment]
        if depth:
            some += [self._if, self._for, self._while, self._block]
        some += [self._array, self._pointer, self._steps, self._nothing]
        self.r.choice(some)(depth)

    def block(self, depth: int, many: int = 2) -> None:
        """Write some statements, whose variables end with them."""
        known = list(self.numbers), list(self.arrays), list(self.writable)
        for _ in range(self.r.randint(1, many)):
            self.statement(depth - 1)
        self.numbers, self.arrays, self.writable = known

    def put(self, row: str) -> None:
        """Write a row."""
        self.rows.append(f"  {row}")

    def value(self, kind: str) -> Number:
        """Return an expression for a variable of a type."""
        if kind in ("float", "double"):
            return self.real()
        a = self.integer()
        least = -(2 ** INTEGERS[kind]) if not kind.startswith("unsigned") else 0
        if least <= a.low and a.high < 2 ** INTEGERS[kind]:
            return a
        return self._as("int", Number(f"({a.text} & 63)", "int", 0, 63))

    def _declaration(self, depth: int) -> None:
        del depth
        kind, name = self.r.choice(KINDS), self.fresh()
        a = self.value(kind)
        const = self.r.random() < 0.2
        made, rest = [Number(name, kind, a.low, a.high)], ""
        if self.r.random() < 0.15:  # a second variable, which may be made of the first
            self.numbers.append(made[0])
            b, other = self.value(kind), self.fresh()
            made, rest = [Number(other, kind, b.low, b.high)], f", {other} = {b.text}"
        self.put(f"{'const ' if const else ''}{self.spelled(kind)} {name} = {a.text}{rest};")
        self.numbers += made
        if not const:
            self.writable += made

    def _assignment(self, depth: int) -> None:
        del depth
        if not self.writable:
            return
        to = self.r.choice(self.writable)
        if to.is_int:
            if self.r.random() < 0.4:
                self._changed(to)
                return
            a = self.integer()
            if to.low <= a.low <= a.high <= to.high:
                self.put(f"{to.text} = {a.text};")
            return
        op = self.r.choice(("=", "+=", "-=", "*=", "/="))
        self.put(f"{to.text} {op} {self.real().text};")

    def _changed(self, to: Number) -> None:
        """Write what makes an integer another one within its bounds, however often it runs."""
        r, most = self.r, self.r.randint(1, 40)
        rows = [f"{to.text} /= {most};", f"{to.text} %= {most};"] if to.low <= 0 <= to.high else []
        if to.low == 0 and to.high < LARGEST >> 3:
            rows += [f"{to.text} >>= {r.randrange(4)};", f"{to.text} &= {self.bits(1).text};"]
            bits = (1 << max(to.high.bit_length() - 1, 0)) - 1
            ops = ("|", "^", "+", "*", "-", "<<")
            rows += [f"{to.text} {op}= 5; {to.text} &= {bits};" for op in ops]
        if rows:
            self.put(r.choice(rows))

    def _steps(self, depth: int) -> None:
        """Write what steps a variable of its own up and down."""
        del depth
        name, start = self.fresh(), self.r.randint(0, 9)
        self.put(f"int {name} = {start};")
        for _ in range(self.r.randint(1, 3)):
            row = self.r.choice(("{}++;", "++{};", "{}--;", "{} += 3;", "{} -= 2;", "{} *= 1;"))
            self.put(row.format(name))
        self.numbers.append(Number(name, "int", start - 6, start + 9))

    def _brief(self) -> str:
        """Return one statement that stands without braces."""
        if self.writable and self.r.random() < 0.7:
            to = self.r.choice(self.writable)
            return f"{to.text} = {to.text};" if to.is_int else f"{to.text} += {self.real(1).text};"
        return self.r.choice((";", "{}", "{ ; }"))

    def _if(self, depth: int) -> None:
        if self.r.random() < 0.25:
            self.put(f"if ({self.condition(1)}) {self._brief()}")
            if self.r.random() < 0.5:
                self.put(f"else if ({self.condition(1)}) {self._brief()}")
            if self.r.random() < 0.5:
                self.put(f"else {self._brief()}")
            return
        self.put(f"if ({self.condition(1)}) {{")
        self.block(depth)
        if self.r.random() < 0.5:
            self.put("} else {")
            self.block(depth)
        self.put("}")

    def _block(self, depth: int) -> None:
        self.put("{")
        self.block(depth)
        self.put("}")

    def _for(self, depth: int) -> None:
        name, count = self.r.choice((self.fresh("j"), "j")), self.r.randint(1, 5)
        known = list(self.numbers)
        self.numbers = [x for x in known if x.text != name]
        head = self.r.choice(
            (
                f"int {name} = 0; {name} < {count}; ++{name}",
                f"int {name} = {count - 1}; {name} >= 0; {name}--",
                f"int {name} = 0; {name} < {count}; {name} += 2",
                f"int {name} = 0, k = 3; {name} < {count}; ++{name}, k += 2",
            )
        )
        if self.r.random() < 0.3:
            self.put("#pragma unroll")
        self.put(f"for ({head}) {{")
        self.numbers.append(Number(name, "int", 0, count))
        self.block(depth)
        self.put("}")
        self.numbers = known

    def _nothing(self, depth: int) -> None:
        """Write a statement that does nothing: an empty one, or a loop whose head does it all."""
        del depth
        name = self.fresh("e")
        count = self.r.randint(1, 4)
        self.put(self.r.choice((";", f"for (int {name} = 0; {name} < {count}; ++{name});")))

    def _while(self, depth: int) -> None:
        name, count = self.fresh("w"), self.r.randint(1, 4)
        self.put(f"int {name} = 0;")
        self.put(f"while ({name} < {count}) {{")
        self.numbers.append(Number(name, "int", 0, count))
        self.block(depth)
        self.put(f"{name}++;")
        self.put("}")

    def _array(self, depth: int) -> None:
        del depth
        kind, name = self.r.choice(("int", "float", "float", "double")), self.fresh("t")
        rows, columns = self.r.choice((0, 0, 2, 3)), self.r.randint(1, 4)
        self.names += 1
        count = max(1, rows) * columns
        given = ", ".join(str(self.r.randint(0, 9)) for _ in range(self.r.randint(1, count)))
        sizes = f"[{rows}][{columns}]" if rows else f"[{columns}]"
        self.put(f"{kind} {name}{sizes} = {{{given}}};")
        row = f"{name}[{self.index(rows)}]" if rows else name
        at, to = self.index(columns), self.index(max(1, rows))
        value = self.value(kind) if kind != "int" else self._small()
        self.put(f"{name}[{to}][{at}] = {value.text};" if rows else f"{name}[{at}] = {value.text};")
        self.arrays.append((row, kind, columns))

    def _small(self) -> Number:
        a = self.bits(1)
        return Number(f"(int)({a.text} % {SMALL})", "int", 0, SMALL)

    def _pointer(self, depth: int) -> None:
        del depth
        some = [x for x in self.arrays if x[2] > 1 and "[" not in x[0]]
        if not some:
            return
        array, kind, size = self.r.choice(some)
        name, by = self.fresh("q"), self.r.randrange(size - 1)
        form = self.r.choice(("{a} + {b}", "&{a}[{b}]"))
        const = "const " if array.startswith("in") else ""
        self.put(f"{const}{kind} *{name} = {form.format(a=array, b=by)};")
        self.arrays.append((name, kind, size - by))


def _wide(kind: str) -> str:
    """Return the type that C computes in for one operand: small integers become ints."""
    return "int" if INTEGERS.get(kind, 31) < 31 else kind


def _common(a: str, b: str) -> str:
    ranked = ("int", "unsigned", "long long")
    return max(_wide(a), _wide(b), key=ranked.index)


def _apply(op: str, x: int, y: int) -> int:
    return x + y if op == "+" else x - y if op == "-" else x * y
