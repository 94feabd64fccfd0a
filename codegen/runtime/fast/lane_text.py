"""Kernels cut into loops over lanes, as C."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from pycparser import c_ast as c
from pycparser.c_generator import CGenerator

from didyma.codegen.runtime.fast.lane_digits import Digits
from didyma.codegen.runtime.fast.lane_items import (
    Again,
    Branch,
    Crossing,
    Digit,
    Group,
    Item,
    Loop,
    Most,
    Quotient,
    Scalar,
    Shared,
    UnsuitedError,
)
from didyma.codegen.runtime.fast.lane_kinds import VARYING, literal, names, nodes, step, type_name
from didyma.codegen.runtime.fast.lanes import SHUFFLED, Cut, quals
from didyma.codegen.runtime.hosttext import arguments
from didyma.refimpl.ir.kernel import Signature

_DIGIT: Final = "DIGIT__ "  # before the name of one whose lanes may be needed
ONCE: Final = "once__"  # before the number of a choice, as a copy of a loop's body knows it
UNROLLED: Final = 4  # copies of a loop's body, at most
JAMMED: Final = 9  # rounds in one loop over lanes, at most: those of a window of 3 by 3
_COMPARE: Final = ("<", "<=", ">", ">=", "==", "!=")

# Names that end in two underscores are of this file.
HEAD: Final = """\
typedef struct { u32 x, y, z; } dim3__;
static inline i64 least__(i64 a, i64 b) { return b < a ? b : a; }
static inline i64 quotient__(i64 v, i64 by) { return v < 0 || by <= 0 ? 1 : by - v % by; }
static inline i64 crossing__(i64 v, i64 bound) { return v < bound ? bound - v : 1 << 20; }
static inline i32 near__(i64 v) { return v < -4096 ? -4096 : v > 4096 ? 4096 : (i32)v; }
// clang compares what it can compute in 64 bits, half as many lanes at once as it loads of these.
#define FOUR__(n) n, n + 1, n + 2, n + 3
#define SIXTEEN__(n) FOUR__(n), FOUR__(n + 4), FOUR__(n + 8), FOUR__(n + 12)
#define ROW__(n) SIXTEEN__(n), SIXTEEN__(n + 16), SIXTEEN__(n + 32), SIXTEEN__(n + 48)
#define ROWS__(n) ROW__(n), ROW__(n + 64), ROW__(n + 128), ROW__(n + 192)
static const i32 lane__[1024] = {ROWS__(0), ROWS__(256), ROWS__(512), ROWS__(768)};
#ifdef __clang__
#define APART__ _Pragma("clang loop vectorize(assume_safety)")
#else
#define APART__ _Pragma("GCC ivdep")
#endif
"""


class _Writer(CGenerator):
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


class _Text:
    def __init__(self, cut: Cut, block: tuple[int, int, int]) -> None:
        self.cut = cut
        self.block = block
        self.writer = _Writer(cut)
        self.again: dict[str, c.Decl] = {}
        self.inits: dict[str, c.Node] = {}  # of digits
        self.ends: set[str] = set()  # of runs
        self.chosen = 0  # choices made before loops over lanes

    def items(self, items: Sequence[Item]) -> Iterator[str]:
        for item in items:
            yield from self.item(item)

    def item(self, item: Item) -> Iterator[str]:
        shared = self.writer.shared
        match item:
            case Scalar(decl=d):
                yield f"const {type_name(d.type)} {d.name} = {shared(d.init)};"
            case Digit(decl=d):
                yield f"const i64 {d.name} = {shared(d.init)};"
                self.inits[d.name] = d.init
                yield f"{_DIGIT}{d.name}"
            case Again(decl=d):
                self.again[d.name] = d
            case Quotient(value=v, by=by):
                yield from self._shorter(f"quotient__({shared(v)}, {shared(by)})")
            case Crossing(value=v, bound=bound, more=more):
                yield from self._shorter(f"crossing__({shared(v)}, ({shared(bound)}) + {more})")
            case Most(lanes=lanes):
                yield from self._shorter(str(lanes))
            case Shared(decl=d):
                extent = shared(d.type.dim)
                t = type_name(d.type)
                yield f"{t} {d.name}[{extent}] __attribute__((aligned(64)));"
            case Group(statements=some):
                yield from self.group(some)
            case Loop(head=head, body=body, unrolled=unrolled):
                if not self.cut.atomics and (nest := unrolled_nest(item)) is not None:
                    yield from self.jammed(*nest)
                    return
                if unrolled:
                    yield f"#pragma GCC unroll {UNROLLED}"
                d = head.init.decls[0]
                yield (
                    f"for (i64 {d.name} = {shared(d.init)}; {shared(head.cond)};"
                    f" {shared(head.next)}) {{"
                )
                yield from self.items(body)
                yield "}"
            case Branch(cond=cond, then=then, other=other):
                yield f"if ({shared(cond)}) {{"
                yield from self.items(then)
                yield "}"
                if other:
                    yield "else {"
                    yield from self.items(other)
                    yield "}"

    def jammed(self, outer: Sequence[Loop | Scalar], inner: Group) -> Iterator[str]:
        """Yield loops whose rounds lie in one loop over lanes, which keeps sums in registers."""
        loops = [x for x in outer if isinstance(x, Loop)]
        first, counts = loops[0].head.init.decls[0].name, [rounds(x) or 0 for x in loops]
        whole = math.prod(counts) <= JAMMED
        if not whole:
            yield f"for (i64 {first}__ = 0; {first}__ < {counts[0]}; {first}__ += {UNROLLED}) {{"
            counts[0] = UNROLLED
        copies = list[list[str]]()
        for numbers in product(*map(range, counts)):
            given, lines = iter(numbers), list[str]()
            for x in outer:
                if isinstance(x, Scalar):
                    lines += self.item(x)
                    continue
                name, number = x.head.init.decls[0].name, next(given)
                more = f"{first}__ + " if name == first and not whole else ""
                lines.append(f"const i64 {name} = {more}{number};")
            copies.append(lines)
        yield from self.group(inner.statements, copies)
        yield from () if whole else ("}",)

    def _shorter(self, lanes: str) -> Iterator[str]:
        if lanes not in self.ends:
            self.ends.add(lanes)
            yield f"lanes__ = least__(lanes__, {lanes});"

    def group(
        self, statements: Sequence[c.Node], copies: Sequence[Sequence[str]] = ((),)
    ) -> Iterator[str]:
        """Yield a loop over lanes, whose body is copied after each of some declarations."""
        if not statements:
            return
        self.writer.once = []
        made = [m for s in statements if (m := self.writer.lane(s).strip()) not in ("", ";")]
        if not made:
            return
        copies, before = self._once(copies)
        yield from before
        # gcc takes the promise for the loop around one that has a single turn.
        apart = "" if self.cut.atomics or self.block[0] == 1 else "APART__ "
        if self.cut.barriers:
            x, y, z = self.block
            if z > 1:
                yield f"for (i64 z__ = 0; z__ < {z}; z__++)"
            if y > 1:
                yield f"for (i64 y__ = 0; y__ < {y}; y__++)"
            yield f"{apart}for (i64 x__ = 0; x__ < {x}; x__++) {{"
            rows = f"{y} * z__ + " if z > 1 else ""
            rows += "y__" if y > 1 else "0"
            yield f"const i64 l__ = x__ + {x} * ({rows});"
        else:
            yield f"{apart}for (i64 x__ = 0; x__ < lanes__; x__++) {{"
            yield "const i64 l__ = x__;"
        yield from self._anew(statements)
        for lines in copies:
            yield from ("{", *lines, *made, "}") if lines else made
        yield "}"

    def _once(
        self, copies: Sequence[Sequence[str]]
    ) -> tuple[Sequence[Sequence[str]], Sequence[str]]:
        """Return copies that know what all lanes choose alike, and what chooses before the loop."""
        chosen, before, found = self.writer.once, list[str](), list[list[str]]()
        for lines in copies:
            known = list(lines)
            for k, text in enumerate(chosen):
                name = f"{ONCE}{self.chosen}__"
                self.chosen += 1
                before.append(f"const __auto_type {name} = ({{ {' '.join(lines)} {text}; }});")
                known.append(f"const __auto_type {ONCE}{k} = {name};")
            found.append(known)
        return found, before

    def _anew(self, statements: Sequence[c.Node]) -> Iterator[str]:
        needed = set[str]().union(*(names(s) for s in statements))
        for name in reversed(self.again):
            if name in needed:
                needed |= names(self.again[name].init)
        self.writer.in_lane = True
        for name, d in self.again.items():
            if name in needed:
                yield f"const i64 {name} = {self.writer.visit(d.init)};"
        self.writer.in_lane = False


def rounds(loop: Loop) -> int | None:
    """Return how often a loop that is to be unrolled runs, from 0 on by 1; None if not known."""
    d, cond, step_ = loop.head.init.decls[0], loop.head.cond, loop.head.next
    by_one = isinstance(step_, c.UnaryOp) and "++" in step_.op
    below = isinstance(cond, c.BinaryOp) and cond.op == "<" and names(cond.left) == {d.name}
    if not (loop.unrolled and by_one and below and literal(d.init) == 0):
        return None
    return literal(cond.right)


def unrolled_nest(loop: Loop) -> tuple[list[Loop | Scalar], Group] | None:
    """Return the loops around a single group, and their scalars, if they are to be unrolled.

    None where a round reads what another lane has in the round before, and where rounds are many
    and no multiple of ``UNROLLED``.
    """
    outer, counts = list[Loop | Scalar](), list[int]()
    last: Item = loop
    while isinstance(last, Loop):
        if not (count := rounds(last)):
            return None
        outer.append(last)
        counts.append(count)
        *scalars, last = [x for x in last.body if x != Group([])] or [Group([])]
        for x in scalars:
            if not isinstance(x, Scalar):
                return None
            outer.append(x)
    if not isinstance(last, Group) or any(SHUFFLED in names(s) for s in last.statements):
        return None
    inside = math.prod(counts[1:])
    by_turns = counts[0] % UNROLLED == 0 and inside * UNROLLED <= JAMMED
    return (outer, last) if counts[0] * inside <= JAMMED or by_turns else None


def text(cut: Cut, s: Signature) -> str:
    """Return the function of a kernel's lanes and the entry that runs blocks of a grid by it."""
    x, y, z = s.block
    made = _Text(cut, s.block)
    body = [_filled(line, made, x) for line in list(made.items(cut.items))]
    shortened = bool(made.ends)
    lanes = x * y * z if cut.barriers else x
    stored = (_storage(d, lanes) for d in cut.stored.values())
    params = ", ".join(_param(p) for p in cut.function.decl.type.args.params)
    places = [n.name for n in cut.function.decl.type.args.params]
    first = "const i64 first__" if shortened else ""
    flat = [] if cut.barriers else ["const u32 y__", "const u32 z__"]
    head = ", ".join(
        filter(None, [params, "const dim3__ blockIdx, const dim3__ gridDim", *flat, first])
    )
    lines = [
        f"static __attribute__((noinline)) i64 lanes_{s.name}__({head}) {{",
        f"static const dim3__ blockDim = {{{x}, {y}, {z}}};",
        *(["const i64 first__ = 0;"] if not shortened else []),
        *(["const u32 y__ = 0, z__ = 0;"] if cut.barriers else []),
        f"i64 lanes__ = {x} - first__;" if shortened else f"const i64 lanes__ = {x};",
        *stored,
        *body,
        "return lanes__;",
        "}",
        *_entry(s, places, cut, shortened),
    ]
    return "\n".join(lines)


