"""Programs as Python modules that stand alone: the text of the kernels, and each line as a line.

A module has ``TEXT`` (what ``Engine.load`` wants), ``load(engine)``, which uploads the constants
where there are any, ``call(engine, inputs)`` and, run as a script,
``python MODULE [ENGINE] [dim=size …]``: calls on random inputs, the results' shapes and the times.

Constants of at most ``embedded`` bytes in all stand in the module as base64.  Beyond that they are
in a file beside the module, ``<program>.weights``: their bytes in the program's order, each at a
multiple of 64, as ``weights`` returns them.  The module knows their hash.
"""

from __future__ import annotations

import hashlib
import keyword
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from didyma.codegen.devices import require_one_device
from didyma.codegen.emit.binding import bind, given_dims
from didyma.codegen.emit.integers import constructor, quoted, tuple_of
from didyma.codegen.emit.names import c_names, sanitise
from didyma.codegen.emit.program_lines import LineWriter, constant
from didyma.codegen.options import EMBEDDED
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.lines import most_variants, walk
from didyma.refimpl.ir.program import Arena, Program
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify.streams import several

_APART = 64  # a constant starts at a multiple of it in the file of weights
_OWN = (
    "Signature KernelText DType Var add floordiv index maximum minimum mod mul sub calls call bind"
    " constants load loaded shapes engine inputs arrays kernels weights externs sizes results"
    " buffer min max TEXT DIMS INPUTS KERNELS SOURCE"
)
_IMPORTS = """\
from didyma.codegen.runtime import calls
from didyma.codegen.runtime.engine import KernelText, Signature
from didyma.refimpl.ir.expr import add, floordiv, index, maximum, minimum, mod, mul, sub
from didyma.refimpl.ir.loop import Var
from didyma.refimpl.ir.types import DType"""

Call = Callable[..., list[Any]]


def emit(p: Program, text: KernelText, embedded: int = EMBEDDED) -> str:
    """Return the source of a module that runs a program, whose kernels are ``text``.

    Errors: ``unbound-dim`` if no input tells a size, ``device-unsupported``.
    """
    require_one_device(p)
    called = {k.name: s.name for k, s in zip(p.kernels, text.kernels, strict=True)}

    dispatches = most_variants(p) > 1
    own = [*keyword.kwlist, *_OWN.split(), *(["dispatch"] if dispatches else [])]
    names = c_names(own)
    functions = {f.name: names.fresh(f.name) for f in p.functions}

    def writer(f: Program) -> LineWriter:
        arenas = (s.name for s in walk(f.lines) if isinstance(s, Arena))
        mine = c_names([*own, *functions.values()])
        sizes = {d.name: mine.fresh(d.name) for d in f.dims}
        python = {v: mine.fresh(v) for v in (*f.type, *arenas)}
        streams = several(f.lines)
        return LineWriter(f, python, sizes, called, functions, streams, f is not p, dispatches)

    entry = writer(p)
    sections = [
        f'"""{_title(p)}"""\n\n{_IMPORTS}\n\nSOURCE = r"""{text.source}"""',
        "\n".join(_tables(p, text)),
        "\n".join(_constants(p, embedded)),
        "\n".join(bind(p, entry.python, entry.sizes)),
        *("\n".join(writer(f).function()) for f in p.function.values()),
        "\n".join(entry.call()),
        'if __name__ == "__main__":\n    calls.main(call, INPUTS, shapes, DIMS)\n',
    ]
    return "\n\n\n".join(s for s in sections if s)


def module(source: str) -> Mapping[str, Any]:
    """Return the names that a wrapper's source defines, in this process."""
    space: dict[str, Any] = {"__name__": "wrapper", "__file__": "wrapper"}
    exec(compile(source, "<wrapper>", "exec"), space)
    return space


def load(source: str) -> Call:
    """Return the ``call`` of a wrapper's source, in this process."""
    call: Call = module(source)["call"]
    return call


def weights(p: Program) -> bytes:
    """Return the contents of the file of weights."""
    out = bytearray()
    for _, tensor in p.constants:
        out += bytes(-len(out) % _APART) + tensor.data
    return bytes(out)


def _title(p: Program) -> str:
    types = p.type
    lines = [f"Program {sanitise(p.name)}, written by Didyma.", ""]
    lines += [f"in   {sanitise(v)}: {types[v]}" for v in p.inputs]
    lines += [f"out  {sanitise(v)}: {types[v]}" for v in p.results]
    return "\n".join([*lines, ""])


def _dtype(d: DType) -> str:
    return f"DType.{d.name}"


def _tables(p: Program, text: KernelText) -> Iterator[str]:
    types = p.type
    yield "KERNELS = ("
    for s in text.kernels:
        yield from _signature(s)
    yield ")"
    apart = "" if text.contract else ", contract=False"
    yield f"TEXT = KernelText(SOURCE, KERNELS{apart})"
    yield "INPUTS = ("
    for v in p.inputs:
        yield f"    ({quoted(sanitise(v))}, {_dtype(types[v].dtype)}, {types[v].rank}),"
    yield ")"
    yield f"DIMS = {{{', '.join(f'{quoted(d.name)}: ({d.lo}, {d.hi})' for d in given_dims(p))}}}"


def _signature(s: Signature) -> Iterator[str]:
    yield "    Signature("
    yield f"        name={quoted(s.name)},"
    buffers = (f"({quoted(b)}, {_dtype(d)})" for b, d in s.buffers)
    yield f"        buffers={tuple_of(buffers)},"
    yield f"        sizes={tuple_of(map(constructor, s.sizes))},"
    yield f"        outputs={tuple_of(map(quoted, s.outputs))},"
    yield f"        dims={tuple_of(map(quoted, s.dims))},"
    yield f"        grid={tuple_of(map(constructor, s.grid))},"
    yield f"        block={s.block},"
    if s.cluster > 1:
        yield f"        cluster={s.cluster},"
    yield "    ),"


def _constants(p: Program, embedded: int) -> Iterator[str]:
    if not p.constants:
        return
    yield "def constants(weights=None):"
    yield '    """Return the program\'s constants, in order."""'
    beside = sum(len(t.data) for _, t in p.constants) > embedded
    if beside:
        data = weights(p)
        digest = hashlib.sha256(data).hexdigest()
        file = f"{sanitise(p.name)}.weights"
        yield "    if weights is None:"
        yield f"        weights = calls.read_weights(__file__, {quoted(file)})"
        yield f"    weights = calls.checked(weights, {quoted(digest)})"
    yield "    return ["
    at = 0
    for name, t in p.constants:
        at += -at % _APART
        if beside:
            found = f"calls.part(weights, {_dtype(t.dtype)}, {t.shape}, {at})"
        else:
            found = constant(t)
        yield f"        {found},  # {sanitise(name)}"
        at += len(t.data)
    yield "    ]"
    yield ""
    yield ""
    yield "def load(engine, weights=None):"
    yield '    """Return the constants as buffers of an engine, which `calls.unload` frees."""'
    yield "    return [engine.upload(a) for a in constants(weights)]"
