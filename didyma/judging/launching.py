"""Launches of a task's kernel on engine ``ptx``, with all checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.sanitize import Argument, Finding, sanitize
from didyma.judging.expressions import USUAL, Functions, evaluate
from didyma.judging.task import Operand, Result, Role, Scalar, Scratch, Task
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array, DType

_POISON = 0xFF  # NaN in every float


@dataclass(frozen=True, slots=True)
class Ran:
    """What a launch left: the outputs in the order of the specification, and its findings."""

    outputs: tuple[Array, ...]
    findings: tuple[Finding, ...]
    instructions: int = 0
    empty: bool = False  # a launch of no threads

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are no notes."""
        return tuple(f for f in self.findings if not f.is_note)


def geometry(task: Task, env: Mapping[str, int], arrays: Sequence[Array]) -> tuple[Shape, int]:
    """Return the blocks and threads of a launch, and its bytes of dynamic shared memory."""
    known = functions(task, arrays)

    def three(row: Sequence[str], option: str) -> tuple[int, int, int]:
        x, y, z = (*(_whole(e, env, option, known) for e in row), 1, 1)[:3]
        return x, y, z

    g = task.geometry
    shape = Shape(three(g.grid, "--grid"), three(g.block, "--block"))
    return shape, _whole(g.shared, env, "--shared", known)


def functions(task: Task, arrays: Sequence[Array]) -> Functions:
    """Return the functions of expressions: the usual, ``size(x, axis)`` and ``numel(x)``."""
    named = {p.name: a for p, a in zip(task.spec.entry.params, arrays, strict=True)}

    def size(name: str, axis: int) -> int:
        return int(named[name].shape[axis])

    def numel(name: str) -> int:
        return int(named[name].size)

    return {**USUAL, "size": size, "numel": numel}


def _whole(text: str, env: Mapping[str, int], option: str, known: Functions) -> int:
    n = evaluate(text, env, option, known)
    if n != int(n) or n < 0:
        raise DidymaError("bad-option", f"{option} {text}", got=str(n), want="a number from 0 on")
    return int(n)


def run(task: Task, env: Mapping[str, int], arrays: Sequence[Array], schedule: int = 0) -> Ran:
    """Launch the kernel once, in one order of warps.

    Errors: ``launch-failed`` for a launch that no device runs, ``bad-option``.
    """
    shape, shared = geometry(task, env, arrays)
    findings: tuple[Finding, ...] = ()
    made = arguments(task, env, arrays)
    if not shape.blocks or not shape.threads:
        left, steps = [a.value for a in made if a.value.ndim], 0
    else:
        done = sanitize(
            task.source, task.kernel, shape, made, shared, 1, task.seconds, first=schedule
        )
        left, findings, steps = list(done.outputs), done.findings, done.instructions
    pointers = [r for r, a in zip(task.roles, made, strict=True) if a.value.ndim]
    after = {r.name: a for r, a in zip(pointers, left, strict=True) if isinstance(r, Result)}
    types = zip(task.spec.entry.results, task.spec.entry.result_types(), strict=True)
    outputs = tuple(after[n].reshape(dims.values(t.shape, env)) for n, t in types)
    own = [f"argument {n}[" for n, r in zip(task.names, task.roles, strict=True)
           if isinstance(r, Scratch)]  # fmt: skip
    kept = [f for f in findings if f.kind != "unwritten" or not f.detail.startswith(tuple(own))]
    return Ran(outputs, (*kept, *_changed(task, pointers, arrays, left)), steps, not steps)


def arguments(task: Task, env: Mapping[str, int], arrays: Sequence[Array]) -> list[Argument]:
    """Return the arguments of a launch, in the order of the kernel's parameters."""
    rows = zip(task.names, task.roles, strict=True)
    return [_argument(task, name, role, env, arrays) for name, role in rows]


def _argument(
    task: Task, name: str, role: Role, env: Mapping[str, int], arrays: Sequence[Array]
) -> Argument:
    entry = task.spec.entry
    given = {p.name: a for p, a in zip(entry.params, arrays, strict=True)}
    match role:
        case Operand(n):
            number = task.by_value(name)
            return Argument(name, given[n] if number else _as_array(given[n]))
        case Result(n, zeroed, over):
            if over:
                return Argument(name, _as_array(given[over]).copy())
            t = dict(zip(entry.results, entry.result_types(), strict=True))[n]
            return _memory(name, t.dtype, dims.values(t.shape, env), zeroed)
        case Scalar(text, dtype):
            value = evaluate(text, env, f"--arg {name}", functions(task, arrays))
            return Argument(name, np.array(value).astype(dtype.numpy))
        case Scratch(dtype, shape, zeroed):
            known = functions(task, arrays)
            sizes = [_whole(e, env, f"--arg {name}", known) for e in shape]
            return _memory(name, dtype, sizes, zeroed)


def _as_array(x: Array) -> Array:
    return x if x.ndim else x.reshape(1)


def _memory(name: str, dtype: DType, shape: Sequence[int], zeroed: bool) -> Argument:
    count = math.prod(shape)
    raw = np.full(count * dtype.nbytes, 0 if zeroed else _POISON, np.uint8)
    if dtype is DType.BOOL and not zeroed:
        raw[:] = 1
    return Argument(name, raw.view(dtype.numpy).reshape(tuple(shape) or (1,)), not zeroed)


def _changed(
    task: Task, roles: Sequence[Role], arrays: Sequence[Array], left: Sequence[Array]
) -> list[Finding]:
    """Return a finding for each input that the kernel has written."""
    given = {p.name: a for p, a in zip(task.spec.entry.params, arrays, strict=True)}
    return [
        Finding("input-changed", f"input {r.name} has other values after the launch",
                task.source.file, 0, "", (), "", 0, 0)
        for r, a in zip(roles, left, strict=True)
        if isinstance(r, Operand) and _as_array(given[r.name]).tobytes() != a.tobytes()
    ]  # fmt: skip
