"""Loop programs alone: read from text, compiled for an engine, run and judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from didyma.codegen.emit import cuda
from didyma.codegen.runtime.engine import Engine, Loaded
from didyma.codegen.runtime.externs import Implementation
from didyma.codegen.runtime.loop_externs import bound, on_engine
from didyma.codegen.schedule.steps.accesses import scan
from didyma.codegen.schedule.steps.choose import by_function, loop_hash, stepped
from didyma.codegen.schedule.steps.kernels import Part, parts, workspace
from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.loop import PrimFunc, Var
from didyma.refimpl.ir.lowered import lowered
from didyma.refimpl.ir.returns import without_returns
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import INTS, Array, DType
from didyma.refimpl.ir.walk import exprs
from didyma.tracer.arrays import AnyArray, as_array

Env = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """A loop function from a text: what ``dd.load`` gives for one, and ``dd.compile`` takes.

    It is called with an array for each of ``inputs``: the parameters that it reads before it
    writes them, in the order of its text; then with a number for each of its scalars.  It gives
    its outputs, and last the number that it returns, if it does.
    """

    func: PrimFunc

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the parameters for which a call gives arrays."""
        first: dict[str, bool] = {}
        for a in scan(lowered(self.func)).accesses:
            first.setdefault(a.buffer, a.writes and not a.is_atomic)
        return tuple(b.name for b in self.func.params if not first.get(b.name, False))

    @property
    def stored(self) -> PrimFunc:
        """The function with an output for the number that it returns, if it does: the last."""
        return without_returns(self.func)

    def __str__(self) -> str:
        return show(self.func).rstrip()

    def buffers(self, inputs: Sequence[Array]) -> tuple[dict[str, Array], dict[str, int]]:
        """Return an array for each parameter, and the sizes that the inputs' shapes give.

        DidymaError ``dtype-mismatch``, and as ``bind`` for shapes.
        """
        params = {b.name: b for b in self.func.params}
        given = dict(zip(self.inputs, inputs, strict=True))
        env = dims.bind([(n, params[n].shape, a.shape) for n, a in given.items()], self.func.dims)
        for name, a in given.items():
            if a.dtype != params[name].dtype.numpy:
                raise DidymaError(
                    "dtype-mismatch", f"@{self.func.name}, {name}", got=str(a.dtype),
                    want=str(params[name].dtype),
                )  # fmt: skip
        used = {e.name for e in exprs(self.func.body) if isinstance(e, Var)}
        used.update(dims.free(d for b in self.func.params for d in b.shape))
        if unbound := [d.name for d in self.func.dims if d.name in used - env.keys()]:
            raise DidymaError(
                "unbound-dim", f"@{self.func.name}", got=f"no array whose shape tells {unbound[0]}",
                want=f"an input with an axis of size {unbound[0]}",
                help="a size that no shape tells can be a scalar parameter of i64",
            )  # fmt: skip
        made = {
            n: np.array(given[n], order="C") if n in given
            else np.zeros(dims.values(b.shape, env), b.dtype.numpy)
            for n, b in ((b.name, b) for b in self.stored.params)
        }  # fmt: skip
        return made, env

    def numbers(self, given: Sequence[Any]) -> dict[str, float]:
        """Return the values of the scalars, by name; DidymaError ``input-dtype``."""
        return {
            v.name: scalar(f"@{self.func.name}, {v.name}", v.dtype, x)
            for v, x in zip(self.func.scalars, given, strict=True)
        }

    def scheduled(self, schedules: str, target: Target = PORTABLE) -> tuple[Part, ...]:
        """Return the kernels after the schedule of a text, or those of the loops as they are.

        Between them are the external calls.
        """
        given = by_function(schedules, {self.func.name: loop_hash(self.func)})
        f = lowered(self.func)
        return parts(stepped(given[f.name], f, target) if f.name in given else f)


