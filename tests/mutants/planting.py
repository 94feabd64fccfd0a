"""Plant a mutant in the running process, which is a child that ends after it.

A change inside functions is planted by giving every function object of that code the changed code,
so that references held anywhere see the mutant.  Where the change is one of module level, or of a
function that ran while modules were imported, the modules that may hold a result of it are imported
again.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeAlias
from unittest import mock

from tests.mutants.marking import Mark
from tests.mutants.mutant import ROOT, Mutant

Key: TypeAlias = tuple[str, str, int]  # file, qualified name, first line

_OPTIMISED = 0x3  # flags of the code of a function, which a module and a class have not
# What imports nothing that is mutated, unless a file of its own is.
_STAYS = ("didyma.refimpl", "didyma.oracle", "didyma.composites", "didyma.onnx")


def key(code: CodeType) -> Key:
    """Return where a code object comes from."""
    return os.path.realpath(code.co_filename), code.co_qualname, code.co_firstlineno


def functions() -> dict[Key, list[FunctionType]]:
    """Return every function object of the checkout that there is, by where it comes from."""
    found: dict[Key, list[FunctionType]] = {}
    root = str(ROOT.resolve()) + os.sep
    files: dict[str, str] = {}
    for f in gc.get_objects():
        if type(f) is FunctionType:
            code = f.__code__
            file = files.get(code.co_filename)
            if file is None:
                file = files[code.co_filename] = os.path.realpath(code.co_filename)
            if file.startswith(root):
                found.setdefault((file, code.co_qualname, code.co_firstlineno), []).append(f)
    return found


def changed(old: CodeType, new: CodeType) -> dict[CodeType, CodeType] | None:
    """Return the functions whose code differs, old to new; None if module level differs.

    Positions of the code do not count, so the result is empty for identical bytecode.
    """
    found: dict[CodeType, CodeType] = {}
    if not _same_shell(old, new):
        if old.co_flags & _OPTIMISED != _OPTIMISED or old.co_freevars != new.co_freevars:
            return None
        found[old] = new
    function = old.co_flags & _OPTIMISED == _OPTIMISED
    for a, b in zip(_nested(old), _nested(new), strict=False):
        below = changed(a, b)
        if below is None and not function:
            return None
        if function and below != {}:
            found[old] = new  # what it makes next is to have the changed code
        found.update(below or {})
    return found


def _nested(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def _same_shell(a: CodeType, b: CodeType) -> bool:
    """Return whether two code objects are the same but for positions and for the code inside."""
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags",
             "co_argcount", "co_kwonlyargcount", "co_posonlyargcount", "co_exceptiontable",
             "co_name", "co_qualname")  # fmt: skip
    if any(getattr(a, n) != getattr(b, n) for n in names) or len(_nested(a)) != len(_nested(b)):
        return False

    def constants(c: CodeType) -> list[str]:
        return ["code" if isinstance(k, CodeType) else f"{type(k)}{k!r}" for k in c.co_consts]

    return constants(a) == constants(b)


def identical(m: Mutant) -> bool:
    """Return whether a mutant of Python has the bytecode of the original."""
    if not m.file.endswith(".py"):
        return False
    old, new = (compile(t, m.file, "exec", dont_inherit=True) for t in (m.source, m.mutated))
    return changed(old, new) == {}


def compiles(m: Mutant) -> bool:
    """Return whether a mutant of Python compiles; others always count as compiling."""
    if m.file.endswith(".py"):
        try:
            compile(m.mutated, m.file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


class Planter:
    """Plants mutants in children of a process whose modules are as they were imported.

    ``at_import`` are the functions that run while modules are imported.
    """

    def __init__(self, at_import: frozenset[Key] = frozenset()) -> None:
        self._functions = functions()
        self._at_import = at_import
        self._scopes = {(file, name.partition(".<")[0]) for file, name, _ in at_import}

    def at_import(self, m: Mutant) -> bool:
        """Return whether the function of a mutant ran while modules were imported."""
        return (os.path.realpath(ROOT / m.file), m.site.scope) in self._scopes

    def plant(self, m: Mutant) -> Mark:
        """Change this process for good; return what tells whether the mutant is executed."""
        mark = Mark()
        if m.program >= 0:
            _plant_in_kernels(m)
            return mark
        path = os.path.realpath(ROOT / m.file)
        if not m.file.endswith(".py"):
            _plant_in_resource(path, m.mutated)
            mark.units(m)
            return mark
        mark.always = not self.change(m.file, m.source, mark.code(m)) or mark.always
        return mark

    def change(self, file: str, source: str, tree: ast.Module) -> bool:
        """Give this process another code of a file; return whether only functions differ.

        Else the modules that may depend on it are forgotten, so that they are imported again.
        """
        path = os.path.realpath(ROOT / file)
        old = compile(source, path, "exec", dont_inherit=True)
        new = compile(tree, path, "exec", dont_inherit=True)
        change = changed(old, new)
        _plant_in_imports(path, new)
        if change is None or any(key(c) in self._at_import for c in change):
            forget(stays=() if _in_what_stays(path) else _STAYS)
            return False
        for before, after in change.items():
            for f in self._functions.get(key(before), ()):
                f.__code__ = after.replace(co_filename=f.__code__.co_filename)
        return True


def _plant_in_imports(path: str, code: CodeType) -> None:
    """Let the module of a file have other code when it is imported.

    Modules are found as usual, before hooks such as pytest's, which compile files themselves.
    """
    sys.meta_path.insert(0, PathFinder)
    original = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if os.path.realpath(self.get_filename(fullname)) == path:
            return code
        return original(self, fullname)

    mock.patch.object(SourceFileLoader, "get_code", get_code).start()


def _in_what_stays(path: str) -> bool:
    parts = Path(path).relative_to(ROOT.resolve()).parts
    return parts[0] in ("refimpl", "oracle") or parts[:2] in (
        ("didyma", "composites"), ("didyma", "onnx"),
    )  # fmt: skip


def forget(stays: tuple[str, ...] = _STAYS) -> None:
    """Forget the modules that may depend on what is mutated, so that they are imported again."""
    for name in list(sys.modules):
        ours = name.startswith("didyma.") or (
            name.startswith("tests.") and not name.startswith("tests.mutants.mut")
        )
        if ours and not any(name == s or name.startswith(f"{s}.") for s in stays):
            del sys.modules[name]


def _plant_in_resource(path: str, text: str) -> None:
    """Let every reader of a file of C read another text."""
    original = Path.read_text

    def read_text(self: Path, *args: Any, **options: Any) -> str:
        return text if os.path.realpath(self) == path else original(self, *args, **options)

    mock.patch.object(Path, "read_text", read_text).start()


def _plant_in_kernels(m: Mutant) -> None:
    """Change what is emitted wherever the text has the mutant's kernel."""
    from didyma.codegen.emit import cuda

    s = m.site
    old = m.source[s.scope_start : s.scope_end]
    at, end = s.start - s.scope_start, s.end - s.scope_start
    new = old[:at] + s.new + old[end:]
    emit = cuda.emit

    def mutated(*args: Any, **options: Any) -> Any:
        text = emit(*args, **options)
        return replace(text, source=text.source.replace(old, new))

    mock.patch.object(cuda, "emit", mutated).start()


def import_all() -> None:
    """Import the checks, and every module of codegen that can be imported here."""
    importlib.import_module("tests.mutants.checks")
    for path in sorted((ROOT / "codegen").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        with contextlib.suppress(ImportError):
            importlib.import_module(".".join(("didyma", *parts)).removesuffix(".__init__"))


def called_at_import(import_again: Callable[[], object]) -> frozenset[Key]:
    """Import everything again, and return which functions of the checkout ran meanwhile."""
    forget(())
    codes: set[CodeType] = set()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    sys.setprofile(note)
    try:
        import_again()
    finally:
        sys.setprofile(None)
    root = str(ROOT.resolve()) + os.sep
    return frozenset(k for k in map(key, codes) if k[0].startswith(root))
