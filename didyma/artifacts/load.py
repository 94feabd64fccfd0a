"""Load an artifact into this process: what runs are the bytes that were checked."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from didyma.artifacts import manifest
from didyma.artifacts.manifest import HOST, Artifact, check
from didyma.codegen.runtime.modules import coded
from didyma.refimpl.errors import DidymaError

_RUNTIME = "didyma_runtime"


@dataclass(frozen=True, slots=True)
class Loaded:
    """An artifact that runs on a target.

    ``module`` has the names of its module, ``runtime`` those of its package.
    """

    artifact: Artifact
    target: str
    module: Mapping[str, Any]
    runtime: Any

    def __call__(self, args: list[Any], **asked: Any) -> list[Any]:
        """Return the results for a list of arrays, which is emptied.

        What is ``asked`` is as in ``call`` of the module: ``finite``, ``strict``, ``watch``,
        ``around``, ``synchronous``.  What the module refuses is a DidymaError.
        """
        return self._results(self.module["call"], args, **asked)

    def walk(self, args: list[Any]) -> list[Any]:
        """Return the same by way of the program's JSON, line by line, without the module."""
        walk = import_module(f"{self.runtime.__name__}.walk")
        (name,) = self.artifact.named("program", self.target)
        folder = name.removesuffix(Path(name).name)

        def others(name: str, what: str) -> bytes:
            del what
            return self.artifact.files[folder + name]

        return self._results(walk.read(self.artifact.files[name], others), args)

    def _results(self, run: Callable[..., Any], args: list[Any], **asked: Any) -> list[Any]:
        try:
            results: list[Any] = run(args, **asked)
        except self.runtime.Refused as e:
            refused = coded(e)
        else:
            return results
        raise refused  # here, where it does not hold the variables of the module


def load(folder: Path, target: str = "") -> Loaded:
    """Check an artifact and load it for a target: ``host`` where it has it, else its first.

    Nothing is run but the module and its package, as the manifest names them.  Errors: as of
    ``check``; ``unknown-target`` for one that the artifact is not built for.
    """
    artifact = check(folder)
    targets = list(artifact.manifest["targets"])
    target = target or (HOST if HOST in targets else targets[0])
    if target not in targets:
        raise DidymaError(
            "unknown-target", f"--target {target}", got=target,
            want=f"one of {', '.join(targets)}", help="didyma build FILE --target builds for more",
        )  # fmt: skip
    runtime = _package(artifact, target)
    (name,) = artifact.named("module", target)
    path = str(folder.resolve() / name)

    def imported(wanted: str, *more: Any) -> Any:
        return runtime if wanted == _RUNTIME else builtins.__import__(wanted, *more)

    space: dict[str, Any] = {
        "__name__": name,
        "__file__": path,
        "__builtins__": {**vars(builtins), "__import__": imported},
    }
    exec(compile(artifact.files[name], path, "exec"), space)
    return Loaded(artifact, target, space, runtime)


class _Checked(MetaPathFinder, InspectLoader):
    """Finds modules among texts that were checked, by their full names."""

    def __init__(self, package: str, texts: Mapping[str, str]) -> None:
        self._package, self._texts = package, texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        whole = fullname == self._package
        known = fullname in self._texts
        return spec_from_loader(fullname, self, is_package=whole) if known else None

    def get_source(self, fullname: str) -> str:
        return self._texts[fullname]

    def is_package(self, fullname: str) -> bool:
        return fullname == self._package


def _package(artifact: Artifact, target: str) -> ModuleType:
    """Import the package of an artifact under a name of its own: that of its bytes."""
    files = {name: artifact.files[name] for name in artifact.named("runtime", target)}
    package = "didyma_runtime_" + manifest.sha256(b"\0".join(files[n] for n in sorted(files)))[:16]
    texts = {
        f"{package}.{Path(name).stem}".removesuffix(".__init__"): data.decode()
        for name, data in files.items()
    }
    finder = _Checked(package, texts)
    sys.meta_path.insert(0, finder)
    try:
        for name in texts:
            import_module(name)
        return import_module(package)
    finally:
        sys.meta_path.remove(finder)
