"""Launches of a task's kernel on engine ``ptx``, with all checks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.maps import tensor_map
from didyma.codegen.runtime.ptx.sanitize import Argument, Finding, bytes_of, sanitize
from didyma.codegen.runtime.ptx.side_by_side import side_by_side as copied
from didyma.judging import layouts
from didyma.judging.expressions import USUAL, Functions, evaluate, names
from didyma.judging.task import Kept, Operand, Result, Role, Scalar, Scratch, Step, Task
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType, TensorType


@dataclass(frozen=True, slots=True)
class Ran:
    """What launches left: the outputs in the order of the specification, and their findings.

    ``writers`` has, for each output and each of its bytes, the launch and the instruction of its
    kernel that wrote it last, or -1.
    """

    outputs: tuple[Array, ...]
    findings: tuple[Finding, ...]
    writers: tuple[tuple[int, Array], ...] = ()
    instructions: int = 0
    empty: bool = False  # a launch of no threads
    left: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  # in changed variables

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are no notes."""
        return tuple(f for f in self.findings if not f.is_note)


def geometry(
    task: Task, step: Step, env: Mapping[str, int], arrays: Sequence[Array]
) -> tuple[Shape, int]:
    """Return the blocks and threads of a launch, and its bytes of dynamic shared memory."""
    known = functions(task, env, arrays)

    def extent(text: str, option: str) -> int:
        n = _whole(text, env, option, known)
        if not n and not names(text):  # at any sizes
            want = "a number from 1 on"
            raise DidymaError("bad-option", f"{option} {text}", got="0", want=want)
        return n

    def three(row: Sequence[str], option: str) -> tuple[int, int, int]:
        x, y, z = (*(extent(e, option) for e in row), 1, 1)[:3]
        return x, y, z

    g = step.geometry
    shape = Shape(three(g.grid, "--grid"), three(g.block, "--block"))
    return shape, _whole(g.shared, env, "--shared", known)


def functions(task: Task, env: Mapping[str, int], arrays: Sequence[Array]) -> Functions:
    """Return the functions of expressions.

    They are the usual ones, ``size(x, axis)``, ``numel(x)`` and ``stride(x, axis)`` in elements.
    """
    named = {p.name: a for p, a in zip(task.spec.entry.params, arrays, strict=True)}

    def size(name: str, axis: int) -> int:
        return int(named[name].shape[axis])

    def numel(name: str) -> int:
        return int(named[name].size)

    def stride(name: str, axis: int) -> int:
        own = steps.get(name) or layouts.row_major(_shapes(task, env)[name])
        return own[axis]

    steps = layouts.strides(task, env)
    return {**USUAL, "size": size, "numel": numel, "stride": stride}


