"""Writes subgraphs as C into the text of a template, under names that the text does not use."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from didyma.codegen.emit.expressions import CBuffer, Expressions
from didyma.codegen.emit.intrinsics import c_type, components
from didyma.codegen.emit.lines import TextLines
from didyma.codegen.emit.names import c_names
from didyma.codegen.emit.statements import Statements
from didyma.codegen.emit.terms import PRIMARY, Term, literal
from didyma.codegen.templates.problem import Output, Problem, Subgraph, Wide
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.intrinsic import Intrinsic
from didyma.refimpl.ir.loop import Buffer, Expr, Load, PrimFunc, Store, Var
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.walk import exprs, map_expr, subexprs

INDENT = "  "
MOST = 1 << 40  # that an index of an array may be
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")  # no field, such as x of threadIdx.x
_PLAIN = re.compile(r"\w+")
_SYMBOL = re.compile("\ue002(\\w+)\ue003")  # a symbol of the function, not the text's own word


def words(texts: Iterable[str]) -> set[str]:
    """Return the words of texts that are the template's own.

    >>> sorted(words(["const i64 rows = a[3 * threadIdx.x]"]))
    ['a', 'const', 'i64', 'rows', 'threadIdx']
    """
    return {w for t in texts for w in _WORD.findall(_SYMBOL.sub(" ", t))}


def size(e: Expr, loop: PrimFunc, own: Mapping[str, str] = MappingProxyType({})) -> int | str:
    """Return an extent as a number, or as C in which the symbols of the function are marked.

    ``own`` are further variables that are not negative, with their texts.
    """
    terms = {d.name: _term(d, f"\ue002{d.name}\ue003") for d in loop.dims}
    terms |= {name: Term(text, PRIMARY, 0, MOST, True) for name, text in own.items()}
    found = Expressions(c_names(), TextLines(), terms).index(e)
    return found.at(PRIMARY) if found.value is None else found.value


def unmarked(text: str) -> str:
    """Return a text in which the symbols of the function are no longer marked."""
    return _SYMBOL.sub(r"\1", text)


def _instead(e: Expr, old: Expr, new: Expr) -> Expr:
    """Return an expression with another in the place of a part."""
    return new if e == old else map_expr(lambda x: _instead(x, old, new), e)


def _term(d: DimVar, text: str) -> Term:
    return Term(text, PRIMARY, d.lo, d.hi, True)


@dataclass(slots=True)
class _Lanes(Statements):
    """Writes statements whose store becomes a lane of a vector: ``to`` in place of ``element``."""

    to: str = ""
    element: str = ""

    def _store(self, s: Store) -> None:
        value = self.expressions.data(s.value)
        self.element = self.expressions.element(s.buffer, s.index)
        self.lines.add(f"{self.to} = {value.text};")


@dataclass(slots=True)
class _Together(Expressions):
    """Writes each of some loads once, for all lanes: a vector, of which ``part`` is the lane."""

    together: Set[Load] = frozenset()
    many: int = 1
    part: str = ""
    vectors: dict[Load, str] = field(default_factory=dict[Load, str])

    def value(self, e: Expr) -> Term:
        """Write an expression."""
        if not isinstance(e, Load) or e not in self.together:
            return Expressions.value(self, e)
        if e not in self.vectors:
            t, name = c_type(e.dtype), self.names.fresh("loaded")
            self.vectors[e] = name
            at = self.element(e.buffer, e.index)
            self.lines.add(f"const {t}x{self.many} {name} = load{self.many}_{t}(&{at});")
        return Term(f"{self.vectors[e]}.{self.part}", PRIMARY)


@dataclass(slots=True)
class Writer:
    """Writes into one text, of which it knows all words.

    A word of the text that is a symbol of the function gets another name.  ``arrays`` are the names
    of the function's buffers in the text.
    """

    problem: Problem
    names: Names
    renamed: Mapping[str, str]
    arrays: Mapping[str, str]
    intrinsics: dict[str, Intrinsic] = field(default_factory=dict[str, Intrinsic])
    symbols: tuple[str, ...] = ()  # that the text uses, once its head is written

    @staticmethod
    def of(problem: Problem, taken: Set[str]) -> Writer:
        """Return a writer into a text with these words."""
        symbols = [d.name for d in problem.loop.dims]
        names = c_names((*taken, *symbols))
        renamed = {s: names.fresh(s) for s in symbols if s in taken}
        arrays = {b.name: names.fresh(b.name) for b in problem.loop.params}
        return Writer(problem, names, renamed, arrays)

    def own(self, text: str) -> str:
        """Return a part of the template's text with the names that its words have in the end."""
        for word, name in self.renamed.items():
            text = re.sub(rf"(?<![\w.\ue002]){word}(?!\w)", name, text)
        return unmarked(text)

    def value(self, sub: Subgraph, into: str, given: Sequence[str], mask: str = "") -> list[str]:
        """Declare ``into`` as the value of a subgraph, or as 0 where the mask does not hold."""
        s, into = self._statements(), self.own(into)
        t = c_type(sub.value.dtype)
        used = {e.name for e in subexprs(sub.value) if isinstance(e, Var)}
        if not mask:
            self._bind(s, sub, given, used)
            s.lines.add(f"const {t} {into} = {s.expressions.data(sub.value).text};")
            return self._done(s)
        s.lines.add(f"{t} {into} = {literal(0, sub.value.dtype).text};")
        with self._where(s, mask):
            self._bind(s, sub, given, used)
            s.lines.add(f"{into} = {s.expressions.data(sub.value).text};")
        return self._done(s)

    def values_wide(
        self, wide: Wide, at: str, into: str, given: Sequence[Sequence[str]], mask: str = ""
    ) -> list[str]:
        """Declare a vector of values at neighbouring indices, of which one load takes all.

        ``given`` are the inputs of each; what is loaded lies together from ``at`` on.
        """
        s, into, many, load = self._statements(), self.own(into), len(given), wide.load
        loaded = Var(self.names.fresh("loaded"), load.dtype)
        value = _instead(wide.value.value, load, loaded)
        used = {e.name for e in subexprs(value) if isinstance(e, Var)}
        t, of = c_type(value.dtype), c_type(load.dtype)
        s.lines.add(f"{t}x{many} {into};")
        if mask or wide.inside is not None:
            for part in components(many):
                s.lines.add(f"{into}.{part} = {literal(0, value.dtype).text};")
        with self._where(s, mask), self._inside(s, wide.inside, given[0]):
            at = f"{self.arrays[load.buffer]}[{self.own(at)}]"
            s.lines.add(f"const {of}x{many} {loaded.name} = load{many}_{of}(&{at});")
            for part, inputs in zip(components(many), given, strict=True):
                s.expressions.variables[loaded.name] = Term(f"{loaded.name}.{part}", PRIMARY)
                self._bind(s, wide.value, inputs, used)
                s.lines.add(f"{into}.{part} = {s.expressions.data(value).text};")
        return self._done(s)

    def stores(self, out: Output, given: Sequence[str], mask: str = "") -> list[str]:
        """Store the results at an index, if the mask holds."""
        s = self._statements()
        used = {e.name for e in exprs(out.body) if isinstance(e, Var)}
        with self._where(s, mask):
            self._bind(s, out, given, used)
            s.write(out.body)
        return self._done(s)

    def stores_wide(
        self, out: Output, store: Store, given: Sequence[Sequence[str]], mask: str = ""
    ) -> list[str]:
        """Store the results at neighbouring indices together, if the mask holds for the first.

        ``given`` are the inputs of each; ``store`` is the one of the output, as of
        ``Problem.stored``.
        """
        s, x = self._together(out, len(given))
        lane = _Lanes(s.names, s.lines, x, s.functions, s.noalias)
        used = {e.name for e in exprs(out.body) if isinstance(e, Var)}
        dtype = c_type(lane.expressions.buffers[store.buffer].buffer.dtype)
        with self._where(s, mask):
            wide = self.names.fresh("wide")
            s.lines.add(f"{dtype}x{len(given)} {wide};")
            first = ""
            for part, inputs in zip(components(len(given)), given, strict=True):
                self._bind(s, out, inputs, used)
                x.part, lane.to = part, f"{wide}.{part}"
                lane.write(out.body)
                first = first or lane.element
            s.lines.add(f"store{len(given)}_{dtype}(&{first}, {wide});")
        return self._done(s)

    def results_wide(
        self, sub: Subgraph, out: Output, into: str, given: Sequence[Sequence[str]], mask: str = ""
    ) -> list[str]:
        """Declare a vector of what an output stores at neighbouring indices, or of 0.

        ``given`` are the inputs of each; the mask is that of the first.
        """
        s, x = self._together(out, len(given))
        into, t = self.own(into), c_type(sub.value.dtype)
        used = {e.name for e in subexprs(sub.value) if isinstance(e, Var)}
        s.lines.add(f"{t}x{len(given)} {into};")
        if mask:
            for part in components(len(given)):
                s.lines.add(f"{into}.{part} = {literal(0, sub.value.dtype).text};")
        with self._where(s, mask):
            for part, inputs in zip(components(len(given)), given, strict=True):
                x.part = part
                self._bind(s, sub, inputs, used)
                s.lines.add(f"{into}.{part} = {x.data(sub.value).text};")
        return self._done(s)

    def _together(self, out: Output, many: int) -> tuple[Statements, _Together]:
        """Return what writes an output of so many lanes, whose neighbours are loaded together."""
        s = self._statements()
        old = s.expressions
        x = _Together(old.names, old.lines, old.variables, old.buffers)
        x.together, x.many = self.problem.neighbours(out, many), many
        return Statements(s.names, s.lines, x, s.functions, s.noalias), x

    def head(
        self,
        name: str,
        text: str,
        threads: int,
        workspace: Mapping[str, Buffer],
        cluster: int,
        maps: Iterable[str],
    ) -> list[str]:
        """Write the head of the kernel, of which ``text`` is all the rest, for so many threads.

        ``workspace`` are buffers beside those of the function, by their names in the text, and
        ``maps`` the names of tensor maps.
        """
        loop = self.problem.loop
        self.symbols = tuple(d.name for d in loop.dims if d.name in _WORD.findall(text))
        params = [
            f"{'' if b.name in loop.outputs else 'const '}{c_type(b.dtype)} *__restrict__ "
            f"{self.arrays[b.name]}"
            for b in loop.params
        ]
        params += [f"{c_type(b.dtype)} *__restrict__ {word}" for word, b in workspace.items()]
        params += [f"const __grid_constant__ tensor_map {word}" for word in maps]
        params += [f"i64 {s}" for s in self.symbols]
        rest = [f"{INDENT * 2}{p}," for p in params]
        one = ", 1" if "setmaxnreg_" in text else ""  # else the assembler may keep registers fixed
        bounds = f"__launch_bounds__({threads}{one})"
        bounds += f" __cluster_dims__({cluster}, 1, 1)" if cluster > 1 else ""
        return [f'extern "C" __global__ void {bounds} {name}(', *rest[:-1], f"{rest[-1][:-1]})"]

    def _statements(self) -> Statements:
        lines, loop = TextLines(), self.problem.loop
        variables = {d.name: _term(d, d.name) for d in loop.dims}
        buffers = {b.name: CBuffer(b, self.arrays[b.name]) for b in loop.params}
        x = Expressions(self.names, lines, variables, buffers)
        return Statements(self.names, lines, x, loop.function, loop.noalias)

    @contextmanager
    def _where(self, s: Statements, mask: str) -> Generator[None]:
        if not mask:
            yield
            return
        s.lines.add(f"if ({self.own(mask)}) {{")
        with s.lines.indented():
            yield
        s.lines.add("}")

    @contextmanager
    def _inside(
        self, s: Statements, inside: Subgraph | None, given: Sequence[str]
    ) -> Generator[None]:
        """Write what follows under a condition, if there is one, whose inputs are given."""
        if inside is None:
            yield
            return
        self._bind(s, inside, given, {e.name for e in subexprs(inside.value) if isinstance(e, Var)})
        s.lines.add(f"if ({s.expressions.data(inside.value).text}) {{")
        with s.lines.indented():
            yield
        s.lines.add("}")

    def _bind(
        self, s: Statements, sub: Subgraph | Output, given: Sequence[str], used: Set[str]
    ) -> None:
        """Give the inputs that are used the values that the text says; an index is in its range."""
        x = s.expressions
        for n, (var, text) in enumerate(zip(sub.inputs, map(self.own, given), strict=True)):
            if var.name not in used:
                continue
            if not _PLAIN.fullmatch(text):
                name = self.names.fresh(var.name)
                s.lines.add(f"const {c_type(var.dtype)} {name} = {text};")
                text = name
            term = Term(text)
            if n < len(sub.extents):
                most = max(x.index(sub.extents[n]).hi - 1, 0)
                term = Term(text, PRIMARY, 0, most, True)
            x.variables[var.name] = term

    def _done(self, s: Statements) -> list[str]:
        self.intrinsics.update(s.expressions.own)
        return [INDENT * line.depth + line.text for line in s.lines.all()]
