"""Small edits of a kernel's lines: one that makes a wrong kernel right shows where it is wrong.

The idea is that of mutation-based fault localisation: S. Moon, Y. Kim, M. Kim and S. Yoo, *Ask the
Mutants*, 2014.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from operator import ne

from didyma.judging import (
    borrowed,
    copied,
    exchanged,
    forgotten,
    indices,
    nearby,
    slips,
    structure,
    usual,
)
from didyma.judging.borrowed import Rule
from didyma.judging.natural import Naturalness

_NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
_WORD = re.compile(r"[A-Za-z_]\w*")
_HEXADECIMAL = re.compile(r"\b0x([0-9a-fA-F]{1,4})\b")
_ZERO = re.compile(r"(?<![\w.])(?:0|1)\.0?f?(?![\w.])")
_FLOAT = re.compile(
    r"(?<![\w.])(?<!\de[-+])(-?\d+\.\d*(?:e[-+]?\d+)?|-?\d+e[-+]?\d+|-?\d+\.?(?=f))(f?)(?![\w.])"
)
_START = re.compile(
    r"\b((?:float|double) \w+ = |\w+ (?:\w*_)?(?:m|mx|max|best|top|largest)\w* = )(-?\d+)(?=[;,])"
)
_OPERAND = r"[A-Za-z_][\w.]*(?:\[[^\[\]]*\]|\([^()]*\))?|\d+"
_TERM = re.compile(rf"\s([-+*/])\s(?:{_OPERAND})(?=[\s;),\]])")
_LEADING = re.compile(rf"(?<=[-+(=,] )(?:{_OPERAND}) \* |(?<=[(\[])(?:{_OPERAND}) \* ")
_ARGUMENT = re.compile(r"(?<=[(,] )[A-Za-z_]\w*(?=[,)])|(?<=\()[A-Za-z_]\w*(?=,)")
_DIFFERENCE = re.compile(rf"(?<![\w.])({_OPERAND})\s*-\s*({_OPERAND})")
_COMPARED = re.compile(r"(?<=[\w\])])\s*(?<![<>])(<=|>=|<|>)(?![<>])\s*(?=[\w(])")
_BOUND = re.compile(r"([<>=]=|[<>])(\s*)([\w.]+)(?=\s*[;)&|?])")
_INDEX = re.compile(r"\b(\w+)\[(\w+) \* (\w+) \+ (\w+)\]")
_PLACED = re.compile(r"\b(?:threadIdx|blockIdx)\.[xyz]")
_INT = re.compile(r"\b(?:int|unsigned|size_t|long|uint32_t|int64_t)\s+(\w+)(?=\s*[=,;)>])")
_CONSTANT = re.compile(r"^\s*#\s*define\s+(\w+)\s+\(?-?\d+\)?\s*$", re.M)
_ARRAY = re.compile(r"(?:\*\s*(?:__restrict__\s+)?(\w+)\s*(?:[,)]|=(?!=))|\b(\w+)\[)")
_VALUE = r"(?:\s*=[^,;(){}]*(?:\([^()]*\)[^,;(){}]*)*)?"
_DECLARED = re.compile(
    r"\b(?!return\b|else\b|case\b|struct\b|typename\b)([A-Za-z_]\w*)\s+(\w+)(?=\s*[;,)=])"
    rf"({_VALUE}(?:,\s*\w+(?=\s*[=,;]){_VALUE})*)"
)
_NEXT = re.compile(r",\s*(\w+)(?=\s*(?:[=,;]|$))")
_INTEGERS = frozenset(("int", "unsigned", "size_t", "long", "uint32_t", "int64_t", "int32_t"))
_NOTHING = (
    re.compile(
        r"(?<![\w.\])*/%] )(?<![\w.\])*/%])(\w[\w.]*) (?:[-/%<>]|[<>=!]=) \1(?![\w.(\[]| [*/%])"
    ),
    re.compile(r"\b(?:int|float|unsigned|auto|\w+_t) (\w+) = (?:[^;]*\W)?\1\b"),
    re.compile(r"(?:<<|>>|[-+])=? 0\b(?!\.[\df]|x)|[*/]=? 1\b(?!\.[\df])|[/%]=? 0\b(?!\.)"),
    re.compile(r">= 0; \w+ (?:>>|/)="),  # a loop without an end
    re.compile(r"(?<![\w.\])])(\w+) (?:\+=|-=) \1;"),
)
_CAST = re.compile(
    r"\((?:float|double|int|unsigned|long long|char|half|__half|u?int\d+_t)\)\s*(?=[\w(])"
)
_INNER = re.compile(r"(?:\[|(?<=[\[(])\()([^\[\]()]+)[\])]")
_ANY_PLACE = re.compile(r"\[([^\[\]]+)\]")
_PLACES = re.compile(r"\b(\w+)\[([^\[\]]+)\]\[([^\[\]]+)\]")
_FACTOR = re.compile(rf"(?<=[-+*=()\s])({_OPERAND})(?=\s*[-+;)])(?!\s*(?:\+\+|--|[-+]=))")
_MASKED = re.compile(r"(?<=[\w)] & )[A-Za-z_]\w*\b(?![\w(\[.])")
_BELOW = re.compile(r"(?<=& )\([^()]*<<[^()]*\)")  # a bit, of which a mask has all below
_INNER_TERM = re.compile(r"(?:(?<=[\[(])|(?<=\+ ))[A-Za-z_]\w*(?= [-+/%]|\])")
_NAMES = {"int": (-0.1, -0.4), "array": (-1.3, -1.2), "": (-0.8, -0.4)}  # near and other ones
_SHARED = 0.6  # of the logarithm of how many edits a rule makes
# As weights of rules, for statements and parts of two lines, and what a name was before.
_TURNED, _SWAPPED, _EARLIER = 0.5, -1.0, 0.8
_LITERALS = 8  # numbers of a text that take the places of others: the most frequent
_OPERATOR = re.compile(r"(?<=[\w\])]) ([-+*/%]) (?=[\w(])")
_ASSIGNED = re.compile(r"(?<![=<>!])=(?!=)|\breturn\b")
_ENDS = re.compile(r"[);]| [?:] ")
# Heads of functions, and lines for the preprocessor but definitions.
_KEPT = re.compile(
    r"\b__(?:global|device)__\b.*[,{]\s*$|^\s*#\s*(?!define\b)|^\s*template\s*<[^{;]*$"
    r"|^\s*(?:const\s+)?[A-Za-z_]\w*[\s*&]+\w[^;()=]*(?:,|\)\s*\{)\s*$"
)
_COMMENT = re.compile(r"\s*//.*")
_LOOP = re.compile(r"\s*for\s*\((?:[^()]|\([^()]*\))*\)")
_NAMED = re.compile(r"(?<=[a-z_])(add|sub|mul|div|min|max|Add|Sub|Min|Max)(?=\d|_|\()")
_INSTEAD = {"add": ("mul", "sub"), "sub": ("add",), "mul": ("add", "div"), "div": ("mul",),
            "min": ("max",), "max": ("min", "add")}  # fmt: skip
_COMPONENT = re.compile(r"\b(?!threadIdx|blockIdx|blockDim|gridDim)(\w+)\.([xyzw])\b")
_FIELD = re.compile(r"(?<!Idx)(?<!Dim)\.([xyzw])\b")
# What a call is given.  A sign before a parameter's type is no edit: NVRTC has crashed on one.
_GIVEN = re.compile(
    r"(?<=\w)(?<!\bif)(?<!\bfor)(?<!\bwhile)\((?=[A-Za-z_]\w*(?:[),(\[.]| [-+*/] ))"
)
_INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/"}
_SWAPS = (
    ("fmaxf", "fminf"), ("max", "min"), ("fmax", "fmin"), ("expf", "exp2f"), ("sqrtf", "rsqrtf"),
    ("sinf", "cosf"), ("logf", "log2f"), ("tanhf", "sinhf"), ("fabsf", ""), ("expf", "expm1f"),
    ("threadIdx.x", "threadIdx.y"), ("blockIdx.x", "blockIdx.y"), ("blockIdx.x", "threadIdx.x"),
    ("blockDim.x", "gridDim.x"), ("blockDim.x", "blockDim.y"), ("gridDim.x", "gridDim.y"),
    ("INFINITY", "0.0f"), ("-INFINITY", "INFINITY"),
    ("-FLT_MAX", "FLT_MIN"), ("-FLT_MAX", "0.0f"), ("__shfl_down_sync", "__shfl_up_sync"),
    ("&&", "||"), ("==", "!="), ("+=", "="), ("*=", "+="), ("true", "false"),
    ("row_major", "col_major"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Edit:
    """Another form of a line, which is counted from 1, or of as many lines as the old form has."""

    line: int
    old: str
    new: str

    @property
    def shown(self) -> str:
        """The new form in one line."""
        return " ".join(row.strip() for row in self.new.split("\n"))

    def of(self, text: str) -> str:
        """Return a text with the edit."""
        rows = text.split("\n")
        rows[self.line - 1 : self.line + self.old.count("\n")] = [self.new]
        return "\n".join(rows)


def edits(text: str, lines: Sequence[int]) -> list[Edit]:
    """Return edits of some lines of a text, those first that most likely make a wrong line right.

    How likely an edit is depends on its rule, on how many edits the rule makes of the text, and on
    how natural the edited line is there.
    """
    rows = text.split("\n")
    bare = [_COMMENT.sub("", r) for r in rows]
    text = "\n".join(bare)
    declared = _declared(text)
    further = (n for t in _INTEGERS for n in declared.get(t, ()))
    ints = sorted({*_INT.findall(text), *_CONSTANT.findall(text), *further})
    places = sorted({*_PLACED.findall(text)})
    arrays = sorted({a or b for a, b in _ARRAY.findall(text)})
    kinds = {
        t: sorted(names) for t, names in declared.items()
        if t not in _INTEGERS and not names <= {*arrays}
    }  # fmt: skip
    kinds = {"int": ints, "array": arrays, **kinds}
    literals = _often(_NUMBER.findall(text))
    reals = {*kinds.get("float", ()), *kinds.get("double", ())}
    floats = sorted(reals - {*arrays})
    extents = usual.extents(text)
    factors = [n for n in floats if re.search(rf"\* {n}\b", text)]
    unused = forgotten.names(text, kinds)
    numbers, whole, idle = ([n for n, _ in unused if n in row] for row in (floats, arrays, ints))
    joined = _joined(numbers, whole, ints)
    kinds["int"] = [*ints, *places]
    named = (_NAMES.get(t, _NAMES[""]) for t in kinds)
    rules: tuple[tuple[float, Rule], ...] = (
        (1.1, forgotten.taken(unused)), (0.5, joined), (-0.3, _joined(floats, (), ())),
        (1.0, structure.guarded(idle)), (1.2, structure.siblings(bare)),
        (1.0, structure.tiled(bare)), (1.0, structure.axes(bare)),
        (1.2, structure.conditions(bare, [*ints, *places])),
        (2.0, copied.lines(bare)), (-0.5, copied.parts(bare)),
        (0.4, structure.layouts(ints)), (-0.6, _joined(ints, (), ())),
        *_RULES, *borrowed.rules(text), *nearby.rules(text, bare, reals),
        (-0.2, usual.members(text)), (-0.6, usual.limited(ints)),
        (0.8, usual.rescaled(text)), (0.0, indices.backwards(text)), (0.3, usual.chosen(text)),
        (2.0, usual.squares(text)), (1.0, usual.rooted(numbers)), (2.0, usual.ended(ints)),
        (0.3, usual.averaged(extents)), (0.2, usual.computed(floats)),
        (0.6, usual.complements(floats)),
        (0.6, usual.other(extents)), (0.8, usual.squared(floats)), (1.8, usual.weighed(text)),
        (-0.1, indices.remainders(ints)), (0.2, indices.decoded(ints)),
        (0.6, usual.begun(text)), (0.6, usual.kept(kinds)),
        (0.2, _multiplied(extents)), (0.6, _multiplied(factors)), (0.2, _alike(ints)),
        (0.9, _multiplied(usual.constants(text), here=True)),
        (0.0, _multiplied(usual.constants(text))),
        (-0.4, usual.values(floats)), (0.3, forgotten.given(unused)),
        (0.2, usual.sized(text)), (0.2, usual.placed(text)), (-0.2, forgotten.extended(text)),
        (0.6, forgotten.extended(text, forgotten.INDEX)), (-0.6, forgotten.divided(ints)),
        (-0.1, forgotten.repeated(kinds, text)), (-0.1, forgotten.updated(kinds, text)),
        (1.0, slips.cases(text)), (0.4, slips.offsets(text)), (1.2, slips.multiplied(idle)),
        (1.0, slips.neighbours(bare)), (3.0, slips.ties(bare)),
        (-0.3, _moved([*ints, *places])),
        (-0.3, _each(_NUMBER, lambda m: _nearest(m, ints))),
        (-0.3, _each(_NUMBER, lambda m: _near(m, literals))),
        (-0.2, _each(_ZERO, lambda m: floats)), (-0.6, exchanged.names),
        (-0.2, exchanged.choices), (1.0, exchanged.parts),
        (-0.1, _offset), (0.0, _multiplied(floats)),
        *chain.from_iterable(
            ((w[0], _exchanged(names, near=True)), (w[1], _exchanged(names, near=False)))
            for w, names in zip(named, kinds.values(), strict=True)
        ),
    )  # fmt: skip
    known = Naturalness.of(bare)
    chosen = [n for n in lines if 0 < n <= len(rows) and not _KEPT.search(rows[n - 1])]
    found: dict[tuple[int, str], tuple[float, Edit]] = {}
    for weight, rule in rules:
        of = [
            Edit(n, rows[n - 1], new + rows[n - 1][len(bare[n - 1]) :])
            for n in chosen for new in rule(bare[n - 1])
        ]  # fmt: skip
        share = weight - _SHARED * math.log(len(of) + 1)
        for e in of:
            score = share + known.likely(e.line, _COMMENT.sub("", e.new))
            best = found.get((e.line, e.new))
            if e.new != e.old and not _void(e) and (best is None or best[0] < score):
                found[e.line, e.new] = score, e
    for weight, pairs in (
        (_SWAPPED, slips.between), (_TURNED, exchanged.statements), (_EARLIER, exchanged.earlier),
    ):  # fmt: skip
        turned = [Edit(*p) for p in pairs(rows, chosen)]
        score = weight - _SHARED * math.log(len(turned) + 1)
        found |= {(e.line, e.new): (score, e) for e in turned}
    return [e for _, e in sorted(found.values(), key=lambda p: -p[0])]


def _void(e: Edit) -> bool:
    """Return whether an edit brings a term that says nothing, or reads what it declares.

    >>> _void(Edit(1, "int m = n / 4;", "int m = n / m;")), _void(Edit(1, "i < n", "i < i"))
    (True, True)
    >>> _void(Edit(1, "s > 0; s >>= 1", "s > 0; s >>= 0")), _void(Edit(1, "a / n", "a / 1.0f"))
    (True, False)
    """
    return any(len(p.findall(e.new)) > len(p.findall(e.old)) for p in _NOTHING)


def _often(found: Sequence[str]) -> list[str]:
    return [x for x, _ in Counter(found).most_common(_LITERALS)]


def _nearest(m: re.Match[str], names: Sequence[str]) -> list[str]:
    """Return names for a number, those of its line first."""
    return sorted(names, key=lambda n: not forgotten.count(n, m.string))


def _near(m: re.Match[str], literals: Sequence[str]) -> list[str]:
    """Return other numbers of a text for one."""
    return [n for n in dict.fromkeys((*literals, "0", "1")) if n != m[1]]


def _offset(row: str) -> Iterator[str]:
    """Yield a line with one more or less in what it assigns."""
    if (m := _ASSIGNED.search(row)) and not _LOOP.match(row):
        for end in _ENDS.finditer(row, m.end()):
            for more in (" - 1", " + 1"):
                yield row[: end.start()] + more + row[end.start() :]


def _declared(text: str) -> dict[str, set[str]]:
    """Return the names that a text declares, by their types.

    >>> _declared("float a = 1, b; int k = f(2, 3);") == {"float": {"a", "b"}, "int": {"k"}}
    True
    """
    found: dict[str, set[str]] = {}
    for m in _DECLARED.finditer(text):
        found.setdefault(m[1], set()).update((m[2], *_NEXT.findall(m[3])))
    return found


def _each(pattern: re.Pattern[str], put: Callable[[re.Match[str]], Sequence[str]]) -> Rule:
    """Return the rule that puts texts in the place of each match, one at a time."""

    def rule(row: str) -> Iterator[str]:
        for m in pattern.finditer(row):
            for new in put(m):
                yield row[: m.start()] + new + row[m.end() :]

    return rule


def _comparison(m: re.Match[str]) -> list[str]:
    other = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<=")}
    return [m[0].replace(m[1], o, 1) for o in other[m[1]]]


def _whole(m: re.Match[str]) -> list[str]:
    n = int(m[1])
    row = [n + 1, n - 1, 2 * n, n // 2] if n < 8 else [2 * n, n // 2, n - 1, n + 1]
    if n > 1 and n & (n + 1) == 0:  # a mask
        row = [2 * n + 1, n // 2, *row]
    return [str(v) for v in dict.fromkeys(row) if v >= 0 and v != n]


def _mask(m: re.Match[str]) -> list[str]:
    """Return masks with a bit more and with a bit less, and what they leave out, for one."""
    n = int(m[1], 16)
    near = (2 * n + 1, n // 2, n ^ (1 << 4 * len(m[1])) - 1)
    return [f"0x{v:0{len(m[1])}x}" for v in dict.fromkeys(near) if v != n]


def _field(m: re.Match[str]) -> list[str]:
    """Return other fields of a vector for one: of its line, if that has others and this once."""
    fields = _FIELD.findall(m.string)
    few = len({*fields}) > 1 and fields.count(m[1]) < 2
    return [f".{c}" for c in "xyzw" if c != m[1] and (c in fields or not few)]


def _named(m: re.Match[str]) -> list[str]:
    """Return other operations for one in a name, such as that of ``__hadd2`` or ``atomicMax``."""
    others = _INSTEAD[m[1].lower()]
    return [o.capitalize() if m[1][0].isupper() else o for o in others]


def _real(m: re.Match[str]) -> list[str]:
    x, f = float(m[1]), m[2]
    near = (x + 1, x - 1) if x.is_integer() else ()
    values = (0.0, 1.0, -x, 2 * x, x / 2, *near) if x else (1.0,)
    texts = [_as(v, m[1]) + f for v in dict.fromkeys(values) if v != x]
    return [*texts, "-INFINITY"] if x == 0 else texts


def _as(v: float, written: str) -> str:
    """Return a number as another one is written: ``1.`` or ``1.0``."""
    return f"{v:g}." if written.endswith(".") and v.is_integer() else repr(v)


def _components(row: str) -> Iterator[str]:
    """Yield a line with a sum in which a component of a vector is added that it lacks."""
    last = {m[1]: m for m in _COMPONENT.finditer(row)}
    for name, m in last.items():
        here = {n[2] for n in _COMPONENT.finditer(row) if n[1] == name}
        for c in (c for c in "xyzw" if c not in here and len(here) > 1):
            yield f"{row[: m.end()]} + {name}.{c}{row[m.end() :]}"


def _pairs(row: str) -> Iterator[str]:
    for pair in _SWAPS:
        for old, new in (pair, pair[::-1]):
            if old:
                # Names are whole words; operators stand alone.
                word = re.escape(old)
                plain = rf"\b{word}\b" if old[0].isalpha() else rf"(?<![=!<>+*/&|-]){word}(?!=)"
                yield from _each(re.compile(plain), lambda m, new=new: [new])(row)  # type: ignore[misc]  # bound at once


def _exchanged(names: Sequence[str], *, near: bool) -> Rule:
    """Return the rule that puts another of some names in the place of each.

    A ``near`` one is on the line or like the name; the rule brings all of these, or all others.
    """
    own = (
        re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, names))})\b") if len(names) > 1 else None
    )

    def rule(row: str) -> Iterator[str]:
        declares = _INT.search(row.partition("=")[0])
        start = row.find("=") + 1 if declares else 0
        for m in own.finditer(row, start) if own else ():
            for new in names:
                if new != m[1] and _is_near(m[1], new, row) is near:
                    yield row[: m.start()] + new + row[m.end() :]

    return rule


def _alike(names: Sequence[str]) -> Rule:
    """Return the rule that puts another of some names in the place of one with which it is alike.

    >>> [*_alike(["oh", "ow", "n"])("y[oy * oh + n] = 0;")]
    ['y[oy * ow + n] = 0;']
    """
    others = {n: [o for o in names if _differ_by_one(n, o)] for n in names}

    def rule(row: str) -> Iterator[str]:
        for m in _WORD.finditer(row):
            yield from (row[: m.start()] + o + row[m.end() :] for o in others.get(m[0], ()))

    return rule


def _differ_by_one(name: str, other: str) -> bool:
    return len(name) == len(other) > 1 and sum(map(ne, name, other)) == 1


def _is_near(name: str, other: str, row: str) -> bool:
    """Return whether a name is likely meant by another: it is on the line, or like the other.

    >>> _is_near("tx", "ty", "i = tx;"), _is_near("n", "m", "i < n")
    (True, False)
    """
    return _differ_by_one(name, other) or forgotten.count(other, row) > 0


def _joined(numbers: Sequence[str], arrays: Sequence[str], indices: Sequence[str]) -> Rule:
    """Return the rule that puts names, with a sign, at an end of what is assigned or given.

    An array has the index of another one on the line, or one of some indices if there is none.
    """

    def rule(row: str) -> Iterator[str]:
        body = m.end() if (m := _LOOP.match(row)) else 0
        start = m.end() if (m := _ASSIGNED.search(row, body)) else len(row)
        ends = [m.start() for m in _ENDS.finditer(row, start)]
        places = dict.fromkeys(_ANY_PLACE.findall(row)) or indices
        names = [*numbers, *(f"{a}[{i}]" for a in arrays for i in places)]
        for sign, name in product("+*-/", names):
            for k in ends:
                yield f"{row[:k]} {sign} {name}{row[k:]}"

    return rule


def _moved(names: Sequence[str]) -> Rule:
    """Return the rule that adds to an index, or a part of it, another of some names of the line."""

    def rule(row: str) -> Iterator[str]:
        here = [n for n in names if forgotten.count(n, row)]
        for m in _INNER.finditer(row):
            for name in here:
                if not forgotten.count(name, m[1]):
                    yield f"{row[: m.start(1)]}{name} + {row[m.start(1) :]}"
                    yield f"{row[: m.end(1)]} + {name}{row[m.end(1) :]}"

    return rule


def _multiplied(names: Sequence[str], *, here: bool = False) -> Rule:
    """Return the rule that multiplies a term on the right of an assignment by one of some names.

    If it must be ``here``, a name is on the line.
    """

    def rule(row: str) -> Iterator[str]:
        left, equals, right = row.partition("=")
        known = [n for n in names if not here or forgotten.count(n, row)]
        if equals and known and not right.startswith("="):
            for m in _FACTOR.finditer(right):
                for name in known:
                    yield f"{left}={right[: m.end()]} * {name}{right[m.end() :]}"

    return rule


# Each rule has a weight: the logarithm of how likely it mends a slip.  The weights were fitted to
# 214 planted faults, as were those of ``_NAMES``, ``_SHARED`` and ``natural``.
_RULES: tuple[tuple[float, Rule], ...] = (
    (1.5, _each(_COMPARED, _comparison)),
    (2.3, _each(re.compile(r"\s*[-+]\s*1\b(?![.\w])"), lambda m: [""])),
    (-0.2, _each(_BOUND, lambda m: [f"{m[0]} + 1", f"{m[0]} - 1"])),
    (0.7, _each(_OPERATOR, lambda m: [f" {_INVERSE[m[1]]} "])),
    (1.9, _each(_NUMBER, _whole)),
    (1.5, _each(_HEXADECIMAL, _mask)),
    (0.3, _pairs),
    (0.3, _each(_NAMED, _named)),
    (1.0, _each(_FIELD, _field)),
    (0.5, _components),
    (1.5, _each(_FLOAT, _real)),
    (1.5, _each(_START, lambda m: [m[1] + ("0" if int(m[2]) else "-INFINITY")])),
    (-0.1, _each(_DIFFERENCE, lambda m: [f"{m[2]} - {m[1]}"])),
    (0.3, _each(_CAST, lambda m: [""])),
    (0.3, _each(_PLACES, lambda m: [f"{m[1]}[{m[3]}][{m[2]}]"])),
    (0.0, _each(_ANY_PLACE, lambda m: [f"[{m[1]} - 1]", f"[{m[1]} + 1]"])),
    (0.4, _each(_INDEX, lambda m: [f"{m[1]}[{m[4]} * {m[3]} + {m[2]}]"])),
    (-0.5, _each(_OPERATOR, lambda m: [" * ", " + ", " - ", " % "])),
    (-1.3, _each(_TERM, lambda m: [""])),
    (-0.7, _each(_LEADING, lambda m: [""])),
    (-0.4, _each(_LEADING, lambda m: [m[0] * 2])),
    (0.1, _each(_ARGUMENT, lambda m: [f"{m[0]} + 1", f"{m[0]} - 1"])),
    (0.6, _each(_GIVEN, lambda m: ["(-"])),
    (0.0, _each(re.compile(r"(?<=[(,=?:] )-(?=\w)|(?<=\()-(?=\w)"), lambda m: [""])),
    (0.4, _each(re.compile(r"= (\w+);"), lambda m: [f"= {m[1]} * {m[1]};"])),
    (0.5, usual.accumulated),
    (2.0, usual.ceiling),
    (0.5, usual.atomic),
    (0.5, usual.wide),
    (0.5, structure.signs),
    (0.8, usual.components),
    (0.5, _each(_MASKED, lambda m: [f"({m[0]} - 1)"])),
    (1.0, _each(_BELOW, lambda m: [f"({m[0]} - 1)"])),
    (0.5, _each(re.compile(r"(?<= \+= )(\w+)(?=\))"), lambda m: [f"2 * {m[1]}"])),
    (0.5, indices.halves),
    (0.8, indices.shifted),
    (0.5, usual.reciprocals),
    (-0.3, _each(_INNER_TERM, lambda m: [f"2 * {m[0]}"])),
    (0.0, usual.epsilons),
    (0.6, structure.brackets),
    (0.3, structure.conjuncts),
    (2.0, structure.constants),
    (0.2, structure.counts),
    (0.5, structure.roundings),
    (-0.3, structure.dropped),
    (1.5, usual.started),
    (1.3, usual.instead),
    (1.0, slips.factors),
    (1.0, slips.grouped),
    (0.8, slips.bounded),
    (2.0, slips.strides),
    (0.3, slips.returns),
)  # fmt: skip
