"""Backends for ONNX's own test suite, one for each level of Didyma.

``onnx.backend.test.BackendTest(backend_for("graph"), __name__)`` runs unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from didyma import prepared
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.levels import runner
from didyma.onnx.context import NotConstant
from didyma.onnx.load import load_model
from didyma.oracle import lanes
from didyma.oracle.kernels import run_primfuncs
from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.interp import graph, program
from didyma.refimpl.ir.graph import CALL, RESHAPE_ONLY, Function, Module, Node
from didyma.refimpl.ir.types import Array

Run = Callable[[Sequence[Array]], Sequence[Array]]

ENGINES = ("host", "simt", "cuda")
SMALL = 64  # elements of an input that may hold sizes
LEVELS = ("graph", "loop", "program", *ENGINES)


def _graph(m: Module) -> Run:
    return prepared.Prepared(m).run


def _loop(m: Module) -> Run:
    """Run every fused Primitive by the loop interpreter, before it is scheduled."""
    lowered = compile(m, until="lower")
    fused, table = lowered.fused, {f.name: f for f in lowered.fused.functions}

    def visit(
        f: Function, n: Node, args: list[Array], env: Mapping[str, int], by_reference: graph.Run
    ) -> Sequence[Array]:
        del f
        if n.op != CALL or RESHAPE_ONLY in table[n.callee].attr:
            return by_reference()
        loops = lowered.loops[n.callee]
        return run_primfuncs([loops], loops, args, env, table[n.callee].result_types())

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        return graph.walk(fused, inputs, visit)

    return run


def _program(m: Module) -> Run:
    planned = compile(m, until="plan").program

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        return program.run(planned, inputs, lanes.run)

    return run


def _on_engine(name: str) -> Callable[[Module], Run]:
    def make(m: Module) -> Run:
        e = engine(name)
        call = runner(compile(m), e)

        def run(inputs: Sequence[Array]) -> Sequence[Array]:
            return call(e, list(inputs))

        return run

    return make


MAKERS: Mapping[str, Callable[[Module], Run]] = {
    "graph": _graph,
    "loop": _loop,
    "program": _program,
    **{name: _on_engine(name) for name in ENGINES},
}


class Prepared(BackendRep):
    """A model prepared for a level.

    Inputs whose values the importer needs, such as shapes and axes, are constants of the import.  A
    call with other values of these inputs imports and compiles the model again.
    """

    def __init__(self, model: onnx.ModelProto, make: Callable[[Module], Run]) -> None:
        self.model = model
        self.make = make
        own = {i.name for i in model.graph.initializer}
        self.names = [i.name for i in model.graph.input if i.name not in own]
        self.needed: set[str] = set()
        self.ready: dict[tuple[object, ...], tuple[Module, Run]] = {}

    def prepare(self, inputs: Mapping[str, Array]) -> tuple[Module, Run]:
        """Import a model with as few input values as the importer needs, and compile it."""
        empty = self._empty(inputs)
        while True:
            values = {n: inputs[n] for n in sorted(self.needed) if n in inputs}
            key = (*empty, *((n, a.tobytes(), a.shape) for n, a in values.items()))
            if key in self.ready:
                return self.ready[key]
            name, sizes = self.model.graph.name or "model", dict.fromkeys(empty, 0)
            try:
                m = load_model(self.model, name, None, values, sizes)
            except NotConstant as e:
                more = set(e.inputs) & set(inputs) - self.needed
                if not more:
                    raise
                self.needed |= more
                continue
            except DidymaError:
                more = {n for n, a in inputs.items() if a.dtype.kind in "iu" and a.size <= SMALL}
                if more <= self.needed:
                    raise
                self.needed |= more  # the values of integer inputs may decide whether sizes match
                continue
            self.ready[key] = m, self.make(m)
            return self.ready[key]

    def _empty(self, inputs: Mapping[str, Array]) -> tuple[str, ...]:
        """Return the open sizes that are 0 in a call; others are assumed to be at least 1."""
        empty: set[str] = set()
        for i in self.model.graph.input:
            shape = inputs[i.name].shape if i.name in inputs else ()
            sizes = zip(i.type.tensor_type.shape.dim, shape, strict=False)
            empty |= {d.dim_param for d, n in sizes if d.dim_param and n == 0}
        return tuple(sorted(empty))

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run on inputs in the model's order, without those that have initializers."""
        del kwargs
        arrays = [np.asarray(a) for a in inputs]
        if len(arrays) > len(self.names):
            raise DidymaError(
                "input-count", self.model.graph.name, got=counted(len(arrays), "input"),
                want=f"{len(self.names)}",
            )  # fmt: skip
        given = dict(zip(self.names, arrays, strict=False))
        m, run = self.prepare(given)
        return tuple(run([given[p.name] for p in m.entry.params]))


class LevelBackend(Backend):
    """A backend as ONNX's test suite calls it."""

    level: ClassVar[str] = "graph"

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Return a model prepared for the level; DidymaError if no inputs make it importable."""
        del device, kwargs
        ready = Prepared(model, MAKERS[cls.level])
        try:
            load_model(model)
        except NotConstant as e:
            ready.needed |= set(e.inputs)
        except DidymaError as e:
            if e.code not in ("shape-mismatch", "branch-mismatch", "D-too-large"):
                raise
        return ready

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether the level runs on a device that ONNX names."""
        return device == ("CUDA" if cls.level == "cuda" else "CPU")


def backend_for(level: str) -> type[LevelBackend]:
    """Return the backend class of a level: graph, loop, program, host, simt or cuda.

    Errors: ``unknown-level``, which lists the names.
    """
    if level not in MAKERS:
        raise DidymaError("unknown-level", level, got=level, want=", ".join(MAKERS))
    return type(f"{level.capitalize()}Backend", (LevelBackend,), {"level": level})
