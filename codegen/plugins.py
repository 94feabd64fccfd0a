"""What other distributions register by entry points: engines, planners, peers, externals.

A group is read each time a name is looked up that is not Didyma's own, and only the entry point
of that name is loaded, so that one broken plug-in disturbs no other.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import metadata

from didyma.refimpl.errors import DidymaError

ENGINES, PLANNERS = "didyma.engines", "didyma.planners"
PEERS, EXTERNS, PASSES = "didyma.peers", "didyma.externs", "didyma.passes"


def names(group: str) -> tuple[str, ...]:
    """Return the names that installed distributions register in a group, sorted.

    >>> names("didyma.nothing")
    ()
    """
    return tuple(sorted(metadata.entry_points(group=group).names))


def value(group: str, name: str) -> object:
    """Return the object that a distribution registers under a name; None if none does.

    DidymaError ``broken-plugin`` if it cannot be imported, or if several distributions claim the
    name.
    """
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
    """Return what a distribution registers under a name, called if it can be; None if none does.

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
    """Return the distributions, with versions, that register a name."""
    return ", ".join(sorted(map(_distribution, metadata.entry_points(group=group, name=name))))


def _distribution(entry: metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def _broken(group: str, name: str, got: str) -> DidymaError:
    return DidymaError(
        "broken-plugin", f"{group}: {name}", got=got,
        want="one entry point, of an object with this name or of what makes it when called",
        help=f"mend or uninstall {origin(group, name)}",
    )  # fmt: skip
