"""Parts that others register by name, each by an entry point of its distribution or by a call.

A group of entry points is read each time a name is looked up that is not Didyma's own, and only the
entry point of that name is loaded, so that one broken plug-in disturbs no other.  What a call
registers lives in this process alone; it is the one table that modules write to.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from importlib import metadata
from typing import TypeAlias, TypeVar, cast

from didyma.refimpl.errors import DidymaError

ENGINES, PLANNERS = "didyma.engines", "didyma.planners"
PEERS, EXTERNS, PASSES = "didyma.peers", "didyma.externs", "didyma.passes"
CODEGENS, TEMPLATES, RECIPES = "didyma.codegens", "didyma.templates", "didyma.recipes"
ROUTINES, INTRINSICS = "didyma.routines", "didyma.intrinsics"
GROUPS_OF_KERNELS = (CODEGENS, TEMPLATES, RECIPES, ROUTINES, INTRINSICS)  # what makes kernels
CALL = "a call of didyma.register"  # where a part is from that no distribution registers
_CALLED: dict[tuple[str, str], object] = {}  # by group and name
_NAME = re.compile(r"[^\s,=]+")  # what an option can give, in a list with commas
T = TypeVar("T")
Called: TypeAlias = tuple[str, str, object]  # the group of a part, its name, and the part


def add(group: str, name: str, part: object) -> None:
    """Register a part in this process.

    DidymaError ``registered-twice`` if the group has the name already, ``bad-part`` for None and
    for a name that options cannot give.
    """
    if not isinstance(cast("object", name), str) or not _NAME.fullmatch(name):
        want = "a string without spaces, commas and equals signs"
        raise DidymaError("bad-part", f"{group}: {name}", got=f"the name {name!r}", want=want)
    if part is None:
        raise DidymaError("bad-part", f"{group}: {name}", got="None", want="an object")
    if (group, name) in _CALLED or name in metadata.entry_points(group=group).names:
        raise twice(group, name, origin(group, name))
    _CALLED[group, name] = part


def called(groups: Collection[str]) -> tuple[Called, ...]:
    """Return the parts of some groups that calls registered in this process."""
    return tuple((group, name, p) for (group, name), p in _CALLED.items() if group in groups)


def receive(parts: Collection[Called]) -> None:
    """Register parts that another process has, those that this one has not."""
    for group, name, p in parts:
        _CALLED.setdefault((group, name), p)


def remove(group: str, name: str) -> None:
    """Forget a part that ``add`` registered."""
    del _CALLED[group, name]


def twice(group: str, name: str, by: str) -> DidymaError:
    """Return the error of a name that has a part already."""
    return DidymaError(
        "registered-twice", f"{group}: {name}", got=name, want=f"another name: {by} registers it"
    )


def names(group: str) -> tuple[str, ...]:
    """Return the names that others register in a group, sorted.

    >>> names("didyma.nothing")
    ()
    """
    called = (name for g, name in _CALLED if g == group)
    return tuple(sorted({*metadata.entry_points(group=group).names, *called}))


def of_groups(groups: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return what ``names`` gives for each of several groups that have any.

    Distributions are looked at once for each ``sys.path``: one that is installed into a folder of
    it later is not seen by the same process.

    >>> of_groups(("didyma.nothing",))
    {}
    """
    path = tuple(sys.path)
    called = {g: [name for group, name in _CALLED if group == g] for g in groups}
    found = {g: tuple(sorted({*_installed(g, path), *called[g]})) for g in groups}
    return {g: some for g, some in found.items() if some}


@lru_cache(maxsize=16)
def _installed(group: str, path: tuple[str, ...]) -> frozenset[str]:
    """Return the names of a group on a path, which takes milliseconds to read."""
    del path
    return frozenset(metadata.entry_points(group=group).names)


def value(group: str, name: str) -> object:
    """Return the object that is registered under a name; None if none is.

    DidymaError ``broken-plugin`` if it cannot be imported, or if several distributions claim the
    name.
    """
    if (group, name) in _CALLED:
        return _CALLED[group, name]
    found = list(metadata.entry_points(group=group, name=name))
    if not found:
        return None
    if len(found) > 1:
        raise _broken(group, name, f"the name from {origin(group, name)}")
    try:
        return found[0].load()
    except DidymaError:
        raise
    except Exception as e:
        raise _broken(group, name, f"{type(e).__name__}: {e}") from e


def load(group: str, name: str) -> object:
    """Return what is registered under a name, called if it can be; None if nothing is.

    DidymaError ``broken-plugin`` as from ``value``, if it cannot be made, or if it calls itself
    something else.
    """
    loaded = value(group, name)
    try:
        made: object = loaded() if callable(loaded) else loaded
    except DidymaError:
        raise
    except Exception as e:
        raise _broken(group, name, f"{type(e).__name__}: {e}") from e
    if (own := getattr(made, "name", name)) != name:
        raise _broken(group, name, f"an object whose name is {own!r}")
    return made


def part(group: str, which: str | T, kind: type[T], others: Iterable[str] = ()) -> T:
    """Return a part of a class that is given by its name or as an object.

    Errors: ``unknown-part`` lists the names that are registered, and ``others`` that the caller
    knows; ``bad-part`` for an object of another class, ``broken-plugin``.
    """
    found = value(group, which) if isinstance(which, str) else which
    if found is None:
        known = ", ".join((*names(group), *others)) or "none is registered"
        raise DidymaError("unknown-part", f"{group}: {which}", got=str(which), want=known)
    if not isinstance(found, kind):
        name = which if isinstance(which, str) else getattr(which, "name", "")
        where = f"{name} of {origin(group, name)}" if isinstance(which, str) else group
        raise DidymaError(
            "bad-part", where, got=f"a {type(found).__name__}",
            want=f"a name, or a {kind.__module__}.{kind.__qualname__}",
        )  # fmt: skip
    return found


def checked(found: object, protocol: type, code: str, where: str) -> object:
    """Return an object that has the members of a protocol; DidymaError ``code`` for another."""
    lack = ", ".join(_lacking(found, protocol))
    if inspect.isclass(found) or lack:
        kind = found.__name__ if inspect.isclass(found) else type(found).__name__
        got = f"the class {kind}" if inspect.isclass(found) else f"{kind} without {lack}"
        raise DidymaError(
            code, where, got=got,
            want=f"a name, or an object like {protocol.__module__}.{protocol.__qualname__}",
            help=f"pass {kind}(), an instance" if inspect.isclass(found) else "",
        )  # fmt: skip
    return found


def _lacking(found: object, protocol: type) -> Iterator[str]:
    if not isinstance(getattr(found, "name", None), str):
        yield "name (a str)"
    for member, declared in vars(protocol).items():
        have = hasattr(found, member)
        if not isinstance(declared, property):
            have = have and callable(getattr(found, member))
        if not member.startswith("_") and not have:
            yield member


def origin(group: str, name: str) -> str:
    """Return the distributions, with versions, that register a name; or that a call did."""
    if (group, name) in _CALLED:
        return CALL
    return ", ".join(sorted(map(_distribution, metadata.entry_points(group=group, name=name))))


def _distribution(entry: metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def _broken(group: str, name: str, got: str) -> DidymaError:
    return DidymaError(
        "broken-plugin", f"{group}: {name}", got=got,
        want="one entry point, of an object with this name or of what makes it when called",
        help=f"mend or uninstall {origin(group, name)}",
    )  # fmt: skip
