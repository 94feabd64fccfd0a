"""Mutants of Python source: each is a change of the text, found through the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from tests.mutants.mutant import Site
from tests.mutants.mutate import c, syntax, tables

Change: TypeAlias = tuple[int, int, str, str]  # start, end, new text, operator
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Set,
          ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp)  # fmt: skip


def mutants(source: str, emits_c: bool = False) -> Iterator[tuple[Site, int]]:
    """Yield each mutant, with the line whose execution reaches it; a few do not compile.

    ``emits_c`` says that strings of the source are pieces of C.
    """
    found = _Finder(source, emits_c)
    found.module()
    seen: set[tuple[int, int, str]] = set()
    for site, line in found.sites:
        key = (site.start, site.end, site.new)
        if key not in seen:
            seen.add(key)
            yield site, line


class _Finder:
    """Walks a module and collects its mutants."""

    def __init__(self, source: str, emits_c: bool) -> None:
        self.source = source
        self.emits_c = emits_c
        self.sites: list[tuple[Site, int]] = []
        self.lines = [line.encode() for line in source.splitlines(keepends=True)]
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line.decode()))
        self.scope = ("", 0, 0)
        self.line = 0  # of the statement
        self.functions: list[_Function] = []
        self.said: frozenset[str] = frozenset()  # names that only error messages of a function show

    # ---- places

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1][:column].decode())

    def span(self, n: ast.expr | ast.stmt | ast.pattern | ast.keyword) -> tuple[int, int]:
        assert n.end_lineno is not None
        assert n.end_col_offset is not None
        return self.at(n.lineno, n.col_offset), self.at(n.end_lineno, n.end_col_offset)

    def text(self, n: ast.expr) -> str:
        start, end = self.span(n)
        text = self.source[start:end]
        return text if isinstance(n, _ATOMS) else f"({text})"

    def add(self, start: int, end: int, new: str, operator: str, line: int | None = None) -> None:
        name, first, last = self.scope
        site = Site(start, end, new, operator, name, first, last)
        self.sites.append((site, self.line if line is None else line))

    def replace(self, n: ast.expr | ast.stmt, new: str, operator: str) -> None:
        self.add(*self.span(n), new, operator)

    def between(self, a: ast.expr, b: ast.expr, old: str, new: str, operator: str) -> None:
        """Replace an operator that stands between two operands."""
        start, end = self.span(a)[1], self.span(b)[0]
        pattern = old if old[0].isalpha() else re.escape(old)
        if found := re.search(pattern, self.source[start:end]):
            self.add(start + found.start(), start + found.end(), new, operator)

    # ---- statements

    def module(self) -> None:
        """Collect the mutants of the module."""
        for s in ast.parse(self.source).body:
            self.top(s, "")

    def top(self, s: ast.stmt, prefix: str) -> None:
        """Walk a statement of a module or class, which is a scope of its own."""
        match s:
            case ast.ClassDef():
                for inner in s.body:
                    self.top(inner, f"{prefix}{s.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.scope = (prefix + s.name, *self.span(s))
                self.statement(s)
            case ast.Assign() | ast.AnnAssign():
                target = s.targets[0] if isinstance(s, ast.Assign) else s.target
                if "TypeAlias" not in ast.dump(s) and not self.text(target).startswith("__"):
                    self.scope = (prefix + self.text(target), *self.span(s))
                    self.line = 0
                    self.statement(s)
            case _:
                pass

    def body(self, statements: Sequence[ast.stmt]) -> None:
        for s in statements:
            self.line = s.lineno
            self.statement(s)

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(s)
            case ast.If() | ast.While():
                self.guard(s.test, syntax.guards(s))
                self.expression(s.test)
                self.body([*s.body, *s.orelse])
            case ast.For():
                self.expression(s.iter)
                self.body([*s.body, *s.orelse])
            case ast.Match():
                self.expression(s.subject)
                for case in s.cases:
                    self.case(case, last=case is s.cases[-1])
            case ast.With():
                for item in s.items:
                    self.expression(item.context_expr)
                self.body(s.body)
            case ast.Try():
                self.body([*s.body, *s.orelse, *s.finalbody])
            case ast.Return():
                if s.value is not None:
                    self.returned(s.value)
                    self.expression(s.value)
            case _:
                self.simple(s)

    def function(self, f: _Function) -> None:
        overloaded = any("overload" in ast.dump(d) for d in f.decorator_list)
        says = f.returns is not None and "Error" in ast.unparse(f.returns)
        if overloaded or says or f.name in tables.UNCHANGED_FUNCTIONS:
            return
        self.functions.append(f)
        before, self.said = self.said, syntax.said(f)
        self.line = 0
        for default in (*f.args.defaults, *(d for d in f.args.kw_defaults if d)):
            self.expression(default)
        self.body(f.body)
        self.functions.pop()
        self.said = before

    def simple(self, s: ast.stmt) -> None:
        match s:
            case ast.Expr(ast.Call() | ast.Yield() | ast.YieldFrom()):
                self.replace(s, "pass", "dropped statement")
                self.expression(s.value)
            case ast.AugAssign():
                self.replace(s, "pass", "dropped statement")
                if type(s.op) in tables.ARITHMETIC:
                    old, new = tables.ARITHMETIC[type(s.op)]
                    self.between(s.target, s.value, f"{old}=", f"{new}=", "arithmetic")
                self.expression(s.value)
            case ast.Assign([ast.Name(name)]) if name in self.said:
                pass
            case ast.Assign() | ast.AnnAssign():
                if s.value is not None:
                    if self.again(s):
                        self.replace(s, "pass", "dropped statement")
                    self.expression(s.value)
            case ast.Continue() | ast.Break():
                self.replace(s, "pass", "dropped statement")
            case _:
                pass  # what is raised, asserted, imported or declared

    def again(self, s: ast.Assign | ast.AnnAssign) -> bool:
        """Return whether the target has a value without this statement, as far as one can see."""
        target = s.targets[0] if isinstance(s, ast.Assign) else s.target
        if not isinstance(target, ast.Name):
            return isinstance(target, ast.Attribute | ast.Subscript) and bool(self.functions)
        f = self.functions[-1] if self.functions else None
        if f is None:
            return False
        params = {a.arg for a in (*f.args.args, *f.args.kwonlyargs, *f.args.posonlyargs)}
        before = [
            n for n in ast.walk(f)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == target.id
            and n.lineno < s.lineno
        ]  # fmt: skip
        return bool(before) or target.id in params

    def case(self, case: ast.match_case, last: bool) -> None:
        self.line = case.pattern.lineno
        for n in ast.walk(case.pattern):
            if isinstance(n, ast.MatchOr):
                for a, b in pairwise(n.patterns):
                    self.add(self.span(a)[0], self.span(b)[0], "", "dropped case")
                a, b = n.patterns[-2:]
                self.add(self.span(a)[1], self.span(b)[1], "", "dropped case")
            if isinstance(n, ast.MatchValue):
                self.expression(n.value)
        if case.guard is None and not last:
            end = self.span(case.pattern)[1]
            if self.source[end : end + 1] == ":":
                self.add(end, end, " if False", "dropped case")
        elif case.guard is not None:
            self.guard(case.guard, ("True", "False"))
            self.expression(case.guard)
        self.body(case.body)

    def guard(self, test: ast.expr, becomes: Sequence[str]) -> None:
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(test)):
            return
        if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
            return
        for new in becomes:
            self.replace(test, new, "guard")

    def returned(self, value: ast.expr) -> None:
        """Return something else, of the type that the function's annotation says."""
        f = self.functions[-1]
        if f.returns is None or isinstance(value, ast.Constant):
            return
        wanted = ast.unparse(f.returns)
        params = [p for p in f.args.args if p.arg != "self"]
        first = params[0] if params else None
        if first and first.annotation and ast.unparse(first.annotation) == wanted:
            self.replace(value, first.arg, "return value")
        if wanted == "bool" and not isinstance(value, ast.Compare):
            self.replace(value, f"not {self.text(value)}", "return value")
        elif wanted == "int":
            self.replace(value, f"{self.text(value)} + 1", "return value")
        elif re.fullmatch(r"tuple\[.*, \.\.\.\]|list\[.*\]", wanted):
            kind = wanted.partition("[")[0]
            self.replace(value, f"{kind}()", "return value")

    # ---- expressions

    def expression(self, e: ast.expr) -> None:
        if isinstance(e, ast.Call) and syntax.name(e.func) in tables.UNCHANGED_CALLS:
            return
        line = self.line
        if line and (self.starts[e.lineno - 1] > self.starts[line - 1]):
            self.line = e.lineno
        self.changes(e)
        for child in ast.iter_child_nodes(e):
            match child:
                case ast.expr():
                    self.expression(child)
                case ast.keyword():
                    if child.arg != "strict":  # of zip: an assertion
                        self.expression(child.value)
                case ast.comprehension():
                    self.comprehension(child)
                case _:
                    pass
        self.line = line

    def comprehension(self, g: ast.comprehension) -> None:
        self.expression(g.iter)
        for test in g.ifs:
            if not any(isinstance(n, ast.NamedExpr) for n in ast.walk(test)):
                self.replace(test, "True", "guard")
            self.expression(test)

    def changes(self, e: ast.expr) -> None:
        match e:
            case ast.Compare():
                for a, op, b in zip([e.left, *e.comparators], e.ops, e.comparators, strict=False):
                    old, news = tables.RELATIONS[type(op)]
                    for new, operator in news:
                        self.between(a, b, old, new, operator)
            case ast.BinOp():
                self.binary(e)
            case ast.BoolOp():
                self.boolean(e)
            case ast.UnaryOp():
                self.unary(e)
            case ast.IfExp():
                sides = (("True", e.body), ("False", e.orelse))
                self.guard(e.test, [new for new, side in sides if not syntax.is_none(side)])
            case ast.Constant():
                self.constant(e, "constant")
            case ast.JoinedStr() if self.emits_c:
                self.pieces(e)
            case ast.Call():
                self.call(e)
            case ast.Attribute():
                self.attribute(e)
            case ast.Subscript(slice=ast.Slice() as s):
                self.slice(s)
            case ast.Tuple() | ast.List() | ast.Set():
                self.display(e)
            case ast.Lambda(body=ast.Tuple(elts=[first, second, *_])):
                self.swap(first, second, "sort key")
            case _:
                pass

    def binary(self, e: ast.BinOp) -> None:
        words = (ast.JoinedStr, ast.Tuple, ast.List)
        operands = (e.left, e.right)
        if any(isinstance(o, words) or syntax.is_text(o) for o in operands):
            return
        if type(e.op) in tables.ARITHMETIC:
            old, new = tables.ARITHMETIC[type(e.op)]
            self.between(*operands, old, new, "arithmetic")

    def boolean(self, e: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(e.op, ast.And) else ("or", "and")
        texts = [self.text(v) for v in e.values]
        if any(isinstance(n, ast.NamedExpr) for v in e.values for n in ast.walk(v)):
            return
        for i in range(len(texts)):
            rest = f" {old} ".join(t for k, t in enumerate(texts) if k != i)
            self.replace(e, f"({rest})", "dropped condition")
        for a, b in pairwise(e.values):
            self.between(a, b, old, new, "negation")

    def unary(self, e: ast.UnaryOp) -> None:
        match e.op, e.operand:
            case ast.USub(), ast.Constant(int() as n):
                for m in (n + 1, n - 1):
                    self.replace(e, str(-m), "index" if n == 1 else "constant")
            case ast.Not(), _:
                self.replace(e, self.text(e.operand), "negation")
            case _:
                self.replace(e, self.text(e.operand), "arithmetic")

    def constant(self, e: ast.Constant, operator: str) -> None:
        match e.value:
            case bool() as flag:
                self.replace(e, str(not flag), "negation")
            case int() as n:
                self.replace(e, str(n + 1), operator)
                if n > 0:
                    self.replace(e, str(n - 1), operator)
            case float() as x:
                self.replace(e, str(x + 1), operator)
            case str() as word if word in tables.WORDS:
                new, kind = tables.WORDS[word]
                self.replace(e, repr(new).replace("'", '"'), kind)
            case str() if self.emits_c:
                self.pieces(e)
            case _:
                pass

    def pieces(self, e: ast.expr) -> None:
        """Change the C in a string; what an f-string has in braces stays."""
        start, end = self.span(e)
        text = self.source[start:end]
        found = re.match(r"""(r?f?)("{3}|"|')""", text)
        if found is None or "\n" in text or "\\" in text:
            return
        quote = found[2]
        at = start + found.end()
        inner = text[found.end() : -len(quote)]
        held = [m.span() for m in re.finditer(r"\{[^{}]*\}", inner)] if "f" in found[1] else []
        if not re.search(r"[;()=<>+*/&|?\[]", inner):
            return
        for change in c.changes(inner):
            if quote not in change.new and not any(
                a < change.end and change.start < b for a, b in held
            ):
                self.add(at + change.start, at + change.end, change.new, change.operator)

    def call(self, e: ast.Call) -> None:
        name = syntax.name(e.func)
        named = isinstance(e.func, ast.Name) or name not in tables.ATTRIBUTES
        if name in tables.NAMES and named:
            new, operator = tables.NAMES[name]
            end = self.span(e.func)[1]
            self.add(end - len(name), end, new, operator)
        plain = [a for a in e.args if not isinstance(a, ast.Starred)]
        if name not in tables.SAME_EITHER_WAY and len(plain) == len(e.args):
            operands = syntax.is_word(plain[0], tables.SYMMETRIC) if plain else False
            for a, b in pairwise(plain[1:] if operands else plain):
                if not operands or a is not plain[1]:
                    self.swap(a, b, "swapped arguments")
        if name == "range" and plain and not isinstance(plain[-1], ast.Constant):
            last = plain[-1] if len(plain) < 3 else plain[1]
            for sign in "+-":
                self.replace(last, f"{self.text(last)} {sign} 1", "boundary")
        for k in e.keywords:
            if k.arg in ("key", "reverse") and e.args:
                start, end = self.span(e.args[-1])[1], self.span(k)[1]
                if self.source[start:end].count("=") == 1:
                    self.add(start, end, "", "sort key")

    def swap(self, a: ast.expr, b: ast.expr, operator: str) -> None:
        (start, end), (first, last) = self.span(a), self.span(b)
        one, other = self.source[start:end], self.source[first:last]
        if one != other and first >= end:
            self.add(start, last, other + self.source[end:first] + one, operator)

    def attribute(self, e: ast.Attribute) -> None:
        end = self.span(e)[1]
        if isinstance(e.value, ast.Name) and e.value.id == "DType" and e.attr in tables.DTYPES:
            self.add(end - len(e.attr), end, tables.DTYPES[e.attr], "dtype")
        elif e.attr in tables.ATTRIBUTES and e.attr not in ("append",):
            new, operator = tables.NAMES[e.attr]
            self.add(end - len(e.attr), end, new, operator)

    def slice(self, s: ast.Slice) -> None:
        for bound in (s.lower, s.upper):
            if bound is not None:
                self.replace(bound, "", "slice bounds")
                if not isinstance(bound, ast.Constant | ast.UnaryOp):
                    self.replace(bound, f"{self.text(bound)} + 1", "slice bounds")

    def display(self, e: ast.Tuple | ast.List | ast.Set) -> None:
        """Drop one of several elements that do something."""
        if isinstance(e.ctx if not isinstance(e, ast.Set) else None, ast.Store) or len(e.elts) < 2:
            return
        for i, x in enumerate(e.elts):
            if isinstance(e, ast.Set) or isinstance(x, ast.Call | ast.Starred):
                barrier = isinstance(x, ast.Call) and syntax.name(x.func) == "Barrier"
                operator = "dropped barrier" if barrier else "dropped element"
                pair = isinstance(e, ast.Tuple) and len(e.elts) == 2  # a tuple of one has a comma
                start, end = self.span(x)
                if pair:
                    start, end = self.span(e.elts[0])[0], self.span(e.elts[1])[1]
                    self.add(start, end, f"{self.text(e.elts[1 - i])},", operator)
                elif i + 1 < len(e.elts):
                    self.add(start, self.span(e.elts[i + 1])[0], "", operator)
                else:
                    self.add(self.span(e.elts[i - 1])[1], end, "", operator)
