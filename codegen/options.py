"""What a caller may choose about a compile: one frozen argument, no global switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.limits import PORTABLE

if TYPE_CHECKING:
    from didyma.codegen.memory.planners import Choice


EMBEDDED = 1 << 16
STREAMS = 8  # the most that launches are spread over


@dataclass(frozen=True, slots=True, repr=False)
class Options:
    """Choices of a compile; every stage sees the same ones.

    ``planner`` is a memory planner, by name or as an object, and ``capacity`` is what it may use on
    each device, in bytes, beside inputs and constants; it may search for ``plan_seconds`` for each
    arena, and without takes milliseconds and gives the same plan on every machine; ``block`` is the
    number of threads a block should have where the shape asks for no other; ``vectorise`` lets
    kernels load and store 16 bytes at once; ``simplify`` and ``fuse`` turn whole passes off, and
    without ``fuse`` every op becomes a kernel of its own; ``streams`` is the number of streams that
    launches are spread over; ``verify`` checks the laws of each level
    between stages.

    The other fields are numbers at which the compiler decides otherwise.  They change speed, never
    results: campaigns draw them low, so that small programs reach what only large ones would.

    >>> Options(planner="none").block
    256
    """

    planner: Choice = "didyma"
    capacity: int | None = None
    plan_seconds: float | None = None
    block: int = 256
    vectorise: bool = True
    simplify: bool = True
    fuse: bool = True
    streams: int = 1
    verify: bool = True
    fold_operand: int = 4096  # elements of a constant that is folded, at most
    fold_result: int = 64  # elements of a folded constant, or as many as its largest operand has
    long_run: int = 128  # elements from which on a running sum or product is computed in blocks
    kernel_cost: int = 128  # most that a kernel computes for one element; the unit is an addition
    again_cost: int = 10  # most that another kernel recomputes rather than reads from memory
    spread_cost: int = 4  # most that is recomputed for each of many readers of one element
    product_cost: int = 2  # most that a product recomputes at each read of an operand
    outputs: int = 4  # most results of one kernel
    full: int = 4096  # results that fill a device at one thread each
    few: int = 256  # results that alone do not fill a device with threads
    short: int = 16  # terms that one thread adds up alone
    chain: int = 64  # additions in a row that are not worth cutting
    unroll: int = 16  # copies of a loop's body
    wide_product: int = 8  # rows and columns from which on gathered tiles of a product are filled
    gathered: int = 32  # terms from which on they are
    embedded: int = EMBEDDED  # bytes of constants that stand in the wrapper, not beside it

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 0:
            raise DidymaError("bad-capacity", "capacity", got=str(self.capacity), want="0 or more")
        if self.plan_seconds is not None and not 0 <= self.plan_seconds < float("inf"):
            raise DidymaError(
                "bad-option", f"plan_seconds = {self.plan_seconds}", got=str(self.plan_seconds),
                want="seconds, 0 or more",
            )  # fmt: skip
        if not 1 <= self.streams <= STREAMS:
            raise DidymaError(
                "bad-option", f"streams = {self.streams}", got=str(self.streams),
                want=f"a number from 1 to {STREAMS}",
            )  # fmt: skip
        if not 32 <= self.block <= PORTABLE.threads or self.block & (self.block - 1):
            raise DidymaError(
                "bad-option",
                f"block = {self.block}",
                got=str(self.block),
                want=f"a power of two from 32 to {PORTABLE.threads}",
            )
        for f in fields(self)[_NUMBERS]:
            value = getattr(self, f.name)
            if type(value) is not int or value < _LEAST.get(f.name, 0):
                raise DidymaError(
                    "bad-option", f"{f.name} = {value}", got=str(value),
                    want=f"an int of at least {_LEAST.get(f.name, 0)}",
                )  # fmt: skip

    def __repr__(self) -> str:
        """Show what differs from the usual, the planner by its name."""
        chosen = self.record()
        given = (
            f"{f.name}={chosen[f.name]!r}" for f in fields(self) if chosen[f.name] != f.default
        )
        return f"Options({', '.join(given)})"

    @property
    def planner_name(self) -> str:
        """Name of the planner, however it was given."""
        return self.planner if isinstance(self.planner, str) else self.planner.name

    def record(self) -> dict[str, Any]:
        """Return the choices as plain data, the planner by its name.

        >>> Options(block=64).record()["planner"]
        'didyma'
        """
        return asdict(replace(self, planner=self.planner_name))

    @staticmethod
    def recorded(record: Mapping[str, Any]) -> Options:
        """Return the options of a record; raises TypeError where a name is no option."""
        return Options(**record)


_NUMBERS = slice(9, None)  # the fields that are such numbers
_LEAST = {"long_run": 8, "outputs": 1}


def choose(options: Options | None = None, planner: Choice | None = None) -> Options:
    """Return options, or the usual ones, with another planner where one is given."""
    chosen = options or Options()
    return chosen if planner is None else replace(chosen, planner=planner)
