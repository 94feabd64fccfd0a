"""The codes of errors that the source can raise, read from its syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ERRORS = (
    "DidymaError", "EngineMissing", "NotConstant", "Refused", "ShapeMismatch", "UnknownName",
    "WorkerStartError",
)  # fmt: skip


@cache
def raised(root: Path, packages: tuple[str, ...]) -> frozenset[str]:
    """Return every code that is written where an error is made.

    A function that makes an error of a code it is given (its parameter is called ``code``) counts
    as one itself, wherever it is called by that name.
    """
    trees = [
        ast.parse(path.read_text(encoding="utf-8"))
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    ]
    makers: dict[str, int] = dict.fromkeys(ERRORS, 0)
    for tree in trees:
        makers.update(_makers(tree))
    return frozenset(code for tree in trees for code in _codes(tree, makers))


def _makers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield functions with a parameter ``code``, and its position without ``self``."""
    for f in ast.walk(tree):
        if isinstance(f, ast.FunctionDef):
            names = [a.arg for a in f.args.args if a.arg not in ("self", "cls")]
            if "code" in names and f.name not in ("__init__", "_rebuild"):
                yield f.name, names.index("code")


def _codes(tree: ast.AST, makers: dict[str, int]) -> Iterator[str]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else None
        if isinstance(call.func, ast.Name):
            name = call.func.id
        at = makers.get(name or "")
        if at is not None and len(call.args) > at:
            choice = call.args[at]
            both = (choice.body, choice.orelse) if isinstance(choice, ast.IfExp) else (choice,)
            for code in both:
                if isinstance(code, ast.Constant) and isinstance(code.value, str):
                    yield code.value
