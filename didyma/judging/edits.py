"""Small edits of a kernel's lines: one that makes a wrong kernel right shows where it is wrong.

The idea is that of mutation-based fault localisation: S. Moon, Y. Kim, M. Kim and S. Yoo, *Ask the
Mutants*, 2014.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product, zip_longest

from didyma.judging import borrowed, forgotten
from didyma.judging.borrowed import Rule
from didyma.judging.natural import Naturalness

_NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
_FLOAT = re.compile(r"(?<![\w.])(-?\d+\.\d*(?:e[-+]?\d+)?|-?\d+\.?(?=f))(f?)(?![\w.])")
_OPERAND = r"[A-Za-z_][\w.]*(?:\[[^\[\]]*\]|\([^()]*\))?|\d+"
_TERM = re.compile(rf"\s([-+*/])\s(?:{_OPERAND})(?=[\s;),\]])")
_DIFFERENCE = re.compile(rf"({_OPERAND})\s*-\s*({_OPERAND})")
_BOUND = re.compile(r"([<>=]=|[<>])(\s*)(\w+)(?=\s*[;)&|?])")
_INDEX = re.compile(r"\b(\w+)\[(\w+) \* (\w+) \+ (\w+)\]")
_INT = re.compile(r"\b(?:int|unsigned|size_t|long|uint32_t|int64_t)\s+(\w+)(?=\s*[=,;)>])")
_CONSTANT = re.compile(r"^\s*#\s*define\s+(\w+)\s+\(?-?\d+\)?\s*$", re.M)
_ARRAY = re.compile(r"(?:\*\s*(?:__restrict__\s+)?(\w+)\s*[,)]|\b(\w+)\[)")
_VALUE = r"(?:\s*=[^,;(){}]*(?:\([^()]*\)[^,;(){}]*)*)?"
_DECLARED = re.compile(
    r"\b(?!return\b|else\b|case\b|struct\b|typename\b)([A-Za-z_]\w*)\s+(\w+)(?=\s*[;,)=])"
    rf"({_VALUE}(?:,\s*\w+(?=\s*[=,;]){_VALUE})*)"
)
_NEXT = re.compile(r",\s*(\w+)(?=\s*(?:[=,;]|$))")
_INTEGERS = frozenset(("int", "unsigned", "size_t", "long", "uint32_t", "int64_t", "int32_t"))
_CAST = re.compile(
    r"\((?:float|double|int|unsigned|long long|char|half|__half|u?int\d+_t)\)\s*(?=[\w(])"
)
_PLACE = re.compile(r"\[(\w+)\]")
_ANY_PLACE = re.compile(r"\[([^\[\]]+)\]")
_PLACES = re.compile(r"\b(\w+)\[([^\[\]]+)\]\[([^\[\]]+)\]")
_FACTOR = re.compile(rf"(?<=[-+*=(\s])({_OPERAND})(?=\s*[-+;)])(?!\s*(?:\+\+|--|[-+]=))")
_WORD = re.compile(r"\b(?:\w+\.)*\w+\b")
_USUAL = 3  # how often a word counts for an edit that has no new one
_OPERATOR = re.compile(r"(?<=[\w\])]) ([-+*/%]) (?=[\w(])")
_ASSIGNED = re.compile(r"(?<![=<>!])=(?!=)|\breturn\b")
_ENDS = re.compile(r"[);]| [?:] ")
_HEAD = re.compile(r"\b__(?:global|device)__\b.*[,{]\s*$")  # of a function
_LOOP = re.compile(r"\s*for\s*\((?:[^()]|\([^()]*\))*\)")
_NAMED = re.compile(r"(?<=[a-z_])(add|sub|mul|div|min|max|Add|Sub|Min|Max)(?=\d|_|\()")
_INSTEAD = {"add": ("mul", "sub"), "sub": ("add",), "mul": ("add", "div"), "div": ("mul",),
            "min": ("max",), "max": ("min", "add")}  # fmt: skip
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
    ("blockDim.x", "gridDim.x"), ("INFINITY", "0.0f"), ("-INFINITY", "INFINITY"),
    ("-FLT_MAX", "FLT_MIN"), ("-FLT_MAX", "0.0f"), ("__shfl_down_sync", "__shfl_up_sync"),
    ("&&", "||"), ("==", "!="), ("+=", "="), ("*=", "+="), ("true", "false"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Edit:
    """Another form of a line, which is counted from 1."""

    line: int
    old: str
    new: str

    def of(self, text: str) -> str:
        """Return a text with the edit."""
        rows = text.split("\n")
        rows[self.line - 1] = self.new
        return "\n".join(rows)


def edits(text: str, lines: Sequence[int]) -> Iterator[Edit]:
    """Yield edits of some lines of a text; rules take turns, the most natural edits of each first.

    What a text declares and never uses comes first: it was likely forgotten.
    """
    rows = text.split("\n")
    ints = sorted({*_INT.findall(text), *_CONSTANT.findall(text)})
    arrays = sorted({a or b for a, b in _ARRAY.findall(text)})
    kinds = {
        t: sorted(names) for t, names in _declared(text).items()
        if t not in _INTEGERS and not names <= {*arrays}
    }  # fmt: skip
    kinds = {"int": ints, "array": arrays, **kinds}
    floats = sorted({*kinds.get("float", ()), *kinds.get("double", ())} - {*arrays})
    unused = forgotten.names(text, kinds)
    numbers, whole = ([n for n, _ in unused if n in row] for row in (floats, arrays))
    joined = _joined(numbers, whole, ints)
    rules = (
        *_RULES, *borrowed.rules(text), forgotten.extended(text), forgotten.divided(ints),
        forgotten.repeated(kinds, text), _moved(ints),
        _each(_NUMBER, lambda m: ints if int(m[1]) > 1 else ()),
        *map(_exchanged, kinds.values()), _multiplied(floats),
    )  # fmt: skip
    known = Naturalness.of(rows)
    chosen = [n for n in lines if 0 < n <= len(rows) and not _HEAD.search(rows[n - 1])]
    first, *streams = (_of_rule(r, rows, chosen, known) for r in (forgotten.taken(unused), *rules))
    turns = [s for r, s in zip(rules, streams, strict=True) for _ in range(_TURNS.get(r, 1))]
    turns += [_of_rule(joined, rows, chosen, known)] * _OF_JOINED
    turns += [_of_rule(forgotten.updated(kinds, text), rows, chosen, known)] * _OF_UPDATED
    seen: set[tuple[int, str]] = set()
    for wave in chain(zip(first), zip_longest(*turns)):
        for e in wave:
            if e is not None and e.new != e.old and (e.line, e.new) not in seen:
                seen.add((e.line, e.new))
                yield e


def with_barriers(text: str, lines: Sequence[int]) -> Iterator[Edit]:
    """Yield edits that put a barrier of the block before one of some lines of a text."""
    rows = text.split("\n")
    for n in lines:
        if 0 < n <= len(rows) and (row := rows[n - 1]).strip():
            indent = row[: len(row) - len(row.lstrip())]
            yield Edit(n, row, f"{indent}__syncthreads(); {row.lstrip()}")


def familiar(e: Edit, text: str) -> int:
    """Return how familiar an edit is: how often a text has the rarest word that the edit brings.

    >>> familiar(Edit(1, "a = b;", "a = c;"), "a = b; c = a; d = c;")
    2
    """
    known = Counter(_WORD.findall(text))
    new = Counter(_WORD.findall(e.new)) - Counter(_WORD.findall(e.old))
    return min((known[w] for w in new), default=_USUAL)


def _declared(text: str) -> dict[str, set[str]]:
    """Return the names that a text declares, by their types.

    >>> _declared("float a = 1, b; int k = f(2, 3);") == {"float": {"a", "b"}, "int": {"k"}}
    True
    """
    found: dict[str, set[str]] = {}
    for m in _DECLARED.finditer(text):
        found.setdefault(m[1], set()).update((m[2], *_NEXT.findall(m[3])))
    return found


def _of_rule(
    rule: Rule, rows: Sequence[str], lines: Sequence[int], known: Naturalness
) -> Iterator[Edit]:
    """Yield the edits of a rule; those that make a line the most natural come first."""
    forms = [[Edit(n, rows[n - 1], new) for new in rule(rows[n - 1])] for n in lines]
    found = [e for wave in zip_longest(*forms) for e in wave if e is not None]
    yield from sorted(found, key=lambda e: -known.gain(e.line, e.new))


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
    row = (n + 1, n - 1, 2 * n, n // 2) if n < 8 else (2 * n, n // 2, n - 1, n + 1)
    return [str(v) for v in dict.fromkeys(row) if v >= 0 and v != n]


def _field(m: re.Match[str]) -> list[str]:
    """Return other fields of a vector for one: those of its line, if it has others."""
    here = {c for c in _FIELD.findall(m.string) if c != m[1]}
    return [f".{c}" for c in "xyzw" if c != m[1] and (c in here or not here)]


def _named(m: re.Match[str]) -> list[str]:
    """Return other operations for one in a name, such as that of ``__hadd2`` or ``atomicMax``."""
    others = _INSTEAD[m[1].lower()]
    return [o.capitalize() if m[1][0].isupper() else o for o in others]


def _real(m: re.Match[str]) -> list[str]:
    x, f = float(m[1]), m[2]
    near = (x + 1, x - 1) if x.is_integer() else ()
    values = (0.0, 1.0, -x, 2 * x, x / 2, *near) if x else (1.0,)
    texts = [f"{v!r}{f}" for v in dict.fromkeys(values) if v != x]
    return [*texts, "-INFINITY"] if x == 0 else texts


def _pairs(row: str) -> Iterator[str]:
    for pair in _SWAPS:
        for old, new in (pair, pair[::-1]):
            if old:
                # Names are whole words; operators stand alone.
                word = re.escape(old)
                plain = rf"\b{word}\b" if old[0].isalpha() else rf"(?<![=!<>+*/&|-]){word}(?!=)"
                yield from _each(re.compile(plain), lambda m, new=new: [new])(row)  # type: ignore[misc]  # bound at once


def _exchanged(names: Sequence[str]) -> Rule:
    """Return the rule that puts another of some names in the place of each."""

    def rule(row: str) -> Iterator[str]:
        if len(names) < 2 or _INT.search(row.partition("=")[0]) is None:
            own = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b") if names else None
        else:
            own = re.compile(rf"(?<==)(.*?)\b({'|'.join(map(re.escape, names))})\b")
        for m in own.finditer(row) if own else ():
            last = m.lastindex or 1
            for new in names:
                if new != m[last]:
                    yield row[: m.start(last)] + new + row[m.end(last) :]

    return rule


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
    """Return the rule that adds to an index another of some names, if the line has it."""

    def rule(row: str) -> Iterator[str]:
        here = [n for n in names if forgotten.count(n, row)]
        for m in _PLACE.finditer(row):
            for name in here:
                if name != m[1]:
                    yield f"{row[: m.start(1)]}{name} + {row[m.start(1) :]}"

    return rule


def _multiplied(names: Sequence[str]) -> Rule:
    """Return the rule that multiplies a term on the right of an assignment by one of some names."""

    def rule(row: str) -> Iterator[str]:
        left, equals, right = row.partition("=")
        if equals and not right.startswith("="):
            for m in _FACTOR.finditer(right):
                for name in names:
                    yield f"{left}={right[: m.end()]} * {name}{right[m.end() :]}"

    return rule


_NUMBERS = _each(_NUMBER, _whole)
_TURNS = {_NUMBERS: 4}  # of a rule that makes many edits, in each round of turns
_OF_JOINED = 30  # turns of the rule that brings what a text forgets
_OF_UPDATED = 8  # turns of the rule that changes what never changes
_RULES: tuple[Rule, ...] = (
    _each(re.compile(r"(?<=[\w\])])\s*(?<![<>])(<=|>=|<|>)(?![<>])\s*(?=[\w(])"), _comparison),
    _each(re.compile(r"\s*[-+]\s*1\b(?![.\w])"), lambda m: [""]),
    _each(_BOUND, lambda m: [f"{m[0]} + 1", f"{m[0]} - 1"]),
    _each(_OPERATOR, lambda m: [f" {_INVERSE[m[1]]} "]),
    _NUMBERS,
    _pairs,
    _each(_NAMED, _named),
    _each(_FIELD, _field),
    _each(_FLOAT, _real),
    _each(_DIFFERENCE, lambda m: [f"{m[2]} - {m[1]}"]),
    _each(_CAST, lambda m: [""]),
    _each(_PLACES, lambda m: [f"{m[1]}[{m[3]}][{m[2]}]"]),
    _each(_ANY_PLACE, lambda m: [f"[{m[1]} - 1]", f"[{m[1]} + 1]"]),
    _each(_INDEX, lambda m: [f"{m[1]}[{m[4]} * {m[3]} + {m[2]}]"]),
    _each(_OPERATOR, lambda m: [" * ", " + ", " % "]),
    _each(_TERM, lambda m: [""]),
    _each(_GIVEN, lambda m: ["(-"]),
    _each(re.compile(r"(?<=[(,=?:] )-(?=\w)|(?<=\()-(?=\w)"), lambda m: [""]),
    _each(re.compile(r"= (\w+);"), lambda m: [f"= {m[1]} * {m[1]};"]),
)  # fmt: skip
