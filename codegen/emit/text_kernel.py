"""Reads a kernel that somebody wrote as text: its head, and whether it is in the subset.

What is wrong is refused with ``bad-kernel`` and the line of the text, before any engine sees it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pycparser import c_ast as c
from pycparser.c_parser import CParser, ParseError

from didyma.codegen.emit.grammar import faults
from didyma.codegen.emit.intrinsics import LITERALS, MAP, NBYTES, SYNTAX, TABLE, family
from didyma.codegen.emit.subset import HEAD, Function, functions, lines_above, place, strip, to_c99
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.target import TARGETS, Target

CLUSTER = re.compile(r"__cluster_dims__\s*\(\s*(\d+)((?:\s*,\s*\d+)*)\s*\)")


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a kernel: its name, its pointers as (name, C type, const), maps and symbols.

    ``idle`` are pointers that are not const, and that the text neither stores to nor hands on.
    Every ``cluster`` blocks along x are one cluster.
    """

    name: str
    pointers: tuple[tuple[str, str, bool], ...]
    symbols: tuple[str, ...]
    idle: tuple[str, ...] = ()
    cluster: int = 1
    maps: tuple[str, ...] = ()


class Reader:
    """Reads one text, whose errors name ``where`` and the line."""

    def __init__(
        self, source: str, where: str, more: Collection[str] = (), target: Target | None = None
    ) -> None:
        """``more`` are functions that the text may call beside those of the target, if given."""
        self.source = source
        self.where = where
        self.more = more
        self.target = target
        self.above = lines_above(source)

    def error(self, line: int, got: str, want: str) -> DidymaError:
        """Return the error at a line of the text, counted from 1."""
        lines = self.source.splitlines()
        shown = lines[line - 1] if 0 < line <= len(lines) else ""
        place = f"{self.where}, line {line}" if line else self.where
        return DidymaError("bad-kernel", place, got=got, want=want, line=line, shown=shown)

    def head(self) -> Head:
        """Return the head of the text's one kernel, once every word of the text is known.

        DidymaError ``bad-kernel``; ``target-lacks`` for an intrinsic that the target has not.
        """
        names = HEAD.findall(self.source)
        if len(names) != 1 or 'extern "C"' not in self.source:
            got = f"{len(names)} of them"
            raise self.error(0, got, 'one function `extern "C" __global__ void`')
        try:
            found = list(functions(self.source))
        except ParseError as e:
            what = str(e).rpartition(": ")[2]
            want = "C99 in the subset of kernel text"
            raise self.error(_failing(self.source), what, want) from None
        if len(found) != 1:
            others = ", ".join(f.name for f in found)
            raise self.error(0, others, "one function, without helpers")
        head = self._params(found[0])
        self._words(found[0].tree, head)
        return head

    def _params(self, function: Function) -> Head:
        f = function.tree
        pointers: list[tuple[str, str, bool]] = []
        symbols: list[str] = []
        maps: list[str] = []
        args = f.decl.type.args
        for p in args.params if args is not None else ():
            if isinstance(p, c.EllipsisParam):
                raise self.error(self._line(p), "the argument ...", "a name for each argument")
            pointed = isinstance(p.type, c.PtrDecl)
            inner = p.type.type if pointed else p.type
            held = inner.type if isinstance(inner, c.TypeDecl) else None
            kind = held.names[0] if isinstance(held, c.IdentifierType) else ""
            if p.name is None:
                raise self.error(self._line(p), "an argument without a name", "a name for each")
            if pointed and not symbols and not maps and kind in NBYTES:
                pointers.append((p.name, kind, "const" in inner.quals))
            elif not pointed and not symbols and kind == MAP and "const" in inner.quals:
                maps.append(p.name)
            elif not pointed and kind == "i64":
                symbols.append(p.name)
            else:
                want = (
                    "pointers to dtypes such as `const f32 *x`, then maps as `const"
                    " __grid_constant__ tensor_map m`, then symbols as `i64 n`"
                )
                raise self.error(self._line(p), f"the argument {p.name}", want)
        stored = set(_stored(f.body))
        idle = tuple(n for n, _, const in pointers if not const and n not in stored)
        cluster = CLUSTER.search(self.source)
        if cluster is not None and {*re.findall(r"\d+", cluster[2])} - {"1"}:
            line = self.source.count("\n", 0, cluster.start()) + 1
            raise self.error(line, cluster[0], "clusters of blocks along x alone")
        size = 1 if cluster is None else int(cluster[1])
        return Head(function.name, tuple(pointers), tuple(symbols), idle, size, tuple(maps))

    def _words(self, f: c.FuncDef, head: Head) -> None:
        """Refuse words that the text does not declare and the preludes do not implement."""
        every, body = _nodes(f), _nodes(f.body)
        arrays = {*head.maps, *(n for n, _, _ in head.pointers)}
        arrays |= {n.name for n in every if _is_array(n)}
        for n in body:
            if isinstance(n, c.FuncCall):
                name = n.name.name if isinstance(n.name, c.ID) else "of an expression"
                if name not in TABLE and name not in (*SYNTAX, *self.more):
                    raise self.error(self._line(n), f"the function {name}", _near(name))
                self._counts(n)
                self._has(n)
                self._addresses(n, arrays)
        for n, got, want in faults(f):
            raise self.error(self._line(n), got, want)

    def _counts(self, n: c.FuncCall) -> None:
        """Refuse another number of arguments than an intrinsic has."""
        known, given = TABLE.get(n.name.name), len(n.args.exprs) if n.args else 0
        if known is not None and given != len(known.args):
            got = f"{n.name.name} of {given} arguments"
            raise self.error(self._line(n), got, f"{len(known.args)} of them")

    def _has(self, n: c.FuncCall) -> None:
        """Refuse intrinsics that the target lacks, and those that take a literal and get none."""
        name, needed = n.name.name, family(n.name.name)
        target = self.target
        if needed is not None and target is not None and needed not in target.families:
            having = ", ".join(t.name for t in TARGETS.values() if needed in t.families)
            raise DidymaError(
                "target-lacks", f"{self.where}, line {self._line(n)}",
                got=f"{name} on the {target.name} target",
                want=f"a target with {needed}: {having}",
                help="name it in the options: dd.Options(target=...)",
            )  # fmt: skip
        args: Sequence[Any] = n.args.exprs if n.args else []
        if name in LITERALS and not all(isinstance(a, c.Constant) for a in args):
            raise self.error(self._line(n), f"{name} of an expression", f"{name} of a literal")

    def _addresses(self, n: c.FuncCall, arrays: Collection[str]) -> None:
        """Refuse arguments that should be addresses and are of another form than engines read."""
        known = TABLE.get(n.name.name)
        args: Sequence[Any] = n.args.exprs if n.args else []
        for t, a in zip(known.args if known else (), args, strict=False):
            if t.endswith("*") and ((found := place(a)) is None or found[0] not in arrays):
                want = "&a[i], a + i or a, of an array or argument a"
                raise self.error(self._line(n), f"another address in {n.name.name}(...)", want)

    def _line(self, n: Any) -> int:
        """Return the line of the text, from 1, at which a part of a tree is; 0 if unknown."""
        return self.above + int(n.coord.line) if n.coord is not None else 0


