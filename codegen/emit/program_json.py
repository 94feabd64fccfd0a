"""Programs as JSON, which executors walk: values with their storage, kernels, and lines.

A size is an integer, the name of a symbol, or ``[op, size, size]`` with an op of ``add``, ``sub``,
``mul``, ``floordiv``, ``floormod``, ``min`` and ``max``.  Divisions round down, and by zero give 0.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import sympy

from didyma.codegen.devices import named
from didyma.codegen.emit.binding import given_dims, told, told_by_strides
from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.emit.dynamic import placed
from didyma.codegen.emit.externs import Entry
from didyma.codegen.emit.names import sanitise
from didyma.codegen.emit.shapes import result_shape
from didyma.codegen.memory.peak import symbolic_peak
from didyma.refimpl.ir.dims import Dim, add
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.kernel import Kernel, KernelText, Signature
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.loop import Binary, Const, Expr, Var
from didyma.refimpl.ir.program import (
    Allocate,
    Carry,
    Dispatch,
    Extern,
    Launch,
    Line,
    Place,
    PlacementAllocate,
    Program,
    Reuse,
    Strided,
    View,
)
from didyma.refimpl.ir.types import TensorType

FORMAT, VERSION = "didyma-program", 5
Weights = tuple[str, str, Mapping[str, int]]  # file, SHA-256, and where each constant begins


def program_json(
    p: Program,
    text: KernelText,
    objects: Mapping[str, tuple[str, str]],
    weights: Weights | None = None,
    externs: Mapping[str, Entry] | None = None,
    buckets: Buckets | None = None,
) -> str:
    """Return a program as JSON; ``objects`` are file and SHA-256 of machine code by its kind.

    Constants stand in ``weights``, if they are given, and else in the text as base64.  ``externs``
    are the external functions that are beside it, and ``buckets`` the sizes that inputs are padded
    to.
    """
    called = {k.name: s.name for k, s in zip(p.kernels, text.kernels, strict=True)}
    shared = placed(text.source)[1] if any(name.startswith("sm_") for name in objects) else {}
    kernels = {
        s.name: _kernel(k, s) | ({"shared": shared[s.name]} if s.name in shared else {})
        for k, s in zip(p.kernels, text.kernels, strict=True)
    }
    found = {
        "format": FORMAT,
        "version": VERSION,
        "objects": {machine: list(pair) for machine, pair in objects.items()},
        "devices": list(named(p)),
        "weights": list(weights[:2]) if weights and p.constants else None,
        "constants": _constants(p, weights),
        "sizes": {d.name: [str(d.lo), str(d.hi)] for d in given_dims(p)},
        "bind": [
            {
                "symbol": t.symbol,
                "places": [
                    [p.inputs.index(x.input), x.axis, size(x.slope), size(x.offset)]
                    for x in t.places
                ],
            }
            for t in told(p)
        ],
        "strides": [
            {
                "symbol": t.symbol,
                "least": next(d.lo for d in p.dims if d.name == t.symbol),
                "places": [
                    [p.inputs.index(x.input), x.axis, size(x.slope), size(x.offset)]
                    for x in t.places
                ],
            }
            for t in told_by_strides(p)
        ],
        "kernels": kernels,
        **({"externs": _externs(externs)} if externs else {}),
        **({"buckets": _buckets(p, buckets)} if buckets else {}),
        "functions": {name: _body(f, called) for name, f in p.function.items()},
        "main": _body(p, called),
    }
    return json.dumps(found, separators=(",", ":")) + "\n"


def _buckets(p: Program, b: Buckets) -> dict[str, Any]:
    """Return the buckets of each dim, the sizes that are told, and the shapes of results."""
    rows = b.known({d.name for d in given_dims(p)})
    return {
        "sizes": {name: list(row) for name, row in b.sizes.items()},
        "told": [size(d) for d in b.given],
        "results": [[None if d is None else size(d) for d in row] for row in rows],
    }


def size(d: Dim | Expr) -> Any:
    """Return a size as JSON.

    >>> from didyma.refimpl.ir.dims import symbol
    >>> size(2 * symbol("n") + 1)
    ['add', 1, ['mul', 2, 'n']]
    """
    match of_dim(d) if isinstance(d, (int, sympy.Expr)) else d:
        case Const(value):
            return int(value)
        case Var(name):
            return name
        case Binary(op, lhs, rhs):
            return [op, size(lhs), size(rhs)]
        case e:
            raise TypeError(f"no size: {e}")


def _kernel(k: Kernel, s: Signature) -> dict[str, Any]:
    source = dict(k.attrs).get("source", ())
    assert isinstance(source, tuple)
    return {
        "buffers": [[name, str(dtype)] for name, dtype in s.buffers],
        "outputs": list(s.outputs),
        "dims": list(s.dims),
        "grid": [size(e) for e in s.grid],
        "sizes": [size(e) for e in s.sizes],
        "block": list(s.block),
        "cluster": s.cluster,
        "maps": [[size(n) for n in row] for row in s.described],
        "shapes": [[size(e) for e in result_shape(k, s, b)] for b in s.outputs],
        "nodes": [str(name) for name in source],
    }


def _constants(p: Program, weights: Weights | None) -> dict[str, Any]:
    return {
        name: {"dtype": str(t.dtype), "shape": list(t.shape)}
        | (
            {"data": base64.b64encode(t.data).decode()}
            if weights is None
            else {"offset": weights[2][name]}
        )
        for name, t in p.constants
    }


def _body(p: Program, called: Mapping[str, str]) -> dict[str, Any]:
    """Return the values and lines of a program or one of its functions."""
    storage = _storage(p)
    values = {
        name: {
            "name": sanitise(name),
            "dtype": str(t.dtype),
            "shape": [size(d) for d in t.shape],
            "bytes": size(t.nbytes),
            "device": t.device,
            "storage": storage[name],
            **(_lies(t) if t.strides is not None else {}),
        }
        for name, t in p.types
    }
    return {
        "inputs": list(p.inputs),
        "outputs": list(p.outputs),
        "memory": _memory(p),
        "ranges": {d.name: [str(d.lo), str(d.hi)] for d in p.dims},
        "values": values,
        "lines": [_line(s, called) for s in p.lines],
    }


def _memory(p: Program) -> dict[str, Any]:
    """Return the bytes of inputs, of results and of constants, and the workspace on each device.

    What the run decides of a workspace is left out: values whose sizes it finds.
    """
    types = p.type

    def nbytes(names: Iterable[str]) -> Any:
        return size(add(*(types[v].nbytes for v in names)))

    devices = sorted({t.device for t in types.values()})
    return {
        "inputs": nbytes(p.inputs),
        "outputs": nbytes((*p.outputs, *p.results)),
        "constants": sum(len(t.data) for _, t in p.constants),
        "workspace": {d: size(symbolic_peak(p, d)) for d in devices},
    }


def _lies(t: TensorType) -> dict[str, Any]:
    strides = [size(d) for d in t.strides or ()]
    return {"strides": strides, "offset": size(t.offset), "span": size(t.span)}


def _storage(p: Program) -> dict[str, int]:
    """Return a number for the bytes that each value has first; views and reuse share them."""
    of: dict[str, str] = {}
    for s in walk(p.lines):
        match s:
            case Allocate(v):
                of.setdefault(v, v)
            case Reuse(v, other) | PlacementAllocate(v, other) | View(v, other) | Strided(v, other):
                of.setdefault(v, of.get(other, other))
            case Place(v, arena):
                of.setdefault(v, f"arena {arena}")
            case Launch(inplace=pairs) | Dispatch(inplace=pairs):
                for v, other in pairs:
                    of.setdefault(v, of.get(other, other))
            case Carry(pairs):
                for v, other in pairs:
                    of.setdefault(v, of.get(other, other))
            case _:
                pass
    owners = {name: of.get(name, name) for name, _ in p.types}
    numbers = {owner: i for i, owner in enumerate(dict.fromkeys(owners.values()))}
    return {name: numbers[owner] for name, owner in owners.items()}


def _line(s: Line, called: Mapping[str, str]) -> dict[str, Any]:
    """Return a line as its kind and its fields, by their names."""
    found: dict[str, Any] = {"line": type(s).__name__}
    for f in fields(s):
        value = getattr(s, f.name)
        if isinstance(s, Launch) and f.name == "kernel":
            value = called[value]
        if isinstance(s, Dispatch) and f.name == "variants":
            value = tuple((called[k], args) for k, args in value)
        if isinstance(s, Extern) and f.name == "attrs":  # of the others implementations know
            value = tuple((k, v) for k, v in value if k == "sizes")
        found[f.name] = _field(value, called)
    return found


def _field(value: Any, called: Mapping[str, str]) -> Any:
    match value:
        case bool() | str():
            return value
        case int() | sympy.Expr():
            return size(value)
        case [*items]:
            return [_field(x, called) for x in items]
        case _:
            return _line(value, called)


def _externs(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return external functions, by the names by which a program calls them."""
    return {
        name: {
            "source": list(x.source),
            "symbol": x.symbol,
            "out": x.out,
            "sizes": list(x.external.sizes),
            "inputs": len(x.external.function.params),
            "dtypes": [str(t.dtype) for t in x.types()],
            "shapes": [[size(d) for d in t.shape] for t in x.types()],
            "library": x.library,
            "constants": x.constants,
        }
        for name, x in entries.items()
    }
