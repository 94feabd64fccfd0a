"""Specifications: what a kernel should compute, as a program."""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias, cast

from didyma.files import read_module
from didyma.judging.adapters import flashinfer, gpumode, kernelbench
from didyma.judging.pytorch import program_of
from didyma.refimpl.errors import DidymaError
from didyma.tracer.tracing import Program, Traceable, trace

Tell: TypeAlias = Callable[[str, DidymaError], None]
_WANT = "FILE.dym, FILE.onnx, FILE.py::NAME or FILE.json"


def load_spec(text: str | Path, tell: Tell = lambda name, why: None) -> Program:
    """Return the program of ``FILE.dym``, ``FILE.onnx``, ``FILE.py::NAME`` or ``FILE.json``.

    The name in a Python file is a program, a function whose annotations are types, or an
    ``nn.Module`` of PyTorch, whose example inputs the file's ``get_inputs()`` returns.  It may be
    left out where the file has one program, or is a task of KernelBench or GPU MODE.  JSON is a
    definition of FlashInfer-Trace.  ``tell`` is called with each other function of a Python file
    that cannot be traced, and with the error.

    Errors: ``bad-spec``, and those of reading a program.
    """
    file, _, name = str(text).partition("::")
    path = Path(file)
    if path.suffix == ".py":
        return _of_task(path, name) or _of_python(path, name, tell)
    if path.suffix == ".json":
        return flashinfer.load(path)
    if path.suffix not in (".dym", ".onnx"):
        raise DidymaError("bad-spec", str(text), got=path.suffix or "no suffix", want=_WANT)
    return Program(read_module(path))


def _of_task(path: Path, name: str) -> Program | None:
    """Return the program of a task in a format of others; None for other files."""
    text = path.read_text(encoding="utf-8-sig", errors="replace") if path.is_file() else ""
    if name in ("", "Model") and kernelbench.is_task(text):
        return kernelbench.load(path)
    if name in ("", "ref_kernel") and gpumode.is_task(text):
        return gpumode.load(path)
    return None


def _of_python(path: Path, name: str, tell: Tell) -> Program:
    found, refused = _definitions(path)
    programs = [k for k, v in found.items() if isinstance(v, Program)]
    if not name and len(programs) == 1:
        name = programs[0]
    if name in refused:
        raise refused[name]
    for other, why in refused.items():
        tell(f"{path}::{other}", why)
    if name not in found:
        raise DidymaError(
            "bad-spec", f"{path}::{name}", got=f"no {name}" if name else "no name",
            want=f"{path}::NAME with NAME of {', '.join(programs) or 'a traced function'}",
        )  # fmt: skip
    given = found[name]
    if hasattr(given, "state_dict") and callable(found.get("get_inputs")):
        signature = inspect.signature(given.forward).parameters
        examples = dict(zip(signature, found["get_inputs"](), strict=False))
        return program_of(given, examples, f"{path}::{name}", dict(given.named_parameters()))
    return as_program(given, f"{path}::{name}")


def as_program(given: Any, where: str) -> Program:
    """Return a program, or trace a function that has types; DidymaError ``bad-spec``."""
    if isinstance(given, Program):
        return given
    if callable(given) and not isinstance(given, type):
        return trace(cast("Traceable", given))
    raise DidymaError(
        "bad-spec", where, got=f"a {type(given).__name__}",
        want="a program, or a function whose annotations are types such as dd.f32[n, 4]",
    )  # fmt: skip


def load_python(
    path: Path, folders: Sequence[Path] = (), instead: Mapping[str, str] | None = None
) -> ModuleType:
    """Run a Python file and return its module; DidymaError ``unreadable-file``, ``bad-spec``.

    It may import what is in its folder, or in other ``folders``.  Some texts that stand in it have
    others ``instead``.
    """
    found, refused = _definitions(path, folders, instead or {})
    for why in refused.values():
        raise why
    module = ModuleType(path.stem)
    vars(module).update(found)
    return module


def _definitions(
    path: Path, folders: Sequence[Path] = (), instead: Mapping[str, str] = MappingProxyType({})
) -> tuple[dict[str, Any], dict[str, DidymaError]]:
    """Run a Python file; return its names, and why decorators have refused functions, by name.

    Errors as of ``load_python``.
    """
    if not path.is_file():
        raise DidymaError("unreadable-file", str(path), got="no such file", want="a Python file")
    module = ModuleType(f"_spec_{path.stem}")
    module.__file__ = str(path)
    refused: dict[str, DidymaError] = {}
    sys.modules[module.__name__] = module  # dataclasses and annotations look it up
    searched = [str(p.resolve()) for p in (path.parent, *folders)]
    sys.path[:0] = searched
    try:
        tree = _parsed(path)
        for x in ast.walk(tree):
            if isinstance(x, ast.Constant) and isinstance(x.value, str):
                x.value = instead.get(x.value, x.value)
        kept = any(isinstance(x, ast.ImportFrom) and x.module == "__future__" for x in tree.body)
        flags = __future__.annotations.compiler_flag if kept else 0
        for part in tree.body:
            alone = ast.Module([part], [])
            try:
                exec(compile(alone, str(path), "exec", flags, dont_inherit=True), vars(module))
            except (Exception, SystemExit) as e:
                if not isinstance(part, ast.FunctionDef):
                    raise _unfit(path, e) from e
                refused[part.name] = _unfit(path, e)
    finally:
        for p in searched:
            sys.path.remove(p)
    return vars(module), refused


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as e:
        raise _unfit(path, e) from e


def _unfit(path: Path, e: Exception | SystemExit) -> DidymaError:
    """Return the error of a Python file that does not run."""
    if isinstance(e, DidymaError):
        return e
    want = "a Python file that runs"
    return DidymaError("bad-spec", str(path), got=f"{type(e).__name__}: {e}", want=want)
