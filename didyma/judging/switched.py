"""Many edits of a text in one: each copy of a kernel has the edit of its own number.

An edit becomes a choice of a value, or of a statement, by the number of the copy.  What can be no
choice, such as another type, is left out.  The idea is that of mutant schemata: R. Untch, J. Offutt
and M. J. Harrold, *Mutation analysis using mutant schemata*, 1993.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import ne
from typing import Literal, TypeAlias

from didyma.codegen.runtime.ptx.shape import COPY
from didyma.judging.edits import Edit
from didyma.judging.parts import Parts, balanced

_HEAD = f"""template <class T> struct DidymaBare {{ typedef T type; }};
template <class T> struct DidymaBare<T&> {{ typedef T type; }};
template <class T> struct DidymaBare<T&&> {{ typedef T type; }};
template <class T> struct DidymaBare<const T> {{ typedef T type; }};
template <class T> struct DidymaBare<const T&> {{ typedef T type; }};
static __device__ __forceinline__ unsigned didyma_copy() {{
  unsigned copy;
  asm("mov.u32 %0, %{COPY};" : "=r"(copy));
  return copy;
}}
"""
_ASSIGNS = re.compile(r"(?<![=<>!])=(?!=)|\+\+|--")
_TYPE = re.compile(r"(?:const |unsigned |signed |long )*[A-Za-z_][\w:]*(?:<[^<>]*>)?[ *&]*")
_RETURN = re.compile(r"\s*return\b\s*|\s*")
_DECLARES = re.compile(
    r"\s*(?:(?:const|constexpr|static|extern|__shared__|using|typedef|template|struct|return|case"
    r"|default|else|break|continue)\b"
    r"|(?:unsigned |signed |long )*[A-Za-z_][\w:]*(?:<[^;=()]*>)?(?:\s*[*&]+\s*|\s+)[A-Za-z_]\w*"
    r"\s*(?:[=;,\[({]|$))"
)
# What a compiler must know: extents of arrays, and the statements that define such numbers.
_CONSTANT = re.compile(
    r"\s*(?:(?:extern\s+)?__shared__\b|(?:static\s+|__device__\s+)*constexpr\b|template\b|using\b"
    r"|typedef\b|(?!(?:return|else|case|goto|delete)\b)[A-Za-z_][\w:]*[\s*&]+\w+\s*\[[^=;()]*$)"
)
_CALLED = re.compile(r"(?:[A-Za-z_]\w*(?:\.|->|::))*[A-Za-z_]\w*(?:<[^<>;(){}]*>)?$")
_VALUE = re.compile(r"\s*[\w(]")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_LOOP = re.compile(r"\bfor(?=\s*\()")
_UNROLLED = re.compile(r"^[ \t]*#\s*pragma\s+unroll(?!\s+1$)[^\n]*(?=\n)", re.M)

Kind: TypeAlias = Literal["value", "step of a loop", "statement", "statement before"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Another form of a part of a text; a ``statement before`` a place is put there."""

    start: int
    end: int
    new: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Switched:
    """A text with edits, by the numbers from 1 on of the copies that have them.

    ``lines`` has, by the line of the unedited text, the edits that stand there.  Those ``beside``
    lie across others, and may be choices of another text; those ``alone`` can be none.
    """

    text: str
    edits: tuple[Edit, ...]
    lines: Mapping[int, tuple[Edit, ...]]
    beside: tuple[Edit, ...] = ()
    alone: tuple[Edit, ...] = ()


def switched(text: str, edits: Sequence[Edit]) -> Switched:
    """Return a text with those of some edits that can be choices.

    NVRTC's messages call an edit's text a file ``edit1``, and so on, and the rest ``text``.
    """
    parts, begins = Parts(text), [0]
    for row in text.split("\n"):
        begins.append(begins[-1] + len(row) + 1)
    found: dict[tuple[int, int, Kind], list[tuple[Choice, Edit]]] = {}
    alone: list[Edit] = []
    for e in edits:
        c = choice(parts, begins[e.line - 1], e)
        more = {*_NAME.findall(e.new)} - {*_NAME.findall(e.old)}
        if c is None:
            alone.append(e)
        elif all(parts.visible(n, c.start) for n in more):
            found.setdefault((c.start, -c.end, c.kind), []).append((c, e))
    made = _Writer(text, parts, sorted(found.items(), key=lambda p: p[0])).switched()
    return replace(made, alone=tuple(alone))


