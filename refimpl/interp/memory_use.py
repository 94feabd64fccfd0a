"""What a run of a program takes of memory."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class MemoryUse:
    """The bytes that a run has allocated: now, at most, and at each launch and copy.

    The caller's bytes do not count.  ``steps`` has the name of each kernel launched, ``copy`` for a
    copy, each with the bytes allocated as it begins.  ``finished`` tells whether the run returned.
    """

    allocated: int = 0
    most: int = 0
    steps: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    finished: bool = False

    def take(self, nbytes: int) -> None:
        """Count bytes that are allocated."""
        self.allocated += nbytes
        self.most = max(self.most, self.allocated)

    def give(self, nbytes: int) -> None:
        """Count bytes that are freed."""
        self.allocated -= nbytes

    def step(self, name: str) -> None:
        """Note a launch or a copy that begins."""
        self.steps.append((name, self.allocated))
