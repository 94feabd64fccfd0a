"""Memory as loop programs see it: buffers with bounds, initialisation and race bookkeeping."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from didyma.oracle.lanes.races import AccessKind, CopyLayout, Lanes, Log, Mask, Origin
from didyma.refimpl.interp.faults import stmt_fault
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.interp.scalar_ring import value_of
from didyma.refimpl.ir.loop import Scope, Stmt
from didyma.refimpl.ir.types import Array


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class Dense:
    """A buffer in memory: one copy, or one for each lane of the first ``prefix`` axes.

    ``init`` marks initialised elements, or is None when all are.  ``writers`` counts the statements
    that write a parameter, wherever it is called what: loads of one that has none may alias it and
    need no bookkeeping.  ``loaded`` tells whether any statement reads the buffer.  ``base`` is each
    lane's offset to its copy, where that is known before the run.
    """

    __slots__ = (
        "base",
        "data",
        "dead",
        "grid",
        "init",
        "loaded",
        "log",
        "name",
        "prefix",
        "scope",
        "shape",
        "stride",
        "width",
        "writers",
    )

    def __init__(self, name: str, grid: Array, prefix: int = 0) -> None:
        self.name = name
        self.shape: tuple[int, ...] = grid.shape
        self.grid = grid
        self.data: Array = grid.reshape(-1)
        self.prefix = prefix
        self.init: Array | None = None
        self.log: Log | None = None
        self.writers = 0
        self.loaded = False
        self.dead = False
        self.base: Array | None = None
        self.scope = Scope.GLOBAL
        self.width: int = value_of(grid).itemsize  # bytes of an element
        self.stride = grid.size * self.width  # bytes from one copy to the next

    @property
    def numel(self) -> int:
        """Elements of one copy."""
        return math.prod(self.shape)

    def renew(self, copies: int, log: bool) -> None:
        """Give the buffer fresh, uninitialised memory."""
        size = copies * self.numel
        self.data = np.zeros(size, self.grid.dtype)
        self.init = np.zeros(size, bool)
        self.log = Log(self.name, size) if log else None
        self.dead = False

    @property
    def layout(self) -> CopyLayout:
        """How elements lie in bytes."""
        return self.numel, self.width, self.stride

    def copies(self, lanes: Lanes) -> Array:
        """Offset of each lane's copy."""
        head = lanes.shape[: self.prefix]
        starts = np.arange(math.prod(head), dtype=np.int64) * self.numel
        return starts.reshape(head + (1,) * (len(lanes.shape) - self.prefix))

    def kill(self) -> None:
        """Make every element uninitialised and every store a fault."""
        self.init = np.zeros(self.data.size, bool)
        self.dead = True

    def load(self, at: Value, lanes: Lanes, mask: Mask, origin: Origin) -> Value:
        """Return the elements at flat offsets."""
        self.check_init(at, mask, origin)
        if self.log is not None:
            self.log.record("read", at, lanes, mask, origin)
        return self.data.take(at)

    def check_init(self, at: Value, mask: Mask, origin: Origin) -> None:
        """Raise LoopFault unless the elements at flat offsets have been stored."""
        if self.init is not None:
            good = self.init.take(at)
            if not good.all() and (mask is None or (mask & ~good).any()):
                raise stmt_fault("uninitialised", origin.stmt, self._where(at, ~good, mask))

    def store(self, at: Value, value: Value, lanes: Lanes, mask: Mask, origin: Origin) -> None:
        """Write the active lanes' values to flat offsets."""
        to, values = self._touch("write", at, value, lanes, mask, origin)
        self.data[to] = values

    def update(
        self, at: Value, value: Value, lanes: Lanes, mask: Mask, origin: Origin
    ) -> tuple[Array, Array]:
        """Return offsets and values of the active lanes of an atomic, with bookkeeping done."""
        self.check_init(at, mask, origin)
        to, values = self._touch("atomic", at, value, lanes, mask, origin)
        return to, values

    def _touch(
        self, kind: AccessKind, at: Value, value: Value, lanes: Lanes, mask: Mask, origin: Origin
    ) -> tuple[Value, Value]:
        if self.dead:
            raise stmt_fault("uninitialised", origin.stmt, f"{self.name} is freed")
        if self.log is not None:
            self.log.record(kind, at, lanes, mask, origin)
        if mask is not None:
            active = mask if mask.shape == lanes.shape else np.broadcast_to(mask, lanes.shape)
            to = np.broadcast_to(at, lanes.shape)[active]
            values = value if value.ndim == 0 else np.broadcast_to(value, lanes.shape)[active]
        else:
            to = at if at.shape == lanes.shape else np.broadcast_to(at, lanes.shape)
            values = value
        if self.init is not None:
            self.init[to] = True
            if self.init.all():
                self.init = None
        return to, values

    def _where(self, at: Value, bad: Value, mask: Mask) -> str:
        wrong = bad if mask is None else bad & mask
        first = int(np.broadcast_to(at, np.shape(wrong))[wrong].flat[0]) % max(self.numel, 1)
        return f"{self.name}, element {first} was never stored"


class Local:
    """A lane's own registers: one value over lanes for each element.

    Values are never changed in place, so whoever loaded one keeps it.
    """

    __slots__ = ("depth", "init", "name", "rows", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], depth: int) -> None:
        self.name = name
        self.shape = shape
        self.depth = depth
        self.renew()

    def renew(self) -> None:
        """Forget every element."""
        n = math.prod(self.shape)
        self.rows: list[Value] = [None] * n
        self.init: list[Array | bool] = [False] * n  # all lanes, none, or which

    def load(self, at: int, mask: Mask, stmt: Stmt) -> Value:
        """Return an element."""
        good = self.init[at]
        if good is not True:
            if good is False:
                raise stmt_fault("uninitialised", stmt, f"{self.name}, element {at}")
            if good is not mask and (mask is None or (mask & ~np.asarray(good)).any()):
                raise stmt_fault("uninitialised", stmt, f"{self.name}, element {at}, in some lanes")
        return self.rows[at]

    def store(self, at: int, value: Value, mask: Mask) -> None:
        """Set an element in the active lanes."""
        good = self.init[at]
        if mask is None:
            self.rows[at] = value
            self.init[at] = True
        elif good is False or good is mask:
            self.rows[at] = value
            self.init[at] = mask
        else:
            self.rows[at] = np.where(mask, value, self.rows[at])
            if good is not True:
                either = np.asarray(good) | mask
                self.init[at] = bool(either.all()) or either


Memory: TypeAlias = Dense | Local