def choice(parts: Parts, begin: int, e: Edit) -> Choice | None:
    """Return an edit of a line that begins at a place as a choice; None where it is none.

    >>> text = "void f() { y[i] = x[i + 1]; }"
    >>> choice(Parts(text), 0, Edit(1, text, text.replace("+ 1", "+ 2")))
    Choice(start=20, end=25, new='i + 2', kind='value')
    """
    head = _alike(e.old, e.new)
    tail = _alike(e.old[head:][::-1], e.new[head:][::-1])
    a, b = begin + head, begin + len(e.old) - tail
    new = e.new[head : len(e.new) - tail]
    if parts.plain[a:b].strip() != e.old[head : len(e.old) - tail].strip():
        return None  # in a comment, a literal or a directive
    if _CONSTANT.match(parts.plain, parts.statement(a), a):
        return None
    if a == b and new.rstrip().endswith(";"):
        between = parts.plain[:a].rstrip()[-1:] in (*";{}",)
        declares = _DECLARES.match(new)
        return Choice(a, a, new.strip(), "statement before") if between and not declares else None
    a, b, new = _closed(parts, a, b, new)
    found = _value(parts, a, b, new)
    while isinstance(found, tuple):  # of a type, which is part of a value
        outer, end = found
        new = parts.plain[outer:a] + new + parts.plain[b:end]
        a, b = outer, end
        found = _value(parts, a, b, new)
    return found or _statement(parts, a, b, new)


def _closed(parts: Parts, a: int, b: int, new: str) -> tuple[int, int, str]:
    """Return the place of an edit and its text, with what the brackets around it enclose.

    >>> text = "void f() { v = g(a + b) * c; }"
    >>> _closed(Parts(text), 18, 27, ") + b * c")
    (16, 27, '(a) + b * c')
    """
    mates = [parts.mate[k] for k in range(a, b) if k in parts.mate]
    first, last = min((a, *mates)), max((b, *(m + 1 for m in mates)))
    return first, last, parts.plain[first:a] + new + parts.plain[b:last]


def _alike(a: str, b: str) -> int:
    """Return how many characters two texts begin with alike."""
    least = min(len(a), len(b))
    return next(compress(range(least), map(ne, a, b)), least)


def _value(parts: Parts, a: int, b: int, new: str) -> Choice | tuple[int, int] | None:
    """Return a choice of the value that an edit is in, or the place of one around it."""
    text = parts.plain
    if not (balanced(text[a:b]) and balanced(new)) or re.search("[;{}]", text[a:b] + new):
        return None
    start, end = parts.left(a), parts.right(b)
    opens, closes = text[start - 1 : start], text[end : end + 1]
    returns = _RETURN.match(text, start, end)
    first = returns.end() if returns else start
    if a < first:
        return None
    inner, body = text[start:end], text[start:a] + new + text[b:end]
    if opens == "=" and closes in (*",;)",):
        return Choice(start, end, body, "value")
    if "return" in text[start:first] and closes == ";":
        return Choice(first, end, text[first:a] + new + text[b:end], "value")
    o = parts.opener(start)
    assigns = _ASSIGNS.search(inner + body)
    if o < 0 or text[o] == "{" or (text[o] == "(" and parts.opener(o) < 0):
        return None  # of a statement, or the head of a function
    if parts.head(o) == "for":
        if (opens, closes) == (";", ";"):
            return Choice(start, end, body, "value")
        step = closes in (*"),",) and ";" in text[o:start]
        return Choice(start, end, body, "step of a loop") if step else None
    if assigns:
        return None
    if any(parts.opener(k) == o for k in range(start, end) if text[k] == ","):
        called = _CALLED.search(text, 0, o)  # with what it is given, of which this is several
        return (called.start(), parts.mate[o] + 1) if called and text[o] == "(" else None
    is_type = text[o] == "(" and not parts.head(o) and _TYPE.fullmatch(inner.strip())
    if is_type and _VALUE.match(text, parts.mate[o] + 1):
        return o, parts.mate[o] + 1
    return Choice(start, end, body, "value")


