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
    makers: dict[str, int] = dict.fromkeys(ERRORS, 0)
    given: list[tuple[str, int, str]] = []
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    makers.update(_makers(node))
                elif isinstance(node, ast.Call):
                    given += _texts(node)
    return frozenset(text for name, at, text in given if makers.get(name) == at)


def _makers(f: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """Yield a function with a parameter ``code``, and its position without ``self``."""
    names = [a.arg for a in f.args.args if a.arg not in ("self", "cls")]
    if "code" in names and f.name not in ("__init__", "_rebuild"):
        yield f.name, names.index("code")


def _texts(call: ast.Call) -> Iterator[tuple[str, int, str]]:
    """Yield the name of what is called, and the position and text of each argument that is text."""
    match call.func:
        case ast.Name(name) | ast.Attribute(attr=name):
            for at, choice in enumerate(call.args):
                both = (choice.body, choice.orelse) if isinstance(choice, ast.IfExp) else (choice,)
                for text in both:
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        yield name, at, text.value
        case _:
            pass
