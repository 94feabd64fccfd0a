"""The faults: each is one change of one place, with the levels that may be named first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """``old`` becomes ``new`` in ``file``; a campaign on ``engine`` must name one of ``levels``."""

    name: str
    file: str
    old: str
    new: str
    levels: tuple[str, ...]
    engine: str = "host"


FAULTS: tuple[Fault, ...] = ()
