"""What an artifact holds for a GPU: machine code, its texts, and a loader in C++."""

from __future__ import annotations

from typing import Any

from didyma.artifacts import externs
from didyma.artifacts.code import Code
from didyma.artifacts.manifest import sha256
from didyma.artifacts.runtime import MODULE, runtime
from didyma.codegen.devices import named
from didyma.codegen.emit import wrapper
from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.emit.cpp_program import HEADER, LAYER, LOADER, Cpp, layer
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.text import show
from didyma.texts import with_files

CUBIN = "kernels.cubin"
# The oldest drivers that run code of any minor version of a toolkit, by its major version:
# CUDA Compatibility, "Minor Version Compatibility".
DRIVERS = {"11": "450.80.02", "12": "525.60.13", "13": "580"}


def contents(
    c: Compiled, machine_code: Code | None, architecture: str, buckets: Buckets | None = None
) -> tuple[dict[str, tuple[str, bytes]], dict[str, Any]]:
    """Return the files for an architecture, as role and bytes by name, and what is known of it.

    ``machine_code`` are the kernels for the CPU, where values are there.  A program of several
    devices has no loader in C++.  DidymaError ``target-lacks`` for kernels that are given numbers,
    ``artifact-extern``, ``kernel-text``; EngineMissing without NVRTC.
    """
    if numbers := [s.name for s in c.text.kernels if s.scalars]:
        raise DidymaError(
            "target-lacks", numbers[0], got="a kernel that is given numbers",
            want="kernels that are given buffers and sizes",
        )  # fmt: skip
    externs.none(c, architecture)
    compiler = NvrtcCompiler(architecture)
    p, found = c.program, dict[str, tuple[str, bytes]]()
    objects: dict[str, tuple[str, str]] = {}
    if c.text.kernels:
        cubin = compiler.compile(c.text)
        found[CUBIN] = "kernels", cubin.code
        found["kernels.ptx"] = "text", cubin.ptx.encode()
        found["kernels.cu"] = "text", compiler.source(c.text).encode()
        objects[architecture] = CUBIN, sha256(cubin.code)
    devices = named(p)
    if machine_code:
        found[machine_code.file] = "kernels", machine_code.data
        objects |= machine_code.objects
    weights = wrapper.weights_table(p)
    name, digest, offsets = weights
    if p.constants:
        found[name] = "constants", wrapper.weights(p)
    code = objects.get(architecture, ("", ""))[1]
    if not devices:
        cpp = Cpp(p, c.text, architecture, code, name, digest, offsets, buckets)
        found[HEADER] = "text", cpp.header().encode()
        found[LOADER] = "text", cpp.loader().encode()
        found[LAYER] = "text", layer().encode()
    found["program.json"] = (
        "program",
        (program_json(p, c.text, objects, weights, buckets=buckets).encode()),
    )
    module = wrapper.emit(p, c.text, embedded=0, objects=objects, buckets=buckets)
    found[MODULE] = "module", module.encode()
    found |= {name: ("runtime", data) for name, data in runtime().items()}
    constants: dict[str, bytes] = {}
    found["program.dym"] = "text", with_files(show(p), constants).encode()
    found |= {k: ("text", data) for k, data in constants.items()}
    major = compiler.version.split(".")[0]
    about: dict[str, Any] = {
        "architecture": architecture,
        "cuda": compiler.version,
        "driver": DRIVERS[major],
        **({"compiler": machine_code.compiler} if machine_code else {}),
    }
    return found, about
