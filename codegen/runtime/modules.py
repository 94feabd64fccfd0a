"""Generated modules in this process, as ``codegen.emit.wrapper`` writes them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from types import CodeType
from typing import Any

from didyma.codegen.runtime import didyma_runtime
from didyma.refimpl.errors import DidymaError, EngineMissing

Call = Callable[..., list[Any]]


def module(source: str, file: str = "wrapper") -> Mapping[str, Any]:
    """Return the names that a module's source defines, which finds other files beside ``file``.

    What its functions refuse is a DidymaError.  Errors have notes of the program's lines.
    """
    space: dict[str, Any] = {
        "__name__": "wrapper",
        "__file__": file,
        "__builtins__": {**vars(builtins), "__import__": _import},
    }
    exec(_compiled(source), space)
    located = {"run": _located(space["run"], space["LINES"])}
    names = ("upload", "call", "call_with_numel", "load")
    plain = {k: space[k] for k in names if k in space}
    return space | {k: _coded(f) for k, f in (plain | located).items()}


@lru_cache(maxsize=4)
def _compiled(source: str) -> CodeType:
    """Compile a module, which is mostly run on several engines, or loaded several times."""
    return compile(source, "<wrapper>", "exec")


def load(source: str) -> Call:
    """Return the ``run`` of a module's source."""
    run: Call = module(source)["run"]
    return run


def _import(name: str, *more: Any) -> Any:
    """Import for a module, which finds Didyma's own copy of the package beside it."""
    return didyma_runtime if name == "didyma_runtime" else builtins.__import__(name, *more)


def coded(refused: Any) -> DidymaError:
    """Return what a module refused, with its notes, as a DidymaError."""
    kind = EngineMissing if refused.code == "engine-missing" else DidymaError
    e = kind(refused.code, refused.where, refused.got, refused.want, refused.help)
    for note in getattr(refused, "__notes__", ()):
        e.add_note(note)
    return e


def _located(run: Callable[..., Any], lines: Mapping[int, Any]) -> Callable[..., Any]:
    @wraps(run)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return run(*args, **named)
        except Exception as e:
            didyma_runtime.locate(e, run, lines)
            raise

    return call


def _coded(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a module, of which an error is a DidymaError."""

    @wraps(f)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return f(*args, **named)
        except didyma_runtime.Refused as e:
            refused = coded(e)
        raise refused  # here, where it does not hold the variables of the module

    return call


flat = _coded(didyma_runtime.flat)  # with errors of Didyma's