def _filled(line: str, made: _Text, lanes: int) -> str:
    """Return a line, or what computes a digit for each lane where lanes look at it."""
    if not line.startswith(_DIGIT):
        return line
    name = line.removeprefix(_DIGIT)
    if name not in made.writer.digits:
        return ""
    each = made.writer.each(made.inits[name])
    return (
        f"i32 {name}__each[{lanes}] __attribute__((aligned(64)));\n"
        f"for (i64 x__ = 0; x__ < lanes__; x__++) {name}__each[x__] = (i32)({each});"
    )


def _storage(d: c.Decl, lanes: int) -> str:
    t = type_name(d.type)
    inner = f"[{CGenerator().visit(d.type.dim)}]" if isinstance(d.type, c.ArrayDecl) else ""
    return f"{t} {d.name}{inner}[{lanes}] __attribute__((aligned(64)));"


def _param(p: c.Decl) -> str:
    if isinstance(p.type, c.PtrDecl):
        said = quals(p)
        const, alone = "const " * ("const" in said), "restrict " * ("restrict" in said)
        return f"{const}{type_name(p.type)} *{alone}{p.name}"
    return f"const {type_name(p.type)} {p.name}"


def _entry(s: Signature, places: Sequence[str], cut: Cut, shortened: bool) -> Iterator[str]:
    x, y, z = s.block
    args = f"{', '.join(arguments(s))}, at, grid"
    assert len(places) == len(s.buffers) + len(s.dims) + len(s.scalars)
    yield f"void launch_{s.name}__(Work__ *w) {{"
    yield "  const u64 *a = w->args;"
    yield "  const dim3__ grid = {w->grid[0], w->grid[1], w->grid[2]};"
    yield "  u64 b, end;"
    yield "  while (next__(w, &b, &end))"
    yield "    for (; b < end; b++) {"
    yield "      const dim3__ at = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};"
    if cut.barriers:
        yield f"      lanes_{s.name}__({args});"
    else:
        yield f"      for (u32 z__ = 0; z__ < {z}; z__++) for (u32 y__ = 0; y__ < {y}; y__++)"
        if shortened:
            yield f"      for (i64 i = 0; i < {x};) i += lanes_{s.name}__({args}, y__, z__, i);"
        else:
            yield f"      lanes_{s.name}__({args}, y__, z__);"
    yield "    }"
    yield "}"
