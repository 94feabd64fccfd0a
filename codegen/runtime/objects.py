"""Kernels as machine code in a file: what a module beside it loads without a compiler."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files

from didyma.codegen.emit import prelude
from didyma.codegen.runtime.compiler import CCompiler
from didyma.codegen.runtime.fast.units import Unit, units
from didyma.codegen.runtime.hosttext import assemble
from didyma.codegen.runtime.tinycc import TinyCC
from didyma.refimpl.ir.kernel import KernelText

_OWN = ("driver.c", "replay.c", "blocks.c")  # beside the kernels
_HEADERS = struct.Struct("<32xQ14xHH")  # of an ELF file: where, size of one, how many
_EXTERN = re.compile(r"^extern (\w+) (\w+)\((.*)\);$", re.MULTILINE)
_FRAMES, _STACK, _READ_WRITE = 0x6474E550, 0x6474E551, 6


def shared_object(
    text: KernelText,
    only: Sequence[str] | None = None,
    compiler: CCompiler | None = None,
    done: Callable[[], object] = lambda: None,
) -> bytes:
    """Return a shared object for this kind of machine with an entry for each kernel.

    It can run tapes, too, which ``didyma_runtime.replay`` records.  TinyCC makes it, or an
    optimising ``compiler``, which is given a text for each kernel, as of engine ``host-fast``, and
    one for all; ``done`` is called after each.

    DidymaError ``kernel-text`` where the text is not C; EngineMissing without TinyCC.
    """
    known = prelude.load("host")
    driver, replay, blocks = ((files(prelude) / f).read_text(encoding="utf-8") for f in _OWN)
    if compiler is None:
        unit, _ = assemble(text, known, driver, only)
        where = ", ".join(s.name for s in text.kernels)
        made = f"{_called_by_pointers(unit)}\n{_pointers([unit])}\n{replay}"
        return _plain_stack(TinyCC().library(made, where))
    every = [
        u for u in units(text, known, blocks, driver) if only is None or u.signature.name in only
    ]
    common, _ = assemble(text, known, driver, ())
    sources = [u.source for u in every]
    entries = (_entry(u.signature.name) for u in every if u.part is None)
    own = "\n".join((common, _pointers(sources), blocks, *entries, replay))
    named = {u.signature.name: _renamed(u) for u in every}
    return compiler.library({**named, "replay": own}, done)


def _renamed(u: Unit) -> str:
    """Return the C text of a kernel; as lanes it has an entry of its own, ``blocks_NAME__``."""
    name = u.signature.name
    source = _called_by_pointers(u.source)
    return source if u.part else f"#define launch_{name}__ blocks_{name}__\n{source}"


def _entry(name: str) -> str:
    """Return the C text of an entry that runs all blocks of a launch as lanes, on one thread."""
    return f"""\
void blocks_{name}__(Work__ *);
void launch_{name}__(Launch__ *l) {{
  u64 blocks = (u64)l->grid[0] * l->grid[1] * l->grid[2];
  Work__ w = {{l->args, blocks, 0, blocks, {{l->grid[0], l->grid[1], l->grid[2]}}}};
  blocks_{name}__(&w);
}}"""


def _called_by_pointers(unit: str) -> str:
    """Return C text that calls library functions by pointers, which a loader is to set.

    The linker would bind their plain names to the oldest version that the C library keeps of each,
    of which some have other NaNs, and an optimising compiler would compute calls of constants.
    """
    renamed = "".join(f"#define {name} bound_{name}__\n" for _, name, _ in _EXTERN.findall(unit))
    return renamed + _EXTERN.sub(r"extern \1 (*\2)(\3);", unit)


def _pointers(units: Iterable[str]) -> str:
    """Return C text that defines the pointers of units, and ``bound__``, which names them."""
    found = {name: (of, args) for u in units for of, name, args in _EXTERN.findall(u)}
    defined = [f"{of} (*bound_{name}__)({args});" for name, (of, args) in found.items()]
    return "\n".join([*defined, f'const char *bound__(void) {{ return "{" ".join(found)}"; }}'])


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
