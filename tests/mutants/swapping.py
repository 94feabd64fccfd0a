"""Mutants of functions, planted in a process that takes them back and plants the next one.

Only the functions that differ get other code (``tests/mutants/planting.py`` imports modules again
where that is not enough, which no process takes back).  Of a file just the statement at module
level that holds a mutant is compiled, so that planting takes a millisecond.
"""

from __future__ import annotations

import ast
import functools
import gc
import os
from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, TypeAlias

from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.planting import Key, changed, key

Swap: TypeAlias = tuple[FunctionType, CodeType]
_FLAGS = annotations.compiler_flag


@functools.cache
def _caches() -> Sequence[Any]:
    every: list[Any] = [f for f in gc.get_objects() if type(f).__name__ == "_lru_cache_wrapper"]
    return [f for f in every if f.__module__.startswith(("didyma.codegen", "didyma.fuzz.domains"))]


def find_caches() -> None:
    """Find what ``forget_results`` empties; to be called before objects are frozen, which hides."""
    _caches()


def forget_results() -> None:
    """Empty the caches of functions, which hold what the compiler made without a mutant."""
    for cache in _caches():
        cache.cache_clear()


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement at module level: where its text is, its first line, and its compiled code."""

    start: int
    end: int
    line: int
    code: CodeType


@functools.cache
def _statements(file: str, source: str) -> Sequence[_Statement]:
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    found: list[_Statement] = []
    for s in ast.parse(source).body:
        if isinstance(s, ast.FunctionDef | ast.ClassDef):
            first = min((d.lineno for d in s.decorator_list), default=s.lineno)
            start, end = starts[first - 1], starts[s.end_lineno or first]
            found.append(_Statement(start, end, first, _compiled(file, source[start:end], first)))
    return found


def _compiled(file: str, text: str, line: int) -> CodeType:
    path = os.path.realpath(ROOT / file)
    code: CodeType = compile(
        "\n" * (line - 1) + text, path, "exec", flags=_FLAGS, dont_inherit=True
    )
    return code


def swaps(m: Mutant, functions: Mapping[Key, Sequence[FunctionType]]) -> Sequence[Swap]:
    """Return which functions get which code with a mutant.

    None do where it does not compile, has the bytecode of the original, or is at module level.
    """
    every = _statements(m.file, m.source)
    at = bisect_right([s.start for s in every], m.site.start) - 1
    if at < 0 or m.site.end > every[at].end:
        return ()
    s = every[at]
    text = m.source[s.start : m.site.start] + m.site.new + m.source[m.site.end : s.end]
    try:
        change = changed(s.code, _compiled(m.file, text, s.line))
    except (SyntaxError, ValueError):
        return ()
    return [
        (f, after.replace(co_filename=f.__code__.co_filename))
        for before, after in (change or {}).items()
        for f in functions.get(key(before), ())
    ]


@contextmanager
def planted(some: Sequence[Swap]) -> Generator[None]:
    """Let functions have other code for a while; no cache holds what the other code made."""
    before = [(f, f.__code__) for f, _ in some]
    try:
        for f, code in some:
            f.__code__ = code
        forget_results()
        yield
    finally:
        for f, code in before:
            f.__code__ = code
        forget_results()
