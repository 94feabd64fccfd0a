"""Edits that bring what kernels usually have: atomics, ceilings, strides of grids, sums, masks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product

from didyma.judging.borrowed import LIMIT, Rule, closing

_MOST = 6  # members of an object, or names of a namespace: those that a text has first
_ADDED = re.compile(r"([A-Za-z_]\w*\[[^;=]*\]|\*[A-Za-z_]\w*) \+= ([^;]+);")
_QUOTIENT = re.compile(r"(?<![\w.\])/%*] )\b([A-Za-z_]\w*) / ([A-Za-z_]\w*|\d+)\b(?![\w.(\[])")
_BLOCK = re.compile(r"(?<!gridDim\.x \* )\bblockDim\.x\b(?! \*)(?= *[;)])")
_MASK = re.compile(r"\b0x[0-9a-fA-F]+u?\b")
_EPSILON = re.compile(r"\b1e-\d+(?=f?\b)")
_EPSILONS = ("1e-5", "1e-6", "1e-8", "1e-12")
_SUM = re.compile(r"\bint \w+ = ([^;=?]* \+ [^;=?]*)(?=;)")
_MEMBER = re.compile(r"\b(?!threadIdx|blockIdx|blockDim|gridDim)([A-Za-z_]\w*(?:\.|::))([a-z_]\w+)")
# Of CUB and cooperative groups: what stands in the place of another.
_INSTEAD = {
    "plus": ("greater",), "greater": ("plus", "less"), "less": ("plus", "greater"),
    "size": ("meta_group_size",), "meta_group_size": ("size",),
    "thread_rank": ("meta_group_rank",), "meta_group_rank": ("thread_rank",),
    "InclusiveSum": ("ExclusiveSum",), "ExclusiveSum": ("InclusiveSum",),
    "InclusiveScan": ("ExclusiveScan",), "ExclusiveScan": ("InclusiveScan",),
}  # fmt: skip
_NAMED = re.compile(rf"(?<=[.:])(?:{'|'.join(_INSTEAD)})\b")
_POINTER = re.compile(r"\*\s*(?:__restrict__\s+|const\s+)*(\w+)")
_OWNER = re.compile(r"\bint (\w+) = (?=blockIdx\.|\w[^;=]*\bblockIdx\.)")
_TIMES = re.compile(r" \* (\w+)\b(?![.(\[])|\[(\d+)\];")
_TEMPLATE = re.compile(r"\btemplate\s*<([^<>;{]*)>")
_FIXED = re.compile(r"\b(?:int|unsigned|size_t)\s+(\w+)")
_CONSTANT = re.compile(
    r"^\s*#\s*define\s+(\w+)\s+\(?\d+\)?\s*$|\bconstexpr\s+int\s+(\w+)\s*="
    r"|\bconst\s+int\s+(\w+)\s*=\s*\d+;", re.M
)  # fmt: skip
_VALUE = re.compile(r"(?<=[-+*]= )[^;]+(?=;)|(?<=[^=<>!] = )[^;]+(?=;)")
_PLACE = r"[A-Za-z_]\w*(?:\[[^\[\]]*\]|\.\w+)?"
_BEGUN = r"(?:^\s*|(?<=[;{)] )|(?<=\) ))"  # of a statement
_SCALED = re.compile(rf"({_PLACE}) (?:\*= |= \1 \* )([A-Za-z_]\w*)(?= \+|;)")
_SUMMED = re.compile(rf"({_PLACE}) (?:\+= |= \1 \+ )")
_SET = re.compile(rf"{_BEGUN}({_PLACE}) = ([^;=?]+);")
_SQUARE = re.compile(r"\b([A-Za-z_][\w.]*) \* \1(?![\w.(\[])")
_DIFFERENCE = re.compile(r"(?<![\w.)\]] )\b[A-Za-z_][\w.]* - [A-Za-z_][\w.]*(?=[;),])(?!\()")
_CHOICE = re.compile(r"= ([^;?=]+ \? [^;?:]+ : )")
_ROOT = re.compile(r"\br?sqrtf?\(")
_LIMIT = re.compile(r"\b\w*(?:end|stop|last|limit|hi)\w* = ([^;=?]* \+ [^;=?]*)(?=;)")
_KERNEL = re.compile(r"\b__global__\b[^(]*\b\w+\s*\(([^()]*)\)")
_EXTENT = re.compile(r"\b(?:int|unsigned|size_t|long|u?int(?:32|64)_t) (\w+)\s*(?:,|$)")
_TERM = re.compile(r"(?<=[-+=,(] )[A-Za-z_][\w.]*(?=(?: [-+]|[;,)]))(?!\()")
_CHANGE = re.compile(r"\b([A-Za-z_]\w*)\(([A-Za-z_][\w.]*) - ([A-Za-z_][\w.]*)\)")
_NUMBERED = re.compile(r"[A-Za-z_]+(\d+)")
_OF_VECTOR = re.compile(r"(?<!Idx)(?<!Dim)\.([xyzw])\b")
_RECIPROCAL = re.compile(r"\b1\.0?f? / (?=\()|\br?sqrtf(?=\()")
_RECIPROCALS = ("rsqrtf", "1.0f / ", "1.0f / sqrtf", "sqrtf")
_FIRST = re.compile(r"(\s*)(?=for\b|while\b)")
_ELEMENT = re.compile(r"(?<=[-+*/(=] )[A-Za-z_]\w*\[[^\[\]]*\](?=\s*[-+*/;),])")
_WEIGHT = re.compile(r"(?<=[=+(] )[A-Za-z_]\w*(?= \*)|(?<=\* )[A-Za-z_]\w*(?=[ ;)])")
_CALLED = re.compile(r"(?<=\))(?=;)")
_ADDS = re.compile(r"\b([A-Za-z_]\w*) \+= ")


def ceiling(row: str) -> Iterator[str]:
    """Yield a line with a quotient rounded up.

    >>> [*ceiling("for (int t = 0; t < n / T; ++t)")]
    ['for (int t = 0; t < (n + T - 1) / T; ++t)']
    """
    for m in _QUOTIENT.finditer(row):
        yield f"{row[: m.start()]}({m[1]} + {m[2]} - 1) / {m[2]}{row[m.end() :]}"


def atomic(row: str) -> Iterator[str]:
    """Yield a line with an addition to memory as an atomic one.

    >>> [*atomic("if (v < 64) local[v] += 1;")]
    ['if (v < 64) atomicAdd(&local[v], 1);']
    """
    for m in _ADDED.finditer(row):
        place = m[1][1:] if m[1].startswith("*") else f"&{m[1]}"
        yield f"{row[: m.start()]}atomicAdd({place}, {m[2]});{row[m.end() :]}"


def wide(row: str) -> Iterator[str]:
    """Yield a line with the stride of a grid, or the mask of a whole warp."""
    for m in _BLOCK.finditer(row):
        yield f"{row[: m.start()]}gridDim.x * blockDim.x{row[m.end() :]}"
    for m in _MASK.finditer(row):
        if m[0].lower().rstrip("u") != "0xffffffff":
            yield f"{row[: m.start()]}0xffffffff{row[m.end() :]}"


def epsilons(row: str) -> Iterator[str]:
    """Yield a line with another of the small numbers that norms add."""
    for m in _EPSILON.finditer(row):
        yield from (f"{row[: m.start()]}{e}{row[m.end() :]}" for e in _EPSILONS if e != m[0])


def accumulated(row: str) -> Iterator[str]:
    """Yield a line that adds to a name what it now assigns.

    >>> [*accumulated("if (ok) sum = x[i];")], [*accumulated("int k = i;")]
    (['if (ok) sum += x[i];'], [])
    """
    for m in _SET.finditer(row):
        if not re.search(rf"(?<![\w.]){re.escape(m[1])}(?!\w)", m[2]):
            yield f"{row[: m.end(1)]} += {m[2]};{row[m.end() :]}"


def rescaled(text: str) -> Rule:
    """Return the rule that scales a running sum by a factor by which a text scales another one.

    Softmax in one pass is such: each new maximum scales all that was summed before.

    >>> rule = rescaled("sum += p; acc = acc * alpha + v;")
    >>> [*rule("sum += p;")], [*rule("acc = acc * alpha + v;")]
    (['sum = sum * alpha + p;'], ['acc = acc * alpha + v; sum *= alpha;'])
    """
    factors = dict.fromkeys(m[2] for m in _SCALED.finditer(text))
    scaled = {m[1] for m in _SCALED.finditer(text)}
    sums = [n for n in dict.fromkeys(m[1] for m in _SUMMED.finditer(text)) if n not in scaled]

    def rule(row: str) -> Iterator[str]:
        for m in _SUMMED.finditer(row):
            for f in factors:
                yield f"{row[: m.start()]}{m[1]} = {m[1]} * {f} + {row[m.end() :]}"
        for m in _SCALED.finditer(row):
            yield from (f"{row} {n} *= {m[2]};" for n in sums if row.rstrip().endswith(";"))

    return rule


def started(row: str) -> Iterator[str]:
    """Yield a line in which a greatest element starts below all numbers."""
    if "FLT_MIN" in row:
        yield row.replace("FLT_MIN", "-FLT_MAX")


def squares(text: str) -> Rule:
    """Return the rule that puts one of a text's differences in the place of a factor of a square.

    >>> [*squares("d = v - mean;")("m2 += d * d;")]
    ['m2 += d * (v - mean);']
    """
    known = dict.fromkeys(m[0] for m in _DIFFERENCE.finditer(text))

    def rule(row: str) -> Iterator[str]:
        for m in _SQUARE.finditer(row):
            yield from (f"{row[: m.start()]}{m[1]} * ({d}){row[m.end() :]}" for d in known)

    return rule


def chosen(text: str) -> Rule:
    """Return the rule that puts a choice of the text before what a line assigns.

    >>> [*chosen("lo = bad ? NAN : a;")("hi = b;")]
    ['hi = bad ? NAN : b;']
    """
    known = dict.fromkeys(m[1] for m in _CHOICE.finditer(text))

    def rule(row: str) -> Iterator[str]:
        for m in _SET.finditer(row):
            yield from (f"{row[: m.start(2)]}{c}{row[m.start(2) :]}" for c in known)

    return rule


def rooted(names: Sequence[str]) -> Rule:
    """Return the rule that adds one of some names to what a root is taken of.

    >>> [*rooted(["eps"])("r = rsqrtf(sum(t) / n);")]
    ['r = rsqrtf(sum(t) / n + eps);']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _ROOT.finditer(row):
            if end := closing(row, m.end() - 1):
                yield from (f"{row[:end]} + {n}{row[end:]}" for n in names)

    return rule


