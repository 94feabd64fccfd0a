"""What a worker of a campaign tells its parent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from didyma.fuzz.graphs import Case
from didyma.refimpl.errors import DidymaError

_ERROR = re.compile(r"DidymaError: ([\w-]+) at|\w*Fault: ([\w-]+)|(\w+):")


@dataclass(frozen=True, slots=True)
class Begin:
    """A case is about to run: the bytes it is made from, or the case itself."""

    case: bytes | Case


@dataclass(frozen=True, slots=True)
class Judged:
    """A case ran to the end and every level agreed, or see ``Found``."""

    nodes: int
    checked: int
    total: int
    coverage: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A case of a disagreement; a smaller one may follow.

    ``traits`` say what the case does (see ``traits``); empty where that tells nothing of the cause.
    """

    case: Case
    level: str
    where: str
    kind: str
    message: str
    nodes: int
    traits: frozenset[str] = frozenset()

    @property
    def reason(self) -> str:
        """The pass at fault, the kind of error, or how the process ended; else nothing.

        >>> from didyma.fuzz.graphs import BYTES, decode
        >>> Found(decode(bytes(BYTES)), "host", "f", "error", "ValueError: 3 is too many", 1).reason
        'ValueError'
        """
        if self.kind in ("error", "fault"):
            named = _ERROR.match(self.message)
            return next(filter(None, named.groups()), "") if named else ""
        if self.kind == "crash":
            return self.message
        return self.where if self.level == "passes" else ""

    @property
    def cause(self) -> tuple[str, str, str]:
        """What a smaller case must have in common with this one to show the same fault.

        A broken plan is one, whether the laws of programs refuse it or the replay of the plan does.
        """
        if self.level == "plan":
            return self.level, "plan", ""
        return self.level, self.kind, self.reason


@dataclass(frozen=True, slots=True)
class Done:
    """The shard is finished."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The job cannot be done: what its user should mend."""

    error: DidymaError


Message: TypeAlias = Begin | Judged | Found | Done | Refused
