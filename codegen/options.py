"""What a caller may choose about a compile: one frozen argument, no global switches."""

from __future__ import annotations

from dataclasses import dataclass

from didyma.refimpl.errors import DidymaError

MAX_BLOCK = 1024  # threads a block may have on every device that is a target


@dataclass(frozen=True, slots=True)
class Options:
    """Choices of a compile; every stage sees the same ones.

    ``planner`` names a memory planner of ``didyma.codegen.memory.PLANNERS``, and ``capacity`` is
    what it may use on each device, in bytes, beside inputs and constants; it may search for
    ``plan_seconds`` for each arena, and without takes milliseconds and gives the same plan on every
    machine; ``block`` is the number of
    threads a block should have where the shape asks for no other; ``vectorise`` lets kernels
    load and store 16 bytes at once; ``simplify`` and ``fuse`` turn whole passes off, and without
    ``fuse`` every op becomes a kernel of its own; ``verify`` checks the laws of each level between
    stages.

    >>> Options(planner="none").block
    256
    """

    planner: str = "didyma"
    capacity: int | None = None
    plan_seconds: float | None = None
    block: int = 256
    vectorise: bool = True
    simplify: bool = True
    fuse: bool = True
    verify: bool = True

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 0:
            raise DidymaError("bad-capacity", "capacity", got=str(self.capacity), want="0 or more")
        if self.plan_seconds is not None and not 0 <= self.plan_seconds < float("inf"):
            raise DidymaError(
                "bad-option", f"plan_seconds = {self.plan_seconds}", got=str(self.plan_seconds),
                want="seconds, 0 or more",
            )  # fmt: skip
        if not 32 <= self.block <= MAX_BLOCK or self.block & (self.block - 1):
            raise DidymaError(
                "bad-option",
                f"block = {self.block}",
                got=str(self.block),
                want=f"a power of two from 32 to {MAX_BLOCK}",
            )
