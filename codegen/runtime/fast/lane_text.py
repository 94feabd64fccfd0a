"""Kernels cut into loops over lanes, as C."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from pycparser import c_ast as c
from pycparser.c_generator import CGenerator

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
)
from didyma.codegen.runtime.fast.lane_kinds import AXES, literal, names, nodes, type_name
from didyma.codegen.runtime.fast.lane_writer import ONCE, Writer
from didyma.codegen.runtime.fast.lanes import SHUFFLED, Cut, quals
from didyma.codegen.runtime.hosttext import arguments
from didyma.refimpl.ir.kernel import Signature

_DIGIT: Final = "DIGIT__ "  # before the name of one whose lanes may be needed
UNROLLED: Final = 4  # copies of a loop's body, at most
JAMMED: Final = 9  # rounds in one loop over lanes, at most: those of a window of 3 by 3
HELD: Final = 128  # lanes whose sums a loop keeps in registers, at most: eight vectors of AVX-512

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


class _Text:
    def __init__(self, cut: Cut, block: tuple[int, int, int]) -> None:
        self.cut = cut
        self.block = block
        self.writer = Writer(cut)
        self.again: dict[str, c.Decl] = {}
        self.inits: dict[str, c.Node] = {}  # of digits
        self.ends: set[str] = set()  # of runs
        self.inside = False  # a loop, or statements beside a loop
        self.sizes: set[int] = set()  # of runs, where they are known
        self.chosen = 0  # choices made before loops over lanes

    def items(self, items: Sequence[Item]) -> Iterator[str]:
        items = sorted(items, key=lambda x: not isinstance(x, Most))  # before lanes do any work
        cut = _first_work(items)
        for item in items[:cut]:
            yield from self.item(item)
        known, inside = len(self.ends), self.inside
        self.inside = inside or any(isinstance(x, Loop) for x in items)
        rest = [line for item in items[cut:] for line in self.item(item)]
        self.inside = inside
        is_final = 0 < known == len(self.ends)
        if is_final and not inside and any(map(_keeps_sums, items)):
            # Where the number of lanes is a constant, their sums stay in registers.
            lanes = self.usual()
            yield f"if (lanes__ >= {lanes}) {{"
            yield f"lanes__ = {lanes};"
            yield f"{{ const i64 lanes__ = {lanes};"
            yield from rest
            yield "} } else {"
            yield from rest
            yield "}"
        else:
            yield from rest

    def usual(self) -> int:
        """Return the number of lanes of a run whose loops are made for it."""
        size = min({*self.sizes, self.block[0]})
        parts = -(-size // HELD)
        return size if parts == 1 else -(-size // (parts * 16)) * 16

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
                self.sizes |= {n} if (n := literal(by)) else set()
                yield from self._shorter(f"quotient__({shared(v)}, {shared(by)})")
            case Crossing(value=v, bound=bound, more=more):
                yield from self._shorter(f"crossing__({shared(v)}, ({shared(bound)}) + {more})")
            case Most(lanes=lanes):
                self.sizes.add(lanes)
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


def _first_work(items: Sequence[Item]) -> int:
    """Return the number of items before the first that lanes run."""
    work = (k for k, x in enumerate(items) if isinstance(x, (Group, Loop)))
    return next(work, len(items))


def _keeps_sums(item: Item) -> bool:
    """Return whether an item is a loop around several loops over lanes, which share sums."""
    if not isinstance(item, Loop):
        return False
    nest = unrolled_nest(item)
    loops = [] if nest is None else [x for x in nest[0] if isinstance(x, Loop)]
    return nest is None or math.prod(rounds(x) or 0 for x in loops) > JAMMED


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


def one_index(function: c.FuncDef, lanes: int) -> bool:
    """Return whether a kernel knows blocks and threads only by ``bx * lanes + tx``."""
    every = list(nodes(function.body))
    axes = {
        x.name: f"{base}.{field}"
        for x in every
        if isinstance(x, c.Decl)
        and isinstance(x.init, c.StructRef)
        and (base := getattr(x.init.name, "name", "")) in AXES
        and (field := x.init.field.name)
    }
    named = [x.name for x in every if isinstance(x, c.ID) and x.name in {*axes, *AXES}]
    if len(axes) != 2 or sorted(named) != sorted([*axes, "blockIdx", "threadIdx"]):
        return False
    for x in every:
        match x:
            case c.BinaryOp(
                op="+",
                left=c.BinaryOp(op="*", left=c.ID(name=block), right=by),
                right=c.ID(name=thread),
            ) if literal(by) == lanes:
                if (axes.get(block), axes.get(thread)) == ("blockIdx.x", "threadIdx.x"):
                    return True
            case _:
                pass
    return False


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
    over_ends = shortened and (y, z) == (1, 1) and not cut.atomics and one_index(cut.function, x)
    first = "const i64 first__, const i64 most__" if shortened else ""
    flat = [] if cut.barriers else ["const u32 y__", "const u32 z__"]
    head = ", ".join(
        filter(None, [params, "const dim3__ blockIdx, const dim3__ gridDim", *flat, first])
    )
    lines = [
        f"static __attribute__((noinline)) i64 lanes_{s.name}__({head}) {{",
        f"static const dim3__ blockDim = {{{x}, {y}, {z}}};",
        *(["const i64 first__ = 0;"] if not shortened else []),
        *(["const u32 y__ = 0, z__ = 0;"] if cut.barriers else []),
        "i64 lanes__ = most__;" if shortened else f"const i64 lanes__ = {x};",
        *stored,
        *body,
        "return lanes__;",
        "}",
        *_entry(s, places, cut, shortened, over_ends),
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


def _entry(
    s: Signature, places: Sequence[str], cut: Cut, shortened: bool, over_ends: bool
) -> Iterator[str]:
    x, y, z = s.block
    args = f"{', '.join(arguments(s))}, at, grid"
    assert len(places) == len(s.buffers) + len(s.dims) + len(s.scalars)
    yield f"void launch_{s.name}__(Work__ *w) {{"
    yield "  const u64 *a = w->args;"
    yield "  const dim3__ grid = {w->grid[0], w->grid[1], w->grid[2]};"
    yield "  u64 b, end;"
    yield "  while (next__(w, &b, &end))"
    if over_ends:
        yield "    while (b < end) {"
        yield "      const i64 blocks = least__(end - b, grid.x - b % grid.x);"
    else:
        yield "    for (; b < end; b++) {"
    yield "      const dim3__ at = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};"
    if over_ends:
        yield f"      for (i64 i = 0; i < {x} * blocks;)"
        yield f"        i += lanes_{s.name}__({args}, 0, 0, i, least__({x}, {x} * blocks - i));"
        yield "      b += blocks;"
    elif cut.barriers:
        yield f"      lanes_{s.name}__({args});"
    else:
        yield f"      for (u32 z__ = 0; z__ < {z}; z__++) for (u32 y__ = 0; y__ < {y}; y__++)"
        if shortened:
            yield f"      for (i64 i = 0; i < {x};)"
            yield f"        i += lanes_{s.name}__({args}, y__, z__, i, {x} - i);"
        else:
            yield f"      lanes_{s.name}__({args}, y__, z__);"
    yield "    }"
    yield "}"