def _statement(parts: Parts, a: int, b: int, new: str) -> Choice | None:
    """Return a choice of the statement that an edit is in."""
    text, start = parts.plain, parts.statement(a)
    whole = text[b - 1 : b] == ";" and new.rstrip()[-1:] == ";"
    end = b if whole else text.find(";", b) + 1
    start += len(text[start:end]) - len(text[start:end].lstrip())
    old, body = text[start:end], text[start:a] + new + text[b:end]
    o = parts.opener(start)
    if not end or a < start or o < 0 or text[o] != "{" or not (balanced(old) and balanced(body)):
        return None
    if _DECLARES.match(old) or _DECLARES.match(body):
        return None
    return Choice(start, end, body, "statement")


class _Writer:
    """Writes a text with choices, of which some lie in others."""

    def __init__(
        self,
        text: str,
        parts: Parts,
        groups: Sequence[tuple[tuple[int, int, Kind], list[tuple[Choice, Edit]]]],
    ) -> None:
        self.text, self.parts, self.groups = text, parts, groups
        self.order: list[Edit] = []
        self.lines: dict[int, list[Edit]] = {}
        self.beside: list[Edit] = []
        self.at = 0

    def switched(self) -> Switched:
        """Write the whole text, in which no loop is unrolled: each copy of its body costs time."""
        out = _UNROLLED.sub("", "".join(self._part(0, len(self.text))))
        lines = {n: tuple(row) for n, row in self.lines.items()}
        return Switched(
            f'{_HEAD}#line 1 "text"\n{out}', tuple(self.order), lines, tuple(self.beside)
        )

    def _line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def _part(self, start: int, end: int) -> Iterator[str]:
        """Yield a part of the text with the choices in it."""
        k = start
        while self.at < len(self.groups):
            (a, less, kind), rows = self.groups[self.at]
            b = -less
            if a >= end and not a == b == end:
                break
            self.at += 1
            if k <= a and b <= end:
                yield self._plain(k, a)
                yield from self._group(a, b, kind, rows)
                k = b
            else:
                self.beside += [e for _, e in rows]
        yield self._plain(k, end)

    def _plain(self, start: int, end: int) -> str:
        out, k = list[str](), start
        for m in _LOOP.finditer(self.parts.plain, start, end):
            line = self._line(m.start())
            out += [self.text[k : m.start()], f'\n#pragma unroll 1\n#line {line} "text"\n']
            k = m.start()
        return "".join((*out, self.text[k:end]))

    def _group(
        self, a: int, b: int, kind: Kind, rows: Sequence[tuple[Choice, Edit]]
    ) -> Iterator[str]:
        """Yield a choice of several forms, or none of them."""
        first, line, last = len(self.order) + 1, self._line(a), self._line(b)
        self.order += [e for _, e in rows]
        for n in range(line, last + 1):
            self.lines.setdefault(n, []).extend(e for _, e in rows)
        old = "".join(self._part(a, b))
        mine = f"(didyma_copy() - {first}u < {len(rows)}u)"
        if kind in ("statement", "statement before"):
            forms = "".join(
                f'\n#line 1 "edit{k}"\nif (didyma_copy() == {k}u) {{ {c.new} }}\n'
                for k, (c, _) in enumerate(rows, first)
            )
            yield f'{{ if {mine} {{ {forms}}}\n#line {line} "text"\n'
            yield f"else {{ {old} }}" if kind == "statement" else ""
            yield f'}}\n#line {last} "text"\n'
            return
        bare = " ".join(self.parts.plain[a:b].split())
        step = kind == "step of a loop"
        of = "void" if step else f"typename DidymaBare<decltype(({bare}))>::type"
        yield f"({mine} ? "
        for k, (c, _) in enumerate(rows, first):
            last_one = k == len(rows) + first - 1
            yield "" if last_one else f"didyma_copy() == {k}u ? "
            yield f'\n#line 1 "edit{k}"\n({of})({c.new})\n#line {line} "text"\n: '
        yield f"(void)({old}))" if step else f"({old}))"
