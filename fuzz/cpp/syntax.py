"""The syntax of the C++ that loaders are written in: texts as functions, statements and terms.

What lies outside of it raises SyntaxError with the words at which it does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*$)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])')
    |(?P<number>\d+)
    |(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)
    |(?P<sign>->|\+\+|&&|\|\||[=!<>]=|[-+*/%<>=!&?:;,.(){}\[\]])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPECIFIERS = frozenset(("const", "static", "inline"))
_TEMPLATES = frozenset(("std::vector", "std::map", "static_cast", "reinterpret_cast", "read"))
_STRENGTH: Mapping[str, int] = {
    ",": 1, "=": 2, "||": 4, "&&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "+": 8, "-": 8, "*": 9, "/": 9, "%": 9,
}  # fmt: skip
_CHOICE = 3  # how strongly `?` binds
_PREFIX = frozenset(("!", "&", "*", "-", "++", "sizeof"))


@dataclass(frozen=True, slots=True)
class Number:
    """An integer."""

    value: int


@dataclass(frozen=True, slots=True)
class Text:
    """A string, or a character, without its quotes."""

    value: str


@dataclass(frozen=True, slots=True)
class Name:
    """A name with its namespaces, and what stands in angle brackets behind it."""

    name: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object, which a pointer may show."""

    object: Term
    name: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class At:
    """An element."""

    object: Term
    index: Term


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function or a type."""

    callee: Term
    args: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """An operator before a term."""

    op: str
    term: Term


@dataclass(frozen=True, slots=True)
class Infix:
    """An operator between two terms; assignments and commas are some."""

    op: str
    lhs: Term
    rhs: Term


@dataclass(frozen=True, slots=True)
class Choice:
    """One of two terms."""

    test: Term
    then: Term
    other: Term


@dataclass(frozen=True, slots=True)
class Row:
    """Terms in braces."""

    terms: tuple[Term, ...]


Term: TypeAlias = Number | Text | Name | Member | At | Call | Prefix | Infix | Choice | Row


@dataclass(frozen=True, slots=True)
class Block:
    """Statements with names of their own."""

    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Declare:
    """A variable of a type, made of some terms; ``length`` is that of an array."""

    type: str
    name: str
    made_of: tuple[Term, ...] | None = None
    length: Term | None = None


@dataclass(frozen=True, slots=True)
class Several:
    """Declarations in one statement."""

    body: tuple[Declare, ...]


@dataclass(frozen=True, slots=True)
class Do:
    """A term whose value nobody keeps; none of an empty statement."""

    term: Term | None


@dataclass(frozen=True, slots=True)
class If:
    """A condition."""

    test: Term
    then: Statement
    other: Statement | None


@dataclass(frozen=True, slots=True)
class For:
    """A loop."""

    first: Statement
    test: Term | None
    step: Term | None
    body: Statement


@dataclass(frozen=True, slots=True)
class Switch:
    """A choice among statements that return, by number; None is the default."""

    term: Term
    cases: tuple[tuple[Term | None, Statement], ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """``return``, ``throw`` or ``break``."""

    how: str
    term: Term | None


Statement: TypeAlias = Block | Declare | Several | Do | If | For | Switch | Leave


@dataclass(frozen=True, slots=True)
class Function:
    """A function."""

    name: str
    params: tuple[Declare, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Unit:
    """What a text defines: its functions, its variables and the fields of its one struct."""

    functions: Mapping[str, Function]
    variables: tuple[Declare, ...]
    fields: tuple[str, ...]


def parse(text: str) -> Unit:
    """Return what a text defines; SyntaxError."""
    return _Parser(_tokens(text)).unit()


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = list[tuple[str, str]](), 0
    while at < len(text):
        m = _TOKEN.match(text, at)
        if m is None or m.lastgroup is None:
            raise SyntaxError(f"no word of C++: {text[at : at + 40]!r}")
        at = m.end()
        if m.lastgroup != "skip":
            found.append((m.lastgroup, m[0]))
    return [*found, ("end", "")]


@dataclass(slots=True)
class _Parser:
    tokens: Sequence[tuple[str, str]]
    at: int = 0
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    variables: list[Declare] = field(default_factory=list[Declare])
    fields: list[str] = field(default_factory=list[str])

    # ---- words

    @property
    def word(self) -> str:
        return self.tokens[self.at][1]

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def take(self, *words: str) -> bool:
        """Go on behind words if they are the next ones."""
        found = tuple(w for _, w in self.tokens[self.at : self.at + len(words)]) == words
        self.at += len(words) * found
        return found

    def want(self, word: str) -> None:
        if not self.take(word):
            raise self.wrong(f"want {word}")

    def wrong(self, why: str) -> SyntaxError:
        near = " ".join(w for _, w in self.tokens[max(0, self.at - 6) : self.at + 6])
        return SyntaxError(f"{why} in: {near}")

    def named(self) -> str:
        if self.kind != "name":
            raise self.wrong("want a name")
        return self.next()

    # ---- the whole text

    def unit(self) -> Unit:
        while self.kind != "end":
            self.outer()
        return Unit(self.functions, tuple(self.variables), tuple(self.fields))

    def outer(self) -> None:
        if self.take("using"):
            while self.next() != ";":
                pass
        elif self.take("typedef", "struct", "{"):
            while not self.take("}"):
                self.fields += (d.name for d in self.declarations().body)
            self.named()
            self.want(";")
        elif self.take("enum", "{"):
            while not self.take("}"):
                name = self.named()
                self.want("=")
                self.variables.append(Declare("int", name, (self.term(2),)))
                self.take(",")
            self.want(";")
        else:
            self.definition()

    def definition(self) -> None:
        begin = self.at
        self.type()
        name = self.named()
        if not self.take("("):
            self.at = begin
            self.variables += self.declarations().body
            return
        params = list[Declare]()
        while not self.take(")"):
            t = self.type()
            params.append(self.declarator(t))
            self.take(",")
        self.take("try")
        self.functions[name] = Function(name, tuple(params), self.block())
        if self.take("catch"):
            self.skip()

    def skip(self) -> None:
        """Go on behind what stands in the next braces."""
        while self.word != "{":
            self.next()
        depth = 0
        while depth or self.word == "{":
            depth += {"{": 1, "}": -1}.get(self.next(), 0)

    # ---- statements

    def block(self) -> Block:
        self.want("{")
        body = list[Statement]()
        while not self.take("}"):
            body.append(self.statement())
        return Block(tuple(body))

    def statement(self) -> Statement:
        match self.word:
            case "{":
                return self.block()
            case "if":
                self.next()
                test, then = self.in_parentheses(), self.statement()
                return If(test, then, self.statement() if self.take("else") else None)
            case "for":
                return self.loop()
            case "switch":
                return self.switch()
            case "return" | "throw" | "break":
                return self.leave()
            case _:
                return self.plain()

    def leave(self) -> Leave:
        how = self.next()
        term = None if self.word == ";" else self.term()
        self.want(";")
        return Leave(how, term)

    def plain(self) -> Statement:
        """Return declarations, or a term."""
        if self.take(";"):
            return Do(None)
        if self.declares():
            return self.declarations()
        term = self.term()
        self.want(";")
        return Do(term)

    def declares(self) -> bool:
        """Return whether a name follows a type."""
        begin = self.at
        try:
            self.type()
            while self.take("*") or self.take("const") or self.take("&"):
                pass
            return self.kind == "name"
        except SyntaxError:
            return False
        finally:
            self.at = begin

    def loop(self) -> Statement:
        self.want("for")
        self.want("(")
        first = self.plain()
        test = None if self.word == ";" else self.term()
        self.want(";")
        step = None if self.word == ")" else self.term()
        self.want(")")
        return For(first, test, step, self.statement())

    def switch(self) -> Statement:
        self.want("switch")
        term = self.in_parentheses()
        self.want("{")
        cases = list[tuple[Term | None, Statement]]()
        while not self.take("}"):
            value = None if self.take("default") else self.case()
            self.want(":")
            cases.append((value, self.statement()))
        return Switch(term, tuple(cases))

    def case(self) -> Term:
        self.want("case")
        return self.term()

    def in_parentheses(self) -> Term:
        self.want("(")
        term = self.term()
        self.want(")")
        return term

    def type(self) -> str:
        while self.word in _SPECIFIERS:
            self.next()
        name = self.named()
        return f"{name}<{inner}>" if (inner := self.template(name)) else name

    def template(self, name: str) -> str:
        """Return what stands in angle brackets behind the name of a template."""
        if name not in _TEMPLATES or not self.take("<"):
            return ""
        words = list[str]()
        while not self.take(">"):
            words.append(self.next())
        return " ".join(words)

    def declarations(self) -> Several:
        t = self.type()
        found = [self.declarator(t)]
        while self.take(","):
            found.append(self.declarator(t))
        self.want(";")
        return Several(tuple(found))

    def declarator(self, t: str) -> Declare:
        shown = ""
        while self.word in ("*", "&", "const"):
            shown += self.next().removeprefix("const")
        name, of = self.named(), f"{t}{shown}"
        length = None
        if self.take("["):
            length = self.term()
            self.want("]")
        if self.take("="):
            return Declare(of, name, (self.term(2),), length)
        for opening, closing in (("(", ")"), ("{", "}")):
            if self.take(opening):
                return Declare(of, name, self.terms(closing), length)
        return Declare(of, name, None, length)

    # ---- terms

    def terms(self, closing: str) -> tuple[Term, ...]:
        found = list[Term]()
        while not self.take(closing):
            found.append(self.term(2))
            if self.word != closing:
                self.want(",")
        return tuple(found)

    def term(self, least: int = 0) -> Term:
        """Return a term whose operators all bind at least so strongly."""
        lhs = self.prefixed()
        while (strength := _STRENGTH.get(self.word, _CHOICE if self.word == "?" else -1)) >= least:
            op = self.next()
            if op == "?":
                then = self.term(_CHOICE)
                self.want(":")
                lhs = Choice(lhs, then, self.term(_CHOICE))
            else:
                lhs = Infix(op, lhs, self.term(strength + (op != "=")))
        return lhs

    def prefixed(self) -> Term:
        if self.take("(", "void", ")"):
            return Prefix("(void)", self.prefixed())
        if self.word in _PREFIX:
            return Prefix(self.next(), self.prefixed())
        return self.postfixed(self.primary())

    def primary(self) -> Term:
        match self.kind, self.word:
            case "number", _:
                return Number(int(self.next()))
            case "text", _:
                return Text(_ESCAPED.sub(r"\1", self.next()[1:-1]))
            case "name", _:
                name = self.next()
                return Name(name, self.template(name))
            case _, "(":
                return self.in_parentheses()
            case _, "{":
                self.next()
                return Row(self.terms("}"))
            case _:
                raise self.wrong("want a term")

    def postfixed(self, term: Term) -> Term:
        while True:
            if self.take(".") or self.take("->"):
                name = self.named()
                term = Member(term, name, self.template(name))
            elif self.take("("):
                term = Call(term, self.terms(")"))
            elif isinstance(term, Name) and self.take("{"):
                term = Call(term, self.terms("}"))
            elif self.take("["):
                term = At(term, self.term())
                self.want("]")
            else:
                return term
