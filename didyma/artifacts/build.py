"""Build an artifact: a folder with the module of a program and all that it needs to run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from didyma.artifacts import externs, gpu, manifest
from didyma.artifacts.code import Code, compile_kernels
from didyma.artifacts.manifest import HOST as HOST
from didyma.artifacts.runtime import MODULE, runtime
from didyma.codegen.devices import named
from didyma.codegen.emit import wrapper
from didyma.codegen.emit.binding import given_dims
from didyma.codegen.emit.buckets import Buckets, own_inputs
from didyma.codegen.emit.names import sanitise
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.options import EMBEDDED
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime import disk
from didyma.refimpl.errors import DidymaError, reason
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.aliases import Alias, aliases
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.text import show
from didyma.refimpl.version import VERSION
from didyma.texts import with_files

PROGRAM = "program.json"


@dataclass(frozen=True, slots=True)
class Target:
    """A program compiled for a target, with what its judge found and which schedules were picked.

    Both are JSON.  ``code`` are its kernels compiled; TinyCC does it where it is None.  Inputs are
    padded to ``buckets``, for which the program was compiled, if there are any.
    """

    compiled: Compiled
    verdict: bytes = b""
    choices: bytes = b""
    code: Code | None = None
    buckets: Buckets | None = None


def contents(targets: Mapping[str, Target]) -> dict[str, bytes]:
    """Return the files of an artifact by name, its manifest among them.

    ``targets`` are ``host``, whose files stand in the folder itself, and architectures of GPUs,
    each with a folder of its name.

    DidymaError ``artifact-extern`` where the program calls routines that it cannot carry;
    ``target-lacks``, ``kernel-text`` and EngineMissing as of ``shared_object`` and NVRTC.
    """
    found: dict[str, tuple[str, bytes]] = {}
    about: dict[str, Any] = {}
    target = next(iter(targets.values()))
    first = target.compiled
    constants: dict[str, bytes] = {}
    found["graph.dym"] = "text", with_files(show(first.source), constants).encode()
    found |= {name: ("text", data) for name, data in constants.items()}
    for name, t in targets.items():
        prefix = "" if name == HOST else f"{name}/"
        machine_code = t.code or compile_kernels(t.compiled, name)
        files_of = _host if name == HOST else partial(gpu.contents, architecture=name)
        made, about[name] = files_of(t.compiled, machine_code, buckets=t.buckets)
        found |= {f"{prefix}{k}": entry for k, entry in made.items()}
        found[f"{prefix}verdict.json"] = "verdict", t.verdict
        found[f"{prefix}choices.json"] = "text", t.choices
    machines = about.get(HOST, {}).get("machines", [])
    known = {**_described(first, target.buckets), "machines": machines, "targets": about}
    return {name: data for name, (_, data) in found.items()} | {
        manifest.NAME: manifest.sealed(known, found)
    }


def _host(
    c: Compiled, machine_code: Code | None, buckets: Buckets | None
) -> tuple[dict[str, tuple[str, bytes]], dict[str, Any]]:
    """Return the files for the kind of machine that this is, and what is known of them."""
    p = c.program
    if far := [d for d in named(p) if not d.startswith("host:")]:
        raise DidymaError(
            "device-unsupported", f"target {HOST}", got=f"values on {', '.join(far)}",
            want="devices host:N", help="build it for a GPU, such as --target sm_90a",
        )  # fmt: skip
    found, carried = externs.contents(c)
    objects: dict[str, tuple[str, str]] = {}
    if machine_code:
        objects = machine_code.objects
        found[machine_code.file] = "kernels", machine_code.data
    module = wrapper.emit(p, c.text, objects=objects, externs=carried, buckets=buckets)
    found[MODULE] = "module", module.encode()
    weights = None
    if sum(len(t.data) for _, t in p.constants) > EMBEDDED:
        weights = wrapper.weights_table(p)
        found[wrapper.weights_file(p)] = "constants", wrapper.weights(p)
    text = program_json(p, c.text, objects, weights, carried, buckets)
    found[PROGRAM] = "program", text.encode()
    for name, data in runtime().items():
        found[name] = "runtime", data
    constants: dict[str, bytes] = {}
    found["kernels.cu"] = "text", c.text.source.encode()
    found["program.dym"] = "text", with_files(show(p), constants).encode()
    found |= {name: ("text", data) for name, data in constants.items()}
    return found, machine_code.about if machine_code else {"machines": []}


def require_place(folder: Path) -> None:
    """Raise ``unwritable`` unless an artifact may be written as this folder."""
    disk.must_have_folder(folder)
    if folder.exists() and not (folder / manifest.NAME).is_file() and any(_inside(folder)):
        raise DidymaError(
            "unwritable", str(folder), got="a file, or a folder of something else",
            want="a new folder, an empty one, or an artifact to replace",
        )  # fmt: skip


def write(folder: Path, found: Mapping[str, bytes]) -> None:
    """Write an artifact, in the place of one that is there: all of it, or nothing.

    DidymaError ``unwritable`` where something else is there, or the folder cannot be written.
    """
    require_place(folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as staged:
            made = Path(staged) / "new"
            for name, data in found.items():
                path = made / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            if folder.exists():
                os.rename(folder, Path(staged) / "old")
            os.rename(made, folder)
    except OSError as e:
        raise DidymaError(
            "unwritable", str(folder), got=reason(e), want="a folder that takes files",
            help="name another folder, or mend its permissions",
        ) from e  # fmt: skip


def _inside(folder: Path) -> list[Any]:
    return list(folder.iterdir()) if folder.is_dir() else [folder]


def _described(c: Compiled, buckets: Buckets | None) -> dict[str, Any]:
    p = c.program
    types, found = p.type, {a.number: a for a in aliases(p)}

    def values(names: Sequence[str], shapes: Sequence[Sequence[Dim]]) -> list[dict[str, Any]]:
        return [
            {"name": sanitise(v), "dtype": str(types[v].dtype), "shape": [*map(dims.text, shape)]}
            for v, shape in zip(names, shapes, strict=True)
        ]

    own = own_inputs(p, buckets)
    shapes = buckets.results if buckets else [types[v].shape for v in p.results]

    return {
        "didyma": VERSION,
        "program": p.name,
        "inputs": values(own, [types[v].shape for v in own]),
        "outputs": [
            {**about, "alias": _alias(found[i])} if i in found else about
            for i, about in enumerate(values(p.results, shapes))
        ],
        "sizes": {d.name: [str(d.lo), str(d.hi)] for d in given_dims(p)},
        **({"buckets": dict(buckets.sizes)} if buckets else {}),
    }


def _alias(a: Alias) -> dict[str, Any]:
    """Return what an output shows; strides and offset count elements, and are None of a whole."""
    strides = None if a.strides is None else [dims.text(s) for s in a.strides]
    kind = "input" if a.is_input else "value"
    return {kind: sanitise(a.of), "strides": strides, "offset": dims.text(a.offset)}
