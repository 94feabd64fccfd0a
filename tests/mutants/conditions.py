"""Which terms of conditions a campaign sees decide alone: what predicts the slips that it finds.

A slip that leaves out one term of a condition shows only in a case in which that term alone
decides: every other term would let the condition have its other value.  So the terms of each
``and`` and ``or`` of the compiler are counted where they decide alone, a test of one term, such as
that of a guard before ``return None``, where it holds and where it does not, and the boundary of a
comparison where both sides are equal.  This is modified condition and decision coverage (RTCA
DO-178C), for which terms that Python would not come to any more are evaluated as well; one that
raises an error then lets a case show that.

Three more kinds of places are counted as terms: a comparison or a negation whose value is kept,
passed on or returned, once for each value; an ``any`` or ``all`` where the other one would say
otherwise; and a statement that changes something, such as a call or a ``yield``, wherever it runs,
since people forget statements, too (L. Deng, J. Offutt and N. Li, "Empirical Evaluation of the
Statement Deletion Mutation Operator", 2013).

    python -m tests.mutants.conditions --seconds 60 --domain passes
"""

from __future__ import annotations

import ast
import builtins
import importlib
import operator
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any
from unittest import mock

import numpy as np
import typer

from tests.mutants.forking import Say, forked
from tests.mutants.mutant import ROOT
from tests.mutants.planting import Planter, import_all

