"""What a syntax tree of Python says, as far as mutants ask."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence


def said(f: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the names that are read by error messages alone."""
    errors = (
        n
        for n in ast.walk(f)
        if isinstance(n, ast.Raise) or (isinstance(n, ast.Call) and "Error" in name(n.func))
    )
    said = {x for n in errors for x in _read(n)}
    return frozenset({x.id for x in said} - {x.id for x in _read(f) if x not in said})


def _read(n: ast.AST) -> Iterator[ast.Name]:
    return (x for x in ast.walk(n) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load))


def name(f: ast.expr) -> str:
    """Return the name of what is called, the last part of a dotted one; empty if it has none."""
    match f:
        case ast.Name(word) | ast.Attribute(attr=word):
            return word
        case _:
            return ""


def guards(s: ast.If | ast.While) -> Sequence[str]:
    """Return what to replace a condition by.

    A loop that never ends is not tried.  Nor is a condition that always makes a function return
    None: where it may, that says that a rewrite does not apply or that nothing is known, and is
    never wrong.
    """
    if isinstance(s, ast.While):
        return ("False",)
    nothing = len(s.body) == 1 and isinstance(s.body[0], ast.Return) and is_none(s.body[0].value)
    return ("False",) if nothing else ("True", "False")


def is_none(e: ast.expr | None) -> bool:
    """Return whether an expression is the word None."""
    return isinstance(e, ast.Constant) and e.value is None


def is_text(e: ast.expr) -> bool:
    """Return whether an expression is a string."""
    return isinstance(e, ast.Constant) and isinstance(e.value, str)


def is_word(e: ast.expr, words: Container[object]) -> bool:
    """Return whether an expression is a string, one of these words."""
    return is_text(e) and isinstance(e, ast.Constant) and e.value in words