def _stored(body: Any) -> Iterator[str]:
    """Yield the arrays that statements store to, or hand on to a call."""
    for n in _nodes(body):
        match n:
            case c.Assignment(lvalue=to):
                yield _root(to)
            case c.FuncCall(args=c.ExprList(exprs=args)):
                yield from (found[0] for a in args if (found := place(a)) is not None)
            case _:
                pass


def _root(n: Any) -> str:
    """Return the name of the variable of which an expression names a part."""
    while isinstance(n, c.ArrayRef | c.StructRef):
        n = n.name
    return str(n.name) if isinstance(n, c.ID) else ""


def _is_array(n: Any) -> bool:
    return isinstance(n, c.Decl) and isinstance(n.type, c.ArrayDecl)


def renamed(source: str, old: str, new: str) -> str:
    """Return a text whose kernel has another name.

    >>> renamed('extern "C" __global__ void f(f32 *f_) { }', "f", "g_0")
    'extern "C" __global__ void g_0(f32 *f_) { }'
    """
    if old == new:
        return source
    return HEAD.sub(lambda m: m[0].replace(f"{old}(", f"{new}(") if m[1] == old else m[0], source)


def _failing(source: str) -> int:
    """Return the line of a text, from 1, at which it stops being C.

    The parser does not always say: it is the first from which on no beginning of the text parses,
    with its open braces closed.
    """
    lines = source.splitlines()
    for count in range(len(lines), 0, -1):
        text = strip("\n".join(lines[:count]))
        try:
            CParser().parse(to_c99(text + "}" * (text.count("{") - text.count("}"))))
        except ParseError:
            continue
        return count + 1
    return 1


def _near(name: str) -> str:
    stem = name.split("_")[0].rstrip("f")
    near = sorted(n for n in TABLE if n.split("_")[0] == stem)[:4]
    return f"an intrinsic such as {', '.join(near) or 'exp_f32, add_i64'}"


def _nodes(n: Any) -> list[Any]:
    """Return a node and all below it, in the order of the text."""
    found: list[Any] = []
    left = [n]
    while left:
        found.append(node := left.pop())
        left += reversed([*node])
    return found
