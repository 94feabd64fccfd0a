"""The library routines that loop functions call, and how their arrays get there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.externs import Implementation, registered
from didyma.codegen.schedule.steps.kernels import Outside
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.allocated import allocated
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.loop import Buffer, ExternalAllocate, ExternalCall, Free, PrimFunc
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts

Env = Mapping[str, int]


def bound(f: PrimFunc, given: Mapping[str, Implementation] | None) -> dict[str, Routine]:
    """Return the routines that a function calls, by name.

    Implementations are given, or registered in the group ``didyma.externs``.  DidymaError
    ``unknown-extern`` for one of a routine that the function does not call, and for a routine
    that has none.
    """
    calls = [s for s in stmts(f.body) if isinstance(s, ExternalCall | ExternalAllocate)]
    names = {s.name for s in calls}
    found = {**registered(names), **(given or {})}
    for name in sorted(names ^ found.keys()):
        want = f"one of: {', '.join(sorted(names)) or 'none, as it has no external call'}"
        raise DidymaError(
            "unknown-extern", f"@{f.name}",
            got=f"no implementation of {name}" if name in names else name,
            want="one in externs, by that name" if name in names else want,
        )  # fmt: skip
    return {name: _routine(found[name]) for name in names}


def _routine(implementation: Implementation) -> Routine:
    def call(
        outputs: Sequence[Array], inputs: Sequence[Array], attrs: Mapping[str, Attr]
    ) -> Sequence[Array] | None:
        if not outputs:
            made: Sequence[Array] = implementation(*inputs, **attrs)
            return made
        out: Any = outputs[0] if len(outputs) == 1 else tuple(outputs)
        implementation(*inputs, out=out, **attrs)
        return None

    return call


def on_arrays(
    s: Outside, held: dict[str, Array], env: Env, externals: Mapping[str, Routine]
) -> None:
    """Do what is done between kernels, to buffers that are NumPy arrays."""
    match s:
        case ExternalCall(name, outputs, inputs, attrs):
            results, operands = ([held[n] for n in ns] for ns in (outputs, inputs))
            externals[name](results, operands, dict(attrs))
        case ExternalAllocate(name, buffers, inputs, attrs):
            made = externals[name]((), [held[n] for n in inputs], dict(attrs))
            found = zip(buffers, allocated(s, made, env), strict=True)
            held.update((b.name, a.copy()) for b, a in found)
        case Free(name):
            del held[name]


def on_engine(
    s: Outside,
    held: dict[str, Any],
    known: dict[str, Buffer],
    env: Env,
    externals: Mapping[str, Routine],
    engine: Engine,
) -> None:
    """Do what is done between kernels, to the buffers of an engine; ``known`` are their types."""

    def down(name: str) -> Array:
        b = known[name]
        return engine.download(held[name], b.dtype, dims.values(b.shape, env))

    match s:
        case ExternalCall(name, outputs, inputs, attrs):
            results = [down(n) for n in outputs]
            externals[name](results, [down(n) for n in inputs], dict(attrs))
            for n, a in zip(outputs, results, strict=True):
                source = engine.upload(a)
                engine.copy(held[n], source)
                engine.free(source)
        case ExternalAllocate(name, buffers, inputs, attrs):
            made = externals[name]((), [down(n) for n in inputs], dict(attrs))
            for b, a in zip(buffers, allocated(s, made, env), strict=True):
                held[b.name], known[b.name] = engine.upload(a), b
        case Free(name):
            engine.free(held.pop(name))
