"""The step ``tensorize``: a loop nest is replaced by a call of the function that it equals."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from didyma.codegen.schedule.steps.accesses import scan
from didyma.codegen.schedule.steps.loops import find, replaced
from didyma.codegen.schedule.steps.records import Tensorize
from didyma.codegen.schedule.steps.split import wrong
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import Buffer, Call, Load, PrimFunc, Store, Var


def tensorize(step: Tensorize, f: PrimFunc) -> PrimFunc:
    """Return a function that calls another where a loop nest does the same statement by statement.

    The callee stands among the functions of ``f``; its body is its meaning.  Its parameters are
    whole buffers of equal dtype, shape and scope.  DidymaError ``no-such-loop``,
    ``no-such-value``, ``bad-step``.
    """
    loop = find(f, step.loop).loop
    callee = f.function.get(step.function)
    if callee is None:
        raise DidymaError(
            "no-such-value", f"@{f.name}", got=f"@{step.function}",
            want=f"a function that it may call: {', '.join(f.function) or 'none'}",
        )  # fmt: skip
    match = _Match(callee, scan(f).buffers)
    if callee.dims or not match.equal(callee.body, loop):
        raise wrong(
            f, f"{step.loop}, which does not do what @{callee.name} does",
            "the same statements, on whole buffers of the same dtypes, shapes and scopes",
        )  # fmt: skip
    args = tuple(match.names.get(p.name, "") for p in callee.params)
    if not all(args):
        raise wrong(f, f"@{callee.name}, which uses not all of its parameters", "one that does")
    return replace(f, body=replaced(f.body, loop, Call(callee.name, args)))


@dataclass(slots=True)
class _Match:
    """Compares a callee's body with a nest, up to names; ``names`` maps those of the callee."""

    callee: PrimFunc
    buffers: Any
    names: dict[str, str] = field(default_factory=dict[str, str])

    def equal(self, a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, Var):
            return a.dtype is b.dtype and self._named(a.name, b.name)
        if isinstance(a, Buffer):
            return (a.dtype, a.shape, a.scope) == (b.dtype, b.shape, b.scope) and self._named(
                a.name, b.name
            )
        if isinstance(a, (Load, Store)) and not self._buffer(a.buffer, b.buffer):
            return False
        if isinstance(a, tuple):
            parts = cast("tuple[object, ...]", a)
            return len(parts) == len(b) and all(map(self.equal, parts, b))
        if hasattr(a, "__dataclass_fields__"):
            return all(
                self.equal(getattr(a, x.name), getattr(b, x.name))
                for x in fields(a)
                if not (x.name == "buffer" and isinstance(a, (Load, Store)))
            )
        return bool(a == b)

    def _buffer(self, mine: str, other: str) -> bool:
        param = next((p for p in self.callee.params if p.name == mine), None)
        if param is not None and mine not in self.names:
            found = self.buffers[other]
            if (param.dtype, param.shape, param.scope) != (found.dtype, found.shape, found.scope):
                return False
        return self._named(mine, other)

    def _named(self, mine: str, other: str) -> bool:
        if mine not in self.names and other in self.names.values():
            return False
        return self.names.setdefault(mine, other) == other