def components(row: str) -> Iterator[str]:
    """Yield a line that adds of another component what it assigns of one.

    >>> next(components("m = (v.x - a) * (v.x - a);"))
    'm = (v.x - a) * (v.x - a) + (v.y - a) * (v.y - a);'
    """
    m = _VALUE.search(row)
    found = {*_OF_VECTOR.findall(m[0])} if m else set[str]()
    if m and len(found) == 1:
        (c,) = found
        for other in "xyzw".replace(c, ""):
            more = _OF_VECTOR.sub(f".{other}", m[0])
            yield f"{row[: m.end()]} + {more}{row[m.end() :]}"


def instead(row: str) -> Iterator[str]:
    """Yield a line with another operation, extent or rank of CUB or of cooperative groups."""
    for m in _NAMED.finditer(row):
        yield from (row[: m.start()] + new + row[m.end() :] for new in _INSTEAD[m[0]])


def limited(ints: Sequence[str]) -> Rule:
    """Return the rule that lets an index that is a sum be at most one of some numbers."""
    return _at_most(_SUM, ints)


def ended(ints: Sequence[str]) -> Rule:
    """Return the rule that lets an end that is a sum be at most one of some numbers."""
    return _at_most(_LIMIT, ints)


def _at_most(pattern: re.Pattern[str], ints: Sequence[str]) -> Rule:
    def rule(row: str) -> Iterator[str]:
        for m in pattern.finditer(row):
            for n in ints:
                yield f"{row[: m.start(1)]}min({m[1]}, {n}){row[m.end(1) :]}"

    return rule


