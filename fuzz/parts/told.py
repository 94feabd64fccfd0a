"""What judges of parts tell, and how parts are registered while one of them is judged."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager

from didyma.codegen import plugins
from didyma.codegen.runtime.didyma_runtime.refused import Refused
from didyma.refimpl.errors import DidymaError


def differ(got: object, want: object, what: str) -> Iterator[str]:
    """Yield that something is not what it must be, if it is not."""
    if got != want:
        yield f"{what} is {got}, not {want}"


def code_of(call: Callable[..., object], *args: object) -> str:
    """Return the code by which a call is refused; empty if it is not."""
    try:
        call(*args)
    except (Refused, DidymaError) as e:
        return str(e.code)
    return ""


@contextmanager
def registered(group: str, parts: Mapping[str, object]) -> Generator[None]:
    """Have parts of a group registered by their names for a while."""
    added = list[str]()
    try:
        for name, part in parts.items():
            plugins.add(group, name, part)
            added.append(name)
        yield
    finally:
        for name in added:
            plugins.remove(group, name)