FOLDERS = ("passes", "lower", "schedule", "order", "memory", "emit", "templates", "layouts")
_NAME = "__term__"


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a condition, and the value by which it decides."""

    file: str
    line: int
    text: str
    decides: bool

    def __str__(self) -> str:
        """Return where the term is, and how it decides."""
        return f"{self.file}:{self.line}: {self.decides}: {self.text}"


@dataclass(slots=True)
class Counts:
    """Notes which terms decide alone; conditions call it with the number of a term.

    ``alone`` are those of the case at hand, and ``met`` counts the cases before it.  One term may
    be ``dropped``: then conditions are as if they did not have it, and nothing is noted.
    """

    terms: list[Term] = field(default_factory=list[Term])
    met: Counter[int] = field(default_factory=Counter[int])
    alone: set[int] = field(default_factory=set[int])
    dropped: int = -1
    quiet: bool = False  # while terms are evaluated for the count alone

    def __call__(self, number: int, value: Any, rest: Callable[[], Any] | None = None) -> Any:
        """Return the value of a term, and note it; ``rest`` are the terms after it, if any are."""
        if self.dropped >= 0:
            is_dropped = number <= self.dropped <= number + (rest is None)
            return not self.terms[self.dropped].decides if is_dropped else value
        if self.quiet:
            return value
        decides = bool(value) is self.terms[number].decides
        if rest is None:  # the second of two terms is for the other value
            self.alone.add(number + (not decides))
        elif decides and number not in self.alone and self._lets(number, rest):
            self.alone.add(number)
        return value

    def compared(self, number: int, a: Any, op: str, b: Any) -> Any:
        """Return what a comparison says; where both are equal its boundary decides alone.

        Arrays are equal where any of their elements are.
        """
        if self.dropped == number:
            return _COMPARE[_BOUNDARY[op]](a, b)
        if self.dropped < 0 and not self.quiet and number not in self.alone:
            equal = a == b
            if equal is True or (isinstance(equal, np.ndarray) and equal.any()):
                self.alone.add(number)
        return _COMPARE[op](a, b)

    def kept(self, number: int, value: Any) -> Any:
        """Return a truth that is kept, and note its value; anything else is as it was."""
        return self(number, value) if isinstance(value, (bool, np.bool_)) else value

    def quantified(self, number: int, name: str, items: Iterable[Any]) -> bool:
        """Return what ``any`` or ``all`` says of items, and note where the other says otherwise."""
        said, other = (any, all) if name == "any" else (all, any)
        if self.dropped == number:
            return other(items)
        if self.dropped >= 0 or self.quiet or number in self.alone:
            return said(items)
        seen = list[bool]()

        def noted() -> Iterator[bool]:
            for item in items:
                seen.append(bool(item))
                yield seen[-1]

        rest = noted()
        found = said(rest)
        if not seen or (found is (name == "any") and self._differs(found, seen, rest)):
            self.alone.add(number)
        return found

    def runs(self, number: int) -> bool:
        """Return whether a statement is to run, and note that it does."""
        if self.dropped < 0 and not self.quiet:
            self.alone.add(number)
        return self.dropped != number

    def next_case(self) -> frozenset[int]:
        """Count the terms of the case at hand and return them; the next case has none yet."""
        found = frozenset(self.alone)
        self.met.update(found)
        self.alone.clear()
        return found

    def _lets(self, number: int, rest: Callable[[], Any]) -> bool:
        """Return whether the other terms would let the condition have its other value."""
        return self._quietly(lambda: bool(rest()) is not self.terms[number].decides)

    def _differs(self, found: bool, seen: Sequence[bool], rest: Iterator[bool]) -> bool:
        """Return whether an item is otherwise than what was found of those seen."""
        return (not found) in seen or self._quietly(lambda: (not found) in rest)

    def _quietly(self, asked: Callable[[], bool]) -> bool:
        """Return an answer for which nothing is noted; an error would show."""
        self.quiet = True
        try:
            return asked()
        except Exception:
            return True
        finally:
            self.quiet = False


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge}
)
_BOUNDARY = MappingProxyType({"Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt"})


class Counted(ast.NodeTransformer):
    """Lets the conditions in functions of a file call the counts."""

    def __init__(self, file: str, counts: Counts) -> None:
        self._file, self._counts, self._inside = file, counts, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Count in the body of a function, and nowhere else."""
        inside, self._inside = self._inside, True
        node.body = [self.visit(s) for s in node.body]
        self._inside = inside
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Count each term, with those after it as they were."""
        if not self._inside:
            return node
        conjunction = isinstance(node.op, ast.And)
        terms: list[ast.expr] = []
        for i, term in enumerate(node.values):
            if isinstance(term, ast.Constant):  # stands in for what is empty
                terms.append(term)
                continue
            after = [x for x in node.values[i + 1 :] if not isinstance(x, ast.Constant)]
            rest = (
                ast.BoolOp(node.op, after) if len(after) > 1
                else after[0] if after else ast.Constant(conjunction)
            )  # fmt: skip
            terms.append(self._call(term, (not conjunction,), _function(_copied(rest))))
        return ast.copy_location(ast.BoolOp(node.op, terms), node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Count a call or a ``yield`` that is a statement."""
        changes = isinstance(node.value, (ast.Call, ast.Yield, ast.YieldFrom))
        if changes and ast.unparse(node.value).startswith("assert_never("):
            return node
        return self._statement(node, changes)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Count a change of a variable."""
        return self._statement(node, changes=True)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Count a change of an element or an attribute."""
        places = (ast.Subscript, ast.Attribute)
        return self._statement(node, all(isinstance(t, places) for t in node.targets))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Count nothing in what holds anyway."""
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Count an ``any`` or ``all`` that the other would answer otherwise."""
        text = ast.unparse(node)
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if not (self._inside and name in ("any", "all")):
            return node
        number = self._number(node, True, f"the other of {text}")
        return self._asked("quantified", number, node, ast.Constant(name), *node.args)

    def visit_While(self, node: ast.While) -> ast.AST:
        """Count only boundaries in the test of a loop, which would not end without it."""
        node.test = self._within(node.test)
        node.body = [self.visit(s) for s in node.body]
        node.orelse = [self.visit(s) for s in node.orelse]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Count both values of a negation that is kept."""
        if self._inside and isinstance(node.op, ast.Not):
            return self._kept(node)
        self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        """Count both values of a test of one term."""
        node.test = self._test(node.test)
        node.body = [self.visit(s) for s in node.body]
        node.orelse = [self.visit(s) for s in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Count both values of a choice of one term."""
        choice = self._test(node.test), self.visit(node.body), self.visit(node.orelse)
        return ast.copy_location(ast.IfExp(*choice), node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Count both values of each test of a comprehension."""
        node.iter = self.visit(node.iter)
        node.ifs = [self._test(test) for test in node.ifs]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """Count both values of a guard of one term."""
        node.guard = node.guard and self._test(node.guard)
        node.body = [self.visit(s) for s in node.body]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Count both values of a comparison that is kept."""
        return self._kept(node) if self._inside else node

    def _kept(self, node: ast.expr) -> ast.AST:
        text = ast.unparse(node)
        number, _ = [self._number(node, value, f"kept {text}") for value in (True, False)]
        return self._asked("kept", number, node, self._within(node))

    def _within(self, test: ast.expr) -> ast.expr:
        """Count inside of a test that is counted itself: of a comparison where sides are equal."""
        match test:
            case ast.UnaryOp(ast.Not(), inner):
                test.operand = self._within(inner)
            case ast.Compare(left, [op], [right]) if type(op).__name__ in _COMPARE and self._inside:
                number = self._number(test, True, f"boundary of {ast.unparse(test)}")
                name = ast.Constant(type(op).__name__)
                sides = self.visit(left), name, self.visit(right)
                return self._asked("compared", number, test, *sides)
            case ast.Compare():
                self.generic_visit(test)
            case _:
                found: ast.expr = self.visit(test)
                return found
        return test

    def _statement(self, node: ast.stmt, changes: bool) -> ast.AST:
        text = ast.unparse(node)
        self.generic_visit(node)
        if not (self._inside and changes):
            return node
        number = self._number(node, True, f"statement {text}"[:120])
        return ast.copy_location(ast.If(self._asked("runs", number, node), [node], []), node)

    def _asked(
        self, method: str, number: int, node: ast.stmt | ast.expr, *rest: ast.expr
    ) -> ast.expr:
        """Return a call of a method of the counts, with the number of a term."""
        called = ast.Attribute(ast.Name(_NAME, ast.Load()), method, ast.Load())
        return ast.copy_location(ast.Call(called, [ast.Constant(number), *rest], []), node)

    def _test(self, test: ast.expr) -> ast.expr:
        """Count both values of a test, unless its own terms are counted."""
        if not self._inside or isinstance(test, ast.BoolOp):
            found: ast.expr = self.visit(test)
            return found
        return self._call(test, (True, False))

    def _number(self, term: ast.stmt | ast.expr, decides: bool, text: str) -> int:
        self._counts.terms.append(Term(self._file, term.lineno, text, decides))
        return len(self._counts.terms) - 1

    def _call(self, term: ast.expr, decide: tuple[bool, ...], *rest: ast.expr) -> ast.expr:
        text = ast.unparse(term)
        number, *_ = [self._number(term, value, text) for value in decide]
        inner = self._within(term)
        call = ast.Call(ast.Name(_NAME, ast.Load()), [ast.Constant(number), inner, *rest], [])
        return ast.copy_location(call, term)


def _function(body: ast.expr) -> ast.expr:
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(nothing, body)


def _copied(tree: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(tree), mode="eval").body


def count(counts: Counts, planter: Planter, folders: tuple[str, ...]) -> None:
    """Let the conditions of some folders of the compiler call counts, in this process for good."""
    setattr(builtins, _NAME, counts)
    for folder in folders:
        for path in sorted((ROOT / "codegen" / folder).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            source = path.read_text(encoding="utf-8")
            tree = Counted(file.removeprefix("codegen/"), counts).visit(ast.parse(source))
            planter.change(file, source, ast.fix_missing_locations(tree))


class _EnoughError(Exception):
    """The campaign has had its time."""


def campaign(counts: Counts, seed: int, seconds: float, names: tuple[str, ...]) -> tuple[int, str]:
    """Run a campaign in this process; return how many cases it had, and a finding, if any."""
    registry: Any = importlib.import_module("didyma.fuzz.domains.registry")
    module: Any = importlib.import_module("didyma.fuzz.campaign")
    executor: Any = importlib.import_module("didyma.fuzz.executor")
    worker: Any = importlib.import_module("didyma.fuzz.worker")
    end = time.process_time() + seconds
    drawn = worker.Opened.drawn
    cases, wrong = 0, ""

    def counted(opened: Any, *given: Any) -> Any:
        nonlocal cases, wrong
        if time.process_time() > end:
            raise _EnoughError
        case, outcome = drawn(opened, *given)
        counts.next_case()
        cases += 1
        if outcome.findings and not wrong:
            wrong = f"{opened.domain.name} {given[1]}: {outcome.findings[0]}"
        return case, outcome

    domains = registry.make(registry.Setup(("host", "simt")), names)
    with mock.patch.object(worker.Opened, "drawn", counted):
        try:
            plan = module.Plan(domains, seed=seed, shrink_seconds=0.0, kept=True)
            module.run(plan, executor=executor.InlineExecutor())
        except _EnoughError:
            pass
    return cases, wrong


def report(counts: Counts) -> Iterator[str]:
    """Yield the terms that never decided alone, and how many did by folder."""
    terms = [(t, counts.met[i]) for i, t in enumerate(counts.terms)]
    yield from (f"never: {t}" for t, met in terms if not met)
    yield from (f"once:  {t}" for t, met in terms if met == 1)
    for folder in dict.fromkeys(t.file.partition("/")[0] for t, _ in terms):
        some = [met for t, met in terms if t.file.startswith(f"{folder}/")]
        yield f"{folder}: {sum(map(bool, some))} of {len(some)} decided alone"


def main(
    seed: int = 11,
    seconds: Annotated[float, typer.Option(help="Processor time of the campaign.")] = 60.0,
    domain: Annotated[
        list[str] | None, typer.Option(help="A domain; all if none is given.")
    ] = None,
    folder: Annotated[
        list[str] | None, typer.Option(help="A folder of codegen; four of them if none is given.")
    ] = None,
) -> None:
    """Report which terms of conditions decided alone in a campaign."""
    sys.setrecursionlimit(20_000)
    import_all()
    planter = Planter()

    def work(_: int, say: Say) -> None:
        counts = Counts()
        count(counts, planter, tuple(folder or FOLDERS))
        cases, wrong = campaign(counts, seed, seconds, tuple(domain or ()))
        lines = [*report(counts), f"{cases} cases"]
        say([*lines, f"wrong: {wrong}"] if wrong else lines)

    (ended,) = forked([0], work, 1, patience=300 + 60 * seconds)
    if not ended.said:
        raise RuntimeError(f"the campaign ended by {ended.how}")
    print("\n".join(ended.said[0]))


if __name__ == "__main__":
    typer.run(main)
