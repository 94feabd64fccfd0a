"""Programs compiled for an engine, and interpreted by the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast, overload

from didyma import logs, splits, tuning
from didyma.codegen.emit.wrapper import is_flat
from didyma.codegen.memory.planners import Choice
from didyma.codegen.options import Options
from didyma.codegen.options import choose as with_planner
from didyma.codegen.pipeline import Compiled
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.runtime.devices import across
from didyma.codegen.runtime.didyma_runtime.watch import Around, Watch
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.externs import Implementation
from didyma.codegen.runtime.modules import flat
from didyma.codegen.runtime.registry import engine as made
from didyma.codegen.runtime.registry import require_target
from didyma.codegen.select.at_run import AtRun
from didyma.codegen.select.choosers import Chooser
from didyma.codegen.select.metrics import table
from didyma.fuzz import levels
from didyma.loops import LoopExecutable, LoopProgram
from didyma.loops import compiled as compiled_loops
from didyma.mappings import CALLS, mapping
from didyma.on_gpu import Run, caller, line_by_line, strided
from didyma.oracle.compare import Comparison, compare, distance
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph as interpreter
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.aliases import Alias, aliases
from didyma.refimpl.ir.graph import Module, Param
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import bars as bars_
from didyma.refimpl.ops.bars import Bar
from didyma.schedules import Given
from didyma.schedules import read as read_schedules
from didyma.show import brief
from didyma.strided import Strided
from didyma.tracer.arrays import AnyArray, arguments, as_array
from didyma.tracer.tracing import Program
from didyma.watching import watched


@dataclass(frozen=True, slots=True, repr=False)
class Executable:
    """A compiled program on an engine; call it with arrays."""

    compiled: Compiled
    engine: Engine
    run: Run
    options: Options
    at_run: AtRun | None = None
    wrapped: partial[list[Any]] = field(default_factory=lambda: partial(list[Any]))

    def __call__(self, /, *inputs: AnyArray, **named: AnyArray) -> Array | tuple[Array, ...]:
        """Run on arrays, by position or by the input's name: one result, or several as a tuple.

        Results are NumPy arrays, but on engine ``cuda``, if an input is on the GPU, they stay there
        as arrays of its library: PyTorch, CuPy, JAX or PyCUDA.  Nothing is copied to the host then,
        and the work is ordered with that of the stream that the library works on.

        DidymaError ``input-count``, ``unknown-input``, and as the wrapper for types and shapes.
        """
        given = ordered(self.compiled.source.entry.params, inputs, named) if named else inputs
        out = self.run(given)
        return out[0] if len(out) == 1 else tuple(out)

    def call_with_numel(self, numel: int, /, *inputs: AnyArray) -> Array | tuple[Array, ...]:
        """Run on the first ``numel`` elements of arrays of any shape, in row-major order.

        The program has inputs of one symbolic size, ``[n]``, and single elements beside them; so
        do its results.  DidymaError ``bad-call`` for another program, ``dim-mismatch`` for an array
        of fewer elements, and as of a call.

        >>> import numpy as np
        >>> import didyma as dd
        >>> @dd.trace
        ... def scaled(x: dd.f32[dd.dim("n", 0, 99)], by: dd.f32[()]) -> dd.Tensor:
        ...     return x * by
        >>> dd.compile(scaled).call_with_numel(3, np.ones((2, 2), np.float32), np.float32(2))
        array([2., 2., 2.], dtype=float32)
        """
        if not is_flat(self.compiled.program):
            raise DidymaError(
                "bad-call", f"call_with_numel of @{self.compiled.program.name}",
                got=", ".join(str(p.type) for p in self.compiled.source.entry.params) or "no input",
                want="inputs of one symbolic size, such as f32[n], or of one element",
            )  # fmt: skip
        wanted = [(p.name, p.type.dtype, p.type.rank) for p in self.compiled.source.entry.params]
        return self(*flat(list(inputs), wanted, numel))

    def watched(
        self, watch: Watch | None = None, *, around: Around | None = None
    ) -> Callable[..., list[Any]]:
        """Return a function of inputs by position that returns all results, and is watched.

        It runs line by line.  Each launch has ended before the next line runs, so that an error
        is that of its launch; then ``watch`` is called with what it was: its kernel, the line of
        the program, nodes of the graph, what it wrote, bytes and seconds.  ``around`` makes a
        context for each launch from the kernel's name, such as a range of a profiler.

        >>> import numpy as np
        >>> import didyma as dd
        >>> run = dd.compile(dd.trace(dd.f32[2])(lambda x: dd.exp(x) + 1.0))
        >>> _ = run.watched(lambda x: print(x.line, x.nodes))(np.float32([0, 1]))
        launch @fused_exp_add_0(%x, %add) ('exp', 'c', 'add')
        """
        told = watched(self.wrapped, self.engine, self.compiled, watch, around)
        run = line_by_line(told, self.engine, self.compiled.source.entry)
        return lambda *inputs: run(inputs)

    @property
    def text(self) -> str:
        """The CUDA C text of the kernels."""
        return self.compiled.text.source

    @property
    def wrapper(self) -> str:
        """The generated Python module."""
        return self.compiled.wrapper

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """The results that share memory with inputs or with other results, each as ``str`` says it.

        What is written to one is seen through the others.
        """
        return aliases(self.compiled.program)

    @property
    def choices(self) -> dict[str, Any]:
        """The schedule of each function, as plain data that ``compile`` takes as ``choose``.

        Where calls choose among variants, it is what they have picked.
        """
        return tuning.picked(self.compiled, self.options, self.at_run)

    @property
    def metrics(self) -> str:
        """A CSV table of the variants that calls have timed, with their times and speed-ups."""
        return table(self.at_run.timings if self.at_run is not None else ())

    @property
    def strided(self) -> tuple[Strided, ...]:
        """What calls with arrays on a GPU did with inputs that were not in row-major order.

        Those of PyTorch and CuPy are counted; those of other libraries are always copied.
        """
        return strided(self.run)

    def __repr__(self) -> str:
        return brief.executable(self.compiled, self.engine.name)


@overload
def compile(
    program: Program,
    *,
    engine: str | Engine = ...,
    planner: Choice | None = ...,
    options: Options | None = ...,
    externs: Mapping[str, Implementation] | None = ...,
    kernels: Mapping[str, TextKernel] | None = ...,
    choose: str | Path | Mapping[str, Any] | Chooser = ...,
    schedules: Mapping[str, Given] | None = ...,
) -> Executable: ...
@overload
def compile(
    program: LoopProgram,
    *,
    engine: str | Engine = ...,
    planner: Choice | None = ...,
    options: Options | None = ...,
    externs: Mapping[str, Implementation] | None = ...,
    kernels: Mapping[str, TextKernel] | None = ...,
    choose: str | Path | Mapping[str, Any] | Chooser = ...,
    schedules: Mapping[str, Given] | None = ...,
) -> LoopExecutable: ...
def compile(
    program: Program | LoopProgram,
    *,
    engine: str | Engine = "host",
    planner: Choice | None = None,
    options: Options | None = None,
    externs: Mapping[str, Implementation] | None = None,
    kernels: Mapping[str, TextKernel] | None = None,
    choose: str | Path | Mapping[str, Any] | Chooser = "heuristic",
    schedules: Mapping[str, Given] | None = None,
) -> Executable | LoopExecutable:
    """Compile for an engine; it and the planner are names or objects.

    A ``planner`` takes the place of that of the ``options``.  ``externs`` are implementations of
    functions marked ``Compiler``, by the name of the function or of the compiler: from arrays to
    an array, or a tuple of several.  The body of a function that has none is run by the reference.
    Those of a loop function's external calls also get ``out``, the array or arrays to write, where
    the call does not allocate; attributes are given by name.
    ``kernels`` are texts that take the place of generated kernels, by the name or structural hash
    of a Primitive function.
    ``schedules`` are schedules of steps by the name or structural hash of a Primitive function: a
    ``.dys`` file, its text, or the steps.  A function that has one has no choice besides.

    ``choose`` picks the schedules: ``"heuristic"`` by a model, without timing; ``"cached"`` takes
    those that were measured before; ``"tuned"`` measures the others too, for half a minute each;
    ``"at-run"`` leaves it to the first call at some sizes, which times variants of each kernel; a
    file or mapping pins them, as ``Executable.choices`` records them.

    A program for the usual target, ``portable``, is compiled for the one that the engine prefers:
    for ``cpu`` on engine ``host``, whose model gives each result to one thread, and for the
    architecture of the GPU on ``cuda``, where that is a target.

    Errors: ``not-a-program``, ``unknown-engine``, ``unknown-planner``, ``bad-engine``,
    ``bad-planner``, ``unknown-extern``, ``unknown-primitive``, ``bad-kernel``,
    ``wrong-target``, ``device-unsupported``, ``bad-choice``, ``bad-call``, ``unreadable-file``,
    ``no-valid-choices``, ``unknown-variant``, and those of the cache; EngineMissing where the
    machine lacks what the engine needs.  The levels that the variable ``DIDYMA_LOG`` names, such as
    ``graph,kernel``, are written to stderr; ``bad-option`` where it names others.
    """
    given, chosen = read_schedules(schedules), made(engine, checked=False)
    texts, routines = mapping("kernels", kernels, "TextKernels"), mapping("externs", externs, CALLS)
    wanted = with_planner(options, planner)
    require_target(chosen, wanted.device)
    wanted = tuning.suited(wanted, chosen)
    if isinstance(program, LoopProgram):
        _require_no_choice(program, texts, choose)
        with given.placed():
            return compiled_loops(
                program, chosen, given.text, wanted.device, routines,
                contract=wanted.kernels.contract,
            )  # fmt: skip
    required = require(program, "dd.compile")
    m, wanted = required.module, wanted.with_codegens(required.kernels)
    if given.text:
        wanted = wanted.changed({"kernels.schedules": given.text})
    with given.placed():
        wanted = splits.chosen(m, wanted, chosen, choose)
        wanted = tuning.chosen(m, wanted, chosen, choose)
        compiled = compile_module(m, wanted, kernels=texts, listen=logs.listener())
    tuning.require_known(compiled, wanted)
    at_run = tuning.at_run(compiled, chosen, wanted, choose)
    chosen = across(chosen, compiled.program)
    run = levels.runner(compiled, chosen, routines, at_run)
    call = caller(run, chosen, compiled, wanted)
    return Executable(compiled, chosen, call, wanted, at_run, run)


def _require_no_choice(
    program: LoopProgram, kernels: Mapping[str, TextKernel], choose: Any
) -> None:
    """Check that nothing is asked for a loop function but a schedule: DidymaError ``bad-call``."""
    asked = "kernels" if kernels else "choose" if choose != "heuristic" else ""
    if asked:
        raise DidymaError(
            "bad-call", f"@{program.func.name}", got=f"{asked}=... for a loop function",
            want="schedules=..., which say how its loops run",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Interpreted:
    """Results of the reference, with the error bars that every correct implementation stays in.

    ``values`` are the results in their dtypes, and ``names`` their names in the program ``module``,
    which was evaluated on ``inputs``.
    """

    values: tuple[Array, ...]
    bars: tuple[Bar, ...]
    names: tuple[str, ...]
    module: Module
    inputs: tuple[Array, ...]

    @property
    def reference(self) -> tuple[Array, ...]:
        """The same program evaluated in float64 (longdouble for f64), computed when asked for.

        A data-dependent size may come out differently than in ``values``.  DidymaError
        ``dim-out-of-range`` where it leaves its range.
        """
        return tuple(interpreter.reference(self.module, self.inputs))

    def off(self, actual: AnyArray | Sequence[AnyArray]) -> tuple[float, ...]:
        """Return how far each output is from ``reference``: no verdict, but a measure of precision.

        It is the largest error as a share of the largest value, and NaN for an output that is not
        of floats or has another shape.  DidymaError as ``compare`` and ``reference``.
        """
        rows = zip(self.reference, self._counted(actual), strict=True)
        return tuple(distance(*row).off for row in rows)

    def compare(self, actual: AnyArray | Sequence[AnyArray]) -> tuple[Comparison, ...]:
        """Judge arrays by the bars: one array, or a tuple or list of one for each output.

        DidymaError ``output-count`` where there are more or fewer arrays than outputs.
        """
        rows = zip(self.names, self.bars, self._counted(actual), self.values, strict=True)
        return tuple(
            compare(name, bar, a, TensorType(DType.of(v), v.shape)) for name, bar, a, v in rows
        )

    def _counted(self, actual: AnyArray | Sequence[AnyArray]) -> list[Array]:
        arrays = outputs(actual)
        if len(arrays) != len(self.values):
            raise DidymaError(
                "output-count", "actual", got=f"{len(arrays)} arrays",
                want=f"{len(self.values)}: {', '.join(self.names) or 'none'}",
            )  # fmt: skip
        return arrays

    def contains(self, actual: AnyArray | Sequence[AnyArray]) -> bool:
        """Return whether arrays are results that a correct implementation may give.

        Every element must lie inside its bar, by the judge's own rule: NaN where ``values`` has
        NaN, the sign of an exact zero, the exact integer.  Elements that are undecided may be
        anything, but an output of which no element is decided makes the answer False, and so do
        outputs without any element: nothing was checked.
        """
        compared = self.compare(actual)
        sound = all(c.agree and (c.checked or not c.total) for c in compared)
        return sound and any(c.checked for c in compared)

    def __repr__(self) -> str:
        return brief.interpreted(self.names, self.values, self.bars)


def interpret(program: Program, /, *inputs: AnyArray, **named: AnyArray) -> Interpreted:
    """Evaluate by the reference implementation, on arrays by position or by the input's name.

    DidymaError ``not-a-program``, ``input-count``, ``unknown-input``, and as the interpreter for
    types and shapes.
    """
    m = require(program, "dd.interpret").module
    arrays = arguments(m.entry, ordered(m.entry.params, inputs, named))
    values = interpreter.run(m, arrays)
    rows = [(p.name, p.type.shape, a.shape) for p, a in zip(m.entry.params, arrays, strict=True)]
    env = dims.bind(rows, m.dims)
    given = [bars_.exact(a, DType.of(a)) for a in arrays]
    bars = interpreter.bars(m.entry, m, given, env, bars_.ANYONES, stored=True)
    return Interpreted(tuple(values), tuple(bars), m.entry.results, m, tuple(arrays))


def outputs(actual: AnyArray | Sequence[AnyArray]) -> list[Array]:
    """Return NumPy arrays of one array, or of a tuple or list of them."""
    if isinstance(actual, tuple | list):
        return [as_array(a) for a in cast("Sequence[AnyArray]", actual)]
    return [as_array(actual)]


def require(given: object, where: str) -> Program:
    """Return a program; DidymaError ``not-a-program`` says how to make one of what was given."""
    if isinstance(given, Program):
        return given
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        got, help = f"the function {name}", f"dd.trace({name}) makes a program of it"
    else:
        got, help = f"a {type(given).__name__}", "dd.load(path) reads a .dym or .onnx file"
    raise DidymaError("not-a-program", where, got=got, want="a program", help=help)


def ordered(
    params: Sequence[Param], inputs: Sequence[AnyArray], named: Mapping[str, AnyArray]
) -> Sequence[AnyArray]:
    """Return inputs in the order of the parameters, some of them by name.

    DidymaError ``unknown-input`` for another name, ``input-count`` for an input that is missing
    or comes twice.
    """
    names = [p.name for p in params]
    for name in named:
        if name not in names:
            raise DidymaError("unknown-input", name, got=name, want=f"one of {', '.join(names)}")
        if name in names[: len(inputs)]:
            raise DidymaError("input-count", name, got="it by position and name", want="it once")
    if not named:
        return inputs
    missing = [n for n in names[len(inputs) :] if n not in named]
    if missing:
        raise DidymaError(
            "input-count", "inputs", got=f"no {', '.join(missing)}", want=", ".join(names)
        )
    return [*inputs, *(named[n] for n in names[len(inputs) :])]