def _shapes(task: Task, env: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs and outputs."""
    entry = task.spec.entry
    types = {p.name: p.type for p in entry.params}
    types |= dict(zip(entry.results, entry.result_types(), strict=True))
    return {n: dims.values(t.shape, env) for n, t in types.items()}


def _whole(text: str, env: Mapping[str, int], option: str, known: Functions) -> int:
    n = evaluate(text, env, option, known)
    if n != int(n) or n < 0:
        raise DidymaError("bad-option", f"{option} {text}", got=str(n), want="a number from 0 on")
    return int(n)


def run(
    task: Task,
    env: Mapping[str, int],
    arrays: Sequence[Array],
    schedule: int = 0,
    before: Mapping[str, bytes] | None = None,
) -> Ran:
    """Launch the kernels of a task once, in one order of warps.

    Variables of their text hold what the launch before it has left there, and at first ``before``.

    Errors: ``launch-failed`` for a launch that no device runs, ``bad-option``.
    """
    findings, steps = list[Finding](), 0
    held: dict[str, Argument] = {}
    variables = dict(before or {})
    writers: dict[str, tuple[int, Array]] = {}
    spread = _Spread(_shapes(task, env), layouts.strides(task, env))
    for k, step in enumerate(task.steps):
        made = arguments(task, step, env, arrays, held)
        shape, shared = geometry(task, step, env, arrays)
        pointers = [(r, x) for r, a in zip(step.roles, made, strict=True) for x in a.arrays()]
        if shape.blocks and shape.threads:
            kernel = step.kernel.holding(variables) if variables else step.kernel
            done = sanitize(
                task.source, kernel, shape, made, shared, 1, task.timeout, first=schedule
            )
            steps += done.instructions
            variables |= done.left
            left = [replace(a, value=v, written=w) for (_, a), v, w
                    in zip(pointers, done.outputs, done.written, strict=True)]  # fmt: skip
            findings += _kept(task, k, done.findings)
            rows = zip(pointers, done.writers, strict=True)
            writers |= {
                r.name: (k, spread.bytes_of(r.name, w, a.value.itemsize))
                for (r, a), w in rows if isinstance(r, Result)
            }  # fmt: skip
            findings += _changed(task, pointers, left)
            findings += spread.changed(task, pointers, left)
        else:
            left = [a for _, a in pointers]
        for (role, _), a in zip(pointers, left, strict=True):
            if isinstance(role, Result | Kept):
                held[key(role)] = a
        if any(f.kind == "hang" for f in findings):
            break
    by = tuple(writers.get(n, (0, np.zeros(0, np.int32))) for n in task.spec.entry.results)
    return Ran(results(task, env, held), tuple(findings), by, steps, not steps, variables)


def side_by_side(
    task: Task, env: Mapping[str, int], arrays: Sequence[Array], numbers: range, seconds: float
) -> tuple[list[tuple[Array, ...] | None], Array]:
    """Launch the kernels of a task in copies of their grids; return the results of each copy.

    They have the number 0, and some ``numbers``.  Nothing for a copy that takes too long, and no
    array for one that would not end.

    Each has outputs and memory of its own, and only reads the inputs.  All that is checked is told
    beside the results: which copies have made accesses out of bounds or misaligned.
    DidymaError ``launch-failed`` for tensor maps, which belong to one address.
    """
    held: dict[str, tuple[Argument, Array]] = {}
    copies = 1 + len(numbers)
    ended, endless = np.ones(copies, np.bool_), np.zeros(copies, np.bool_)
    strayed = np.zeros(copies, np.bool_)
    for step in task.steps:
        if step.maps:
            raise DidymaError("launch-failed", "copies of a grid", got="maps", want="pointers")
        made = arguments(task, step, env, arrays, {k: a for k, (a, _) in held.items()})
        shape, shared = geometry(task, step, env, arrays)
        own: list[Array | None] = []
        for role, a in zip(step.roles, made, strict=True):
            if not a.value.ndim or isinstance(role, Operand):
                own.append(None)
            elif isinstance(role, Result | Kept) and key(role) in held:
                own.append(held[key(role)][1])
            else:
                own.append(np.tile(bytes_of(a.value), (copies, 1)))
        left = own
        if shape.blocks and shape.threads:
            many = replace(shape, copies=copies, second=numbers.start)
            left, done, given_up, stray = copied(step.kernel, many, made, own, shared, seconds)
            ended, endless, strayed = ended & done, endless | given_up, strayed | stray
        for role, a, rows in zip(step.roles, made, left, strict=True):
            if isinstance(role, Result | Kept) and rows is not None:
                held[key(role)] = a, rows
    names = [f"result {n}" for n in task.spec.entry.results]
    found: list[tuple[Array, ...] | None] = []
    for k in range(copies):
        of = {n: replace(a, value=r[k].view(a.value.dtype)) for n, (a, r) in held.items()}
        kept = {n: of[n] for n in names if n in of}
        found.append(results(task, env, kept) if ended[k] else () if endless[k] else None)
    return found, strayed


def key(role: Result | Kept) -> str:
    """Return the name of what several launches share, apart from all others."""
    return f"{'result' if isinstance(role, Result) else 'memory'} {role.name}"


def results(task: Task, env: Mapping[str, int], held: Mapping[str, Argument]) -> tuple[Array, ...]:
    """Return the results in the order of the specification, of what launches left.

    What no launch has reached stays poisoned.
    """
    entry = task.spec.entry

    steps = layouts.strides(task, env)

    def one(name: str, t: TensorType) -> Array:
        shape = dims.values(t.shape, env)
        found = held.get(f"result {name}") or _memory(name, t.dtype, shape, zeroed=False)
        return elements(found.value, shape, steps.get(name, ()))

    return tuple(map(one, entry.results, entry.result_types()))


def elements(memory: Array, shape: Sequence[int], steps: Sequence[int]) -> Array:
    """Return the array that lies in memory, with strides if it has others than row-major ones."""
    if not steps or not memory.size:
        return memory.reshape(shape)
    return np.ascontiguousarray(layouts.seen(memory, shape, steps))


@dataclass(frozen=True, slots=True)
class _Spread:
    """The arrays of a launch that have strides."""

    shapes: Mapping[str, tuple[int, ...]]
    steps: Mapping[str, tuple[int, ...]]

    def bytes_of(self, name: str, found: Array, itemsize: int) -> Array:
        """Return what is known of each byte of memory for each byte of the array's elements."""
        if name not in self.steps or not found.size:
            return found
        rows = found.reshape(-1, itemsize)
        at = layouts.seen(np.arange(len(rows)), self.shapes[name], self.steps[name])
        return np.asarray(rows[at.reshape(-1)].reshape(-1))

    def changed(
        self, task: Task, before: Sequence[tuple[Role, Argument]], left: Sequence[Argument]
    ) -> Iterator[Finding]:
        """Yield a finding for each output between whose elements the kernel has written."""
        for (r, a), b in zip(before, left, strict=True):
            if isinstance(r, Result) and r.name in self.steps:
                free = layouts.between(self.shapes[r.name], self.steps[r.name])
                if a.value[free].tobytes() != b.value[free].tobytes():
                    detail = f"memory between the elements of output {r.name} is written"
                    file = task.source.file
                    yield Finding("out-of-bounds", detail, file, 0, "", (), "", 0, 0)


def _kept(task: Task, at: int, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of a launch, but for memory that nobody has to write.

    Such is the kernels' own memory, and a result that a later launch has, too.
    """
    later = {r.name for s in task.steps[at + 1 :] for r in s.roles if isinstance(r, Result)}
    step = task.steps[at]
    free = tuple(
        f"argument {n}[" for n, r in zip(step.names, step.roles, strict=True)
        if isinstance(r, Scratch | Kept) or (isinstance(r, Result) and r.name in later)
    )  # fmt: skip
    return (f for f in findings if f.kind != "unwritten" or not f.detail.startswith(free))


def arguments(
    task: Task,
    step: Step,
    env: Mapping[str, int],
    arrays: Sequence[Array],
    held: Mapping[str, Argument],
) -> list[Argument]:
    """Return the arguments of a launch, in the order of the kernel's parameters.

    ``held`` is what earlier launches left of results and of memory.
    """
    rows = zip(step.names, step.roles, strict=True)
    made = [_argument(task, step, name, role, env, arrays, held) for name, role in rows]
    return [tensor_map(a, step.maps[a.name]) if a.name in step.maps else a for a in made]


def _argument(
    task: Task,
    step: Step,
    name: str,
    role: Role,
    env: Mapping[str, int],
    arrays: Sequence[Array],
    held: Mapping[str, Argument],
) -> Argument:
    entry = task.spec.entry
    given = {p.name: a for p, a in zip(entry.params, arrays, strict=True)}
    steps = layouts.strides(task, env)
    match role:
        case Result() | Kept() if key(role) in held:
            return replace(held[key(role)], name=name)
        case Operand(n):
            if n in steps:
                return _strided(name, given[n], steps[n])
            return Argument(name, given[n] if name in step.numbers else _as_array(given[n]))
        case Result(n, zeroed, over):
            if over:
                x = given[over]
                if n in steps:
                    return _strided(name, x, steps[n])
                return Argument(name, _as_array(x).copy())
            t = dict(zip(entry.results, entry.result_types(), strict=True))[n]
            made = _memory(name, t.dtype, dims.values(t.shape, env), zeroed)
            return _spread(made, steps[n]) if n in steps else made
        case Scalar(text, dtype):
            value = evaluate(text, env, f"--arg {name}", functions(task, env, arrays))
            return Argument(name, np.array(value).astype(dtype.numpy))
        case Scratch() | Kept():
            of = task.memory[role.name] if isinstance(role, Kept) else role
            known = functions(task, env, arrays)
            sizes = [_whole(e, env, f"--arg {name}", known) for e in of.shape]
            return _memory(name, of.dtype, sizes, of.zeroed)


def _strided(name: str, x: Array, steps: Sequence[int]) -> Argument:
    """Return an array with strides as an argument."""
    start = layouts.first(x.shape, steps) * x.itemsize
    return Argument(name, layouts.spread(x, steps), start=start)


def _spread(a: Argument, steps: Sequence[int]) -> Argument:
    """Return an output with strides; what lies between its elements need not be written."""
    written = np.repeat(layouts.between(a.value.shape, steps), a.value.itemsize)
    made = _strided(a.name, a.value, steps)
    return replace(made, output=a.output, written=written if a.output else None)


def _as_array(x: Array) -> Array:
    return x if x.ndim else x.reshape(1)


def _memory(name: str, dtype: DType, shape: Sequence[int], zeroed: bool) -> Argument:
    count = math.prod(shape)
    raw = np.full(count * dtype.nbytes, 0 if zeroed else layouts.POISON, np.uint8)
    if dtype is DType.BOOL and not zeroed:
        raw[:] = 1
    return Argument(name, raw.view(dtype.numpy).reshape(tuple(shape) or (1,)), not zeroed)


def _changed(
    task: Task, before: Sequence[tuple[Role, Argument]], left: Sequence[Argument]
) -> list[Finding]:
    """Return a finding for each input that the kernel has written."""
    return [
        Finding("input-changed", f"input {r.name} has other values after the launch",
                task.source.file, 0, "", (), "", 0, 0)
        for (r, a), b in zip(before, left, strict=True)
        if isinstance(r, Operand) and a.value.tobytes() != b.value.tobytes()
    ]  # fmt: skip
