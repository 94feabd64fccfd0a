"""What a run of a program takes of memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest


@dataclass(slots=True)
class MemoryUse:
    """The bytes that a run has allocated: now, at most, and at each launch and copy.

    The caller's bytes do not count.  ``steps`` has the name of each kernel launched, ``copy`` for a
    copy, each with the bytes allocated as it begins.  ``finished`` tells whether the run returned.
    ``stacked`` are the bytes of arenas that were to lie on the stack, whether freed or not.
    """

    allocated: int = 0
    most: int = 0
    steps: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    finished: bool = False
    stacked: int = 0

    def take(self, nbytes: int, *, stack: bool = False) -> None:
        """Count bytes that are allocated, on the ``stack`` or not."""
        self.allocated += nbytes
        self.stacked += nbytes if stack else 0
        self.most = max(self.most, self.allocated)

    def give(self, nbytes: int) -> None:
        """Count bytes that are freed."""
        self.allocated -= nbytes

    def step(self, name: str) -> None:
        """Note a launch or a copy that begins."""
        self.steps.append((name, self.allocated))

    def unlike(self, planned: MemoryUse) -> str:
        """Say where a run differs from the run of its plan; nothing if it does not."""
        steps = zip_longest(planned.steps, self.steps, fillvalue=("", 0))
        for k, (want, got) in enumerate(steps):
            if want != got:
                return f"step {k} is {_shown(*got)}, and {_shown(*want)} in the plan"
        if self.most != planned.most:
            return f"{self.most} bytes are allocated at once, where the plan has {planned.most}"
        if self.stacked != planned.stacked:
            return f"{self.stacked} bytes are on the stack, and {planned.stacked} in the plan"
        return ""


def _shown(name: str, allocated: int) -> str:
    return f"{name} with {allocated} bytes allocated" if name else "nothing"
