"""Whether a planted mutant is executed: a call is put in front of its statement."""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.mutants.mutant import Mutant
from tests.mutants.prelude import definitions

_NAME = "__mutant_executed__"


@dataclass(slots=True)
class Mark:
    """Tells whether the mutant of this process was executed since it was last asked.

    Of a mutant that no call can be put in front of, as at module level, this is always so.
    """

    always: bool = True
    executed: bool = False

    def __call__(self) -> None:
        """Note that the mutant is executed."""
        self.executed = True

    def take(self) -> bool:
        """Return whether it was executed, and forget that it was."""
        was, self.executed = self.executed or self.always, False
        return was

    def code(self, m: Mutant) -> ast.Module:
        """Return a mutant of Python as a tree that calls this mark."""
        tree = ast.parse(m.mutated)
        body, at = statement(tree, m.mutated, m.site.start)
        if body:
            call = ast.Expr(ast.Call(ast.Name(_NAME, ast.Load()), [], []))
            ast.copy_location(call, body[at])
            body.insert(at, ast.fix_missing_locations(call))
            setattr(builtins, _NAME, self)
            self.always = False
        return tree

    def units(self, m: Mutant) -> None:
        """Be called where the host compiles C that uses what a mutant of the prelude changes."""
        from didyma.codegen.runtime.tinycc import TinyCC

        used = [p for line, p in definitions(m.source) if line == m.reach_line]
        pattern = re.compile("|".join(p.pattern for p in used))  # of the driver, all uses
        compile_ = TinyCC.compile

        def noted(compiler: TinyCC, source: str, *rest: Any) -> Any:
            self.executed = self.executed or bool(pattern.search(source))
            return compile_(compiler, source, *rest)

        mock.patch.object(TinyCC, "compile", noted).start()
        self.always = False


def statement(tree: ast.Module, source: str, at: int) -> tuple[list[ast.stmt], int]:
    """Return the innermost statement of a function that holds a place, in the list it is in.

    An empty list if the place is outside functions.
    """
    line = source.count("\n", 0, at) + 1
    place = line, len(source[source.rfind("\n", 0, at) + 1 : at].encode())
    found: tuple[list[ast.stmt], int] = [], 0
    node: ast.AST | None = tree
    inside = False
    while node is not None:
        inside = inside or isinstance(node, ast.FunctionDef)
        here, node = node, None
        for body in _bodies(here):
            for i, s in enumerate(body):
                if (s.lineno, s.col_offset) <= place <= (s.end_lineno or 0, s.end_col_offset or 0):
                    node = s
                    if inside:
                        found = body, i
    return found


def _bodies(node: ast.AST) -> list[list[ast.stmt]]:
    """Return the lists of statements in a node, those of its handlers and cases among them."""
    lists: list[list[Any]] = [getattr(node, f, []) for f in ("body", "orelse", "finalbody")]
    parts: list[ast.AST] = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
    return [x for x in lists if x] + [body for part in parts for body in _bodies(part)]