@dataclass(frozen=True, slots=True, repr=False)
class LoopExecutable:
    """A loop function compiled for an engine; call it with arrays."""

    program: LoopProgram
    parts: tuple[Part, ...]
    engine: Engine
    compiled: KernelText
    loaded: Loaded
    externals: Mapping[str, Routine]

    def __call__(self, /, *inputs: AnyArray) -> Array | tuple[Array, ...]:
        """Run on an array for each input and a number for each scalar.

        One result, or several as a tuple; a number that the function returns is the last, a NumPy
        scalar.  DidymaError ``input-count``, ``dtype-mismatch``,
        ``input-dtype`` and those of shapes.
        """
        p = self.program
        names, count = (*p.inputs, *(v.name for v in p.func.scalars)), len(p.inputs)
        if len(inputs) != len(names):
            raise DidymaError(
                "input-count", f"@{p.func.name}", got=counted(len(inputs), "argument"),
                want=f"{len(names)}: {', '.join(names) or 'none'}",
            )  # fmt: skip
        held, env = p.buffers([as_array(x) for x in inputs[:count]])
        after = self.run(held, env, p.numbers(inputs[count:]))
        out = [after[o] for o in p.stored.outputs]
        if p.func.returns is not None:
            out[-1] = out[-1][()]
        return out[0] if len(out) == 1 else tuple(out)

    def run(
        self, held: Mapping[str, Array], env: Env, scalars: Mapping[str, float]
    ) -> dict[str, Array]:
        """Return the content of each output after a run on the content of each parameter."""
        buffers: dict[str, Any] = {n: self.engine.upload(a) for n, a in held.items()}
        for b in workspace(self.parts, held):
            count = math.prod(dims.values(b.shape, env))
            buffers[b.name] = self.engine.allocate(count * b.dtype.nbytes)
        known, texts = {b.name: b for b in self.program.stored.params}, iter(self.compiled.kernels)
        try:
            for k in self.parts:
                if not isinstance(k, PrimFunc):
                    on_engine(k, buffers, known, env, self.externals, self.engine)
                    continue
                numbers = [scalars[v.name] for v in k.scalars]
                given = [buffers[b.name] for b in k.params]
                self.loaded.launch(next(texts).name, given, env, scalars=numbers)
            return {
                o: self.engine.download(buffers[o], DType.of(held[o]), held[o].shape)
                for o in self.program.stored.outputs
            }
        finally:
            for b in buffers.values():
                self.engine.free(b)

    @property
    def text(self) -> str:
        """The CUDA C text of the kernels."""
        return self.compiled.source

    def __repr__(self) -> str:
        return f"LoopExecutable {self.program.func.name} on {self.engine.name}"


def scalar(where: str, dtype: DType, x: Any) -> float:
    """Return a number that a call gives: of the dtype itself, or one of Python's that it holds.

    >>> scalar("@f, k", DType.I8, -3), scalar("@f, alpha", DType.F32, 2)
    (-3, 2.0)
    """
    a = np.asarray(x)
    python = (bool,) if dtype is DType.BOOL else (int, float) if dtype.is_float else (int,)
    good = type(x) in python or (a.shape == () and a.dtype == dtype.numpy)
    if good and dtype in INTS:
        lo, hi = dtype.limits
        good = lo <= int(x) <= hi
    if not good:
        raise DidymaError("input-dtype", where, got=repr(x), want=f"a number of {dtype}")
    value: float = dtype.numpy.type(x).item()
    return value


def compiled(
    program: LoopProgram,
    engine: Engine,
    schedules: str = "",
    target: Target = PORTABLE,
    externs: Mapping[str, Implementation] | None = None,
    *,
    contract: bool = True,
) -> LoopExecutable:
    """Return a loop function compiled for an engine; DidymaError as its schedule's steps.

    Without ``contract`` every operation rounds by itself.
    ``externs`` are implementations of the routines that it calls, by name: ``unknown-extern``.
    """
    routines, made = bound(program.func, externs), program.scheduled(schedules, target)
    text = cuda.emit([p for p in made if isinstance(p, PrimFunc)], contract=contract)
    return LoopExecutable(program, made, engine, text, engine.load(text), routines)
