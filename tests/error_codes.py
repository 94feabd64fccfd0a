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
    found = [
        node
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.Call)
    ]
    makers: dict[str, int] = dict.fromkeys(ERRORS, 0)
    for f in found:
        if isinstance(f, ast.FunctionDef):
            makers.update(_makers(f))
    calls = (c for c in found if isinstance(c, ast.Call))
    return frozenset(code for c in calls for code in _codes(c, makers))


def _makers(f: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """Yield a function with a parameter ``code``, and its position without ``self``."""
    names = [a.arg for a in f.args.args if a.arg not in ("self", "cls")]
    if "code" in names and f.name not in ("__init__", "_rebuild"):
        yield f.name, names.index("code")


def _codes(call: ast.Call, makers: dict[str, int]) -> Iterator[str]:
    """Yield the codes that a call gives to a maker of errors."""
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
