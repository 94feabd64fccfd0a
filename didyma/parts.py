"""Parts by name: what Didyma brings of each kind, and what others register."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType

from didyma.codegen import plugins
from didyma.refimpl.errors import DidymaError

__all__ = ["Registration", "register"]


def _engines() -> tuple[str, ...]:
    from didyma.codegen.runtime.registry import NAMES

    return NAMES


def _planners() -> tuple[str, ...]:
    from didyma.codegen.memory.planners import PLANNERS

    return tuple(PLANNERS)


def _peers() -> tuple[str, ...]:
    from didyma.fuzz.peers.registry import NAMES

    return NAMES


def _passes() -> tuple[str, ...]:
    from didyma.codegen.pipeline import PASSES

    return tuple(p.name for p in PASSES)


def _recipes() -> tuple[str, ...]:
    from didyma.codegen.schedule.dispatch import names

    return names()


def _templates() -> tuple[str, ...]:
    from didyma.codegen.codegens import own

    return tuple(own())


def _intrinsics() -> tuple[str, ...]:
    from didyma.refimpl.ir.loop import INTRINSICS

    return tuple(INTRINSICS)


def _loops() -> tuple[str, ...]:
    return ("loops",)


def _none() -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of parts: its group of entry points, the names of Didyma's own, and what they do."""

    group: str
    own: Callable[[], tuple[str, ...]]
    what: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "engines": Kind(plugins.ENGINES, _engines, "run kernels"),
        "planners": Kind(plugins.PLANNERS, _planners, "plan memory"),
        "peers": Kind(plugins.PEERS, _peers, "are other implementations to judge"),
        "passes": Kind(plugins.PASSES, _passes, "rewrite graphs"),
        "codegens": Kind(plugins.CODEGENS, _loops, "make kernels of functions"),
        "templates": Kind(plugins.TEMPLATES, _templates, "make kernels of text with parameters"),
        "recipes": Kind(plugins.RECIPES, _recipes, "make kernels by scheduling loops"),
        "routines": Kind(plugins.ROUTINES, _none, "take over functions, from a library"),
        "intrinsics": Kind(plugins.INTRINSICS, _intrinsics, "are functions that kernels call"),
        "externs": Kind(plugins.EXTERNS, _none, "run functions marked Compiler"),
    }
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part that can be named: its kind, its name, and where it is from."""

    kind: str
    name: str
    origin: str


@dataclass(frozen=True, slots=True)
class Registration:
    """A part that a call registered; it is withdrawn at the end of a ``with`` statement."""

    kind: str
    name: str

    def withdraw(self) -> None:
        """Forget the part."""
        plugins.remove(KINDS[self.kind].group, self.name)

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.withdraw()


def register(kind: str, name: str, part: object) -> Registration:
    """Register a part by name for this process; other processes need an entry point.

    ``kind`` is one of ``engines``, ``planners``, ``peers``, ``passes``, ``codegens``,
    ``templates``, ``recipes``, ``routines``, ``intrinsics`` and ``externs``.  ``part`` is what an
    entry point of the group ``didyma.KIND`` would refer to, and is looked at when its name is used.

    Errors: ``unknown-part`` for another kind, ``registered-twice`` for a name that has a part,
    ``bad-part`` for None.

    Examples:
        >>> import didyma as dd
        >>> from didyma.codegen.memory.planners import planner
        >>> with dd.register("planners", "mine", planner("none")):
        ...     options = dd.Options(memory=dd.MemoryOptions(planner="mine"))
    """
    if kind not in KINDS:
        raise DidymaError("unknown-part", kind, got=kind, want=f"one of {', '.join(KINDS)}")
    group = KINDS[kind].group
    if name in KINDS[kind].own():
        raise plugins.twice(group, name, "didyma")
    plugins.add(group, name, part)
    return Registration(kind, name)


def parts() -> Iterator[Part]:
    """Yield every part that has a name: Didyma's own first, then what others register."""
    for kind, k in KINDS.items():
        for name in k.own():
            yield Part(kind, name, "didyma")
        for name in plugins.names(k.group):
            yield Part(kind, name, plugins.origin(k.group, name))