def sized(text: str) -> Rule:
    """Return the rule that multiplies a bound by one of a text's constants, or adds it.

    >>> rule = sized("constexpr int W = 4;")
    >>> [*rule("i < tile;")]
    ['i < tile * W;', 'i < tile + W;', 'i < tile + W - 1;']
    """
    names = constants(text)

    def rule(row: str) -> Iterator[str]:
        for m in LIMIT.finditer(row):
            bound = m[1] if re.fullmatch(r"[\w.]+", m[1]) else f"({m[1]})"
            for n in names if not m[1].isdigit() else ():
                for new in f"{bound} * {n}", f"{m[1]} + {n}", f"{m[1]} + {n} - 1":
                    yield row[: m.start(1)] + new + row[m.end(1) :]

    return rule


def constants(text: str) -> list[str]:
    """Return the whole numbers of a text that a compiler knows, and their names.

    >>> constants("#define K 3\\ntemplate <int W> void f() { constexpr int H = 2 * W; }")
    ['W', 'K', 'H']
    """
    lists = ",".join(m[1] for m in _TEMPLATE.finditer(text))
    found = (m[m.lastindex or 0] for m in _CONSTANT.finditer(text))
    return [*dict.fromkeys((*_FIXED.findall(lists), *found))]


def placed(text: str) -> Rule:
    """Return the rule that adds what a block or a row begins at to an index of a kernel's array.

    >>> rule = placed("__global__ void f(const float* w, int n) { int c = blockIdx.z; }")
    >>> [*rule("s[i] = w[i];")]
    ['s[i] = w[c * n + i];']
    """
    heads = "".join(m[1] for m in _KERNEL.finditer(text))
    arrays = _POINTER.findall(heads)
    owners = [*dict.fromkeys(_OWNER.findall(text))]
    strides = [*dict.fromkeys((*_EXTENT.findall(heads), *_often_multiplied(text)))]
    index = re.compile(rf"\b(?:{'|'.join(arrays)})\[") if arrays else None

    def rule(row: str) -> Iterator[str]:
        for m in index.finditer(row) if index else ():
            for o, n in product(owners, strides):
                yield f"{row[: m.end()]}{o} * {n} + {row[m.end() :]}"

    return rule


