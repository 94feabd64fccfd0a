"""Kernels as machine code in a file: what a module beside it loads without a compiler."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from importlib.resources import files

from didyma.codegen.emit import prelude
from didyma.codegen.runtime.host import refuse_clusters
from didyma.codegen.runtime.hosttext import assemble
from didyma.codegen.runtime.tinycc import TinyCC
from didyma.refimpl.ir.kernel import KernelText

_OWN = ("driver.c", "replay.c")  # beside the kernels
_HEADERS = struct.Struct("<32xQ14xHH")  # of an ELF file: where, size of one, how many
_EXTERN = re.compile(r"^extern (\w+) (\w+)\(", re.MULTILINE)
_FRAMES, _STACK, _READ_WRITE = 0x6474E550, 0x6474E551, 6


def shared_object(text: KernelText, only: Sequence[str] | None = None) -> bytes:
    """Return a shared object for this kind of machine with an entry for each kernel.

    It can run tapes, too, which ``didyma_runtime.replay`` records.
    DidymaError ``kernel-text`` where the text is not C, ``target-lacks`` for kernels of clusters;
    EngineMissing without TinyCC.
    """
    refuse_clusters(text)
    driver, replay = ((files(prelude) / f).read_text(encoding="utf-8") for f in _OWN)
    unit, _ = assemble(text, prelude.load("host"), driver, only)
    where = ", ".join(s.name for s in text.kernels)
    return _plain_stack(TinyCC().library(f"{_bound(unit)}\n{replay}", where))


def _bound(unit: str) -> str:
    """Return C text that calls library functions by pointers, which a loader is to set.

    The linker would bind their plain names to the oldest version that the C library keeps of each,
    of which some have other NaNs.  ``bound__`` returns the names.
    """
    names = list(dict.fromkeys((name for _, name in _EXTERN.findall(unit))))
    renamed = "".join(f"#define {name} bound_{name}__\n" for name in names)
    told = f'const char *bound__(void) {{ return "{" ".join(names)}"; }}\n'
    return renamed + told + _EXTERN.sub(r"\1 (*\2)(", unit)


def _plain_stack(data: bytes) -> bytes:
    """Return an ELF file that says that its code needs no executable stack.

    TinyCC says nothing, for which a loader assumes the worst; what the file tells of frames, which
    nothing reads, gives way.
    """
    out = bytearray(data)
    start, size, count = _HEADERS.unpack_from(data)
    for at in range(start, start + size * count, size):
        if struct.unpack_from("<I", data, at)[0] == _FRAMES:
            struct.pack_into("<II", out, at, _STACK, _READ_WRITE)
            return bytes(out)
    return data