def _often_multiplied(text: str) -> list[str]:
    """Return the numbers by which a text multiplies most often, and the sizes that it declares."""
    sizes = Counter(n for m in _TIMES.finditer(text) for n in m.groups() if n)
    return [n for n, _ in sizes.most_common(_MOST)]


def members(text: str) -> Rule:
    """Return the rule that puts another member of an object, or of a namespace, in one's place.

    >>> [*members("g.size(); g.rank();")("n = g.size();")]
    ['n = g.rank();']
    """
    known: dict[str, dict[str, None]] = {}
    for m in _MEMBER.finditer(text):
        known.setdefault(m[1], {})[m[2]] = None

    def rule(row: str) -> Iterator[str]:
        for m in _MEMBER.finditer(row):
            for other in [*known.get(m[1], {})][:_MOST]:
                if other != m[2]:
                    yield row[: m.start(2)] + other + row[m.end(2) :]

    return rule


def values(names: Sequence[str]) -> Rule:
    """Return the rule that assigns one of some names, or its square.

    >>> [*values(["g"])("s += d * x[i];")]
    ['s += g;', 's += g * g;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _VALUE.finditer(row):
            for new in chain.from_iterable((n, f"{n} * {n}") for n in names):
                yield row[: m.start()] + new + row[m.end() :]

    return rule


def extents(text: str) -> list[str]:
    """Return the integers that kernels take, most often the extents of arrays.

    >>> extents("__global__ void f(float* x, int m, int n)")
    ['m', 'n']
    """
    return [*dict.fromkeys(n for m in _KERNEL.finditer(text) for n in _EXTENT.findall(m[1]))]


def other(names: Sequence[str]) -> Rule:
    """Return the rule that puts one of some names in the place of another.

    >>> [*other(["m", "n"])("x += m * k;")]
    ['x += n * k;']
    """
    own = re.compile(rf"\b(?:{'|'.join(names)})\b(?!\s*[-+*/]?=[^=])") if len(names) > 1 else None

    def rule(row: str) -> Iterator[str]:
        for m in own.finditer(row) if own else ():
            yield from (row[: m.start()] + n + row[m.end() :] for n in names if n != m[0])

    return rule


def squared(names: Sequence[str]) -> Rule:
    """Return the rule that squares one of some names in a sum.

    >>> [*squared(["mean"])("v = s / n - mean;")]
    ['v = s / n - mean * mean;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _TERM.finditer(row):
            if m[0] in names:
                yield f"{row[: m.end()]} * {m[0]}{row[m.end() :]}"

    return rule


def weighed(text: str) -> Rule:
    """Return the rule that multiplies a term, or a sum before it grows, as a softmax does.

    The factor is a function of a difference, which is one of the text, or that turned round, or
    that of the names with the number that the term's name has.

    >>> rule = weighed("s = s * expf(m - top) + s2; m2 = m;")
    >>> "s = s * expf(m - top) + s2 * expf(m2 - top);" in rule("s = s * expf(m - top) + s2;")
    True
    >>> [*rule("s += 1.0f;")]
    ['s = s * expf(m - top) + 1.0f;', 's = s * expf(top - m) + 1.0f;']
    """
    known = dict.fromkeys(m.groups() for m in _CHANGE.finditer(text))
    words = {*re.findall(r"\w+", text)}

    def rule(row: str) -> Iterator[str]:
        for m in _TERM.finditer(row, row.find("=") + 1):
            end = found[1] if (found := _NUMBERED.fullmatch(m[0])) else ""
            for f, a, b in known:
                pairs = ((a, b), (b, a), (a + end, b), (a, b + end))
                for x, y in dict.fromkeys(p for p in pairs if words.issuperset(p)):
                    yield f"{row[: m.end()]} * {f}({x} - {y}){row[m.end() :]}"
        for m in _SUMMED.finditer(row):
            for (f, a, b), turned in product(known, (False, True)):
                x, y = (b, a) if turned else (a, b)
                yield f"{row[: m.start()]}{m[1]} = {m[1]} * {f}({x} - {y}) + {row[m.end() :]}"

    return rule


def reciprocals(row: str) -> Iterator[str]:
    """Yield a line with a root, a reciprocal, or the reciprocal of a root instead of another.

    >>> [*reciprocals("r = 1.0f / (v + eps);")]
    ['r = rsqrtf(v + eps);', 'r = 1.0f / sqrtf(v + eps);', 'r = sqrtf(v + eps);']
    """
    for m in _RECIPROCAL.finditer(row):
        for new in _RECIPROCALS:
            if new.strip() != m[0].strip():
                yield row[: m.start()] + new + row[m.end() :]


def begun(text: str) -> Rule:
    """Return the rule that sets a sum to zero before a loop that may add to it once more.

    >>> [*begun("t += x; t += y;")("  for (int k = 0; k < n; ++k)")]
    ['  t = 0; for (int k = 0; k < n; ++k)']
    """
    counts = Counter(_ADDS.findall(text))
    names = [n for n, many in counts.items() if many > 1]

    def rule(row: str) -> Iterator[str]:
        if m := _FIRST.match(row):
            yield from (f"{m[1]}{n} = 0; {row[m.end() :]}" for n in names)

    return rule


def kept(of_kind: Mapping[str, Sequence[str]]) -> Rule:
    """Return the rule that keeps what a name has, in another of its kind, before it is set.

    >>> [*kept({"float": ["first", "second"]})("    first = v;")]
    ['    second = first; first = v;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _SET.finditer(row):
            for names in of_kind.values():
                others = [n for n in names if n != m[1]] if m[1] in names else []
                start = m.start(1)
                yield from (f"{row[:start]}{n} = {m[1]}; {row[start:]}" for n in others)

    return rule


def averaged(extents: Sequence[str]) -> Rule:
    """Return the rule that divides what a call gives by one of some extents.

    >>> [*averaged(["n"])("mean = total(sum, part);")]
    ['mean = total(sum, part) / n;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _CALLED.finditer(row) if "=" in row else ():
            yield from (f"{row[: m.start()]} / {n}{row[m.start() :]}" for n in extents)

    return rule


def computed(names: Sequence[str]) -> Rule:
    """Return the rule that puts one of some names in the place of an element of an array.

    >>> [*computed(["norm"])("sum += d * x[i];")]
    ['sum += d * norm;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _ELEMENT.finditer(row):
            yield from (row[: m.start()] + n + row[m.end() :] for n in names)

    return rule


def complements(names: Sequence[str]) -> Rule:
    """Return the rule that weighs a factor by what one of some names leaves of one.

    >>> [*complements(["beta"])("m = beta * g;")]
    ['m = (1.0f - beta) * g;']
    """

    def rule(row: str) -> Iterator[str]:
        for m in _WEIGHT.finditer(row):
            if m[0] in names:
                yield f"{row[: m.start()]}(1.0f - {m[0]}){row[m.end() :]}"

    return rule
